"""Trust paths: the strongest chain of vouches, compared with a search through every walk."""

import time

import numpy as np
import pytest
from hypothesis import given

from scoring.graph import Edges
from scoring.paths import strongest_paths
from scoring.trust import Parameters
from tests.scoring.graphs import edges_of, graphs, parameters, people, walks, young_forge

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


def test_twenty_thousand_people_take_less_than_a_second() -> None:
    draw = np.random.default_rng(5)
    edges = Edges(draw.integers(0, 20_000, 100_000), draw.integers(0, 20_000, 100_000), np.ones(100_000))
    started = time.process_time()
    found = strongest_paths(edges, np.arange(20), 20_000, DEFAULTS)
    assert time.process_time() - started < 1.0
    assert sum(bool(path) for path in found) > 5000
