"""The weight of one person's vouches and of a new one, compared with really taking away and adding."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.config.policy import Parameters
from scoring.trust.first_passage import find_transfers, first_passage, passage_along
from scoring.trust.graph import Edges, prepare
from scoring.trust.incremental import SeedSetTrust
from scoring.trust.paths import hangs_on_one, immediate_dominators
from scoring.trust.what_if import Exposure, ProposedVouch, blast_radius, exposure_of, propose_vouches
from tests.growth import in_linear_time
from tests.scoring.trust.graphs import Vouch, edges_of, graphs, parameters, people, random_edges, young_forge

DEFAULTS = Parameters()
NOTHING = edges_of([])


def asked(
    vouches: Edges,
    seeds: np.ndarray,
    maintainer: int,
    merges: np.ndarray,
    threshold: float = 0.5,
    limit: int = 5,
    denounces: Edges = NOTHING,
) -> list[ProposedVouch]:
    """The vouches worth making, among as many people as `merges` has entries."""
    against, network = prepare(denounces, len(merges)), prepare(vouches, len(merges))
    standing = SeedSetTrust.compute(network, against, seeds, DEFAULTS)
    return propose_vouches(standing, network, against, maintainer, merges, threshold, limit)


@given(graphs(), parameters, st.sampled_from([0.05, 0.3, 0.5, 0.9]))
def test_the_blast_radius_is_who_falls_when_the_vouches_are_really_gone(
    graph: tuple, flow: Parameters, threshold: float
) -> None:
    vouches, seeds, size = graph
    transfers = find_transfers(edges_of(vouches), seeds, size, flow)
    passage = passage_along(transfers, flow)
    for voucher in range(size):
        left = [vouch for vouch in vouches if vouch[0] != voucher]
        after = first_passage(edges_of(left), seeds, size, flow).trust
        fallen = {person for person in range(size) if passage.trust[person] >= threshold and after[person] < threshold}
        found = blast_radius(transfers, passage, flow, voucher, threshold)
        assert set(found.person.tolist()) == fallen
        assert voucher not in fallen
        assert found.after == pytest.approx(after[found.person], rel=1e-9)
        assert (np.diff(found.before - found.after) <= 0).all()


def test_whom_an_account_dominates_falls_with_it() -> None:
    vouches = [(0, 1, 1.0), (1, 2, 1.0), (1, 3, 1.0), (0, 3, 1.0)]
    transfers = find_transfers(edges_of(vouches), people(0), 4, DEFAULTS)
    found = blast_radius(transfers, passage_along(transfers, DEFAULTS), DEFAULTS, 1, 0.4)
    assert found.person.tolist() == [2]
    assert found.before == pytest.approx([0.5], rel=1e-12)
    assert found.after.tolist() == [0.0]


def attack(own: int, first: int, count: int, draw: np.random.Generator) -> list[Vouch]:
    """What a compromised account may do: vouch for any of the fakes, who vouch for anybody."""
    chosen = draw.integers(0, 2, size=(count, 2)).astype(bool)
    fakes = range(first, first + count)
    inside = [(a, int(b), 1.0) for a in fakes for b in draw.integers(0, first + count, 6)]
    return [(own, fake, float(draw.uniform(0.1, 1))) for fake in fakes if chosen[fake - first, 0]] + inside


@given(graphs(largest=8), parameters, st.integers(0, 2**32 - 1))
def test_no_compromised_account_brings_more_than_its_exposure(graph: tuple, flow: Parameters, key: int) -> None:
    vouches, seeds, size = graph
    before = first_passage(edges_of(vouches), seeds, size, flow)
    count = 12
    for own in set(range(size)) - set(seeds.tolist()):
        bound = exposure_of(before, own, flow, 0.5)
        held = [vouch for vouch in vouches if vouch[0] != own]
        after = first_passage(
            edges_of(held + attack(own, size, count, np.random.default_rng(key))), seeds, size + count, flow
        )
        assert after.mass[size:].sum() <= bound.trust * (1 + 1e-9)
        assert (after.trust[size:] >= 0.5).sum() <= bound.lanes


def test_the_exposure_of_a_seeds_newcomer_is_nearly_reached_and_two_ways_keep_it_out() -> None:
    bound = exposure_of(first_passage(edges_of([(0, 1, 1.0)]), people(0), 2, DEFAULTS), 1, DEFAULTS, 0.5)
    assert (bound.lanes, bound.trust) == (30, pytest.approx(0.3, rel=1e-12))
    fakes = range(2, 27)
    clique = [(a, b, 1.0) for a in (1, *fakes) for b in fakes if a != b]
    flow = find_transfers(edges_of([(0, 1, 1.0), *clique]), people(0), 27, DEFAULTS)
    assert (passage_along(flow, DEFAULTS).trust[list(fakes)] >= 0.5).all()
    assert hangs_on_one(immediate_dominators(flow, 4), flow.distance)[list(fakes)].all()


def test_who_has_no_trust_or_no_hop_left_exposes_nobody() -> None:
    passage = first_passage(edges_of([(i, i + 1, 1.0) for i in range(5)]), people(0), 6, DEFAULTS)
    assert exposure_of(passage, 4, DEFAULTS, 0.5) == Exposure(4, 0.0, 0)
    assert exposure_of(passage, 5, DEFAULTS, 0.5) == Exposure(5, 0.0, 0)
    with pytest.raises(ValueError, match="threshold must lie between 0 and 1, not 1"):
        exposure_of(passage, 4, DEFAULTS, 1.0)


@given(graphs(largest=9), st.lists(st.integers(0, 5), min_size=9, max_size=9), st.integers(0, 8))
def test_the_vouches_worth_making_are_those_that_trying_each_one_finds(
    graph: tuple, merged: list[int], maintainer: int
) -> None:
    vouches, seeds, size = graph
    merges, maintainer = np.array(merged[:size]), maintainer % size
    before = first_passage(edges_of(vouches), seeds, size, DEFAULTS).trust
    gains = {}
    for person in range(size):
        tried = first_passage(edges_of([*vouches, (maintainer, person, 1.0)]), seeds, size, DEFAULTS).trust
        may_be_asked = merges[person] and before[person] < 0.5 and person not in seeds
        if may_be_asked and tried[person] > before[person] and merges @ (tried - before) > 0:
            gains[person] = float(merges[person] * (tried[person] - before[person]))
    found = asked(edges_of(vouches), seeds, maintainer, merges, limit=size)
    assert {answer.person: answer.gain for answer in found} == pytest.approx(gains, rel=1e-9, abs=1e-15)
    order = [(answer.before > 0, -answer.gain) for answer in found]
    assert order == sorted(order)


def test_a_vouch_says_what_it_opens_for_whom_and_what_it_exposes() -> None:
    vouches = [(1, 2, 1.0), (2, 3, 1.0), (1, 4, 1.0)]
    merges = np.array([0, 2, 0, 0, 0, 1])
    best, second = asked(edges_of(vouches), people(0), 0, merges)
    assert (best.person, best.merges, best.before, best.opens) == (1, 2, 0.0, (2, 4))
    assert best.after == pytest.approx(10 / 11, rel=1e-12)
    assert best.gain == pytest.approx(2 * 10 / 11, rel=1e-12)
    assert best.exposure is not None
    assert (best.exposure.person, best.exposure.lanes) == (1, 30)
    assert (second.person, second.opens) == (5, ())


def test_nobody_is_proposed_who_has_trust_or_is_denounced_by_a_seed_or_merged_nothing() -> None:
    merges = np.array([3, 3, 3, 3, 0])
    answers = asked(edges_of([(0, 1, 1.0)]), people(0), 0, merges, denounces=edges_of([(0, 2, 1.0)]))
    assert [answer.person for answer in answers] == [3]


def test_whoever_has_no_path_yet_comes_first_and_then_whoever_wins_most() -> None:
    vouches = [(0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0), (2, 4, 1.0)]
    merges = np.array([0, 0, 0, 9, 8, 1, 2])
    found = asked(edges_of(vouches), people(0), 0, merges)
    assert [answer.person for answer in found] == [6, 5, 3, 4]


def test_more_are_tried_where_the_first_would_take_more_than_they_bring() -> None:
    """Five vouches of a maintainer who has no budget left would take it from the many whom they vouched for."""
    crowd = range(2, 42)
    vouches = [(0, 1, 1.0), *((1, person, 1.0) for person in crowd)]
    merges = np.array([0, 0, *[50] * 40, 1, 1])
    assert asked(edges_of(vouches), people(0), 1, merges) == []
    merges[42] = 10_000
    assert [answer.person for answer in asked(edges_of(vouches), people(0), 1, merges)] == [42]


def test_a_maintainer_whom_no_trust_reaches_is_told_nothing() -> None:
    assert asked(edges_of([(0, 1, 1.0)]), people(0), 2, np.ones(4, dtype=np.int64)) == []


def test_an_aged_vouch_may_be_renewed() -> None:
    (answer,) = asked(edges_of([(0, 1, 0.05)]), people(0), 0, np.array([0, 1]))
    assert answer.before == pytest.approx(1 / 3, rel=1e-12)
    assert answer.after == pytest.approx(10 / 11, rel=1e-12)


def test_who_cannot_be_asked_about_is_an_error_in_words() -> None:
    merges = np.zeros(600, dtype=np.int64)
    with pytest.raises(ValueError, match="unknown maintainer 600"):
        asked(edges_of(young_forge()), people(0), 600, merges)
    with pytest.raises(ValueError, match="threshold must lie between 0 and 1, not 0"):
        asked(edges_of(young_forge()), people(0), 0, merges, threshold=0.0)
    network = prepare(edges_of(young_forge()), 600)
    standing = SeedSetTrust.compute(network, prepare(NOTHING, 600), people(0), DEFAULTS)
    with pytest.raises(ValueError, match="one entry for each of 600 people, not 3"):
        propose_vouches(standing, network, prepare(NOTHING, 600), 0, merges[:3], 0.5)


def test_five_vouches_worth_making_among_twenty_thousand_people_are_found_in_linear_time() -> None:
    merges = np.random.default_rng(6).integers(0, 4, 20_000)

    def find(edges: Edges) -> list[ProposedVouch]:
        return asked(edges, np.arange(20), 0, merges[: len(edges.voucher) // 5])

    assert len(in_linear_time(find, random_edges, 20_000, 2)) == 5
