"""Dominators: whose loss cuts whom off, compared with every walk and with really taking each account away."""

import numpy as np
import pytest
from hypothesis import given

from scoring.config.policy import Parameters
from scoring.trust.first_passage import Transfers, find_transfers, first_passage
from scoring.trust.paths import find_dominators, hangs_on_one, immediate_dominators
from tests.growth import in_linear_time
from tests.scoring.trust.graphs import (
    Vouch,
    edges_of,
    graphs,
    parameters,
    people,
    random_edges,
    region,
    walks,
    young_forge,
)

DEFAULTS = Parameters()


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
