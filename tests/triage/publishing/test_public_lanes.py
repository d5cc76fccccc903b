"""Lanes that may be told to everybody: nothing of who did not agree, nothing that tells of the audit."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pytest_django import Settings

from ingest.store.database import StreamClock
from ingest.store.transaction import Transaction
from scoring.config.repository import DEFAULTS, watched_repository
from scoring.explain.decided import CHANGE_CLAUSES, CLAUSES
from scoring.gate.conditions import STRENGTH
from scoring.handlers.settings import write_settings
from scoring.queries import read
from scoring.queries.read import DELAY, PUBLIC_REASONS, PublicLane
from tests.ingest.stream.frames import MARA, REPO, SEED
from tests.pipeline import Later, Result
from tests.scoring.pipeline.offered_world import SECOND, THIRD, learn, offered_world
from tests.scoring.small import OFFERED
from triage.models import LeaderboardWish, Objection
from triage.presenters.about import sections
from triage.services.publishing.public_lanes import public_lanes
from triage.views.about import facts_from_settings

pytestmark = pytest.mark.django_db
CHOSEN = datetime(2026, 1, 2)
NOW = datetime(2026, 11, 20)
PERSONAL = ("low_probability", "denounced_by_seed", "attestation_missing", "trust_too_low", "no_trust_path")


@pytest.fixture
def result(tmp_path: Path) -> Iterator[Result]:
    """Three open pull requests, in a repository that publishes all that it can."""
    with offered_world(tmp_path) as made:
        choose(made, "delayed")
        yield made


def choose(result: Result, publish: Any, at: datetime = CHOSEN) -> None:
    with result.store.read() as rows:
        watched = watched_repository(rows, REPO)
    assert watched is not None
    chosen = replace(watched.settings, publish=publish, version=watched.settings.version + 1)
    write_settings(result.store, REPO, chosen, at)


def judged(result: Result, lane: str, *codes: str, uri: str = OFFERED) -> None:
    """Have the gate have said this of a pull request."""
    reasons = json.dumps([{"code": code, "params": {}} for code in codes], separators=(",", ":"))
    with result.store.write() as txn:
        for table in ("current_decisions", "scores"):
            txn.execute(f"update {table} set lane = ?, reasons = ? where pull_uri = ?", [lane, reasons, uri])


def told(result: Result, now: datetime = NOW) -> dict[str, PublicLane]:
    with result.store.read() as rows:
        return {one.uri: one for one in public_lanes(rows, now)}


def end(result: Result, word: str = "merged", uri: str = OFFERED, author: str = SEED) -> None:
    frames, before = Later(StreamClock(result.store).now()), result.value("select count(*) from statuses")
    frames.status(author, uri, word, rkey=f"{word}{before}-{uri.rpartition('/')[2]}")
    learn(result, frames)


def test_open_ones_are_told_where_the_change_needs_a_human_and_after_the_delay(result: Result) -> None:
    judged(result, "needs_human", "high_flag", "low_probability", "trust_too_low")
    judged(result, "fast_lane", uri=SECOND)
    judged(result, "normal_queue", "content_not_reviewed", uri=THIRD)
    (lane,) = told(result).values()
    assert (lane.uri, lane.lane, lane.reasons) == (OFFERED, "needs_human", ("high_flag",))
    assert (lane.author, lane.repository, lane.repo, lane.outcome) == (MARA, REPO, REPO, None)
    came = lane.since
    assert told(result, came + DELAY - timedelta(seconds=1)) == {}
    assert list(told(result, came + DELAY)) == [OFFERED]
    choose(result, "decided")
    assert told(result) == {}


@pytest.mark.parametrize("code", PERSONAL)
def test_a_lane_that_only_its_author_explains_is_told_to_nobody(result: Result, code: str) -> None:
    judged(result, "needs_human", code, "content_partly_read")
    judged(result, "normal_queue", code, "below_fast_lane", "trust_path", uri=SECOND)
    assert told(result) == {}
    end(result)
    end(result, uri=SECOND)
    assert told(result) == {}


def test_what_rests_on_a_peers_word_is_not_told_as_this_sites_own(result: Result) -> None:
    judged(result, "needs_human", "peer_flagged", "tests_failed")
    judged(result, "needs_human", "high_flag", "peer_flagged", "tests_failed", uri=SECOND)
    (lane,) = told(result).values()
    assert (lane.uri, lane.reasons) == (SECOND, ("high_flag", "tests_failed"))


@pytest.mark.parametrize("lane", ["fast_lane", "drawn"])
def test_nobody_closes_their_own_to_read_its_lane_or_the_draw_and_opens_it_again(result: Result, lane: str) -> None:
    draw(result) if lane == "drawn" else judged(result, lane)
    assert told_once_closed(result, MARA) == []
    end(result, "open", author=MARA)
    assert told_once_closed(result, SEED) == (["fast_lane"] if lane == "fast_lane" else [])
    end(result, "open", author=MARA)
    assert told_once_closed(result, MARA) == [], "that somebody else closed it before is no matter"


def told_once_closed(result: Result, by: str) -> list[str]:
    end(result, "closed", author=by)
    assert result.value("select state from pull_requests where pull_uri = ?", [OFFERED]) == "closed"
    return [one.lane for one in told(result).values()]


def test_a_decided_one_is_told_with_its_lane_its_public_reasons_and_its_end(result: Result) -> None:
    judged(result, "normal_queue", "content_partly_read", "below_fast_lane", "no_trust_path", "trust_path")
    end(result)
    judged(result, "needs_human", "content_risk_high", uri=SECOND)
    end(result, "closed", SECOND)
    found = told(result)
    assert (found[OFFERED].lane, found[OFFERED].reasons) == ("normal_queue", ("content_partly_read",))
    assert [one.outcome.state for one in found.values() if one.outcome] == ["closed", "merged"]
    assert all(one.evaluator.startswith("sunstead gate/") for one in found.values())
    assert "." not in str([one.budget for one in found.values()])


def test_nothing_from_before_publishing_was_switched_on_is_told(result: Result) -> None:
    end(result)
    (lane,) = told(result).values()
    choose(result, "off")
    assert told(result) == {}
    choose(result, "decided", lane.since + timedelta(seconds=1))
    assert told(result) == {}


def test_after_a_year_it_is_taken_back(result: Result) -> None:
    end(result)
    (lane,) = told(result).values()
    assert told(result, lane.since + timedelta(days=364))
    assert told(result, lane.since + timedelta(days=366)) == {}


def draw(result: Result, uri: str = OFFERED) -> None:
    judged(result, "needs_human", "audit_drawn", uri=uri)


def answer(result: Result, would_merge: bool, uri: str = OFFERED) -> None:
    with result.store.write() as txn:
        txn.execute(
            "insert into audits by name select 'k' as audit_key, pull_uri, repository_id, record_cid, round, patch_id, "
            "1.0 as odds, as_of as drawn_at, ? as would_merge, 'so' as because, as_of as answered_at, "
            "as_of as known_from from scores where pull_uri = ? order by data_version desc limit 1",
            [would_merge, uri],
        )


def test_of_an_audit_nothing_is_told_before_its_answer_and_nothing_while_it_is_open(result: Result) -> None:
    draw(result)
    assert told(result) == {}
    answer(result, would_merge=False)
    assert told(result) == {}, "answered, and open"
    end(result)
    (lane,) = told(result).values()
    assert (lane.lane, lane.reasons) == ("needs_human", ())


def test_an_audit_that_nobody_answered_is_never_told(result: Result) -> None:
    draw(result)
    end(result)
    assert told(result) == {}
    answer(result, would_merge=True)
    assert [one.lane for one in told(result).values()] == ["fast_lane"]


def test_what_is_missing_while_open_does_not_show_the_draw(result: Result) -> None:
    """A lane of every kind: drawn, fast, waiting and held back by the person look the same, which is not at all."""
    for lane, code in [("fast_lane", ""), ("normal_queue", "newer_round"), ("needs_human", "low_probability")]:
        judged(result, lane, *filter(None, [code]))
        quiet = told(result)
        draw(result)
        assert told(result) == quiet == {}


def hide(txn: Transaction) -> None:
    txn.execute("update contributors set account_status = 'deactivated' where did = ?", [MARA])


def erase_begun(txn: Transaction) -> None:
    txn.execute("update contributors set account_status = 'erasing' where did = ?", [MARA])


def may_push(txn: Transaction) -> None:
    txn.execute(
        "insert into push_holders select repository_id, author_id, 'collaborator', 'knot', null, null "
        "from pull_requests where pull_uri = ?",
        [OFFERED],
    )


def wish(txn: Transaction) -> None:
    txn.execute(
        "insert into leaderboard_wishes select contributor_id, true, now() from contributors where did = ?", [MARA]
    )


def object_to(pull: str | None, state: str, here: bool | None = None) -> Callable[[Transaction], None]:
    def write(txn: Transaction) -> None:
        number = "null" if here is None else "p.repository_id" if here else "p.repository_id + 99"
        txn.execute(
            "insert into objections by name select 'k' as objection_key, p.author_id as contributor_id, ? as pull_uri, "
            f"? as state, now() as made_at, now() as due_at, {number} as repository_id "
            "from pull_requests p where p.pull_uri = ?",
            [pull, state, OFFERED],
        )

    return write


REFUSALS = (
    *(hide, erase_begun, may_push, wish, object_to(None, "open"), object_to(None, "rejected")),
    *(object_to(OFFERED, "accepted"), object_to(None, "open", here=True)),
)


@pytest.mark.parametrize("happen", REFUSALS)
def test_nothing_is_told_of_people_who_did_not_agree_to_it(
    result: Result, happen: Callable[[Transaction], None]
) -> None:
    judged(result, "needs_human", "high_flag")
    end(result, uri=OFFERED)
    assert list(told(result)) == [OFFERED]
    with result.store.write() as txn:
        happen(txn)
    assert told(result) == {}


def test_an_objection_to_something_else_silences_nothing(result: Result) -> None:
    judged(result, "needs_human", "high_flag")
    with result.store.write() as txn:
        object_to(SECOND, "open")(txn)
    assert list(told(result)) == [OFFERED]


@pytest.mark.parametrize(
    ("row", "quiet"),
    [
        (SimpleNamespace(pull_uri="", repo_key="", source="self"), True),
        (SimpleNamespace(pull_uri=OFFERED, repo_key=REPO, source="link"), True),
        (SimpleNamespace(pull_uri="", repo_key=REPO, source="maintainer"), True),
        (SimpleNamespace(pull_uri="", repo_key="did:plc:elsewhere", source="maintainer"), False),
        (SimpleNamespace(pull_uri=SECOND, repo_key=REPO, source="self"), False),
    ],
)
def test_what_was_said_on_a_page_a_second_ago_counts_already(result: Result, row: Any, quiet: bool) -> None:
    judged(result, "needs_human", "high_flag")
    now = datetime.now(UTC)
    Objection.objects.create(key="k", did=MARA, text="No.", made_at=now, due_at=now, **vars(row))
    assert (told(result) == {}) is quiet
    Objection.objects.all().delete()
    LeaderboardWish.objects.create(did=MARA, left_out=True, source="self", told_at=now)
    assert told(result) == {}


def test_a_deleted_pull_request_is_withdrawn_and_says_nothing_else(result: Result) -> None:
    judged(result, "needs_human", "high_flag")
    with result.store.write() as txn:
        txn.execute(
            "update pull_requests set state = 'abandoned', state_at = ?, deleted_at = ? where pull_uri = ?",
            [NOW - timedelta(days=1), NOW - timedelta(days=1), OFFERED],
        )
    (lane,) = told(result).values()
    assert (lane.lane, lane.reasons, lane.outcome) == ("withdrawn", (), None)


def test_a_merge_that_only_its_author_claims_is_not_told(result: Result) -> None:
    end(result)
    assert told(result)
    with result.store.write() as txn:
        txn.execute("update pull_requests set merge_proof = 'unverified' where pull_uri = ?", [OFFERED])
    assert told(result) == {}


def test_every_public_reason_is_one_of_the_gates_and_none_is_about_a_person() -> None:
    known = {*STRENGTH, *CLAUSES, *CHANGE_CLAUSES}
    assert known >= PUBLIC_REASONS
    about_people = {
        *("denounced_by_seed", "low_probability", "not_enough_evidence", "below_fast_lane", "no_trust_path"),
        *("trust_too_low", "one_account_path", "account_changed", "account_unknown", "back_from_silence"),
        "peer_flagged",
        *("never_seen_before", "objection_open", "lane_closed", "audit_drawn", "audit_not_drawn", "trust_path"),
        *("trust_reaches", "trusted_denouncers", "track_record", "is_seed"),
        *(f"attestation_{word}" for word in ("missing", "expired", "revoked", "unverifiable")),
    }
    assert not about_people & PUBLIC_REASONS


def test_a_fast_lane_names_the_certificate_behind_it(result: Result, tmp_path: Path) -> None:
    """By the moment at which it was made, which the thresholds keep."""
    assert DEFAULTS.publish == "off"
    judged(result, "fast_lane")
    end(result)
    (lane,) = told(result).values()
    assert (lane.lane, lane.certificate) == ("fast_lane", None)
    with result.store.read() as rows:
        assert read.publishes(rows) == "delayed"


def test_the_about_page_says_what_is_public_and_stays_silent_where_nothing_is(settings: Settings) -> None:
    settings.STREAM_CLOCK = False
    facts = facts_from_settings(None)
    assert "Scores, decisions and actions stay here." in str(sections(facts))
    told = str(sections(replace(facts, publishes="site.example")))
    assert ("In public, as site.example: lanes" in told, "decisions and actions stay here" in told) == (True, False)
