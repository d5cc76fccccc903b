"""What an attack brought: fakes against honest people, by any score. Pure NumPy.

Ours is judged at s = .5. A rival has no such scale: it is judged at the score that as many honest people reach under
the same attack as reach s = .5 with ours, so that all are equally open to honest people.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring.dominators import hangs_on_one, immediate_dominators
from scoring.graph import Floats, Integers
from scoring.policy import Parameters
from scoring.redteam.attack import Attack, Ground
from scoring.transfers import find_transfers

HALF = 0.5  # the s from which somebody counts as trusted


@dataclass(frozen=True, slots=True)
class Outcome:
    """One score under one attack.

    `auc`: the chance that a random honest person whom the seeds reach outranks a random fake, ties half; `above`:
    fakes at or above the mark for each bought vouch; `caught`: the sum of the fakes' scores, `share` of everybody's
    sum in [0, 1].
    """

    auc: float
    above: float
    caught: float
    share: float


def measure(found: Floats, honest: Integers, attack: Attack, mark: float) -> Outcome:
    """What the score `found` (one for each person) says of the fakes and of the `honest`, judged at `mark`."""
    fakes = found[attack.fakes]
    total = float(found.sum())
    caught = float(fakes.sum())
    above = int((fakes >= mark).sum()) / attack.bought
    return Outcome(auc(found[honest], fakes), above, caught, caught / total if total > 0 else 0.0)


def auc(higher: Floats, lower: Floats) -> float:
    """The chance that a random one of `higher` exceeds a random one of `lower`, ties half; .5 where one is empty."""
    if not len(higher) or not len(lower):
        return 0.5
    ranked = np.sort(lower)
    below = np.searchsorted(ranked, higher, "left") + np.searchsorted(ranked, higher, "right")
    return float(below.mean() / 2 / len(ranked))


def half_mass(parameters: Parameters) -> float:
    """The trust mass at which s = .5: c^2, what one undiluted vouch two hops from a seed brings."""
    return parameters.transfer**2


def matched_mark(found: Floats, honest: Integers, passing: int) -> float:
    """The score that the best `passing` of the honest reach; infinite where nobody should."""
    if not passing:
        return float("inf")
    return float(np.sort(found[honest])[-passing])


def standing_on_two(attack: Attack, seeds: Integers, parameters: Parameters) -> NDArray[np.bool_]:
    """bool[size]: whose trust no single account that is no seed can end; false beyond reach."""
    flow = find_transfers(attack.edges, seeds, attack.size, parameters)
    nearest = immediate_dominators(flow, parameters.hops)
    return (flow.distance >= 0) & ~hangs_on_one(nearest, flow.distance)


def reached(ground: Ground) -> Integers:
    """Everybody whom vouches reach from the seeds in any number of hops, without the seeds, in order."""
    seen = np.zeros(ground.size, dtype=bool)
    seen[ground.seeds] = True
    count = 0
    while count != seen.sum():
        count = seen.sum()
        seen[ground.edges.subject[seen[ground.edges.voucher]]] = True
    seen[ground.seeds] = False
    return np.flatnonzero(seen)
