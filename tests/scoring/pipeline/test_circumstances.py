"""Circumstances of a pull request are read as of a moment, and nothing unseen is taken for granted."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from scoring.config.policy import AuditRules
from scoring.gate.decide import judge_inputs, read_inputs
from scoring.pipeline.circumstances import Moment, read_circumstances
from scoring.thresholds import RepositoryRules
from scoring.types import AccountChange, Circumstances, Draw, Lane
from tests.ingest.stream.frames import ANA, MALLORY, MARA, REPO, SEED, Frames, at, pull_uri
from tests.pipeline import OPEN_LANE, Later, Result, opened
from tests.scoring.offered import CLEAN, end_lookups, offer
from tests.scoring.small import DAY, MERGED_AT, OFFERED, feed, settled, take

NOW = at(100)
WORKFLOW = CLEAN.replace("a.py", ".github/workflows/a.yml")


def around(result: Result, now: datetime = NOW, rules: RepositoryRules | None = None) -> Circumstances:
    """The circumstances of what mara offered."""
    with result.reading() as rows:
        found = read_circumstances(rows, Moment(now, 14), {}, rules or RepositoryRules(), {})
    return found[OFFERED]


def change_account(result: Result, did: str, kind: str, when: datetime) -> None:
    """As the directory's log would tell it."""
    told = "insert into signals values (?, 'plc', ?, '1', ?, ?, null, null, null)"
    with result.store.write() as txn:
        txn.execute(told, [did, kind, when, when])


def offered(result: Result, vouches: Sequence[tuple[str, str]] = (), seeds: Sequence[str] = (SEED,)) -> None:
    frames = settled("open")
    for voucher, subject in vouches:
        frames.vouch(voucher, subject)
    feed(result, frames)
    result.watch([REPO], seeds)
    result.judge(NOW)


def test_every_look_up_that_has_not_ended_is_pending(result: Result) -> None:
    offered(result)
    assert around(result).pending == ("identity", "patch", "push_holders")
    offer(result)
    end_lookups(result)
    assert around(result).pending == ()
    with result.store.write() as txn:
        txn.execute("update repositories set spindle = 'spindle.example.test'")
    assert around(result).pending == ("ci",)
    with result.store.write() as txn:
        txn.execute("insert into ci_runs values (?, 'blob:one', '', 'running', '[]', ?)", [OFFERED, NOW])
        txn.execute(
            "insert into fetches values ('ci', ? || ' blob:one', 'found', null, 1, null, ?::timestamp)", [OFFERED, NOW]
        )
    assert around(result).pending == ("ci",)
    with result.store.write() as txn:
        txn.execute("update ci_runs set state = 'passed'")
        txn.execute("update fetches set outcome = 'failed' where kind = 'identity'")
    assert around(result).pending == ("identity",)


def test_a_change_of_the_authors_account_counts_for_as_long_as_is_asked_and_not_before_it_was_known(
    result: Result,
) -> None:
    offered(result)
    for kind, when in (
        ("key_rotations", NOW - 13 * DAY),
        ("pds_moves", NOW - 14 * DAY),
        ("handle_changes", NOW + timedelta(seconds=1)),
        ("created_at", NOW - DAY),
    ):
        change_account(result, MARA, kind, when)
    assert around(result).account_changes == (AccountChange("author", "key_rotations", 13),)
    later = around(result, NOW + timedelta(seconds=1)).account_changes
    assert later == (AccountChange("author", "handle_changes", 0), AccountChange("author", "key_rotations", 13))


def test_a_seed_counts_where_all_trust_comes_from_it_and_not_where_another_reaches_the_author(result: Result) -> None:
    offered(result, [(SEED, MARA)])
    change_account(result, SEED, "key_rotations", NOW - DAY)
    changes = around(result).account_changes
    assert changes is not None
    (found,) = changes
    assert (found.who, found.kind, found.days) == ("seed", "key_rotations", 1)
    assert found.name
    frames = Later(NOW - DAY)
    frames.vouch(ANA, MARA)
    feed(result, frames)
    result.watch([REPO], [ANA])
    result.judge(NOW)
    assert around(result).account_changes == ()


def test_a_voucher_counts_where_the_trust_hangs_on_them_alone(result: Result) -> None:
    offered(result, [(SEED, ANA), (ANA, MARA)])
    change_account(result, ANA, "recoveries", NOW - DAY)
    assert [(one.who, one.kind) for one in around(result).account_changes or ()] == [("voucher", "recoveries")]
    frames = Later(NOW - DAY)
    frames.vouch(SEED, MALLORY)
    frames.vouch(MALLORY, MARA)
    feed(result, frames)
    result.judge(NOW)
    assert around(result).account_changes == ()


def test_an_account_that_came_back_is_told_of_and_one_that_was_never_gone_is_not(result: Result) -> None:
    offered(result)
    frames = Frames([b"{}"] * 50)
    frames.account(MARA, active=True)
    feed(result, frames[50:])
    assert around(result).account_changes == ()
    frames.account(MARA, active=False, status="takendown")
    frames.account(MARA, active=True)
    feed(result, frames[51:])
    assert around(result).account_changes == (AccountChange("author", "returns", 0),)
    assert around(result, at(51)).account_changes == (), "not before the stream told of it"


def test_the_silence_before_a_return_is_measured_whatever_small_signs_came_after_it(result: Result) -> None:
    take(result, settled("open"), NOW)
    assert around(result).silent_days is None, "nothing of mara was seen before this pull request"
    frames = Later(NOW + 100 * DAY)
    frames.vouch(MARA, ANA)
    frames.pull(MARA, "second")
    feed(result, frames)
    now = NOW + 101 * DAY
    with result.reading() as rows:
        found = read_circumstances(rows, Moment(now, 14), {}, RepositoryRules(), {})
    assert found[pull_uri(MARA, "second")].silent_days == 100
    back = Later(NOW + 115 * DAY)
    back.pull(MARA, "third")
    feed(result, back)
    with result.reading() as rows:
        found = read_circumstances(rows, Moment(NOW + 116 * DAY, 14), {}, RepositoryRules(), {})
    assert found[pull_uri(MARA, "third")].silent_days == 14, "they have been back for long enough"
    assert found[pull_uri(MARA, "second")].silent_days == 100


def test_the_files_that_a_round_touches_are_known_once_it_was_read(result: Result) -> None:
    offered(result)
    offer(result)
    assert around(result).touched is None
    result.review()
    assert around(result).touched == ()
    assert around(result, rules=RepositoryRules(("*.py", "!b.py"))).touched == ("path:*.py",)
    offer(result, WORKFLOW, ref="blob:two")
    assert around(result).touched is None
    result.review()
    assert around(result).touched == ("ci",)


def test_a_round_that_arrived_after_the_judged_one_is_seen(result: Result) -> None:
    offered(result)
    assert (around(result).judged_round, around(result).newest_round) == (0, 0)
    with result.store.write() as txn:
        txn.execute(
            "insert into pull_rounds values (?, 1, 'blob:late', null, null, ?, true)", [OFFERED, NOW - DAY / 24]
        )
    assert around(result).newest_round == 1
    assert around(result, NOW - DAY).newest_round == 0


def fast_laned(result: Result) -> str:
    """A pull request of mara's that is fast-laned but for the audit."""
    frames = settled()
    frames.vouch(SEED, MARA)
    frames.pull(MARA, "next")
    take(result, frames, MERGED_AT + 20 * DAY)
    offer(result, uri=pull_uri(MARA, "next"))
    end_lookups(result)
    result.review()
    result.judge(MERGED_AT + 20 * DAY)
    return pull_uri(MARA, "next")


def test_the_first_that_would_be_fast_laned_is_audited_once_and_for_all(tmp_path: Path) -> None:
    with opened(tmp_path, replace(OPEN_LANE, audit=AuditRules())) as result:
        uri = fast_laned(result)
        row = result.pull(uri)
        assert row is not None
        assert (row.verdict.lane, row.verdict.reasons[0].code) == (Lane.NEEDS_HUMAN, "audit_drawn")
        (kept,) = result.rows("select pull_uri, odds, drawn from audit_draws")
        assert kept == {"pull_uri": uri, "odds": 1.0, "drawn": True}
        end_lookups(result)
        result.judge(MERGED_AT + 21 * DAY)
        assert result.value("select count(*) from audit_draws") == 1
        with result.reading() as rows:
            moment = Moment(MERGED_AT + 21 * DAY, 14)
            assert read_circumstances(rows, moment, {}, RepositoryRules(), {})[uri].draw == Draw(True, 1.0)


def test_a_round_after_one_that_was_not_drawn_is_drawn_anew_with_the_odds_of_both(tmp_path: Path) -> None:
    with opened(tmp_path, replace(OPEN_LANE, audit=AuditRules(0.0, 0.0, 0))) as result:
        uri = fast_laned(result)
        assert result.rows("select odds, drawn from audit_draws") == [{"odds": 0.0, "drawn": False}]
        frames = Later(MERGED_AT + 20 * DAY)
        frames.pull(MARA, "next", "update", blobs=["bafkrei" + letter * 52 for letter in "ab"])
        feed(result, frames)
        offer(result, CLEAN.replace("print(2)", "print(3)"), uri, "blob:two")
        result.policy = replace(OPEN_LANE, audit=AuditRules(1.0, 0.0, 0))
        result.review()
        result.judge(MERGED_AT + 20 * DAY)
        row = result.pull(uri)
        assert row is not None
        assert (row.round, row.verdict.reasons[0].code) == (1, "audit_drawn")
        assert result.rows("select round, odds, drawn from audit_draws order by round") == [
            {"round": 0, "odds": 0.0, "drawn": False},
            {"round": 1, "odds": 1.0, "drawn": True},
        ]


def test_without_a_key_nothing_is_drawn_and_nothing_fast_laned(tmp_path: Path) -> None:
    with opened(tmp_path, replace(OPEN_LANE, audit_key=b"")) as result:
        row = result.pull(fast_laned(result))
        assert row is not None
        assert (row.verdict.lane, row.verdict.reasons[0].code) == (Lane.NORMAL_QUEUE, "audit_not_drawn")


@pytest.mark.parametrize(("attestation", "lane"), [("valid", Lane.FAST_LANE), ("expired", Lane.NEEDS_HUMAN)])
def test_a_sensitive_repository_asks_for_a_valid_attestation(tmp_path: Path, attestation: str, lane: Lane) -> None:
    with opened(tmp_path, OPEN_LANE) as result:
        fast_laned(result)
        inputs = read_inputs(result.value("select inputs from current_decisions"))
    assert judge_inputs(inputs).lane is Lane.FAST_LANE
    sensitive = replace(inputs.circumstances, tier="sensitive", attestation=attestation)
    assert judge_inputs(replace(inputs, circumstances=sensitive)).lane is lane
