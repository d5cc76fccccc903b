"""Structural trust: weights, flow, baseline, and its agreement with an independent count of walks."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.config.policy import Parameters
from scoring.trust import first_passage as returns
from scoring.trust.first_passage import eigentrust, first_passage, vouch_weights
from scoring.trust.graph import Edges
from tests.conftest import Count
from tests.scoring.trust.graphs import edges_of, graphs, parameters, people, vouches_of, walks, young_forge

NOBODY = people()
DEFAULTS = Parameters()


def test_a_vouch_loses_half_its_weight_in_one_half_life() -> None:
    assert vouch_weights(np.array([0.0, 365.0, 730.0]), 365.0) == pytest.approx([1.0, 0.5, 0.25])


def test_a_vouch_from_the_future_weighs_no_more_than_a_fresh_one() -> None:
    assert vouch_weights(np.array([-5000.0]), 365.0).tolist() == [1.0]


@pytest.mark.parametrize(("ages", "half_life"), [([np.nan], 365.0), ([1.0], 0.0), ([1.0], np.nan)])
def test_an_age_or_half_life_that_means_nothing_is_refused(ages: list[float], half_life: float) -> None:
    with pytest.raises(ValueError, match="must be"):
        vouch_weights(np.array(ages), half_life)


@given(graphs(largest=6), parameters)
def test_the_formula_equals_a_count_of_all_first_arriving_walks(graph: tuple, flow: Parameters) -> None:
    vouches, seeds, size = graph
    vouches = vouches[:14]
    expected = np.zeros(size)
    for walk, carried in walks(vouches, seeds, size, flow):
        if walk[-1] not in walk[:-1]:
            expected[walk[-1]] += carried
    found = first_passage(edges_of(vouches), seeds, size, flow)
    assert found.mass == pytest.approx(expected, rel=1e-9, abs=1e-15)
    shortest = dict.fromkeys(seeds.tolist(), 0)
    for walk, _ in walks(vouches, seeds, size, flow):
        shortest[walk[-1]] = min(shortest.get(walk[-1], 9), len(walk) - 1)
    assert found.distance.tolist() == [shortest.get(person, -1) for person in range(size)]


@pytest.mark.parametrize("key", range(12))
def test_the_formula_equals_the_count_where_everybody_vouches_for_nearly_everybody(key: int) -> None:
    draw, size, flow = np.random.default_rng(key), 5, Parameters(transfer=0.5)
    pairs = [(a, b) for a in range(size) for b in range(size) if draw.random() < 0.8]
    vouches = [(a, b, float(draw.uniform(0.1, 1.0))) for a, b in pairs]
    expected = np.zeros(size)
    for walk, carried in walks(vouches, people(0), size, flow):
        if walk[-1] not in walk[:-1]:
            expected[walk[-1]] += carried
    assert first_passage(edges_of(vouches), people(0), size, flow).mass == pytest.approx(expected, rel=1e-9)


def test_trust_that_comes_back_after_three_hops_is_not_counted_twice() -> None:
    circle = [(0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0), (3, 1, 1.0)]
    assert first_passage(edges_of(circle), people(0), 4, DEFAULTS).mass == pytest.approx(
        [0, 0.1, 0.01, 0.001], rel=1e-12
    )


@given(graphs(), parameters)
def test_trust_lies_between_0_and_1_and_is_1_for_seeds_only(graph: tuple, flow: Parameters) -> None:
    vouches, seeds, size = graph
    found = first_passage(edges_of(vouches), seeds, size, flow)
    others = np.setdiff1d(np.arange(size), seeds)
    assert (found.trust[seeds] == 1).all()
    assert ((found.trust[others] >= 0) & (found.trust[others] < 1)).all()
    assert ((found.mass > 0) == (found.distance > 0)).all()


def test_every_hop_length_counts_only_people_within_it() -> None:
    chain = edges_of([(i, i + 1, 1.0) for i in range(6)])
    for hops in (1, 2, 3, 4):
        found = first_passage(chain, people(0), 7, Parameters(hops=hops))
        assert found.distance.tolist() == [d if d <= hops else -1 for d in range(7)]
        assert found.mass == pytest.approx([0.0, *(0.1**d if d <= hops else 0.0 for d in range(1, 7))])


def test_trust_by_hops_is_as_published() -> None:
    found = first_passage(edges_of([(0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0)]), people(0), 4, DEFAULTS)
    assert found.trust == pytest.approx([1.0, 0.909, 0.5, 0.0909], abs=1e-3)


def test_ten_vouches_at_two_hops_are_worth_one_by_a_seed() -> None:
    two_hops = [(0, middle, 1.0) for middle in range(1, 11)] + [(middle, 11, 1.0) for middle in range(1, 11)]
    assert first_passage(edges_of(two_hops), people(0), 12, DEFAULTS).mass[11] == pytest.approx(0.1)


def test_somebody_who_vouches_for_a_hundred_passes_on_no_more_than_the_budget() -> None:
    fan = [(0, 1, 1.0), *((1, 2 + i, 1.0) for i in range(100))]
    mass = first_passage(edges_of(fan), people(0), 102, DEFAULTS).mass
    assert mass[2:].sum() == pytest.approx(mass[1])


def test_a_seed_who_vouches_for_a_hundred_dilutes_nobody() -> None:
    fan = [(0, 1 + i, 1.0) for i in range(100)]
    assert first_passage(edges_of(fan), people(0), 101, DEFAULTS).trust[1:] == pytest.approx(10 / 11)


@pytest.mark.parametrize("size", [300, 3_000, 100_000])
def test_a_lone_vouch_by_a_seed_means_the_same_in_every_size_of_network(size: int) -> None:
    draw = np.random.default_rng(size)
    others = draw.integers(2, size, (2, 5 * size))
    edges = Edges(np.append(0, others[0]), np.append(1, others[1]), np.ones(5 * size + 1))
    assert first_passage(edges, people(0), size, DEFAULTS).trust[1] == pytest.approx(0.909, abs=1e-3)


def test_the_strongest_of_several_vouches_for_one_pair_counts_once() -> None:
    repeated = edges_of([(0, 1, 0.2), (0, 1, 0.7), (0, 1, 0.7), (0, 1, 0.1)])
    assert first_passage(repeated, people(0), 2, DEFAULTS).mass[1] == pytest.approx(0.07)


def test_a_vouch_of_no_weight_is_none() -> None:
    found = first_passage(edges_of([(0, 1, 0.0)]), people(0), 2, DEFAULTS)
    assert (found.mass[1], found.distance[1]) == (0.0, -1)


def test_without_a_seed_every_measure_refuses_in_words() -> None:
    edges = edges_of([(0, 1, 1.0), (1, 0, 1.0)])
    with pytest.raises(ValueError, match="no seed"):
        first_passage(edges, NOBODY, 3, DEFAULTS)
    with pytest.raises(ValueError, match="no seed"):
        eigentrust(edges, NOBODY, 3)
    with pytest.raises(ValueError, match="zero everywhere"):
        eigentrust(edges, NOBODY, 3, pretrust=np.zeros(3))


def test_people_whom_no_vouch_names_have_no_trust_and_nothing_is_nan() -> None:
    found = first_passage(edges_of([(1, 2, 1.0), (2, 1, 1.0)]), people(0), 3, DEFAULTS)
    assert (found.mass.tolist(), found.trust.tolist(), found.distance.tolist()) == ([0.0] * 3, [1.0, 0, 0], [0, -1, -1])


def test_an_empty_graph_gives_trust_to_its_seeds_only() -> None:
    found = first_passage(edges_of([]), people(1), 2, DEFAULTS)
    assert (found.trust.tolist(), found.distance.tolist()) == ([0.0, 1.0], [-1, 0])
    assert eigentrust(edges_of([]), people(1), 2).tolist() == [0.0, 1.0]


def test_no_transfer_means_no_trust_and_no_nan() -> None:
    found = first_passage(edges_of([(0, 1, 1.0)]), people(0), 2, Parameters(transfer=0.0))
    assert (found.trust.tolist(), found.mass.tolist()) == ([1.0, 0.0], [0.0, 0.0])


@given(graphs(), parameters, st.randoms(use_true_random=False))
def test_the_order_of_vouches_and_seeds_changes_no_bit(graph: tuple, flow: Parameters, chance: random.Random) -> None:
    vouches, seeds, size = graph
    repeated = [*vouches, *vouches[:3]]
    chance.shuffle(repeated)
    straight = first_passage(edges_of(vouches), seeds, size, flow)
    mixed = first_passage(edges_of(repeated), np.concatenate([seeds[::-1], seeds[:1]]), size, flow)
    for name in ("mass", "trust", "distance"):
        assert getattr(straight, name).tobytes() == getattr(mixed, name).tobytes()
    baseline = [eigentrust(edges_of(rows), seeds, size).tobytes() for rows in (vouches, repeated)]
    assert baseline[0] == baseline[1]


def test_the_cut_into_slices_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    edges, flow = edges_of(young_forge()), Parameters(transfer=0.5)
    whole = first_passage(edges, people(0, 1, 2, 3), 600, flow)
    monkeypatch.setattr(returns, "SLICE_WORK", 7)
    monkeypatch.setattr(returns, "TABLE_CELLS", 1)
    sliced = first_passage(edges, people(0, 1, 2, 3), 600, flow)
    assert whole.mass.tobytes() == sliced.mass.tobytes()


def test_a_star_of_half_a_million_people_who_vouch_back_is_right(count: Count) -> None:
    size = count(100_000, 500_000)
    rim = np.arange(2, size + 2)
    hub = np.ones_like(rim)
    edges = Edges(np.concatenate(([0], hub, rim)), np.concatenate(([1], rim, hub)), np.ones(2 * len(rim) + 1))
    found = first_passage(edges, people(0), size + 2, DEFAULTS)
    assert found.mass[1] == pytest.approx(0.1, rel=1e-12)
    assert found.mass[2:] == pytest.approx(0.1 / size * (1 + 0.1 * (1 - 1 / size)), rel=1e-9)


@pytest.mark.parametrize(
    ("vouches", "seeds", "words"),
    [
        ([(0, 9, 1.0)], [0], "unknown subject 9"),
        ([(-1, 1, 1.0)], [0], "unknown voucher -1"),
        ([(0, 1, 1.0)], [7], "unknown seed 7"),
        ([(0, 1, -0.5)], [0], "weight of a vouch"),
        ([(0, 1, np.nan)], [0], "weight of a vouch"),
        ([(0, 1, 1.5)], [0], "weight of a vouch"),
    ],
)
def test_input_that_makes_no_sense_is_refused_in_words(vouches: list, seeds: list[int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        first_passage(edges_of(vouches), people(*seeds), 3, DEFAULTS)
    if "weight" not in words or not vouches[0][2] > 1:  # the baseline takes any weight from 0 on
        with pytest.raises(ValueError, match=words):
            eigentrust(edges_of(vouches), people(*seeds), 3)


@pytest.mark.parametrize("wrong", [{"transfer": 1.1}, {"transfer": np.nan}, {"budget": -1.0}, {"hops": 5}, {"hops": 0}])
def test_parameters_outside_their_range_are_refused(wrong: dict) -> None:
    with pytest.raises(ValueError, match="must"):
        Parameters(**wrong)


# The published figures are results after 18 and 52 steps (an early stop); to convergence they agree to 1e-7.
# The page that the second row comes from names alpha .01; its figures, and a second copy of the page, are for .1.
GOLDEN = [
    (0.5, 18, [0.21705427907166472, 0.3023255429103218, 0.4806201780180134]),
    (0.1, 52, [0.16536739107782936, 0.4401132971693594, 0.39451931175281096]),
]


@pytest.mark.parametrize(("damping", "steps", "expected"), GOLDEN)
def test_eigentrust_gives_the_published_figures(damping: float, steps: int, expected: list[float]) -> None:
    ek, sd, vm = 0, 1, 2
    local_trust = edges_of([(ek, sd, 100.0), (vm, sd, 100.0), (ek, vm, 75.0)])
    given_trust = np.array([50.0, 0.0, 100.0])
    stopped = eigentrust(local_trust, NOBODY, 3, damping=damping, limit=steps, pretrust=given_trust)
    assert stopped == pytest.approx(expected, abs=1e-15)
    converged = eigentrust(local_trust, NOBODY, 3, damping=damping, pretrust=given_trust)
    assert converged == pytest.approx(expected, abs=1e-7)


@given(graphs())
def test_eigentrust_is_a_distribution_that_solves_its_equation(graph: tuple) -> None:
    vouches, seeds, size = graph
    shares = eigentrust(edges_of(vouches), seeds, size)
    assert shares.sum() == pytest.approx(1.0, abs=1e-9)
    again = eigentrust(edges_of(vouches), seeds, size, limit=1, start=shares)
    assert np.abs(again - shares).sum() <= 2e-9


def test_eigentrust_from_an_earlier_result_ends_at_the_same_place() -> None:
    vouches = young_forge()
    cold = eigentrust(edges_of(vouches), people(0, 1), 602)
    earlier = eigentrust(edges_of(vouches[:-30]), people(0, 1), 600)
    assert np.abs(eigentrust(edges_of(vouches), people(0, 1), 602, start=earlier) - cold).sum() < 1e-7


def test_what_sits_on_people_who_vouch_for_nobody_returns_to_the_seeds() -> None:
    fan = edges_of([(0, 1, 1.0), (0, 2, 1.0), (3, 1, 1.0)])
    shares = eigentrust(fan, people(0, 3), 4)
    # Each seed holds t: t = .85 * (2 * .85 t) / 2 + .15 / 2, since all that the two seeds pass on comes back to them.
    seed = 0.075 / (1 - 0.85**2)
    assert shares == pytest.approx([seed, 1.5 * 0.85 * seed, 0.5 * 0.85 * seed, seed], abs=1e-8)


def test_eigentrust_stops_at_the_tolerance_or_after_two_hundred_steps() -> None:
    pair = edges_of([(0, 1, 1.0), (1, 0, 1.0)])
    steps = [eigentrust(pair, people(0), 2, limit=limit) for limit in (100, 140, 200, 1000)]
    assert np.abs(steps[0] - steps[1]).sum() > 1e-9
    assert steps[1].tobytes() == steps[2].tobytes() == steps[3].tobytes()
    restless = [eigentrust(pair, people(0), 2, damping=0.0, limit=limit) for limit in (199, 200, 201)]
    assert restless[1].tobytes() != restless[0].tobytes()
    assert eigentrust(pair, people(0), 2, damping=0.0).tobytes() == restless[1].tobytes()


def test_eigentrust_drops_a_vouch_for_oneself() -> None:
    fan = [(0, person, 1.0) for person in range(1, 12)]
    assert eigentrust(edges_of(fan), people(0), 12) == pytest.approx(
        eigentrust(edges_of([*fan, (11, 11, 1.0)]), people(0), 12)
    )


def test_the_inputs_are_left_as_they_were() -> None:
    edges = edges_of(young_forge())
    before = vouches_of(edges)
    first_passage(edges, people(0), 600, DEFAULTS)
    eigentrust(edges, people(0), 600)
    assert vouches_of(edges) == before
