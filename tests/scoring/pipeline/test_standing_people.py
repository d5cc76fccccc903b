"""A pass looks at everybody who may have changed since the last one, and at all where that is unknown."""

import random
from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta

import pytest

import scoring.pipeline.score
from ingest.store.transaction import Rows
from scoring.config.policy import Policy
from scoring.pipeline import evidence
from scoring.pipeline.evidence import find_stale_people
from scoring.pipeline.score import CHANGED_PEOPLE
from scoring.thresholds import Thresholds
from scoring.types import Pair
from tests.conftest import Count
from tests.ingest.stream.frames import ANA, MALLORY, MARA, REPO, SEED, Frames, at, pull_uri
from tests.pipeline import Result
from tests.scoring.pipeline.test_passes import NOW as LATER
from tests.scoring.pipeline.test_passes import check_full_pass_changes_nothing
from tests.scoring.small import again, feed, take
from tests.scoring.trust.test_structure import world

EVERYBODY = None
NOW = at(50)
LOOKS = list[set[str] | None]


@pytest.fixture(name="looked")
def looked_fixture(result: Result, monkeypatch: pytest.MonkeyPatch) -> LOOKS:
    """Whom each pass looked at; seed vouches for ana, ana for mara, and mallory offered something."""
    looks: LOOKS = []

    def noted(rows: Rows, basis: str, among: Collection[Pair] | None) -> dict[Pair, str]:
        dids = {row["contributor_id"]: row["did"] for row in rows.rows("from contributors")}
        looks.append(EVERYBODY if among is None else {dids[person] for person, _ in among})
        return find_stale_people(rows, basis, among)

    monkeypatch.setattr(scoring.pipeline.score, "find_stale_people", noted)
    frames = world((SEED, ANA), (ANA, MARA))
    frames.pull(MALLORY, "first")
    take(result, frames, NOW)
    assert looks == [EVERYBODY]
    looks.clear()
    return looks


def test_where_nothing_changed_nobody_is_looked_at(result: Result, looked: LOOKS) -> None:
    again(result, NOW)
    assert looked == [set()]


def test_a_pull_request_is_about_its_author_alone(result: Result, looked: LOOKS) -> None:
    frames = Frames()
    frames.pull(MARA, "offered")
    feed(result, frames)
    result.judge(NOW)
    assert looked == [{MARA}]
    assert result.score(MARA, REPO).verdict.reasons


def test_whoever_is_named_otherwise_is_told_to_all_who_are_trusted_through_them(result: Result, looked: LOOKS) -> None:
    with result.store.write() as txn:
        txn.execute("update contributors set handle = 'ana.example.org', handle_verified = true where did = ?", [ANA])
    again(result, NOW)
    assert looked == [{ANA, MARA}]
    assert "ana.example.org" in str(result.score(MARA).verdict)


def test_other_rules_are_about_everybody(result: Result, looked: LOOKS) -> None:
    result.policy = replace(result.policy, thresholds=Thresholds(t_low=0.2))
    result.judge(NOW)
    again(result, NOW)
    assert looked == [EVERYBODY, set()]


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
            result.judge(NOW)
    result.judge(NOW)
    again(result, NOW)
    assert looked[1:] == [EVERYBODY, set()]
    assert result.score(MALLORY).structural_trust > 0


def test_a_change_that_touches_many_is_about_everybody(
    result: Result, looked: LOOKS, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "MOST_CHANGED", 0)
    frames = Frames()
    frames.pull(MARA, "offered")
    feed(result, frames)
    result.judge(NOW)
    assert looked == [EVERYBODY]


def test_a_process_that_begins_on_a_filled_store_judges_everybody_once_and_decides_nothing_twice(
    result: Result, looked: LOOKS
) -> None:
    history = result.rows("from scores order by all")
    assert result.judge(NOW) == 0
    CHANGED_PEOPLE.pop(result.store)
    assert result.judge(NOW) > 0
    assert result.judge(NOW + timedelta(hours=1)) == 0
    assert looked == [EVERYBODY]
    assert result.rows("from scores order by all") == history


def test_after_any_history_everything_stands_as_a_pass_over_everybody_leaves_it(result: Result, count: Count) -> None:
    draw, people = random.Random(8), [SEED, ANA, MARA, MALLORY, *(f"did:plc:{letter * 24}" for letter in "bcdef")]
    frames = world((SEED, ANA), (ANA, MARA))
    take(result, frames, LATER)
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
        again(result, LATER)
        check_full_pass_changes_nothing(result)


def test_a_process_that_begins_on_an_empty_store_has_nothing_to_do(result: Result) -> None:
    result.policy = Policy()
    assert result.judge(NOW) == 0
