"""Structural trust is served as first passage, or as EigenTrust scaled to the same range."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.config.policy import Parameters, Policy
from scoring.trust.denounces import judge_denounces
from scoring.trust.eigentrust import eigentrust
from scoring.trust.graph import Edges
from scoring.trust.table import _cut, served_trust
from scoring.types import Measure
from tests.ingest.stream.frames import ANA, MARA, REPO, SEED
from tests.pipeline import Result, opened
from tests.scoring.small import take
from tests.scoring.trust.test_structure import trust, world

BASELINE = Policy(measure="eigentrust")
NOBODY = Edges(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))


def served(vouches: list[tuple[int, int]], seeds: list[int], size: int, policy: Policy) -> list[float]:
    voucher, subject = np.array(vouches).T
    edges, start = Edges(voucher, subject, np.ones(len(voucher))), np.array(seeds)
    found = judge_denounces(edges, NOBODY, start, size, Parameters(), 1.0)
    is_seed = found.first.distance == 0
    return served_trust(found.passage.trust, found.keep, eigentrust(edges, start, size), is_seed, policy).tolist()


@pytest.mark.parametrize("seeds", [1, 3])
def test_one_undiluted_vouch_by_a_seed_is_worth_the_same_by_both_measures(seeds: int) -> None:
    vouches = [(seed, seeds + seed) for seed in range(seeds)]
    for policy in (Policy(), BASELINE):
        found = served(vouches, list(range(seeds)), 2 * seeds, policy)
        assert found == pytest.approx([1.0] * seeds + [1 / 1.1] * seeds, abs=1e-6)


def test_a_tenth_of_it_is_a_half() -> None:
    found = served([(0, person) for person in range(1, 11)], [0], 11, BASELINE)
    assert found[1:] == pytest.approx([0.5] * 10, abs=1e-6)


def test_the_baseline_lies_between_0_and_1_and_can_be_raised_by_ones_own_vouches() -> None:
    alone = served([(0, 1), (0, 2), (0, 3)], [0], 5, BASELINE)
    raised = served([(0, 1), (0, 2), (0, 3), (1, 4), (4, 1)], [0], 5, BASELINE)
    assert all(0 <= trust <= 1 for trust in alone + raised)
    assert raised[1] > alone[1] + 0.05, "which is why it is the baseline"
    assert served([(0, 1), (1, 4), (4, 1)], [0], 5, Policy())[1] == served([(0, 1)], [0], 5, Policy())[1]


@pytest.mark.parametrize("measure", ["first_passage", "eigentrust"])
def test_what_is_served_is_told_with_every_score(tmp_path: Path, measure: Measure) -> None:
    with opened(tmp_path, Policy(measure=measure)) as result:
        frames = world((SEED, ANA), (ANA, MARA))
        frames.vouch(SEED, MARA, kind="denounce")
        take(result, frames)
        assert result.score(ANA, REPO).trust_measure == measure
        assert 0 < trust(result)[ANA][0] < 1
        assert trust(result)[SEED][0] == 1
        assert trust(result)[MARA][0] == 0, "a seed's denounce is final by either"


def test_another_measure_in_the_settings_is_served_by_the_next_pass(result: Result) -> None:
    take(result, world((SEED, ANA), (SEED, MARA)))
    before = trust(result)[ANA][0]
    assert result.judge() == 0
    result.policy = BASELINE
    assert result.judge() > 0
    assert trust(result)[ANA][0] != before
    assert {row["trust_measure"] for row in result.rows("select trust_measure from current_scores")} == {"eigentrust"}
    assert result.judge() == 0


@given(st.lists(st.just(0.0) | st.floats(1e-100, 1), min_size=1), st.integers(1, 6))
def test_what_is_stored_is_cut_and_never_rounded_up(values: list[float], digits: int) -> None:
    kept = _cut(np.array(values), digits)
    assert (kept <= np.array(values) * (1 + 1e-8)).all()
    assert (kept >= np.array(values) * (1 - 10.0 ** (1 - digits) * 1.001)).all()
    assert (np.diff(kept[np.argsort(values)]) >= 0).all()


def test_a_round_number_but_for_the_order_of_a_sum_stays_it() -> None:
    found = _cut(np.array([0.01 * (1 - 1e-15), 0.1, 0.0, 0.0099996]), 4)
    assert found == pytest.approx([0.01, 0.1, 0.0, 0.009999], rel=1e-12)
