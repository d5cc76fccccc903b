"""Paths carry the trust that they say, and a dominator is the account whose loss ends it."""

from itertools import combinations
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.config.policy import Parameters
from scoring.trust.first_passage import Transfers, find_transfers, first_passage
from scoring.trust.graph import Edges
from scoring.trust.paths import (
    contributions,
    disjoint_paths,
    find_dominators,
    hangs_on_one,
    immediate_dominators,
    product_along,
)
from tests.growth import in_linear_time
from tests.scoring.trust.graphs import (
    Vouch,
    edges_of,
    graphs,
    parameters,
    people,
    random_edges,
    region,
    strongest_paths,
    walks,
    young_forge,
)

DEFAULTS = Parameters()


@given(graphs(largest=6), parameters)
def test_no_walk_carries_more_than_the_path_that_is_shown(graph: tuple, flow: Parameters) -> None:
    vouches, seeds, size = graph
    vouches = vouches[:14]
    carried = dict(walks(vouches, seeds, size, flow))
    best = np.zeros(size)
    for walk, trust in carried.items():
        best[walk[-1]] = max(best[walk[-1]], trust)
    for person, path in enumerate(strongest_paths(edges_of(vouches), seeds, size, flow)):
        if person in seeds:
            assert path == (person,)
        elif not best[person]:
            assert path == ()
        else:
            assert path[0] in seeds
            assert path[-1] == person
            assert len(set(path)) == len(path)
            assert carried[path] == pytest.approx(best[person], rel=1e-12)


def test_a_short_path_beats_a_long_one_and_a_strong_long_one_beats_a_faint_short_one() -> None:
    short = strongest_paths(edges_of([(0, 1, 1.0), (1, 2, 1.0), (0, 2, 1.0)]), people(0), 3, DEFAULTS)
    assert short[2] == (0, 2)
    faint = strongest_paths(edges_of([(0, 1, 1.0), (1, 2, 1.0), (0, 2, 0.05)]), people(0), 3, DEFAULTS)
    assert faint[2] == (0, 1, 2)


def test_among_equal_paths_the_smallest_ids_are_shown_in_whatever_order_they_came() -> None:
    vouches = [(0, 2, 1.0), (0, 3, 1.0), (1, 2, 1.0), (2, 4, 1.0), (3, 4, 1.0)]
    for order in (vouches, vouches[::-1]):
        assert strongest_paths(edges_of(order), people(1, 0), 5, DEFAULTS)[4] == (0, 2, 4)


def test_equal_transfers_of_one_make_no_circle() -> None:
    ring = edges_of([(0, 1, 1.0), (1, 2, 1.0), (2, 1, 1.0), (2, 3, 1.0)])
    assert strongest_paths(ring, people(0), 4, Parameters(transfer=1.0))[3] == (0, 1, 2, 3)


def test_a_path_has_no_more_hops_than_trust_has() -> None:
    chain = edges_of([(i, i + 1, 1.0) for i in range(6)])
    assert strongest_paths(chain, people(0), 7, DEFAULTS)[3:] == [(0, 1, 2, 3), (0, 1, 2, 3, 4), (), ()]


def test_there_is_no_path_in_an_empty_graph_or_without_seeds() -> None:
    assert strongest_paths(edges_of([]), people(1), 2, DEFAULTS) == [(), (1,)]
    with pytest.raises(ValueError, match="no seed"):
        strongest_paths(edges_of(young_forge()), people(), 600, DEFAULTS)


def test_the_paths_of_twenty_thousand_people_are_found_in_linear_time() -> None:
    def find(edges: Edges) -> list[tuple[int, ...]]:
        return strongest_paths(edges, np.arange(20), len(edges.voucher) // 5, DEFAULTS)

    assert sum(bool(path) for path in in_linear_time(find, random_edges, 20_000, 1)) > 5000


def most_disjoint(paths: list[tuple[int, ...]]) -> int:
    """How many of the paths, at most three, share nobody but their ends, found by trying all of them."""
    for count in (3, 2):
        for chosen in combinations(paths, count):
            between = [person for path in chosen for person in path[1:-1]]
            if len(between) == len(set(between)):
                return count
    return min(len(paths), 1)


def paths_to(person: int, carried: dict[tuple[int, ...], float]) -> list[tuple[int, ...]]:
    """The walks to one person that visit nobody twice."""
    return [walk for walk in carried if walk[-1] == person and len(set(walk)) == len(walk)]


@given(graphs(largest=7), parameters)
def test_as_many_disjoint_paths_are_shown_as_there_are_and_the_strongest_comes_first(
    graph: tuple, flow: Parameters
) -> None:
    vouches, seeds, size = graph
    vouches = vouches[:14]
    carried = dict(walks(vouches, seeds, size, flow))
    transfers = find_transfers(edges_of(vouches), seeds, size, flow)
    for person in set(range(size)) - set(seeds.tolist()):
        shown = disjoint_paths(transfers, person, flow.hops)
        products = [product_along(transfers, path) for path in shown]
        assert len(shown) == most_disjoint(paths_to(person, carried))
        assert len(shown) == len(set(shown)) == most_disjoint(shown)
        assert products == pytest.approx([carried[path] for path in shown], rel=1e-12)
        assert products == sorted(products, reverse=True)


@given(graphs(), parameters)
def test_a_lone_path_over_somebody_else_is_shown_exactly_where_one_account_dominates(
    graph: tuple, flow: Parameters
) -> None:
    vouches, seeds, size = graph
    transfers = find_transfers(edges_of(vouches), seeds, size, flow)
    hangs = hangs_on_one(immediate_dominators(transfers, flow.hops), transfers.distance)
    for person in range(size):
        shown = disjoint_paths(transfers, person, flow.hops)
        assert hangs[person] == (len(shown) == 1 and len(shown[0]) > 2)


@given(graphs(), parameters, st.randoms(use_true_random=False))
def test_the_order_of_the_vouches_changes_no_explanation(graph: tuple, flow: Parameters, draw: Random) -> None:
    vouches, seeds, size = graph
    shuffled = vouches.copy()
    draw.shuffle(shuffled)
    first, second = (find_transfers(edges_of(rows), seeds, size, flow) for rows in (vouches, shuffled))
    for person in range(size):
        assert disjoint_paths(first, person, flow.hops) == disjoint_paths(second, person, flow.hops)
        for one, other in zip(
            contributions(first, person, flow.hops), contributions(second, person, flow.hops), strict=True
        ):
            assert one.tolist() == other.tolist()


def test_where_the_strongest_path_would_block_two_ways_both_are_shown() -> None:
    vouches = [(0, 1, 1.0), (1, 2, 1.0), (2, 5, 1.0), (1, 3, 0.1), (3, 5, 0.1), (0, 4, 0.1), (4, 2, 0.1)]
    transfers = find_transfers(edges_of(vouches), people(0), 6, DEFAULTS)
    assert strongest_paths(edges_of(vouches), people(0), 6, DEFAULTS)[5] == (0, 1, 2, 5)
    assert disjoint_paths(transfers, 5, 4) == [(0, 4, 2, 5), (0, 1, 3, 5)]
    assert disjoint_paths(transfers, 5, 4, count=1) == [(0, 1, 2, 5)]


def test_every_seed_who_vouches_is_a_way_of_its_own() -> None:
    vouches = [(0, 4, 1.0), (1, 4, 0.5), (2, 4, 0.7), (0, 3, 1.0), (3, 4, 1.0)]
    transfers = find_transfers(edges_of(vouches), people(0, 1, 2), 5, DEFAULTS)
    assert disjoint_paths(transfers, 4, 4) == [(0, 4), (2, 4), (1, 4)]
    assert disjoint_paths(transfers, 4, 4, count=9) == [(0, 4), (2, 4), (1, 4), (0, 3, 4)]
    assert disjoint_paths(transfers, 0, 4) == [(0,)]


def test_nobody_beyond_reach_has_paths_or_contributions() -> None:
    transfers = find_transfers(edges_of([(1, 2, 1.0)]), people(0), 3, DEFAULTS)
    assert disjoint_paths(transfers, 2, 4) == []
    assert [part.tolist() for part in contributions(transfers, 2, 4)] == [[], []]
    assert [part.tolist() for part in contributions(transfers, 0, 4)] == [[], []]
    with pytest.raises(ValueError, match="no trust flows from 1 to 2"):
        product_along(transfers, (1, 2))


@given(graphs(largest=6), parameters)
def test_contributions_are_the_walks_that_first_arrive_over_each_vouch(graph: tuple, flow: Parameters) -> None:
    vouches, seeds, size = graph
    vouches = vouches[:14]
    transfers = find_transfers(edges_of(vouches), seeds, size, flow)
    mass = first_passage(edges_of(vouches), seeds, size, flow).mass
    brought: dict[tuple[int, ...], float] = {}
    for walk, trust in walks(vouches, seeds, size, flow):
        if walk[-1] not in walk[:-1]:
            brought[walk[-2:]] = brought.get(walk[-2:], 0.0) + trust
    for person in range(size):
        voucher, share = contributions(transfers, person, flow.hops)
        expected = {edge[0]: trust for edge, trust in brought.items() if edge[1] == person}
        assert dict(zip(voucher.tolist(), share.tolist(), strict=True)) == pytest.approx(expected, rel=1e-9)
        assert share.tolist() == sorted(share.tolist(), reverse=True)
        assert share.sum() == pytest.approx(mass[person], rel=1e-9)


def test_the_contribution_of_a_voucher_whom_the_person_vouches_back_for_counts_no_circle() -> None:
    vouches = [(0, 1, 1.0), (1, 2, 1.0), (2, 1, 1.0)]
    transfers = find_transfers(edges_of(vouches), people(0), 3, DEFAULTS)
    voucher, share = contributions(transfers, 2, 4)
    assert voucher.tolist() == [1]
    assert share.tolist() == pytest.approx([0.01], rel=1e-12)


def dominators_of(vouches: list[Vouch], seeds: np.ndarray, size: int, flow: Parameters) -> list[list[int]]:
    """Everybody's dominators, the nearest to the seeds first."""
    found = find_dominators(find_transfers(edges_of(vouches), seeds, size, flow), flow.hops)
    return [[int(person) for person in row if person >= 0] for row in found]


@given(graphs(largest=7), parameters)
def test_dominators_are_exactly_those_on_every_walk(graph: tuple, flow: Parameters) -> None:
    vouches, seeds, size = graph
    vouches = vouches[:16]
    shared: dict[int, set[int]] = {}
    for walk, _ in walks(vouches, seeds, size, flow):
        shared[walk[-1]] = shared.get(walk[-1], set(walk)) & set(walk)
    found = dominators_of(vouches, seeds, size, flow)
    assert [set(row) for row in found] == [shared.get(person, set()) - {person} for person in range(size)]


@given(graphs(largest=10), parameters)
def test_without_a_dominator_nothing_arrives_and_without_anybody_else_something_does(
    graph: tuple, flow: Parameters
) -> None:
    vouches, seeds, size = graph
    found = dominators_of(vouches, seeds, size, flow)
    reached = np.flatnonzero(first_passage(edges_of(vouches), seeds, size, flow).mass > 0).tolist()
    for gone in range(size):
        left = [vouch for vouch in vouches if gone not in vouch[:2]]
        mass = first_passage(edges_of(left), seeds, size, flow).mass
        assert [person for person in reached if person != gone and not mass[person]] == [
            person for person in reached if gone in found[person]
        ]


@given(graphs(largest=10), parameters)
def test_the_immediate_dominator_is_the_one_nearest_by_and_who_dominates_it_dominates_too(
    graph: tuple, flow: Parameters
) -> None:
    vouches, seeds, size = graph
    transfers = find_transfers(edges_of(vouches), seeds, size, flow)
    found = dominators_of(vouches, seeds, size, flow)
    immediate = immediate_dominators(transfers, flow.hops)
    for person, row in enumerate(found):
        assert immediate[person] == (row[-1] if row else -1)
        if row:
            assert set(found[row[-1]]) <= set(row[:-1])
            assert [transfers.distance[one] for one in row] == sorted({transfers.distance[one] for one in row})


def test_who_dominates_at_the_last_hop_need_not_dominate_one_hop_before() -> None:
    vouches = [(0, 1, 1.0), (2, 3, 1.0), (3, 1, 1.0), (1, 4, 1.0)]
    assert dominators_of(vouches, people(0, 2), 5, Parameters(hops=2)) == [[], [], [], [2], [0, 1]]
    assert dominators_of(vouches, people(0, 2), 5, Parameters(hops=3)) == [[], [], [], [2], [1]]


def test_a_detour_that_is_too_long_for_trust_saves_nobody() -> None:
    detour = [(0, 1, 1.0), (1, 2, 1.0), (0, 3, 1.0), (3, 4, 1.0), (4, 5, 1.0), (5, 2, 1.0)]
    assert dominators_of(detour, people(0), 6, DEFAULTS)[2] == [0]
    assert dominators_of(detour, people(0), 6, Parameters(hops=3))[2] == [0, 1]


def test_a_transfer_of_nothing_is_no_way_round() -> None:
    flow = find_transfers(edges_of([(0, 1, 1.0), (0, 2, 1.0), (1, 3, 1.0), (2, 3, 1.0)]), people(0), 4, DEFAULTS)
    cut = Transfers(flow.voucher, flow.subject, np.where(flow.subject == 2, 0.0, flow.amount), flow.distance)
    assert immediate_dominators(flow, 4).tolist() == [-1, 0, 0, 0]
    assert immediate_dominators(cut, 4).tolist() == [-1, 0, -1, 1]


def test_everybody_behind_one_bought_vouch_hangs_on_one_account() -> None:
    for shape in ("star", "ring", "chain", "clique", "tree"):
        vouches = [*young_forge(), (5, 600, 1.0), *region(shape, 601, 12, 600)]
        flow = find_transfers(edges_of(vouches), people(0, 1, 2, 3), 613, DEFAULTS)
        hangs = hangs_on_one(immediate_dominators(flow, 4), flow.distance)
        fakes = np.arange(601, 613)
        assert hangs[fakes[flow.distance[fakes] > 0]].all()
        assert not hangs[[0, 1, 2, 3]].any()


def test_two_seeds_who_vouch_for_the_same_person_leave_no_dominator() -> None:
    flow = find_transfers(edges_of([(0, 2, 1.0), (1, 2, 1.0), (2, 3, 1.0)]), people(0, 1), 4, DEFAULTS)
    nearest = immediate_dominators(flow, 4)
    assert nearest.tolist() == [-1, -1, -1, 2]
    assert hangs_on_one(nearest, flow.distance).tolist() == [False, False, False, True]


def test_an_empty_graph_has_no_dominators_and_one_without_seeds_is_refused() -> None:
    assert dominators_of([], people(1), 3, DEFAULTS) == [[], [], []]
    with pytest.raises(ValueError, match="no seed"):
        dominators_of(young_forge(), people(), 600, DEFAULTS)


def test_dominators_of_twenty_thousand_people_are_found_in_linear_time() -> None:
    def flow(size: int) -> Transfers:
        return find_transfers(random_edges(size), np.arange(20), size, DEFAULTS)

    found = in_linear_time(lambda transfers: immediate_dominators(transfers, 4), flow, 20_000, 0.2)
    assert (found >= 0).sum() > 5000
