"""Trust kept fresh: what a change cannot reach is not computed again, and what is kept equals a run from nothing."""

import random
from itertools import pairwise

import pytest

import scoring.trust.incremental
from scoring.pipeline.evidence import TRUST_CACHES
from scoring.trust.incremental import TrustCache
from tests.conftest import Count
from tests.ingest.stream.frames import ANA, MALLORY, MARA, SEED, STRANGER, Frames, at
from tests.pipeline import Result
from tests.scoring.small import feed, take
from tests.scoring.trust.test_structure import world

OTHER = "did:plc:" + "o" * 24
TRUST = "select * from trust order by repository_id, contributor_id"


@pytest.fixture(name="runs")
def runs_fixture(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes each computation of a seed set's first-passage trust and of its walk."""
    done: list[str] = []
    for name in ("passage_columns", "walk_from"):
        real = getattr(scoring.trust.incremental, name)

        def noted(*arguments: object, real: object = real, name: str = name) -> object:
            done.append(name)
            return real(*arguments)  # ty: ignore[not-callable]

        monkeypatch.setattr(scoring.trust.incremental, name, noted)
    return done


def later(result: Result, frames: Frames, first: int) -> None:
    feed(result, frames[first:])
    result.judge(at(first))


def test_a_vouch_that_no_seed_reaches_computes_nothing_and_writes_nothing(result: Result, runs: list[str]) -> None:
    frames = world((SEED, ANA), (MALLORY, STRANGER))
    first = len(frames)
    frames.vouch(STRANGER, MALLORY)
    frames.vouch(MALLORY, ANA, kind="denounce")
    frames.vouch("did:plc:" + "n" * 24, MALLORY)
    take(result, frames[:first], at(first))
    assert runs.count("passage_columns") == 2, "the repository's seeds and the site's"
    before = result.rows(TRUST)
    runs.clear()
    later(result, frames, first)
    assert runs == []
    assert result.rows(TRUST) == before


def test_beyond_the_last_hop_only_the_walk_is_computed(result: Result, runs: list[str]) -> None:
    chain = [SEED, *(f"did:plc:{letter * 24}" for letter in "bcdefg")]
    frames = world(*pairwise(chain))
    first = len(frames)
    frames.vouch(chain[-1], MARA)
    take(result, frames[:first], at(first))
    runs.clear()
    later(result, frames, first)
    assert runs == ["walk_from"] * 2
    row = result.rows("select t.* from trust t join contributors using (contributor_id) where did = ?", [MARA])[0]
    assert (row["distance"], row["first_passage"], row["path"], row["keep"]) == (None, 0, [], 1)
    assert row["eigentrust"] > 0


def test_another_day_computes_everything_anew(result: Result, runs: list[str]) -> None:
    take(result, world((SEED, ANA)), at(5))
    runs.clear()
    later(result, Frames(), 90_000)
    assert runs.count("passage_columns") == 2


def test_what_was_not_committed_is_computed_again(result: Result, runs: list[str]) -> None:
    take(result, world((SEED, ANA)), at(5))
    held = TRUST_CACHES[result.store]
    held.forget()
    runs.clear()
    frames = world((SEED, ANA))
    later(result, frames, len(frames))
    with result.store.write() as txn:
        txn.inputs_changed()
    result.judge(at(9))
    assert runs.count("passage_columns") == 2


def test_after_any_history_the_rows_are_those_of_a_run_from_nothing(result: Result, count: Count) -> None:
    draw = random.Random(7)
    people = [SEED, ANA, MARA, MALLORY, STRANGER, *(f"did:plc:{letter * 24}" for letter in "bcdefghijk")]
    frames = world((SEED, ANA), (ANA, MARA))
    frames.repository(MARA, "other", repoDid=OTHER)
    first = len(frames)
    take(result, frames, at(first))
    result.watch([OTHER], [MARA])
    for _ in range(count(5, 60)):
        voucher, subject = draw.sample(people[: draw.randint(2, len(people))], 2)
        kind = draw.choice(["vouch", "vouch", "denounce"])
        if draw.random() < 0.2:
            frames.delete(voucher, "sh.tangled.graph.vouch", subject)
        else:
            frames.vouch(voucher, subject, "update", kind=kind)
        later(result, frames, len(frames) - 1)
        kept = result.rows(TRUST)
        TRUST_CACHES[result.store] = TrustCache()
        with result.store.write() as txn:
            txn.inputs_changed()
            txn.execute("delete from trust")
        result.judge(at(len(frames) - 1))
        assert result.rows(TRUST) == kept
    assert len({row["repository_id"] for row in result.rows(TRUST)}) == 3
