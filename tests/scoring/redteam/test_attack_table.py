"""The red team's attacks: what each shape is, and what the whole table brings on a real graph, side by side."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from scoring.config.policy import Parameters, Policy
from scoring.redteam.attack import Attack, Ground, attack, choose_vouchers, people_reached, standing_on_two
from scoring.redteam.attacks import SHAPES, largest_lift
from scoring.redteam.report import BRIEF, MOST_TRUSTED, RANDOM, WHOLE, Grid
from scoring.thresholds import Thresholds
from scoring.trust.first_passage import eigentrust, first_passage
from tests.scoring.redteam.attack_table import (
    OURS,
    SCORES,
    Row,
    auc,
    growth,
    in_vouches,
    matched_mark,
    pagerank,
    play,
    summarize,
    textbook_eigentrust,
)
from tests.scoring.trust.graphs import advogato, edges_of, people, vouches_of, young_forge

Count = Callable[[int, int], int]
FORGE = Ground(edges_of(young_forge()), people(0, 1, 2, 3), 600)
BOUGHT = people(5, 9, 17)
DEFAULTS = Parameters()
OPENED = Policy(thresholds=Thresholds(t_high=0.6))  # below what 20 clean merges and the prior make


def attacked(shape: str, count: int, vouchers: np.ndarray = BOUGHT) -> tuple[set[tuple[int, int]], Attack]:
    """The vouches that an attack added to the young forge, whose fakes are numbered from 600, and the attack."""
    under = attack(FORGE, SHAPES[shape], vouchers, count, np.random.default_rng(1))
    added = vouches_of(under.edges)[len(FORGE.edges.voucher) :]
    return {(voucher, subject) for voucher, subject, _ in added}, under


def test_there_are_nine_shapes() -> None:
    names = "clique, star, fan, chain, two loops, mimic, spray, reciprocated, diamond"
    assert list(SHAPES) == names.split(", ")


@pytest.mark.parametrize("shape", list(SHAPES))
def test_every_shape_at_every_size_has_its_fakes_and_only_the_bought_vouches_enter_it(shape: str) -> None:
    for count in (1, 2, 3, 10, 120):
        added, under = attacked(shape, count)
        assert under.fakes.tolist() == list(range(600, 600 + count))
        assert under.bought == 3
        entering = {(voucher, subject) for voucher, subject in added if voucher < 600}
        assert {voucher for voucher, _ in entering} == set(BOUGHT.tolist())
        assert len(entering) == 3
        assert all(600 <= subject < 600 + count for _, subject in entering)
        assert all(0 <= subject < 600 + count for _, subject in added)


@pytest.mark.parametrize("shape", list(SHAPES))
def test_equal_seeds_give_equal_attacks(shape: str) -> None:
    (one, _), (other, _) = attacked(shape, 40), attacked(shape, 40)
    assert one == other


@pytest.mark.parametrize(
    ("shape", "inside"),
    [
        ("clique", {(a, b) for a in range(4) for b in range(4) if a != b}),
        ("star", {(0, 1), (0, 2), (0, 3), (1, 0), (2, 0), (3, 0)}),
        ("fan", {(0, 3), (1, 3), (2, 3)}),
        ("chain", {(0, 3)}),
        ("two loops", {(0, 2), (2, 0), (1, 3), (3, 1)}),
        ("reciprocated", {(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2), (3, 0), (0, 3)}),
        ("diamond", {(0, 3), (1, 3), (2, 3)}),
    ],
)
def test_four_fakes_behind_three_vouches_have_the_shape_of_its_name(shape: str, inside: set[tuple[int, int]]) -> None:
    added, _ = attacked(shape, 4)
    assert {(a - 600, b - 600) for a, b in added if a >= 600 and b >= 600} == inside


def test_a_spray_praises_honest_people_and_the_reciprocated_vouch_back_for_who_was_bought() -> None:
    sprayed, _ = attacked("spray", 40)
    assert len({pair for pair in sprayed if pair[0] >= 600 and pair[1] < 600}) > 350
    mutual, _ = attacked("reciprocated", 40)
    assert {(600, 5), (601, 9), (602, 17)} == {pair for pair in mutual if pair[0] >= 600 and pair[1] < 600}


def test_a_mimic_copies_vouches_of_the_honest_people_and_repeats_them() -> None:
    added, _ = attacked("mimic", 200)
    inside = {(a - 600, b - 600) for a, b in added if a >= 600 and b >= 600}
    first = {pair for pair in inside if max(pair) < 100}
    assert {(a + 100, b + 100) for a, b in first} == inside - first
    assert len(first) > 50


def test_vouchers_are_bought_once_each_among_the_trusted_and_no_seed_is_for_sale() -> None:
    trust = first_passage(FORGE.edges, FORGE.seeds, FORGE.size, DEFAULTS).mass
    anybody = choose_vouchers(trust, FORGE.seeds, 50, RANDOM, np.random.default_rng(1))
    assert len(set(anybody.tolist())) == 50
    assert (trust[anybody] > 0).all()
    best = choose_vouchers(trust, FORGE.seeds, 5, MOST_TRUSTED, np.random.default_rng(1))
    assert trust[best].min() >= np.quantile(trust[trust > 0], 0.94)
    few = choose_vouchers(np.array([1.0, 0.5, 0.0]), people(0), 50, RANDOM, np.random.default_rng(1))
    assert few.tolist() == [1]


def test_an_attack_without_fakes_or_vouches_is_refused() -> None:
    for vouchers, count in ((BOUGHT, 0), (people(), 5)):
        with pytest.raises(ValueError, match="needs a fake and a bought vouch"):
            attack(FORGE, SHAPES["star"], vouchers, count, np.random.default_rng(1))


def test_the_chance_to_outrank_counts_ties_half() -> None:
    assert auc(np.array([2.0, 3.0]), np.array([1.0, 1.5])) == 1.0
    assert auc(np.array([1.0, 1.0]), np.array([1.0])) == 0.5
    assert auc(np.array([0.0, 2.0]), np.array([1.0])) == 0.5
    assert auc(np.array([]), np.array([1.0])) == 0.5


def test_a_rival_is_judged_where_as_many_honest_people_pass() -> None:
    found = np.array([9.0, 7.0, 5.0, 3.0])
    assert matched_mark(found, people(0, 1, 2, 3), 2) == 7.0
    assert matched_mark(found, people(0, 1), 0) == float("inf")


def test_honest_people_are_those_whom_vouches_reach_at_any_distance() -> None:
    line = Ground(edges_of([(place, place + 1, 1.0) for place in range(8)]), people(0), 12)
    assert people_reached(line).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_behind_one_bought_vouch_everybody_hangs_on_one_account_and_behind_two_not() -> None:
    direct = Ground(edges_of([(0, 1, 1.0), (0, 2, 1.0)]), people(0), 3)
    for vouchers, on_two in ((people(1), False), (people(1, 2), True)):
        under = attack(direct, SHAPES["star"], vouchers, 1, np.random.default_rng(1))
        assert bool(standing_on_two(under, direct.seeds, DEFAULTS)[3]) is on_two


def test_pagerank_sums_to_one_and_the_count_counts_every_voucher_once() -> None:
    edges = edges_of([(0, 1, 1.0), (0, 1, 0.5), (2, 1, 1.0), (1, 1, 1.0)])
    assert in_vouches(edges, people(0), 3).tolist() == [0.0, 3.0, 0.0]
    assert pagerank(FORGE.edges, FORGE.seeds, FORGE.size).sum() == pytest.approx(1.0)


def test_the_textbook_loop_is_broken_as_it_is_said_to_be() -> None:
    idle = [(0, person, 1.0) for person in range(1, 12)]
    selfish = edges_of([*idle, (11, 11, 1.0)])
    found = textbook_eigentrust(selfish, people(0), 12)
    assert found[11] == pytest.approx(0.674, abs=0.001)
    assert found[11] / found[1] == pytest.approx(44, abs=1)
    mended = eigentrust(selfish, people(0), 12)
    assert mended[11] == pytest.approx(mended[1])


def test_the_largest_lift_is_one_where_nobody_can_be_tried() -> None:
    assert largest_lift({"a": np.array([]), "b": np.array([])}) == 1.0
    assert largest_lift({"a": np.array([0.2, 3.0]), "b": np.array([1.0, 1.0])}) == 3.0


def test_nobody_can_be_bought_where_no_vouch_leaves_a_seed() -> None:
    with pytest.raises(ValueError, match="no vouch leads from a seed"):
        play(Ground(edges_of([(1, 2, 1.0)]), people(0), 3), BRIEF.grid, 1, OPENED)


@pytest.fixture(scope="module")
def table(shared: Path, prove: bool) -> list[Row]:
    """The attack table on Advogato: the whole one under `make prove`, else two sizes behind 1 and 20 bought vouches."""
    scores = SCORES if prove else {}
    return play(Ground(*advogato(shared)), (WHOLE if prove else BRIEF).grid, 1, OPENED, scores)


def test_fakes_behind_random_vouchers_rank_below_honest_people_on_advogato(table: list[Row]) -> None:
    found = summarize(table, OURS, RANDOM)
    assert found["auc"] >= 0.94
    assert found["auc_worst"] >= 0.84


def test_fakes_behind_the_most_trusted_still_rank_below_most_honest_people(table: list[Row]) -> None:
    assert summarize(table, OURS, MOST_TRUSTED)["auc"] >= 0.77


def test_no_attack_brings_more_than_one_fake_above_half_for_each_bought_vouch(table: list[Row]) -> None:
    ours = [row.cell.trusted / row.play.bought for row in table if row.cell]
    assert max(ours) <= 1.0
    assert max(ours) > 0, "a table in which nobody ever passes tells nothing"


def test_behind_one_bought_vouch_nobody_passes_the_rule_of_the_dominator(table: list[Row]) -> None:
    alone = [row.cell for row in table if row.cell and row.play.bought == 1]
    assert any(cell.trusted > 0 for cell in alone)
    assert {cell.on_two for cell in alone} == {0}


def test_behind_one_bought_vouch_the_gate_lets_nobody_through_whatever_their_record(table: list[Row]) -> None:
    ours = [row.cell for row in table if row.cell]
    assert all(lanes.fast == 0 for cell in ours if cell.play.bought == 1 for lanes in cell.lanes)
    for cell in ours:
        without, _, patient = cell.lanes
        assert without.fast == 0, "no record, no lane"
        assert patient.fast == cell.on_two
        assert {lanes.fast + lanes.normal + lanes.human for lanes in cell.lanes} == {cell.play.fakes}


def test_a_larger_region_catches_no_more_trust(table: list[Row]) -> None:
    assert growth([row for row in table if row.score == OURS]) <= 1.05


def test_the_rivals_do_worse_in_the_same_table(table: list[Row], prove: bool) -> None:
    if not prove:
        table = play(FORGE, Grid(fakes=(20, 400), bought=(1, 5)), 1, OPENED)
    ours = summarize(table, OURS, RANDOM)
    for rival in SCORES:
        theirs = summarize(table, rival, RANDOM)
        assert theirs["auc"] < ours["auc"]
        assert theirs["share_worst"] > 2 * ours["share_worst"]
