"""Edges as they come: what is dropped, counted, refused, and that preparing them loses nothing."""

import numpy as np
import pytest
from hypothesis import given

from scoring.config.policy import Parameters
from scoring.trust.first_passage import eigentrust, find_transfers, first_passage, transfers_within
from scoring.trust.graph import Edges, cleaned, order_by_subject, prepare
from tests.conftest import Count
from tests.scoring.trust.graphs import edges_of, graphs, parameters, people, vouches_of

DEFAULTS = Parameters()


def test_self_edges_and_repeats_are_dropped_and_counted() -> None:
    found = cleaned(edges_of([(2, 1, 0.3), (0, 1, 0.2), (1, 1, 1.0), (0, 1, 0.9), (0, 1, 0.9), (2, 2, 0.5)]), 3)
    assert vouches_of(found.edges) == [(0, 1, 0.9), (2, 1, 0.3)]
    assert (found.selves, found.repeats) == (2, 2)


def test_nothing_is_left_of_nothing() -> None:
    found = cleaned(edges_of([]), 0)
    assert (len(found.edges.voucher), found.selves, found.repeats) == (0, 0, 0)


@given(graphs(), parameters)
def test_cleaning_changes_no_bit_of_first_passage_and_nothing_in_the_baseline(graph: tuple, flow: Parameters) -> None:
    vouches, seeds, size = graph
    edges = edges_of(vouches)
    found = cleaned(edges, size)
    dirty, clean = (first_passage(one, seeds, size, flow).mass for one in (edges, found.edges))
    assert dirty.tobytes() == clean.tobytes()
    assert eigentrust(edges, seeds, size).tobytes() == eigentrust(found.edges, seeds, size).tobytes()
    assert len(found.edges.voucher) + found.selves + found.repeats == len(vouches)


@given(graphs(), parameters)
def test_prepared_vouches_carry_the_same_trust_for_every_seed_set(graph: tuple, flow: Parameters) -> None:
    vouches, seeds, size = graph
    network = prepare(edges_of(vouches), size)
    for chosen in (seeds, seeds[:1], people(size - 1)):
        alone, shared = find_transfers(edges_of(vouches), chosen, size, flow), transfers_within(network, chosen, flow)
        assert [getattr(alone, name).tobytes() for name in alone.__slots__] == [
            getattr(shared, name).tobytes() for name in shared.__slots__
        ]


@given(graphs(), parameters)
def test_few_who_are_reached_among_many_who_are_not_get_the_same_transfers(graph: tuple, flow: Parameters) -> None:
    vouches, seeds, size = graph
    crowd = [(size + one, size + other, 1.0) for one in range(20) for other in range(20)]
    alone = find_transfers(edges_of(vouches), seeds, size, flow)
    among = find_transfers(edges_of([*crowd, *vouches]), seeds, size + 20, flow)
    for name in ("voucher", "subject", "amount"):
        assert getattr(alone, name).tobytes() == getattr(among, name).tobytes()
    assert among.distance.tolist() == [*alone.distance.tolist(), *[-1] * 20]


@pytest.mark.parametrize("wrong", [-0.5, np.nan, np.inf, -np.inf])
def test_a_weight_that_is_negative_or_no_number_is_refused_by_every_measure(wrong: float) -> None:
    edges = edges_of([(0, 1, wrong)])
    for measure in (
        lambda: cleaned(edges, 2),
        lambda: cleaned(edges, 2, heaviest=np.inf),
        lambda: first_passage(edges, people(0), 2, DEFAULTS),
        lambda: eigentrust(edges, people(0), 2),
    ):
        with pytest.raises(ValueError, match="weight of a vouch"):
            measure()


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="one length"):
        cleaned(Edges(people(0, 1), people(1), np.ones(1)), 2)


def test_a_star_of_a_million_vouches_is_right_in_both_measures(count: Count) -> None:
    size = count(200_000, 1_000_000)
    rim = np.arange(1, size + 1)
    edges = Edges(np.zeros_like(rim), rim, np.ones(len(rim)))
    found = first_passage(edges, people(0), size + 1, DEFAULTS)
    assert (found.mass[1:] == 0.1).all()
    assert found.trust[1:] == pytest.approx(10 / 11)
    share = eigentrust(edges, people(0), size + 1, tolerance=1e-4)
    # Nobody on the rim vouches on: what they hold returns to the hub, t = .85 t_rim + .15 and t_rim = .85 t.
    assert share[0] == pytest.approx(1 / 1.85, abs=1e-4)
    assert share[1:].sum() == pytest.approx(0.85 / 1.85, abs=1e-4)
    spender = first_passage(edges, people(size), size + 1, DEFAULTS)
    assert not spender.mass.any()


def test_the_hub_of_a_million_vouches_who_is_no_seed_passes_on_its_budget_and_no_more() -> None:
    rim = np.arange(2, 1_000_001)
    edges = Edges(np.append(0, np.ones_like(rim)), np.append(1, rim), np.ones(1_000_000))
    mass = first_passage(edges, people(0), 1_000_001, DEFAULTS).mass
    assert mass[1] == 0.1
    assert mass[2:].sum() == pytest.approx(0.1)


@given(graphs())
def test_the_order_by_subject_is_that_of_sorting(graph: tuple) -> None:
    vouches, _, size = graph
    network = prepare(edges_of(vouches), size)
    found = order_by_subject(network.voucher, network.subject, size)
    assert found.tolist() == np.lexsort((network.voucher, network.subject)).tolist()
