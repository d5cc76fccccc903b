"""Attacks on structural trust: what somebody can do alone, what a region of fakes gains. Each bound is a theorem."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.config.policy import Parameters
from scoring.redteam.attack import Ground
from scoring.redteam.attacks import self_lifts
from scoring.trust.first_passage import eigentrust, find_transfers, first_passage
from tests.scoring.redteam.attack_table import first_passage_by
from tests.scoring.trust.graphs import advogato, edges_of, graphs, parameters, people, region, young_forge

Count = Callable[[int, int], int]
DEFAULTS = Parameters()
SEEDS = people(0, 1, 2, 3)


@given(graphs(), parameters, st.data())
def test_nobodys_own_vouches_move_their_own_trust(graph: tuple, flow: Parameters, data: st.DataObject) -> None:
    vouches, seeds, size = graph
    own = data.draw(st.integers(0, size - 1))
    subjects = data.draw(st.lists(st.tuples(st.integers(0, size - 1), st.floats(0.01, 1.0)), max_size=12))
    rewired = [vouch for vouch in vouches if vouch[0] != own] + [(own, subject, weight) for subject, weight in subjects]
    before = first_passage(edges_of(vouches), seeds, size, flow).mass[own]
    after = first_passage(edges_of(rewired), seeds, size, flow).mass[own]
    assert after == pytest.approx(before, rel=1e-12, abs=0)


@given(graphs(), parameters, st.data())
def test_a_region_gets_no_more_than_hops_times_what_crosses_into_it(
    graph: tuple, flow: Parameters, data: st.DataObject
) -> None:
    vouches, seeds, size = graph
    inside = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    inside[seeds] = False
    edges = edges_of(vouches)
    transfers = find_transfers(edges, seeds, size, flow)
    reaching, total = (transfers.distance == 0).astype(float), np.zeros(size)
    for _ in range(flow.hops):
        total += reaching
        passed = transfers.amount * reaching[transfers.voucher]
        reaching = np.bincount(transfers.subject, weights=passed, minlength=size)
    crosses = ~inside[transfers.voucher] & inside[transfers.subject]
    entering = (transfers.amount * total[transfers.voucher])[crosses].sum()
    assert first_passage(edges, seeds, size, flow).mass[inside].sum() <= flow.hops * entering * (1 + 1e-12)


@given(graphs(), graphs(), parameters)
def test_people_whom_no_seed_reaches_change_no_bit(graph: tuple, strangers: tuple, flow: Parameters) -> None:
    vouches, seeds, size = graph
    reached = first_passage(edges_of(vouches), seeds, size, flow).distance >= 0
    outside = [(a + size, b + size, weight) for a, b, weight in strangers[0]]
    praising = [(size, person, 1.0) for person in range(size)]
    unreached = [(person, size, 1.0) for person in range(size) if not reached[person]]
    more = edges_of([*vouches, *outside, *praising, *unreached])
    before = first_passage(edges_of(vouches), seeds, size, flow)
    after = first_passage(more, seeds, size + strangers[2], flow)
    assert after.mass[:size].tobytes() == before.mass.tobytes()
    assert not after.mass[size:].any()


@given(graphs(), st.integers(1, 30), st.sampled_from(["star", "ring", "chain", "tree", "clique"]), parameters)
def test_whoever_stands_behind_an_entry_gets_a_fixed_share_of_its_trust_at_most(
    graph: tuple, fakes: int, shape: str, flow: Parameters
) -> None:
    vouches, seeds, size = graph
    entry = size
    bought = [(int(seeds[0]), entry, 1.0), (size - 1, entry, 1.0)]
    attacked = edges_of([*vouches, *bought, *region(shape, entry + 1, fakes, entry)])
    mass = first_passage(attacked, seeds, entry + 1 + fakes, flow).mass
    assert mass[entry + 1 :].max() <= (flow.hops - 1) * flow.transfer * mass[entry] * (1 + 1e-12)


def assert_rewiring_moves_nobody(ground: Ground, whom: np.ndarray) -> None:
    """No way of rewiring one's own vouches changes the own trust of anybody of `whom`, up or down."""
    lifts = self_lifts(ground, first_passage_by(DEFAULTS), whom)
    assert len(lifts) >= 7
    assert all(len(ratios) == len(whom) for ratios in lifts.values())
    assert np.concatenate(list(lifts.values())) == pytest.approx(1.0, abs=1e-9)


def test_ten_ways_of_rewiring_lift_nobody_on_a_young_forge(count: Count) -> None:
    ground = Ground(edges_of(young_forge()), SEEDS, 600)
    reached = np.flatnonzero(first_passage(ground.edges, SEEDS, 600, DEFAULTS).mass > 0)
    assert_rewiring_moves_nobody(ground, np.random.default_rng(3).choice(reached, count(15, 50), replace=False))


def test_the_baseline_is_lifted_by_rewiring_which_is_why_it_is_only_a_baseline() -> None:
    fan = [(0, person, 1.0) for person in range(1, 12)]
    looped = edges_of([*fan, (11, 12, 1.0), (12, 11, 1.0)])
    lift = eigentrust(looped, people(0), 13)[11] / eigentrust(edges_of(fan), people(0), 13)[11]
    assert 2 < lift < 3.7
    plain, rewired = (first_passage(e, people(0), 13, DEFAULTS).mass[11] for e in (edges_of(fan), looped))
    assert rewired == plain


def test_a_self_vouch_is_nothing_not_even_a_cost() -> None:
    vouches = [(0, 1, 1.0), (1, 2, 1.0)]
    selfish = [*vouches, (1, 1, 1.0), (2, 2, 1.0), (3, 3, 1.0)]
    honest, attacked = (first_passage(edges_of(v), people(0), 4, DEFAULTS) for v in (vouches, selfish))
    assert honest.mass.tobytes() == attacked.mass.tobytes()
    assert attacked.trust[3] == 0


def test_a_mutual_pair_without_a_seed_has_no_trust_and_with_one_gains_none() -> None:
    alone = first_passage(edges_of([(1, 2, 1.0), (2, 1, 1.0)]), people(0), 3, DEFAULTS)
    assert alone.trust.tolist() == [1.0, 0.0, 0.0]
    pair = first_passage(edges_of([(0, 1, 1.0), (1, 2, 1.0), (2, 1, 1.0)]), people(0), 3, DEFAULTS)
    assert pair.mass == pytest.approx([0.0, 0.1, 0.01], rel=1e-12)


def test_vouching_for_a_seed_gains_nothing_and_costs_nothing() -> None:
    vouches = [(0, 1, 1.0), (1, 2, 1.0)]
    flattered = [*vouches, (1, 0, 1.0), (2, 0, 1.0), (3, 0, 1.0)]
    honest, attacked = (first_passage(edges_of(v), people(0), 4, DEFAULTS) for v in (vouches, flattered))
    assert honest.mass.tobytes() == attacked.mass.tobytes()


@pytest.mark.parametrize("shape", ["star", "ring", "chain", "tree", "clique"])
def test_ten_thousand_fakes_behind_one_bought_vouch_catch_hardly_more_than_ten(shape: str) -> None:
    vouches, entry = young_forge(), 600
    caught = {}
    for count in (10, 10_000):
        attacked = edges_of([*vouches, (5, entry, 1.0), *region(shape, entry + 1, count, entry)])
        caught[count] = first_passage(attacked, SEEDS, entry + 1 + count, DEFAULTS)
    inside = {count: found.mass[entry:].sum() for count, found in caught.items()}
    assert 0 < inside[10_000] <= 1.05 * inside[10]
    assert (caught[10_000].trust[entry + 1 :] < 0.5).all()


def test_a_ring_of_ten_thousand_leaves_every_honest_person_where_they_were() -> None:
    vouches, entry = young_forge(), 600
    before = first_passage(edges_of(vouches), SEEDS, 600, DEFAULTS).mass
    ring = region("ring", entry, 10_000, entry)
    praise = [(entry + i, i % 600, 1.0) for i in range(10_000)]
    after = first_passage(edges_of([*vouches, *ring, *praise]), SEEDS, 10_600, DEFAULTS).mass
    assert after[:600].tobytes() == before.tobytes()
    assert not after[600:].any()


def test_ten_ways_of_rewiring_lift_nobody_among_the_people_of_advogato(shared: Path, count: Count) -> None:
    ground = Ground(*advogato(shared))
    reached = np.flatnonzero(first_passage(ground.edges, ground.seeds, ground.size, DEFAULTS).mass > 0)
    assert len(reached) > 3000
    assert_rewiring_moves_nobody(ground, np.random.default_rng(4).choice(reached, count(3, 50), replace=False))
