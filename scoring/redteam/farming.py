"""Merge farming: what trivial merged changes bring where they count as a vouch, or as evidence on one. Pure."""

from dataclasses import dataclass

import numpy as np

from scoring.graph import Floats
from scoring.policy import Parameters
from scoring.redteam.attack import Ground, with_pairs
from scoring.redteam.measures import HALF
from scoring.trust import evidence_weights, first_passage

MERGES = (1, 2, 5, 10, 20)


@dataclass(frozen=True, slots=True)
class Farmed:
    """Fakes each of whom got `merges` trivial changes merged by the same person, merges counting as one `weight`.

    `by_seed`: s of each where that person is a seed (a push-holder is one, of their own repository); `by_trusted`:
    where it is the most trusted person who is no seed; `above`: how many of the fakes reach s = .5 behind the seed.
    """

    each: float
    cap: float
    merges: int
    weight: float
    by_seed: float
    by_trusted: float
    above: int


def farm(ground: Ground, fakes: int, each: float, cap: float, parameters: Parameters) -> list[Farmed]:
    """What 1 to 20 merges bring where a verified merge weighs `each` and all by one person at most `cap`, in [0, 1].

    A seed's vouches are not diluted, so behind one seed any number of fakes fare as one does: whatever `cap` lets one
    reach, it lets all reach. Behind a seed s = w / (w + c): only a cap below c keeps merges alone under s = .5.
    """
    mass = first_passage(ground.edges, ground.seeds, ground.size, parameters).mass
    rows = []
    for merges in MERGES:
        weight = min(cap, each * merges)
        by_seed = _trust_behind(ground, int(ground.seeds[0]), fakes, weight, parameters)
        by_trusted = _trust_behind(ground, int(mass.argmax()), fakes, weight, parameters)
        above = int((by_seed >= HALF).sum())
        rows.append(Farmed(each, cap, merges, weight, float(by_seed[0]), float(by_trusted[0]), above))
    return rows


def _trust_behind(ground: Ground, holder: int, fakes: int, weight: float, parameters: Parameters) -> Floats:
    """The s of fakes for each of whom `holder` stands with `weight`."""
    subjects = np.arange(ground.size, ground.size + fakes)
    edges = with_pairs(ground.edges, np.column_stack([np.full(fakes, holder), subjects]), weight)
    return first_passage(edges, ground.seeds, ground.size + fakes, parameters).trust[subjects]


@dataclass(frozen=True, slots=True)
class Quoted:
    """Fakes for each of whom one person vouches and names `merges` trivial changes of theirs that were merged.

    The vouch weighs `weight`: `base` without evidence, `each` more for every change, at most 1. `by_trusted`: s of each
    fake where that person is the most trusted who is no seed; `above` of the fakes reach s = .5; `gain`: by what factor
    the evidence multiplies the trust mass that they catch together.
    """

    base: float
    each: float
    merges: int
    weight: float
    by_trusted: float
    above: int
    gain: float


def quote(ground: Ground, fakes: int, base: float, each: float, parameters: Parameters) -> list[Quoted]:
    """What 0 to 20 merges bring as evidence on the vouches of the most trusted person who is no seed.

    Evidence lifts a vouch to a full one and no further: the most that farming can win is the factor 1 / base. A base
    near 1 leaves little to farm; a low one leaves little to buy where nothing is farmed.
    """
    holder = int(first_passage(ground.edges, ground.seeds, ground.size, parameters).mass.argmax())
    rows, plain = [], 0.0
    for merges in (0, *MERGES):
        weight = float(evidence_weights(np.array([merges]), base, each)[0])
        trust = _trust_behind(ground, holder, fakes, weight, parameters)
        mass = float((trust / (1 - trust)).sum())
        plain = plain or mass
        gain = mass / plain if plain else 1.0
        rows.append(Quoted(base, each, merges, weight, float(trust[0]), int((trust >= HALF).sum()), gain))
    return rows
