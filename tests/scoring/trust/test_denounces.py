"""Denounces: what they cost, whom they cannot touch, and that they are worth what their author is trusted."""

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.config.policy import Parameters
from scoring.trust.denounces import Denounced, judge_denounces
from scoring.trust.first_passage import first_passage
from scoring.trust.graph import Edges
from tests.scoring.trust.graphs import Vouch, advogato, edges_of, graphs, parameters, people

DEFAULTS = Parameters()
strengths = st.sampled_from([0.0, 0.5, 1.0, 10.0])


@st.composite
def quarrels(draw: st.DrawFn) -> tuple[list[Vouch], list[Vouch], np.ndarray, int]:
    """A small graph with denounces, self-denounces and denounces of seeds included."""
    vouches, seeds, size = draw(graphs())
    person, weight = st.integers(0, size - 1), st.one_of(st.just(1.0), st.floats(0.01, 1.0))
    return vouches, draw(st.lists(st.tuples(person, person, weight), max_size=30)), seeds, size


def judge(vouches: list[Vouch], denounces: list[Vouch], size: int, strength: float = 1.0) -> Denounced:
    """Judged from the seed 0 with the default parameters."""
    return judge_denounces(edges_of(vouches), edges_of(denounces), people(0), size, DEFAULTS, strength)


def bits(judged: Denounced) -> list[bytes]:
    """Everything that counts, for a comparison of every bit."""
    passage = judged.passage
    counted = (judged.weight, judged.keep, judged.trusted_denouncers, judged.by_seed)
    return [column.tobytes() for column in (*counted, passage.mass, passage.trust, passage.distance)]


@given(quarrels(), parameters, strengths)
def test_a_denounce_by_somebody_without_trust_changes_no_bit(quarrel: tuple, flow: Parameters, strength: float) -> None:
    vouches, denounces, seeds, size = quarrel
    trusted = first_passage(edges_of(vouches), seeds, size, flow).trust > 0
    heard = [denounce for denounce in denounces if trusted[denounce[0]]]
    with_all, with_heard = (
        judge_denounces(edges_of(vouches), edges_of(rows), seeds, size, flow, strength) for rows in (denounces, heard)
    )
    assert bits(with_all) == bits(with_heard)
    if not heard:
        assert bits(with_all) == bits(judge_denounces(edges_of(vouches), edges_of([]), seeds, size, flow, strength))
        assert with_all.passage.mass.tobytes() == with_all.first.mass.tobytes()


@given(quarrels(), parameters, strengths)
def test_denounces_take_no_more_than_strength_times_what_their_authors_were_given(
    quarrel: tuple, flow: Parameters, strength: float
) -> None:
    vouches, denounces, seeds, size = quarrel
    ours = [denounce for denounce in denounces if denounce[0] not in seeds]
    judged = judge_denounces(edges_of(vouches), edges_of(ours), seeds, size, flow, strength)
    authors = sorted({denouncer for denouncer, _, _ in ours})
    bound = strength * judged.first.mass[authors].sum() * (1 + 1e-9)
    assert ((1 - judged.keep) * judged.first.mass).sum() <= bound
    assert (judged.first.mass - judged.passage.mass).sum() <= flow.hops * bound


@given(quarrels(), parameters, strengths)
def test_denounces_only_take_and_never_below_zero(quarrel: tuple, flow: Parameters, strength: float) -> None:
    vouches, denounces, seeds, size = quarrel
    judged = judge_denounces(edges_of(vouches), edges_of(denounces), seeds, size, flow, strength)
    assert ((judged.keep >= 0) & (judged.keep <= 1)).all()
    assert (judged.passage.mass >= 0).all()
    assert (judged.passage.mass <= judged.first.mass * (1 + 1e-12)).all()
    assert (judged.passage.trust[seeds] == 1).all()
    named = sorted({subject for _, subject, _ in denounces})
    assert (np.delete(judged.keep, named) == 1).all(), "nobody is denounced along with somebody else"


@given(quarrels(), parameters, st.data())
def test_no_way_of_vouching_lifts_anybody_above_the_first_pass(
    quarrel: tuple, flow: Parameters, data: st.DataObject
) -> None:
    vouches, denounces, seeds, size = quarrel
    own = data.draw(st.integers(0, size - 1))
    subjects = data.draw(st.lists(st.tuples(st.integers(0, size - 1), st.floats(0.01, 1.0)), max_size=12))
    rewired = [vouch for vouch in vouches if vouch[0] != own] + [(own, subject, weight) for subject, weight in subjects]
    honest = first_passage(edges_of(vouches), seeds, size, flow).mass[own]
    judged = judge_denounces(edges_of(rewired), edges_of(denounces), seeds, size, flow)
    assert judged.passage.mass[own] <= honest * (1 + 1e-12)


@given(quarrels(), parameters, st.data())
def test_ones_own_denounces_never_lift_oneself(quarrel: tuple, flow: Parameters, data: st.DataObject) -> None:
    vouches, denounces, seeds, size = quarrel
    own = data.draw(st.integers(0, size - 1))
    silent = [denounce for denounce in denounces if denounce[0] != own]
    loud, quiet = (
        judge_denounces(edges_of(vouches), edges_of(rows), seeds, size, flow).passage.mass[own]
        for rows in (denounces, silent)
    )
    assert loud <= quiet * (1 + 1e-12)


@given(quarrels(), parameters, st.randoms(use_true_random=False))
def test_the_order_of_denounces_changes_no_bit(quarrel: tuple, flow: Parameters, chance: random.Random) -> None:
    vouches, denounces, seeds, size = quarrel
    straight = judge_denounces(edges_of(vouches), edges_of(denounces), seeds, size, flow)
    for rows in (vouches, denounces):
        chance.shuffle(rows)
    mixed = judge_denounces(edges_of(vouches), edges_of(denounces), seeds[::-1], size, flow)
    assert bits(straight) == bits(mixed)


def test_a_seeds_denounce_is_final_and_ends_what_comes_through() -> None:
    vouches = [(0, 1, 1.0), (0, 2, 1.0), (1, 3, 1.0), (2, 3, 1.0), (1, 4, 1.0)]
    judged = judge(vouches, [(0, 1, 0.01)], 5, strength=0.0)
    assert judged.by_seed.tolist() == [False, True, False, False, False]
    assert judged.passage.mass == pytest.approx([0.0, 0.0, 0.1, 0.01, 0.0])
    assert judged.passage.trust[1] == 0
    assert judged.passage.distance.tolist() == [0, -1, 1, 2, -1]
    assert judged.keep.tolist() == [1.0, 0.0, 1.0, 1.0, 1.0]
    assert judged.weight.tolist() == [0.0] * 5


def test_a_denounce_of_a_seed_and_one_of_oneself_are_nothing_not_even_a_cost() -> None:
    vouches = [(0, 1, 1.0), (0, 2, 1.0)]
    denounces = [(1, 2, 1.0)]
    futile = [*denounces, (1, 0, 1.0), (1, 1, 1.0), (2, 2, 1.0), (0, 0, 1.0)]
    assert bits(judge(vouches, denounces, 3)) == bits(judge(vouches, futile, 3))


def test_a_denounce_weighs_its_authors_trust_times_the_transfer() -> None:
    judged = judge([(0, 1, 1.0), (0, 2, 1.0)], [(1, 2, 1.0)], 3)
    assert judged.weight == pytest.approx([0.0, 0.0, 0.01])
    assert judged.keep == pytest.approx([1.0, 1.0, 0.9])
    assert judged.passage.mass == pytest.approx([0.0, 0.1, 0.09])
    assert judged.trusted_denouncers.tolist() == [0, 0, 1]


def test_somebody_who_denounces_a_hundred_takes_no_more_than_the_budget() -> None:
    vouches = [(0, person, 1.0) for person in range(1, 102)]
    judged = judge(vouches, [(1, person, 1.0) for person in range(2, 102)], 102)
    assert (judged.first.mass - judged.passage.mass).sum() == pytest.approx(0.1)


def test_the_strongest_of_several_denounces_by_one_person_counts_once() -> None:
    vouches = [(0, 1, 1.0), (0, 2, 1.0)]
    once = judge(vouches, [(1, 2, 0.7)], 3)
    assert bits(judge(vouches, [(1, 2, 0.7), (1, 2, 0.2), (1, 2, 0.7)], 3)) == bits(once)
    assert once.trusted_denouncers[2] == 1


def test_trusted_denouncers_are_counted_from_one_tenth_on_seeds_included() -> None:
    vouches = [(0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0), (0, 4, 1.0)]
    judged = judge(vouches, [(denouncer, 4, 1.0) for denouncer in range(4)], 5)
    assert judged.first.trust[3] < 0.1 < judged.first.trust[2]
    assert judged.trusted_denouncers[4] == 3


def test_enough_denounces_leave_nothing_and_a_denounce_of_somebody_unreached_neither() -> None:
    vouches = [(0, person, 1.0) for person in range(1, 13)]
    judged = judge(vouches, [*((person, 12, 1.0) for person in range(1, 12)), (1, 13, 1.0)], 14)
    assert (judged.keep[12], judged.passage.mass[12], judged.passage.distance[12]) == (0.0, 0.0, -1)
    assert (judged.keep[13], judged.passage.mass[13]) == (0.0, 0.0)


@pytest.mark.parametrize("strength", [-0.1, np.nan, np.inf])
def test_a_strength_that_means_nothing_is_refused(strength: float) -> None:
    with pytest.raises(ValueError, match="strength must be"):
        judge([(0, 1, 1.0)], [], 2, strength)


@pytest.mark.parametrize(
    ("denounce", "words"),
    [((9, 1, 1.0), "unknown voucher 9"), ((0, 9, 1.0), "unknown subject 9"), ((0, 1, np.nan), "weight of")],
)
def test_denounces_that_make_no_sense_are_refused_in_words(denounce: Vouch, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        judge([(0, 1, 1.0)], [denounce], 3)


def test_a_thousand_fakes_with_fifty_bought_vouches_cost_the_twenty_most_trusted_one_percent_at_most(
    shared: Path,
) -> None:
    edges, seeds, size = advogato(shared)
    mass = first_passage(edges, seeds, size, DEFAULTS).mass
    top = np.argsort(-mass, kind="stable")[:20]
    draw = np.random.default_rng(5)
    fakes = size + np.arange(1000)
    vouchers = draw.choice(np.flatnonzero(mass > 0), 50, replace=False)
    bought = Edges(vouchers, fakes[:50], np.ones(50))
    inside = Edges(np.repeat(fakes[:50], 19), fakes[50:], np.ones(950))
    attacked = Edges(*(np.concatenate([getattr(e, name) for e in (edges, bought, inside)]) for name in Edges.__slots__))
    denounces = Edges(np.repeat(fakes, 20), np.tile(top, 1000), np.ones(20_000))
    judged = judge_denounces(attacked, denounces, seeds, size + 1000, DEFAULTS)
    assert (judged.first.mass[fakes[:50]] > 0).sum() > 40
    kept = judged.passage.mass[:size] / np.where(mass > 0, judged.first.mass[:size], 1.0)
    assert kept[top].min() >= 0.99
    passes = judged.first.trust[:size] >= 0.5
    assert (judged.passage.trust[:size][passes] >= 0.5).all()


def test_five_trusted_denouncers_leave_hardly_anything_of_an_entry_with_three_honest_vouches(shared: Path) -> None:
    edges, seeds, size = advogato(shared)
    found = first_passage(edges, seeds, size, DEFAULTS)
    draw = np.random.default_rng(6)
    honest, trusted = (np.flatnonzero((found.trust >= least) & (found.trust < 1)) for least in (0.1, 0.5))
    left: dict[int, list[np.ndarray]] = {1: [], 5: []}
    for _ in range(10):
        vouchers, denouncers = draw.choice(honest, 3, replace=False), draw.choice(trusted, 5, replace=False)
        bought = edges_of([(int(voucher), size, 1.0) for voucher in vouchers])
        attacked = Edges(*(np.concatenate([getattr(edges, name), getattr(bought, name)]) for name in Edges.__slots__))
        for number, shares in left.items():
            denounces = edges_of([(int(one), size, 1.0) for one in denouncers[:number]])
            judged = judge_denounces(attacked, denounces, seeds, size + 1, DEFAULTS)
            shares.append(judged.passage.mass[size] / judged.first.mass[size])
    assert np.mean(left[5]) <= 0.05 < np.mean(left[1])
