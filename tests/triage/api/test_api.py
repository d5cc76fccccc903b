"""The JSON API before there is data, its document, and the shape that it gives to a score."""

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote

import pytest
from django.test import Client
from django.utils import timezone
from pydantic import ValidationError
from pytest_django import Settings

from ingest.atproto.syntax import MalformedDid, parse_did, parse_handle
from scoring.formatting import visible
from scoring.queries import read
from scoring.types import Estimate, Factor, Lane, Reason, Verdict
from tests.triage.worlds.acting_site import invited
from triage.access.tokens import create_token, secret_hash
from triage.api.schemas import EXAMPLE_DID, ScoreOut, leaderboard_out, metrics_out, score_out
from triage.models import ApiToken
from triage.presenters.queue.row_actions import OpenCounts

PERSON = "did:plc:mara22222222222222222222"
MARA = read.Person(PERSON, "mara.example.test")
VERDICT = Verdict(
    Lane.NORMAL_QUEUE,
    Estimate(0.8734567891, 0.61, 0.97, 15),
    (Reason("no_threshold", {}),),
    (Factor("waiting", 1, None), Factor("clean", 14, 0.21), Factor("structural_trust", 0.5, -0.3)),
)
SCORE = read.ContributorScore(
    person=MARA,
    repository=None,
    decision=Lane.NORMAL_QUEUE,
    verdict=VERDICT,
    structural_trust=1.0000000000000002,
    eigentrust=0.125,
    content_risk=None,
    distance=1,
    path=(),
    seeds=(read.Person("did:plc:ana", "did:plc:ana"),),
    explanation="Vouched for by ana; 14 of 15 merged here",
    as_of=datetime(2026, 3, 1, 12, 0, 0, 123456),
    model_version="shrunk-rate-1",
)
PROMISED = (
    "calibrated_prob structural_trust eigentrust content_risk decision explanation top_factors seeds did handle "
    "hidden_by badge repository interval cases as_of model_version trust_measure shadow briefing"
)
ROW = read.LeaderboardRow(1, MARA, VERDICT, merged=14, reverts=0, distance=1, provisional=False)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def unpublished(settings: Settings, tmp_path: Path) -> None:
    """Anybody may read, and nothing was published yet."""
    settings.PUBLIC_READ = True
    settings.SNAPSHOT_DIR = tmp_path / "snapshots"


def test_what_is_read_aloud_is_about_the_newest_pull_request_or_else_the_person() -> None:
    flagged = Verdict(Lane.NEEDS_HUMAN, Estimate(0.4, 0.2, 0.6, 3), (Reason("high_flag", {"type": "security"}),), ())
    told = score_out(replace(SCORE, newest=flagged), briefed=True).briefing
    assert told is not None
    assert told.startswith("This pull request needs a person, because its review found a security problem.")
    drawn = replace(flagged, reasons=(Reason("audit_drawn", {"odds": 1.0}),))
    of_person = score_out(SCORE, briefed=True).briefing
    assert of_person is not None
    assert of_person.startswith("The next pull request of this contributor would wait for review.")
    assert score_out(replace(SCORE, newest=drawn), briefed=True).briefing == of_person, "it was answered already"


@pytest.mark.parametrize("path", [f"/score/{PERSON}", "/metrics"])
def test_before_the_first_snapshot_the_api_says_when_to_try_again(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 503
    assert int(answer["Retry-After"]) > 0
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json() == {
        "type": "about:blank",
        "title": "Service Unavailable",
        "status": 503,
        "code": "not_ready",
        "detail": "Nothing was published yet; try again shortly.",
    }


@pytest.mark.parametrize("path", [f"/score/{PERSON}", "/score/mara", "/metrics"])
def test_no_answer_is_kept_for_another_viewer(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer["Cache-Control"] == "private, no-cache"
    assert {part.strip() for part in answer["Vary"].split(",")} >= {"Cookie", "Authorization", "Accept"}


@pytest.mark.parametrize(
    "did", ["mara", "did:plc:", "did:PLC:x", "did::x", "DID:plc:x", "did:plc:a b", "did:plc:x%0A", "did:web:%25zz"]
)
def test_what_is_no_did_is_refused_in_a_sentence(client: Client, did: str) -> None:
    answer = client.get(f"/score/{did}")
    assert answer.status_code == 422
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["detail"] == f"“{visible(unquote(did))}” is not a DID. A DID looks like {EXAMPLE_DID}."


@pytest.mark.parametrize("handle", ["mara.example.com", "@Mara.Example.com"])
@pytest.mark.parametrize("path", ["/score/", "/trust/"])
def test_a_handle_is_refused_in_a_sentence_that_says_so_and_names_it(client: Client, handle: str, path: str) -> None:
    answer = client.get(path + handle)
    said = f"“{handle}” is a handle: send the DID of its account. A DID looks like {EXAMPLE_DID}."
    assert (answer.status_code, answer.json()["code"], answer.json()["detail"]) == (422, "malformed_did", said)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        ({"bucket": "lost"}, "bucket must be empty, needs_human, normal_queue, fast_lane, would_be_fast_lane or own."),
        ({"limit": "0"}, "limit must be at least 1."),
        ({"limit": "x"}, "limit must be a whole number."),
        ({"q": "x" * 101}, "q may have 100 characters at most."),
        ({"briefing": "maybe"}, "briefing must be 1 or 0."),
        ({"limit": "999", "sort": "none"}, "limit must be at most 100."),
    ],
)
def test_what_is_wrong_with_a_value_is_said_in_plain_words(client: Client, ask: dict[str, str], said: str) -> None:
    answer = client.get("/queue", ask)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_value")
    assert said.removesuffix(".") in answer.json()["detail"]
    assert "nput should" not in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "dids is missing."),
        ({"dids": "did:plc:a"}, "dids must be a list."),
        ({"dids": ["did:plc:a", 7]}, "dids, entry 2 must be text."),
        ({"dids": []}, "dids needs 1 or more entries."),
        ({"dids": ["did:plc:a"] * 101}, "dids may have 100 entries at most."),
    ],
)
def test_what_is_wrong_with_a_body_is_said_in_plain_words(client: Client, body: object, said: str) -> None:
    answer = client.post("/score", json.dumps(body), content_type="application/json")
    assert (answer.status_code, answer.json()["detail"]) == (422, said)


def test_a_missing_parameter_is_asked_for_by_its_place(client: Client) -> None:
    answer = client.get("/thresholds")
    said = "Add the parameter query to the address, as in ?query=\N{HORIZONTAL ELLIPSIS}."
    assert (answer.status_code, answer.json()["detail"]) == (422, said)


def test_where_anybody_may_read_a_wrong_or_revoked_token_is_refused(client: Client) -> None:
    revoked, good = (create_token("overlay", ["read"], timezone.now()) for _ in range(2))
    ApiToken.objects.filter(secret_hash=secret_hash(revoked)).update(revoked_at=timezone.now())
    statuses = {
        secret: client.get("/metrics", headers={"authorization": f"Bearer {secret}"}).status_code
        for secret in ("made-up", revoked, good)
    }
    assert list(statuses.values()) == [401, 401, 503]
    assert client.get("/metrics", headers={"authorization": "Basic eDp5"}).status_code == 503, "a proxy asked for it"
    assert client.get("/metrics").status_code == 503


def test_a_parameter_that_is_too_long_is_refused(client: Client) -> None:
    answer = client.get(f"/score/{PERSON}", {"repo": "x" * 3000})
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("repo may have 2,048 characters")


def test_the_port_of_a_did_web_is_put_back() -> None:
    assert parse_did("did:web:localhost:8765") == "did:web:localhost%3A8765"
    assert parse_did("did:web:localhost%3A8765") == "did:web:localhost%3A8765"
    assert parse_did("did:web:localhost%3a8765") == "did:web:localhost%3A8765"
    assert parse_did("did:web:example.com") == "did:web:example.com"
    assert parse_did(PERSON) == PERSON


@pytest.mark.parametrize("text", ["", "did:plc:x\n", "did:plc:x\x00", "did:plc:" + "x" * 2050, "did:web:é.example"])
def test_a_did_has_the_letters_and_length_of_the_protocol(text: str) -> None:
    with pytest.raises(MalformedDid):
        parse_did(text)


def test_a_handle_is_a_domain_name() -> None:
    assert parse_handle(" @Mara.Example ") == "mara.example"
    for text in ("mara", "did:plc:x", "a..b", "-a.example", "a.example.1", "a/b.example", "x" * 250 + ".example", ""):
        assert parse_handle(text) is None


def test_a_score_has_every_promised_key_and_no_other() -> None:
    assert set(score_out(SCORE).model_dump()) == set(PROMISED.split())


def test_the_numbers_of_a_score_are_finite_and_in_range() -> None:
    shown = score_out(SCORE).model_dump(mode="json")
    assert shown["calibrated_prob"] == 0.873457
    assert shown["structural_trust"] == 1.0
    assert shown["content_risk"] is None
    assert shown["interval"] == {"low": 0.61, "high": 0.97}
    for broken in ({"structural_trust": float("nan")}, {"eigentrust": float("inf")}, {"content_risk": 1.01}):
        with pytest.raises(ValidationError):
            score_out(replace(SCORE, **broken))


def test_times_are_utc_with_a_z() -> None:
    shown = score_out(SCORE).model_dump(mode="json")
    assert shown["as_of"].startswith("2026-03-01T12:00:00.123")
    assert shown["as_of"].endswith("Z")


def test_the_strongest_factors_come_first() -> None:
    assert [factor.name for factor in score_out(SCORE).top_factors] == ["structural_trust", "clean", "waiting"]


def test_not_enough_evidence_is_null_and_not_zero() -> None:
    unknown = replace(VERDICT, estimate=Estimate(None, 0.1, 0.9, 0))
    shown = score_out(replace(SCORE, verdict=unknown)).model_dump(mode="json")
    assert shown["calibrated_prob"] is None
    assert shown["decision"] == "normal_queue"


def test_a_did_without_a_handle_has_none() -> None:
    shown = score_out(SCORE)
    assert (shown.handle, shown.seeds[0].handle, shown.seeds[0].did) == ("mara.example.test", None, "did:plc:ana")


def test_the_leaderboard_is_plain_json() -> None:
    shown = leaderboard_out(read.Leaderboard((ROW,), total=1, page=1, pages=1, seeds=(MARA,))).model_dump(mode="json")
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
    assert shown["rows"][0]["rank"] == 1
    assert shown["rows"][0]["calibrated_prob"] == 0.873457
    assert shown["seeds"] == [{"did": PERSON, "handle": "mara.example.test"}]


def test_metrics_name_every_lane_even_an_empty_one() -> None:
    names = "own scored not_enough_evidence contributors vouches denounces seeds events pull_requests repositories"
    more = "watched dead_letters dropped_strangers gaps_open unknown_shapes"
    board = read.Dashboard(
        gap_reason="",
        **dict.fromkeys(f"{names} {more}".split(), 7),
        lanes={"normal_queue": 3},  # with the two that are approved
        histogram=(read.Bin(0.9, 1.0, 4),),
        newest_event_at=datetime(2026, 3, 1, 12),
        t_low=0.3,
        t_high=None,
        lane_notice="The fast lane is shut.",
        has_threshold=False,
    )
    counts = OpenCounts({"normal_queue": 1}, approved=2, snoozed=0)
    shown = metrics_out(board, counts, 1, 42, datetime(2026, 3, 1, 12)).model_dump(mode="json")
    assert shown["open"] == {"total": 3, "inbox": 1, "approved": 2, "snoozed": 0}
    assert (shown["fast_lane_open"], shown["fast_lanes_open"]) == (True, 1)
    assert shown["lanes"] == {"needs_human": 0, "normal_queue": 1, "fast_lane": 0, "would_be_fast_lane": 0}
    assert shown["newest_event_at"] == "2026-03-01T12:00:00Z"
    assert (shown["snapshot"], shown["own"], shown["t_high"]) == (42, 7, None)


def test_the_document_says_what_every_answer_is(client: Client) -> None:
    document = client.get("/openapi.json").json()
    told = [
        (path, status, answer)
        for path, methods in document["paths"].items()
        for one in methods.values()
        for status, answer in one["responses"].items()
    ]
    for path, status, answer in told:
        if status == "304":
            assert "content" not in answer
            continue
        ours = "text/plain" if path == "/digest" else "application/json"
        is_answer = status in ("200", "202") or (path, status) == ("/health", "503")
        assert list(answer["content"]) == [ours if is_answer else "application/problem+json"]
    assert {"401", "404", "422", "503"} <= set(document["paths"]["/score/{did}"]["get"]["responses"])
    assert document["components"]["securitySchemes"]["Reader"] == {"type": "http", "scheme": "bearer"}


def test_every_field_of_a_score_is_described() -> None:
    fields = ScoreOut.model_json_schema()["properties"]
    assert [name for name, field in fields.items() if not field.get("description")] == []


def test_an_address_with_nothing_behind_it_is_404_and_another_method_405(client: Client) -> None:
    assert client.get("/score/").status_code == 404
    assert client.post(f"/score/{PERSON}").status_code == 405


def test_an_unknown_address_is_problem_details_for_a_program_and_a_page_for_a_browser(client: Client) -> None:
    for path in ("/scores", "/review/nothing/here", "/queue/"):
        told = client.get(path, headers={"accept": "application/json"})
        assert (told.status_code, told["Content-Type"]) == (404, "application/problem+json"), path
        assert told.json()["code"] == "not_found"
        shown = client.get(path, headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
        assert (shown.status_code, shown["Content-Type"]) == (404, "text/html; charset=utf-8"), path


def test_a_fault_of_ours_says_nothing_of_its_inside(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(request: object) -> None:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr("triage.api.site.published", fail)
    answer = client.get("/metrics")
    assert answer.status_code == 500
    assert answer["Content-Type"] == "application/problem+json"
    assert "hunter2" not in answer.content.decode()
    assert "hunter2" in caplog.text


def test_a_session_and_a_token_may_come_together(client: Client, settings: Settings) -> None:
    settings.PUBLIC_READ = False
    client.force_login(invited(PERSON))
    assert client.get("/metrics", headers={"authorization": "Bearer made-up"}).status_code == 503
