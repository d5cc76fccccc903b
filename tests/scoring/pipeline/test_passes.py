"""Passes judge what something touched, and leave what a pass over everybody leaves."""

import random
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import scoring.pipeline.score
from ingest.store.database import Store
from ingest.store.transaction import Rows
from scoring.config.policy import Policy
from scoring.config.repository import DEFAULTS
from scoring.handlers.actions import ActionMessage
from scoring.handlers.actions import apply_action as take_action
from scoring.handlers.settings import close, reopen, write_settings
from scoring.pipeline import evidence
from scoring.pipeline.evidence import TRUST_CACHES, find_stale_people
from scoring.pipeline.interventions import settle_approvals, write_objection
from scoring.pipeline.score import CHANGED_PEOPLE
from scoring.thresholds import Thresholds
from scoring.types import Evidence, Pair, Verdict
from tests.conftest import Count
from tests.ingest.stream.frames import ANA, MALLORY, MARA, REPO, SEED, SOURCE, Frames, at, pull_uri
from tests.pipeline import Result, opened
from tests.scoring.pipeline.offered_world import a_new_round, offered_world
from tests.scoring.small import MERGED_AT, OFFERED, again, feed, settled, take
from tests.scoring.trust.test_structure import world
from tests.stores import fresh_store

STANDS = ("current_scores", "current_decisions", "trust", "features", "labels", "seeds")
ISSUER = "did:plc:" + "i" * 24
NOW, MADE_AT = at(100), "2026-09-21T14:20:00+00:00"
# Enough people for rows, indexes and old versions of them to outgrow the memory that the test leaves.
EVERYBODY = """
insert into contributors
select 'did:plc:' || lpad(n::varchar, 24, 'a'), n + 100, timestamp '2026-01-01', 'person-' || n || '.example.org', true,
  null, null, 'active', null
from range(?) r(n)
"""
VOUCHED = """
insert into vouches
select s.contributor_id, n + 100, 'vouch', null, '[]', null, timestamp '2026-01-02', timestamp '2026-01-02',
  null, null, n
from range(?) r(n), (from contributors where did = ?) s
"""


def standing(result: Result) -> dict[str, list[dict[str, Any]]]:
    """Everything that a pass leaves but its history."""
    return {table: result.rows(f"from {table} order by all") for table in STANDS}


def check_full_pass_changes_nothing(result: Result, now: datetime = NOW) -> None:
    """Judge everyone and everything anew from nothing that was kept, at the same moment, and compare."""
    before = standing(result)
    history = result.value("select count(*) from scores")
    TRUST_CACHES.pop(result.store, None)
    CHANGED_PEOPLE.pop(result.store, None)
    with result.store.write() as txn:
        for table in ("trust", "features", "labels", "seeds"):
            txn.execute(f"delete from {table}")
        txn.execute("update current_scores set fingerprint = null")
    again(result, now)
    assert standing(result) == before
    assert result.value("select count(*) from scores") == history


def attest(result: Result) -> None:
    """Mara's attestation is proven, as the look-up writes it."""
    columns = {"uri": f"at://{MARA}/org.sunstead.jurisdictionAttestation/acme", "issuer": ISSUER, "proof": "proven"}
    times = {"valid_from": at(0), "valid_until": NOW + timedelta(days=9), "checked_at": NOW}
    with result.store.write() as txn:
        row = {"contributor_id": txn.person_ids([MARA])[MARA], "statement": "Works in CH", "was_proven": True}
        txn.append("attestation_checks", [row | columns | times])
        txn.inputs_changed()


def approve(result: Result) -> None:
    with result.reading() as rows:
        seen = rows.row("select record_cid, round, patch_id from current_decisions where pull_uri = ?", [OFFERED])
    assert seen
    told = {"kind": "approve", "outcome": "", "note": "", "pull_uri": OFFERED, "person": SEED, "batch": ""}
    take_action(result.store, "one", ActionMessage.read({**told, **seen, "made_at": MADE_AT}), NOW)


def void(result: Result) -> None:
    a_new_round(result)
    settle_approvals(result.store, NOW)


def objects(state: str) -> Callable[[Result], object]:
    told = {"did": MARA, "pull_uri": OFFERED, "record_cid": None, "state": state, "made_at": NOW, "due_at": NOW}
    return lambda result: write_objection(result.store, "page:1", told | {"answered_at": None})


def close_lane(result: Result) -> None:
    told = {"repo_key": REPO, "author": MARA, "voucher": "", "because": "A revert", "person": SEED, "made_at": MADE_AT}
    close(result.store, "closed", told, NOW)


def open_lane(result: Result) -> None:
    told = {"closure": "closed", "because": "It was a mistake", "person": SEED, "made_at": MADE_AT}
    reopen(result.store, told, NOW)


def be_sensitive(result: Result) -> None:
    after = replace(DEFAULTS, version=5, tier="sensitive", accepted_issuers=(ISSUER,), budget=0.2)
    write_settings(result.store, REPO, after, NOW)


TOLD: dict[str, Callable[[Result], object]] = {
    "an objection": objects("open"),
    "its answer": objects("rejected"),
    "a closure": close_lane,
    "its end": open_lane,
    "other settings": be_sensitive,
    "an attestation": lambda result: write_settings(
        result.store, REPO, replace(DEFAULTS, version=6, tier="sensitive", accepted_issuers=(MARA,)), NOW
    ),
    "an approval": approve,
    "a round after it": void,
}


def test_whatever_is_told_without_an_event_is_decided_at_once_and_as_by_a_full_pass(tmp_path: Path) -> None:
    with offered_world(tmp_path) as result:
        again(result, NOW)
        for what, tell in TOLD.items():
            before = result.value("select inputs from current_decisions where pull_uri = ?", [OFFERED])
            tell(result)
            assert result.judge(NOW) > 0, f"{what} gives the hop work"
            after = result.value("select inputs from current_decisions where pull_uri = ?", [OFFERED])
            assert (before != after) is (what != "an approval"), f"{what}: only what it voids is another change"
            check_full_pass_changes_nothing(result)


def test_a_pull_request_that_settles_touches_its_author_alone_and_every_page_tells_the_new_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, judged = scoring.pipeline.score.judge, list[Evidence]()

    def counted(evidence: Evidence, *rules: Any) -> Verdict:
        judged.append(evidence)
        return judge(evidence, *rules)

    monkeypatch.setattr(scoring.pipeline.score, "judge", counted)
    with opened(tmp_path) as result:
        frames = settled()
        frames.pull(ANA, "open")
        frames.pull(MALLORY, "open")
        take(result, frames, MERGED_AT)
        printed = dict_of(result)
        judged.clear()
        again(result, MERGED_AT + timedelta(days=14))
        assert {one.clean for one in judged} == {1}
        changed = {did for did, fingerprint in dict_of(result).items() if printed[did] != fingerprint}
        assert changed == {MARA}
        for did in (ANA, MALLORY, MARA, SEED):
            (shut,) = [one for one in result.score(did).verdict.reasons if one.code == "fast_lane_shut"]
            assert shut.params["have"] == 1
        row = result.pull(pull_uri(ANA, "open"))
        assert row is not None
        assert [one.params["have"] for one in row.verdict.reasons if one.code == "fast_lane_shut"] == [1]


def dict_of(result: Result) -> dict[str, str]:
    """Fingerprints at the site by DID."""
    found = result.rows(
        "select did, fingerprint from current_scores join contributors using (contributor_id) where repository_id = 0"
    )
    return {row["did"]: row["fingerprint"] for row in found}


def test_everyone_is_judged_anew_three_times_within_a_small_memory(tmp_path: Path, count: Count) -> None:
    people, memory = count(4_000, 20_000), count(46, 110)
    store: Store = fresh_store(tmp_path / "trust.duckdb", memory_mb=memory)
    store.bind(SOURCE)
    result = Result(store, tmp_path)
    take(result, settled("open"), at(10))
    with store.write() as txn:
        txn.execute(EVERYBODY, [people])
        txn.execute(VOUCHED, [people, SEED])
    for number in range(3):
        result.policy = Policy(thresholds=Thresholds(t_low=0.1 + number / 100))
        assert result.judge(at(20 + number)) == people + 2
    store.close()


ALL_PAIRS = None
JUDGED_AT = at(50)
LOOKS = list[set[str] | None]


@pytest.fixture(name="looked")
def looked_fixture(result: Result, monkeypatch: pytest.MonkeyPatch) -> LOOKS:
    """Whom each pass looked at; seed vouches for ana, ana for mara, and mallory offered something."""
    looks: LOOKS = []

    def noted(rows: Rows, basis: str, among: Collection[Pair] | None) -> dict[Pair, str]:
        dids = {row["contributor_id"]: row["did"] for row in rows.rows("from contributors")}
        looks.append(ALL_PAIRS if among is None else {dids[person] for person, _ in among})
        return find_stale_people(rows, basis, among)

    monkeypatch.setattr(scoring.pipeline.score, "find_stale_people", noted)
    frames = world((SEED, ANA), (ANA, MARA))
    frames.pull(MALLORY, "first")
    take(result, frames, JUDGED_AT)
    assert looks == [ALL_PAIRS]
    looks.clear()
    return looks


def test_where_nothing_changed_nobody_is_looked_at(result: Result, looked: LOOKS) -> None:
    again(result, JUDGED_AT)
    assert looked == [set()]


def test_a_pull_request_is_about_its_author_alone(result: Result, looked: LOOKS) -> None:
    frames = Frames()
    frames.pull(MARA, "offered")
    feed(result, frames)
    result.judge(JUDGED_AT)
    assert looked == [{MARA}]
    assert result.score(MARA, REPO).verdict.reasons


def test_whoever_is_named_otherwise_is_told_to_all_who_are_trusted_through_them(result: Result, looked: LOOKS) -> None:
    with result.store.write() as txn:
        txn.execute("update contributors set handle = 'ana.example.org', handle_verified = true where did = ?", [ANA])
    again(result, JUDGED_AT)
    assert looked == [{ANA, MARA}]
    assert "ana.example.org" in str(result.score(MARA).verdict)


def test_other_rules_are_about_everybody(result: Result, looked: LOOKS) -> None:
    result.policy = replace(result.policy, thresholds=Thresholds(t_low=0.2))
    result.judge(JUDGED_AT)
    again(result, JUDGED_AT)
    assert looked == [ALL_PAIRS, set()]


def test_after_a_pass_that_failed_everybody_is_looked_at(
    result: Result, looked: LOOKS, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object) -> None:
        raise OSError("no room")

    frames = Frames()
    frames.vouch(SEED, MALLORY)
    feed(result, frames)
    with monkeypatch.context() as failing:
        failing.setattr(scoring.pipeline.score, "append_decisions", fail)
        with pytest.raises(OSError, match="no room"):
            result.judge(JUDGED_AT)
    result.judge(JUDGED_AT)
    again(result, JUDGED_AT)
    assert looked[1:] == [ALL_PAIRS, set()]
    assert result.score(MALLORY).structural_trust > 0


def test_a_change_that_touches_many_is_about_everybody(
    result: Result, looked: LOOKS, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "MOST_CHANGED", 0)
    frames = Frames()
    frames.pull(MARA, "offered")
    feed(result, frames)
    result.judge(JUDGED_AT)
    assert looked == [ALL_PAIRS]


def test_a_process_that_begins_on_a_filled_store_judges_everybody_once_and_decides_nothing_twice(
    result: Result, looked: LOOKS
) -> None:
    history = result.rows("from scores order by all")
    assert result.judge(JUDGED_AT) == 0
    CHANGED_PEOPLE.pop(result.store)
    assert result.judge(JUDGED_AT) > 0
    assert result.judge(JUDGED_AT + timedelta(hours=1)) == 0
    assert looked == [ALL_PAIRS]
    assert result.rows("from scores order by all") == history


def test_after_any_history_everything_stands_as_a_pass_over_everybody_leaves_it(result: Result, count: Count) -> None:
    draw, people = random.Random(8), [SEED, ANA, MARA, MALLORY, *(f"did:plc:{letter * 24}" for letter in "bcdef")]
    frames = world((SEED, ANA), (ANA, MARA))
    take(result, frames, NOW)
    for step in range(count(3, 60)):
        one, other = draw.sample(people, 2)
        first = len(frames)
        match draw.choice(["vouch", "denounce", "pull", "merge", "rename", "maintain"]):
            case "vouch" | "denounce" as kind:
                frames.vouch(one, other, "update", kind=kind)
            case "pull":
                frames.pull(one, f"pull{step}")
            case "merge":
                frames.pull(one, f"pull{step}")
                frames.status(SEED, pull_uri(one, f"pull{step}"), "merged")
            case "rename":
                with result.store.write() as txn:
                    txn.execute("update contributors set handle = ? where did = ?", [f"{step}.example.org", one])
                    txn.execute("update contributors set handle_verified = handle is not null")
                    txn.inputs_changed()
            case "maintain":
                result.watch([REPO], [one])
        feed(result, frames[first:])
        again(result, NOW)
        check_full_pass_changes_nothing(result)


def test_a_process_that_begins_on_an_empty_store_has_nothing_to_do(result: Result) -> None:
    result.policy = Policy()
    assert result.judge(JUDGED_AT) == 0
