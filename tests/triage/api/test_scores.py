"""The JSON API over a whole simulated network: what it promises, and that the pages show the same."""

import html
import json
import re
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from ingest.store.database import Store
from ingest.store.snapshots import publish
from scoring.formatting import percent, percent_interval
from scoring.queries import read
from tests.triage.worlds.site import Site
from triage.api.schemas import ScoreOut, score_out
from triage.presenters.text import BRIEFING_LENGTH
from triage.services.audit import hiding_audits

NOBODY = "did:plc:nobody2222222222222222"

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def open_site(settings: Settings) -> None:
    """Anybody may read."""
    settings.PUBLIC_READ = True


def get_json(client: Client, path: str) -> dict[str, Any]:
    """The JSON at a path, strictly parsed: NaN and Infinity are no JSON."""
    answer = client.get(path, headers={"accept": "application/json"})
    assert answer.status_code == 200, answer.content

    def refuse(name: str) -> None:
        raise ValueError(name)

    return json.loads(answer.content, parse_constant=refuse)


def test_who_has_no_settled_contribution_gets_null_and_the_normal_queue(client: Client, site: Site) -> None:
    scores = [get_json(client, f"/score/{did}") for did in site.cast.values()]
    unknown = [score for score in scores if score["calibrated_prob"] is None]
    assert unknown
    assert {score["cases"] for score in unknown} == {0}
    assert "normal_queue" in {score["decision"] for score in unknown}


@pytest.mark.parametrize("repo", [None, "watched"])
def test_page_and_json_give_the_same_numbers(client: Client, site: Site, repo: str | None) -> None:
    did = site.cast["mara"]
    with site.snapshot() as snapshot:
        key = read.queue(snapshot, read.QueueQuery()).repositories[0][0] if repo else None
        known = read.score(snapshot, did, key)
    assert known is not None
    score = get_json(client, f"/score/{did}" + (f"?repo={key}" if key else ""))
    estimate = known.verdict.estimate
    assert score["calibrated_prob"] == pytest.approx(estimate.probability, abs=1e-6)
    assert score["structural_trust"] == pytest.approx(known.structural_trust, abs=1e-6)
    assert score["eigentrust"] == pytest.approx(known.eigentrust, abs=1e-6)
    assert (score["decision"], score["cases"]) == (known.decision, estimate.cases)
    if key is None:
        page = html.unescape(client.get(f"/c/{did}").content.decode())
        low, high = score["interval"]["low"], score["interval"]["high"]
        assert f">{percent(score['calibrated_prob'])}<" in page
        assert f"{percent_interval(low, high)}<br>" in page
        assert f"from {score['cases']} settled" in page
        assert "reviewed" not in score["explanation"], "a person has no content"
        assert score["model_version"] in page


def test_leaderboard_page_and_leaderboard_json_rank_the_same_people(client: Client, site: Site) -> None:
    board = get_json(client, "/leaderboard")
    page = client.get("/leaderboard").content.decode()
    places = [page.index(f"/c/{row['did']}") for row in board["rows"]]
    assert places == sorted(places)
    ranked = [row["rank"] for row in board["rows"] if row["rank"] is not None]
    assert ranked
    assert ranked == sorted(ranked)
    assert {row["rank"] for row in board["rows"] if row["calibrated_prob"] is None} <= {None}
    for row in board["rows"][:5]:
        score = get_json(client, f"/score/{row['did']}")
        assert (row["calibrated_prob"], row["decision"]) == (score["calibrated_prob"], score["decision"])


def test_metrics_give_the_numbers_of_the_dashboard(client: Client, site: Site) -> None:
    metrics = get_json(client, "/metrics")
    with site.snapshot() as snapshot:
        board = read.dashboard(snapshot)
    assert metrics["lanes"] == board.lanes
    assert sum(metrics["lanes"].values()) == sum(board.lanes.values())
    assert sum(each["count"] for each in metrics["histogram"]) == metrics["scored"] - metrics["not_enough_evidence"]
    assert (metrics["contributors"], metrics["events"]) == (board.contributors, board.events)


def test_a_stranger_is_404_with_a_sentence(client: Client, site: Site) -> None:
    answer = client.get(f"/score/{NOBODY}")
    assert answer.status_code == 404
    assert answer.json()["detail"] == f"Nobody with the DID {NOBODY} has been seen here."


def test_the_port_of_a_did_web_survives_the_way_through_the_server(client: Client, site: Site) -> None:
    answer = client.get("/score/did:web:localhost%3A8765")
    assert answer.status_code == 404
    assert answer.json()["detail"] == "Nobody with the DID did:web:localhost%3A8765 has been seen here."


def test_a_repository_that_is_not_watched_is_404_with_a_sentence(client: Client, site: Site) -> None:
    answer = client.get(f"/score/{site.cast['mara']}", {"repo": "nobody.example/nothing"})
    assert answer.status_code == 404
    assert answer.json()["detail"] == (
        "No watched repository is called 'nobody.example/nothing'. Send OWNER/NAME, the repository's DID or the at-uri "
        "of its record, or leave repo out for the site's seeds."
    )


@pytest.mark.parametrize("repo", ["'; drop table scores; --", "at://", "../..", "%00", "\x00", "owner/name/x"])
def test_a_hostile_repository_is_only_unknown(client: Client, site: Site, repo: str) -> None:
    assert client.get(f"/score/{site.cast['mara']}", {"repo": repo}).status_code == 404


def test_a_hidden_account_is_answered_404_with_the_reason(client: Client, site: Site, settings: Settings) -> None:
    did = sorted(site.cast.values())[0]
    store = Store.open(settings.DUCKDB_PATH)
    with store.write() as txn:
        txn.execute("update contributors set account_status = 'deactivated' where did = ?", [did])
    publish(store, settings.SNAPSHOT_DIR)
    store.close()
    for path in (f"/score/{did}", f"/c/{did}"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert "was deactivated by its owner" in html.unescape(answer.content.decode())


def test_what_is_read_aloud_comes_only_where_it_is_asked_for(client: Client, site: Site) -> None:
    assert get_json(client, f"/score/{site.cast['mara']}")["briefing"] is None
    for name in ("mara", "mallory", "sami"):
        did = site.cast[name]
        told = get_json(client, f"/score/{did}?briefing=1")["briefing"]
        assert 1 <= told.count(".") <= 3
        assert len(told) <= BRIEFING_LENGTH
        assert not re.search(r"did:|://|/|\.\w|@", told), "no name, address or path is read aloud"


@pytest.mark.parametrize("briefing", [False, True])
@pytest.mark.parametrize("repo", [None, "watched"])
def test_every_score_has_the_bytes_that_the_schema_writes(
    client: Client, site: Site, repo: str | None, briefing: bool
) -> None:
    dids = sorted(site.cast.values())
    with site.snapshot() as snapshot:
        key = read.queue(snapshot, read.QueueQuery()).repositories[0][0] if repo else None
        known = {did: one for did in dids if (one := read.score(snapshot, did, key))}
        hidden = hiding_audits(snapshot)
    known = {did: read.hide_score(one, hidden[did]) if did in hidden else one for did, one in known.items()}
    asked = {"briefing": "1"} if briefing else {}
    for did, score in known.items():
        answer = client.get(f"/score/{did}", asked | ({"repo": key} if key else {}))
        assert answer.content == score_out(score, briefing).model_dump_json().encode()
        ScoreOut.model_validate_json(answer.content)
