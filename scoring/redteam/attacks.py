"""Attacks on trust by fakes: regions in nine shapes, denounces, farmed merges and rewired vouches. Pure.

A shape of a region gets the ground, the region and a random generator, and returns the bought vouches and all vouches
by fakes as pairs (voucher, subject). By default the i-th bought vouch is for the i-th fake, in rounds.

Denounce bombing: fakes denounce the most trusted people. Merge farming: trivial merged changes that count as a vouch,
or as evidence on one.

Rewiring: an attacker changes the vouches of `own` and of any number of fresh accounts; nobody new vouches for them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scoring.config.policy import Parameters
from scoring.redteam.attack import (
    HALF,
    Attack,
    Generator,
    Ground,
    Pairs,
    Region,
    Shape,
    attack,
    choose_vouchers,
    people_reached,
    with_pairs,
)
from scoring.trust.denounces import Denounced, judge_denounces
from scoring.trust.first_passage import evidence_weights, first_passage
from scoring.trust.graph import Edges, Floats, Integers

WIDEST = 50  # vouches that one fake gives in a clique: 10,000 fakes already give 500,000
SPRAYED = 10  # honest people for whom each fake of a spray vouches
PIECE = 100  # people whose vouches a mimic copies; a larger region repeats the copy


def clique(ground: Ground, region: Region, draw: Generator) -> Pairs:
    """All fakes vouch for each other; with more than 51, each for the next 50 in a ring."""
    return _joined(_bought_pairs(region), _next_in_round(region, WIDEST))


def star(ground: Ground, region: Region, draw: Generator) -> Pairs:
    """All bought vouches are for one hub, which vouches for all other fakes, and they vouch back."""
    hub, other_fakes = region.fakes[0], region.fakes[1:]
    return _joined(_all_to(region.vouchers, hub), _all_from(hub, other_fakes), _all_to(other_fakes, hub))


def fan(ground: Ground, region: Region, draw: Generator) -> Pairs:
    """Each fake with a bought vouch vouches for all fakes without one; those vouch for nobody."""
    entries, other_fakes = region.fakes[: region.entries], region.fakes[region.entries :]
    return _joined(
        _bought_pairs(region), _pairs(np.repeat(entries, len(other_fakes)), np.tile(other_fakes, len(entries)))
    )


def chain(ground: Ground, region: Region, draw: Generator) -> Pairs:
    """Each bought vouch begins a chain: every fake vouches for the next."""
    step = region.entries
    return _joined(_bought_pairs(region), _pairs(region.fakes[:-step], region.fakes[step:]))


def two_loops(ground: Ground, region: Region, draw: Generator) -> Pairs:
    """Pairs vouch for each other (loops of two); each bought vouch is for another pair while there are pairs."""
    half = region.count // 2
    first_half, second_half = region.fakes[:half], region.fakes[half : 2 * half]
    return _joined(_bought_pairs(region), _pairs(first_half, second_half), _pairs(second_half, first_half))


def mimic(ground: Ground, region: Region, draw: Generator) -> Pairs:
    """Copies of a piece of the honest graph: the first 100 people in reach of a random voucher."""
    piece = _piece_of(ground, draw, min(PIECE, region.count))
    positions = np.full(ground.size, -1)
    positions[piece] = np.arange(len(piece))
    voucher, subject = positions[ground.edges.voucher], positions[ground.edges.subject]
    copied = (voucher >= 0) & (subject >= 0)
    starts = np.arange(0, region.count, len(piece))[:, None]
    copies = np.column_stack([(starts + voucher[copied]).ravel(), (starts + subject[copied]).ravel()])
    return _joined(_bought_pairs(region), region.first + copies[(copies < region.count).all(axis=1)])


def spray(ground: Ground, region: Region, draw: Generator) -> Pairs:
    """Each fake vouches for the next 10 in a ring and for 10 random honest people, to look well connected."""
    praised = draw.integers(0, ground.size, (region.count, SPRAYED))
    outward = np.column_stack([np.repeat(region.fakes, SPRAYED), praised.ravel()])
    return _joined(_bought_pairs(region), _next_in_round(region, SPRAYED), outward)


def reciprocated(ground: Ground, region: Region, draw: Generator) -> Pairs:
    """A ring of fakes in which neighbours vouch for each other; each vouches back for its bought vouchers."""
    landing, onward = _bought_pairs(region), _next_in_round(region, 1)
    return _joined(landing, landing[:, ::-1], onward, onward[:, ::-1])


def diamond(ground: Ground, region: Region, draw: Generator) -> Pairs:
    """Bought vouches are for different fakes, which all vouch for one; that one, on many paths, for the rest."""
    entries = region.fakes[: min(region.entries, region.count - 1)]
    if not len(entries):
        return _bought_pairs(region)
    point, rest = region.fakes[len(entries)], region.fakes[len(entries) + 1 :]
    landing = _pairs(region.vouchers, entries[np.arange(len(region.vouchers)) % len(entries)])
    return _joined(landing, _all_to(entries, point), _all_from(point, rest))


SHAPES: dict[str, Shape] = {
    "clique": clique,
    "star": star,
    "fan": fan,
    "chain": chain,
    "two loops": two_loops,
    "mimic": mimic,
    "spray": spray,
    "reciprocated": reciprocated,
    "diamond": diamond,
}


def _bought_pairs(region: Region) -> Pairs:
    """Return the bought vouches, each for another fake while there are fakes."""
    return _pairs(region.vouchers, region.fakes[np.arange(len(region.vouchers)) % region.count])


def _next_in_round(region: Region, width: int) -> Pairs:
    """Return vouches of each fake for the next `width` in a ring, without itself."""
    steps = np.arange(1, min(width, region.count - 1) + 1)
    local = np.arange(region.count)
    subject = (local[:, None] + steps) % region.count
    return region.first + np.column_stack([np.repeat(local, len(steps)), subject.ravel()])


def _piece_of(ground: Ground, draw: Generator, count: int) -> Integers:
    """Return up to `count` people in breadth-first order from a random voucher; at least one."""
    start = int(draw.choice(ground.edges.voucher)) if len(ground.edges.voucher) else 0
    piece, seen = [start], {start}
    order = np.argsort(ground.edges.voucher, kind="stable")
    vouchers, subjects = ground.edges.voucher[order], ground.edges.subject[order]
    for person in piece:  # grows during the loop
        low, high = np.searchsorted(vouchers, [person, person + 1])
        unseen = [neighbour for neighbour in dict.fromkeys(subjects[low:high].tolist()) if neighbour not in seen]
        seen.update(unseen[: count - len(piece)])
        piece += unseen[: count - len(piece)]
    return np.array(piece, dtype=np.int64)


def _pairs(vouchers: Integers, subjects: Integers) -> Pairs:
    return np.column_stack([vouchers, subjects]).astype(np.int64)


def _all_to(vouchers: Integers, subject: int) -> Pairs:
    return _pairs(vouchers, np.full(len(vouchers), subject))


def _all_from(voucher: int, subjects: Integers) -> Pairs:
    return _pairs(np.full(len(subjects), voucher), subjects)


def _joined(*parts: Pairs) -> Pairs:
    return np.concatenate(parts)


@dataclass(frozen=True, slots=True)
class Plan:
    """`fakes` behind `bought` vouches by people of the `top` share denounce each of the `victims` most trusted."""

    fakes: int = 1_000
    bought: int = 50
    victims: int = 20
    top: float = 1.0


@dataclass(frozen=True, slots=True)
class Bombing:
    """The loss from a plan in the worst of the nine shapes; `bought` and `denounced` count the people for it.

    `trust_lost` and `mass_lost` are the largest shares in [0, 1] of s and of trust mass that a victim loses (s
    saturates: a large mass loses little s); `mass_lost_mean` is the mean over the victims. `moved` of the `trusted`
    honest people (s >= .5 without the denounces) fall below s = .5; `moved_plainly` would if a denounce by anybody took
    all trust.
    """

    plan: Plan
    bought: int
    denounced: int
    shape: str
    trust_lost: float
    mass_lost: float
    mass_lost_mean: float
    trusted: int
    moved: int
    moved_plainly: int


def simulate_bombing(ground: Ground, plan: Plan, parameters: Parameters, strength: float, draw: Generator) -> Bombing:
    """Simulate the plan in every shape and return the worst. Raises ValueError if nobody has trust."""
    before = first_passage(ground.edges, ground.seeds, ground.size, parameters).mass
    victims = np.argsort(-before, kind="stable")[: plan.victims]
    victims = victims[before[victims] > 0]
    if not len(victims):
        raise ValueError("nobody but seeds has trust, so there is nobody to denounce")
    vouchers = choose_vouchers(before, ground.seeds, plan.bought, plan.top, draw)
    played = []
    for name, shape in SHAPES.items():
        attacked = attack(ground, shape, vouchers, plan.fakes, draw)
        denounces = _all_by_all(attacked.fakes, victims)
        judged = judge_denounces(attacked.edges, denounces, ground.seeds, attacked.size, parameters, strength)
        played.append((_lost_shares(judged, victims), name, judged, attacked))
    trust_lost = max(float(losses[0].max()) for losses, *_ in played)
    (_, mass), name, judged, attacked = max(played, key=lambda play: play[0][1].max())
    mass_lost, mean = float(mass.max()), float(mass.mean())
    trusted, fallen, fallen_plainly = _count_fallen(ground, attacked, judged, victims, parameters)
    return Bombing(
        plan, len(vouchers), len(victims), name, trust_lost, mass_lost, mean, trusted, fallen, fallen_plainly
    )


def _lost_shares(judged: Denounced, victims: Integers) -> tuple[Floats, Floats]:
    before, after = judged.first, judged.passage
    return 1 - after.trust[victims] / before.trust[victims], 1 - after.mass[victims] / before.mass[victims]


def _count_fallen(
    ground: Ground, attacked: Attack, judged: Denounced, victims: Integers, parameters: Parameters
) -> tuple[int, int, int]:
    """Count trusted honest people, those who fall below s = .5, and those who would by the plain rule."""
    honest = people_reached(ground)
    trusted = honest[judged.first.trust[honest] >= HALF]
    spared = ~np.isin(attacked.edges.subject, victims)
    remaining = Edges(attacked.edges.voucher[spared], attacked.edges.subject[spared], attacked.edges.weight[spared])
    plainly = first_passage(remaining, ground.seeds, attacked.size, parameters).trust
    fallen = [int((trust[trusted] < HALF).sum()) for trust in (judged.passage.trust, plainly)]
    return len(trusted), fallen[0], fallen[1]


def _all_by_all(fakes: Integers, victims: Integers) -> Edges:
    return Edges(np.repeat(fakes, len(victims)), np.tile(victims, len(fakes)), np.ones(len(fakes) * len(victims)))


MERGES = (1, 2, 5, 10, 20)


@dataclass(frozen=True, slots=True)
class FarmingResult:
    """Fakes with `merges` trivial changes each, merged by one person and counting together as one `weight`.

    `by_seed`: s of each fake if that person is a seed (as a push-holder is in their own repository); `by_trusted`: if
    it is the most trusted person besides seeds; `above`: the number of fakes that reach s = .5 by the seed.
    """

    each: float
    cap: float
    merges: int
    weight: float
    by_seed: float
    by_trusted: float
    above: int


def simulate_farming(
    ground: Ground, fakes: int, each: float, cap: float, parameters: Parameters
) -> list[FarmingResult]:
    """Simulate 1 to 20 merges, each of weight `each` and all by one person of at most `cap`, in [0, 1].

    A seed's vouches are not diluted, so all fakes behind a seed reach the same s as a single one: s = w / (w + c). Only
    a cap below c keeps merges alone under s = .5.
    """
    mass = first_passage(ground.edges, ground.seeds, ground.size, parameters).mass
    rows = []
    for merges in MERGES:
        weight = min(cap, each * merges)
        by_seed = _trust_behind(ground, int(ground.seeds[0]), fakes, weight, parameters)
        by_trusted = _trust_behind(ground, int(mass.argmax()), fakes, weight, parameters)
        above = int((by_seed >= HALF).sum())
        rows.append(FarmingResult(each, cap, merges, weight, float(by_seed[0]), float(by_trusted[0]), above))
    return rows


def _trust_behind(ground: Ground, holder: int, fakes: int, weight: float, parameters: Parameters) -> Floats:
    """Return the s of fakes for which `holder` vouches with `weight`."""
    subjects = np.arange(ground.size, ground.size + fakes)
    edges = with_pairs(ground.edges, np.column_stack([np.full(fakes, holder), subjects]), weight)
    return first_passage(edges, ground.seeds, ground.size + fakes, parameters).trust[subjects]


@dataclass(frozen=True, slots=True)
class EvidenceResult:
    """Fakes with a vouch by one person that names `merges` trivial merged changes of theirs.

    The vouch has `weight`: `base` without evidence, `each` more for every change, at most 1. `by_trusted`: s of each
    fake if that person is the most trusted besides seeds; `above` fakes reach s = .5; `gain`: the factor by which the
    evidence multiplies their common trust mass.
    """

    base: float
    each: float
    merges: int
    weight: float
    by_trusted: float
    above: int
    gain: float


def simulate_evidence(
    ground: Ground, fakes: int, base: float, each: float, parameters: Parameters
) -> list[EvidenceResult]:
    """Simulate 0 to 20 merges as evidence on the vouches of the most trusted person besides seeds.

    Evidence raises a vouch at most to a full one: farming gains at most the factor 1 / base. A base near 1 leaves
    little to farm; a low one makes bought vouches without evidence worth little.
    """
    holder = int(first_passage(ground.edges, ground.seeds, ground.size, parameters).mass.argmax())
    rows, plain = [], 0.0
    for merges in (0, *MERGES):
        weight = float(evidence_weights(np.array([merges]), base, each)[0])
        trust = _trust_behind(ground, holder, fakes, weight, parameters)
        mass = float((trust / (1 - trust)).sum())
        plain = plain or mass
        gain = mass / plain if plain else 1.0
        rows.append(EvidenceResult(base, each, merges, weight, float(trust[0]), int((trust >= HALF).sum()), gain))
    return rows


Score = Callable[[Edges, Integers, int], Floats]  # (edges, seeds, size) -> the score of each person; larger is better
FRESH = 1_000  # accounts that cost nothing
CLIQUE = 12  # fakes in the clique: more would only dilute each other
Rewiring = Callable[[int, Integers, Integers], Pairs]  # own id, ids of fresh accounts, people who vouch for me


def _vouches(voucher: Integers | int, subject: Integers | int) -> Pairs:
    """Return pairs from two columns; either may be one person."""
    return np.column_stack(np.broadcast_arrays(np.atleast_1d(voucher), np.atleast_1d(subject))).astype(np.int64)


def _nothing(own: int, fresh: Integers, vouchers: Integers) -> Pairs:
    return np.empty((0, 2), dtype=np.int64)


def _oneself(own: int, fresh: Integers, vouchers: Integers) -> Pairs:
    return _vouches(own, own)


def _pair(own: int, fresh: Integers, vouchers: Integers) -> Pairs:
    return _star(own, fresh[:1], vouchers)


def _star(own: int, fresh: Integers, vouchers: Integers) -> Pairs:
    return np.concatenate([_vouches(own, fresh), _vouches(fresh, own)])


def _ring(own: int, fresh: Integers, vouchers: Integers) -> Pairs:
    circle = np.concatenate([[own], fresh])
    return _vouches(circle, np.roll(circle, -1))


def _clique(own: int, fresh: Integers, vouchers: Integers) -> Pairs:
    group = np.concatenate([[own], fresh[:CLIQUE]])
    pairs = _vouches(np.repeat(group, len(group)), np.tile(group, len(group)))
    return pairs[pairs[:, 0] != pairs[:, 1]]


def _back(own: int, fresh: Integers, vouchers: Integers) -> Pairs:
    return _vouches(own, vouchers)


def _detour(own: int, fresh: Integers, vouchers: Integers) -> Pairs:
    return np.concatenate([_vouches(own, fresh[:1]), _vouches(fresh[0], vouchers)])


def _praise(own: int, fresh: Integers, vouchers: Integers) -> Pairs:
    return _vouches(fresh, own)


def _everybody(own: int, fresh: Integers, vouchers: Integers) -> Pairs:
    return _vouches(own, np.arange(fresh[0]))


REWIRINGS: dict[str, Rewiring] = {
    "vouch for nobody": _nothing,
    "vouch for yourself": _oneself,
    "vouch for one fake who vouches back": _pair,
    "a star of fakes who vouch back": _star,
    "a ring of fakes": _ring,
    "a clique of fakes": _clique,
    "vouch back for every voucher": _back,
    "a detour from a fake to every voucher": _detour,
    "fakes vouch for you, you for nobody": _praise,
    "vouch for everybody": _everybody,
}


def rewire_vouches(ground: Ground, own: int, rewire: Rewiring, fresh: int = FRESH) -> Edges:
    """Replace all vouches by `own` in the ground; the fresh accounts follow the ground's people."""
    is_kept = ground.edges.voucher != own
    edges = Edges(ground.edges.voucher[is_kept], ground.edges.subject[is_kept], ground.edges.weight[is_kept])
    vouchers = np.unique(edges.voucher[edges.subject == own])
    return with_pairs(edges, rewire(own, np.arange(ground.size, ground.size + fresh), vouchers))


def self_lifts(ground: Ground, score: Score, people: Integers, fresh: int = FRESH) -> dict[str, Floats]:
    """Return by way of rewiring the factor by which it changes the own score of each of `people` with one above 0."""
    before = score(ground.edges, ground.seeds, ground.size)
    able = people[before[people] > 0].tolist()
    size = ground.size + fresh
    return {
        name: np.array([score(rewire_vouches(ground, own, rewire, fresh), ground.seeds, size)[own] for own in able])
        / before[able]
        for name, rewire in REWIRINGS.items()
    }


def largest_lift(lifts: dict[str, Floats]) -> float:
    """Return the largest factor of all; 1 if nobody could be tried."""
    return max((float(ratios.max()) for ratios in lifts.values() if len(ratios)), default=1.0)
