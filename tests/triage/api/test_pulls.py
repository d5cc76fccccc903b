"""The queue and its pull requests as JSON: the same rows as the page, page by page, and nothing that is not shown."""

import json
import re
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from ingest.store.snapshots import Snapshot
from scoring.explain.decided import LONGEST, LONGEST_REASON
from scoring.formatting import percent
from scoring.queries import read
from tests.triage.api.test_scores import NOBODY, get_json
from tests.triage.worlds.site import Site
from triage.api.base import MalformedCursor, first_after, write_cursor
from triage.api.pulls import LONGEST_TEXT, cut
from triage.middleware import snapshot_reader

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def open_site(settings: Settings) -> None:
    """Anybody may read."""
    settings.PUBLIC_READ = True


def whole_queue(site: Site) -> list[str]:
    with site.snapshot() as snapshot:
        return [row.uri for group in read.queue(snapshot, read.QueueQuery()).groups for row in group.rows]


def test_the_queue_is_told_page_by_page_in_the_order_of_the_page(client: Client, site: Site) -> None:
    told: list[str] = []
    path, asked = "/queue?limit=3", 0
    while path:
        page = get_json(client, path)
        told += [row["uri"] for row in page["pull_requests"]]
        path = f"/queue?limit=3&cursor={page['next']}" if page["next"] else ""
        asked += 1
    assert told == whole_queue(site)
    assert asked == -(-len(told) // 3)
    assert page["total"] == len(told)


def test_each_row_of_the_demo_says_first_what_decided_in_words_that_no_row_cuts(client: Client, site: Site) -> None:
    told = {row["uri"]: row["explanation"] for row in get_json(client, "/queue?limit=100")["pull_requests"]}
    with site.snapshot() as snapshot:
        rows = [row for group in read.queue(snapshot, read.QueueQuery()).groups for row in group.rows]
    assert any(row.decided.startswith("Prompt injection in ") for row in rows)
    for row in rows:
        assert 0 < len(row.decided) <= LONGEST
        assert told[row.uri].startswith(row.decided)
        assert len(told[row.uri]) <= LONGEST_REASON


def test_filters_narrow_the_queue_as_they_do_on_the_page(client: Client, site: Site) -> None:
    everything = get_json(client, "/queue?limit=100")["pull_requests"]
    flagged = get_json(client, "/queue?limit=100&bucket=needs_human")["pull_requests"]
    assert 0 < len(flagged) < len(everything)
    assert {row["decision"] for row in flagged} == {"needs_human"}
    assert get_json(client, "/queue?q=nothing+is+called+so")["total"] == 0


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("limt=1", "There is no parameter “limt”. Did you mean limit?"),
        ("lane=flagged", "Known here: briefing, bucket, cursor, limit, mine, q, repository, sort."),
        ("q=a&%3Cb%3E" + "x" * 5000 + "=1", "There is no parameter “<b>xxx"),
    ],
)
def test_a_mistyped_parameter_is_refused_with_the_nearest_name_and_leaves_no_filter_out(
    client: Client, site: Site, query: str, hint: str
) -> None:
    answer = client.get(f"/queue?{query}")
    assert (answer.status_code, answer.json()["code"]) == (422, "unknown_parameter")
    assert hint in answer.json()["detail"]
    assert len(answer.json()["detail"]) < 300
    assert client.get("/metrics?foo=1").json()["detail"].endswith("This address has none.")


def test_inbox_dashboard_and_json_count_each_lane_alike_with_what_would_be_fast_lane_apart(
    client: Client, site: Site
) -> None:
    inbox, dashboard = client.get("/").content.decode(), client.get("/dashboard").content.decode()
    named = {
        "needs_human": "Flagged",
        "normal_queue": "Needs review",
        "fast_lane": "Fast lane",
        "would_be_fast_lane": "Would be fast lane",
    }
    metrics, total = get_json(client, "/metrics"), 0
    for bucket, title in named.items():
        found = get_json(client, f"/queue?limit=100&bucket={bucket}")
        (on_dashboard,) = re.findall(rf"</svg> {title}</th><td class=\"number\">(\d+)</td>", dashboard)
        headed = re.findall(rf'id="count-{bucket}">(\d+)</span>', inbox) or ["0"]
        assert found["total"] == int(on_dashboard) == int(headed[0]) == metrics["lanes"][bucket], bucket
        assert all(row["shadow"] for row in found["pull_requests"]) or bucket != "would_be_fast_lane"
        assert not any(row["shadow"] for row in found["pull_requests"]) or bucket != "fast_lane"
        total += found["total"]
    whole = get_json(client, "/queue?limit=1")
    assert whole["total"] - whole["own"] == total == metrics["open"]["inbox"]
    assert whole["own"] == get_json(client, "/queue?bucket=own")["total"] > 0


def test_a_repository_is_found_in_any_of_its_names_and_one_that_nobody_watches_is_no_empty_queue(
    client: Client, site: Site
) -> None:
    key = get_json(client, "/queue?limit=1")["pull_requests"][0]["repository"]
    with site.snapshot() as snapshot:
        query = (
            "select c.did || '/' || r.name from repositories r join contributors c on c.contributor_id = r.owner_id "
            "where r.repo_key = ?"
        )
        name = snapshot.value(query, [key])
    by_key, by_name = (get_json(client, f"/queue?repository={quote(one)}") for one in (key, name))
    assert by_key == by_name
    assert by_key["total"] > 0
    answer = client.get("/queue?repository=no/such")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_repository")


def test_a_pull_request_tells_what_its_row_tells(client: Client, site: Site) -> None:
    for row in get_json(client, "/queue?limit=100&briefing=1")["pull_requests"]:
        alone = get_json(client, f"/pull?uri={quote(row['uri'])}&briefing=1")
        assert alone == row
        assert row["explanation"]
        assert row["reasons"] or row["sealed"]
        assert 1 <= row["briefing"].count(".") <= 3
        assert "://" not in row["briefing"]


def test_a_pull_request_is_found_by_its_address_on_the_forge(client: Client, site: Site) -> None:
    with_page = [row for row in get_json(client, "/queue?limit=100")["pull_requests"] if row["page"]]
    for row in with_page:
        for address in (row["page"], row["page"] + "/", row["page"] + "?tab=diff#top"):
            assert get_json(client, f"/pull?uri={quote(address)}")["uri"] == row["uri"]


@pytest.mark.parametrize(
    "address",
    [
        "at://did:plc:made/up/1",
        "https://tangled.org/nobody/nothing/pulls/1",
        "https://tangled.org/a/b/pulls/99999999999999999999",
        "http://[::1",
        "javascript:alert(1)",
        "../../etc/passwd",
        "' or 1=1 --",
    ],
)
def test_what_is_not_open_here_is_a_sentence_with_a_code(client: Client, site: Site, address: str) -> None:
    answer = client.get("/pull", {"uri": address})
    assert (answer.status_code, answer.json()["code"]) == (404, "not_open")


def asked(client: Client, *uris: str) -> Any:
    return client.post("/pulls", json.dumps({"uris": uris}), content_type="application/json")


def test_many_at_once_are_told_as_one_at_a_time_in_the_order_asked_for(client: Client, site: Site) -> None:
    rows = get_json(client, "/queue?limit=100")["pull_requests"]
    uris = [row["uri"] for row in rows]
    hostile = ("at://did:plc:made/up/1", "https://tangled.org/nobody/nothing/pulls/1", "\u202e", "' or 1=1 --")
    answer = asked(client, *hostile, *uris, uris[0], hostile[0])
    told = [(one["asked"], one["pull_request"]) for one in answer.json()["found"]]
    repeated = [(uris[0], rows[0]), (hostile[0], None)]
    assert told == [*((text, None) for text in hostile), *zip(uris, rows, strict=True), *repeated]
    assert (answer.status_code, answer.headers.get("ETag")) == (200, None)


@pytest.mark.parametrize("uris", [[], ["at://made/up"] * 101, "at://made/up", [""], ["x" * 3_000], None])
def test_a_list_of_addresses_that_is_none_is_refused_in_a_sentence(client: Client, site: Site, uris: object) -> None:
    answer = client.post("/pulls", json.dumps({"uris": uris}), content_type="application/json")
    assert answer.status_code == 422
    assert answer.json()["detail"].endswith(".")


def test_the_badge_and_the_finding_are_those_of_the_page(client: Client, site: Site) -> None:
    rows = get_json(client, "/queue?limit=100")["pull_requests"]
    for row in rows:
        badge = row["badge"]
        assert row["explanation"].startswith(row["decided"])
        assert bool(badge["chance"]) == (row["calibrated_prob"] is not None)
        if badge["chance"]:
            assert badge["chance"] == percent(row["calibrated_prob"])
    (injected,) = [row for row in rows if row["decided"].startswith("Prompt injection in ")]
    assert injected["badge"] == {"kind": "flag", "word": "Flagged", "chance": "73 %", "interval": "42\N{EN DASH}96"}
    found = injected["finding"]
    assert (found["name"], found["file"], found["line"]) == ("Prompt injection", "lantern/resolve_form.py", 14)
    assert {row["finding"] is None for row in rows if row["sealed"]} <= {True}


def test_the_inbox_in_brief_counts_as_its_page_and_names_what_is_watched(client: Client, site: Site) -> None:
    told = get_json(client, "/inbox")
    rows = get_json(client, "/queue?limit=100")["pull_requests"]
    assert told["lanes"] == get_json(client, "/metrics")["lanes"]
    with snapshot_reader().pin() as snapshot:
        assert snapshot is not None
        claimed = {row.uri for row in read.pulls(snapshot, [row["uri"] for row in rows]) if row.claim}
    waiting = [row for row in rows if not (row["own"] or row["on_author"] or row["uri"] in claimed)]
    assert told["oldest"] == min(waiting, key=lambda row: row["opened_at"])
    assert f"New within 24 hours: {told['new']}." in client.get("/digest").content.decode()
    assert {one["repository"] for one in told["repositories"]} >= {row["repository"] for row in rows}
    names = {(one["name"], one["handle"]) for one in told["repositories"]}
    assert ("lantern", "ana.example.test") in names
    assert told["only"] is None


@pytest.mark.parametrize("word", ["nonsense", "AAAA", "bnVsbA", "WzEsMl0", "W10", "%00"])
def test_a_cursor_that_is_none_of_ours_is_refused(client: Client, site: Site, word: str) -> None:
    answer = client.get("/queue", {"cursor": word})
    assert (answer.status_code, answer.json()["code"]) == (422, "malformed_cursor")


@given(st.lists(st.text(max_size=8), unique=True, max_size=30), st.data())
def test_a_list_that_changes_between_two_pages_is_told_without_holes(items: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(items)))
    if at == 0:
        return
    cursor = write_cursor(items[at - 1], at)
    assert first_after(items, cursor) == at
    newer = ["something new", *items]
    assert newer[first_after(newer, cursor) :] == items[at:]
    without = [item for item in items if item != items[at - 1]]
    assert 0 <= first_after(without, cursor) <= len(without)


@given(st.text(max_size=60))
def test_any_word_is_a_place_in_the_list_or_refused(word: str) -> None:
    with suppress(MalformedCursor):
        assert 0 <= first_after(["a", "b"], word) <= 2


@given(st.text(max_size=3000))
def test_long_words_of_others_are_cut_at_four_kilobytes_and_stay_text(text: str) -> None:
    assert len(cut(text * 4).encode()) <= LONGEST_TEXT


def scores(client: Client, **body: Any) -> dict[str, Any]:
    answer = client.post("/score", json.dumps(body), content_type="application/json")
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_many_scores_are_those_of_one_at_a_time(client: Client, site: Site) -> None:
    dids = list(site.cast.values())
    handle, hostile = "mara.example.com", "\u202edid"
    told = scores(client, dids=[handle, *dids, NOBODY, hostile, "x" * 60_000])
    assert told["scores"] == [get_json(client, f"/score/{did}") for did in dids], "a bad entry costs no other its score"
    assert [one["did"][:20] for one in told["unknown"]] == [handle, NOBODY[:20], hostile, "x" * 20]
    codes = ["malformed_did", "unknown_contributor", "malformed_did", "malformed_did"]
    assert [one["code"] for one in told["unknown"]] == codes
    assert told["unknown"][0]["why"].startswith(f"“{handle}” is a handle: send the DID of its account.")
    assert told["unknown"][2]["why"].startswith("“⟨U+202E⟩did” is not a DID.")
    key = get_json(client, "/queue?limit=1")["pull_requests"][0]["repository"]
    here = scores(client, dids=dids, repo=key, briefing=True)["scores"]
    assert here == [get_json(client, f"/score/{did}?repo={quote(key)}&briefing=1") for did in dids]


@pytest.mark.parametrize("dids", [[], [NOBODY] * 101, "did:plc:a", None])
def test_a_list_that_is_none_is_refused_in_a_sentence(client: Client, site: Site, dids: object) -> None:
    answer = client.post("/score", json.dumps({"dids": dids}), content_type="application/json")
    assert answer.status_code == 422
    assert answer.json()["detail"].endswith(".")


def test_an_earlier_score_is_the_newest_of_what_was_seen_before(client: Client, site: Site) -> None:
    did = site.cast["mara"]
    now = get_json(client, f"/score/{did}")
    then = get_json(client, f"/score/{did}?as_of={quote(now['as_of'])}")
    assert then["calibrated_prob"] == now["calibrated_prob"]
    assert then["as_of"] <= now["as_of"]
    answer = client.get(f"/score/{did}?as_of=2001-01-01T00:00:00Z")
    assert (answer.status_code, answer.json()["code"]) == (404, "no_earlier_score")


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_a_moment_that_utc_does_not_have_is_an_invalid_value(client: Client, site: Site, moment: str) -> None:
    answer = client.get(f"/score/{site.cast['mara']}?as_of={quote(moment)}")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_value")


def test_many_scores_have_no_tag_since_it_would_be_the_same_for_another_body(client: Client, site: Site) -> None:
    answer = client.post("/score", json.dumps({"dids": [NOBODY]}), content_type="application/json")
    assert (answer.status_code, answer.headers.get("ETag")) == (200, None)


def test_many_strangers_are_looked_up_in_as_many_statements_as_one(
    client: Client, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    rows = Snapshot.rows

    def counted(self: Snapshot, sql: str, *params: Any) -> Any:
        asked.append(sql)
        return rows(self, sql, *params)

    client.get(f"/score/{NOBODY}")
    monkeypatch.setattr(Snapshot, "rows", counted)
    scores(client, dids=[NOBODY])
    one = len(asked)
    scores(client, dids=[f"did:web:host{number}.example" for number in range(100)])
    assert 0 < len(asked) - one <= one


@pytest.mark.parametrize(
    "path",
    [
        "/score/{did}",
        "/queue",
        "/pull?uri={uri}",
        "/inbox",
        "/leaderboard",
        "/metrics",
        "/trust/{did}",
        "/lanes",
        "/approved.json",
    ],
)
def test_what_is_held_costs_a_304(client: Client, site: Site, path: str) -> None:
    address = path.format(did=site.cast["mara"], uri=quote(whole_queue(site)[0]))
    as_json = {"accept": "application/json"}
    first = client.get(address, headers=as_json)
    again = client.get(address, headers={**as_json, "if-none-match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again["ETag"] == first["ETag"]


@pytest.mark.parametrize("path", ["/health", "/openapi.json", "/score/nobody", "/pull?uri=at://nobody/x/y"])
def test_what_reads_no_snapshot_and_what_fails_have_no_tag_as_the_page_says(
    client: Client, site: Site, path: str
) -> None:
    assert "ETag" not in client.get(path, headers={"accept": "application/json"})
    assert "A 200 to a GET that reads a snapshot has an <code>ETag</code>" in client.get("/api").content.decode()


def test_a_tag_opens_nothing_to_whoever_may_not_read(client: Client, site: Site, settings: Settings) -> None:
    tag = client.get("/queue")["ETag"]
    settings.PUBLIC_READ = False
    assert client.get("/queue", headers={"if-none-match": tag}).status_code == 401


def test_health_tells_what_a_monitor_needs_and_nobodys_name(client: Client, site: Site, settings: Settings) -> None:
    settings.PUBLIC_READ = False
    answer = client.get("/health")
    told = answer.json()
    assert answer.status_code == (200 if told["ready"] else 503)
    assert told["live"]
    assert told["snapshot"] >= 1
    assert "did:" not in answer.content.decode()
