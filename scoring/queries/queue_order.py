"""The order within a lane: changes that most need a person come first, and each first-timer gets a turn. Pure.

docs/method.md states the rule and its bound. Pages, API and backtest take their order from here.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scoring.queries.types import QueueSort

TURN = 3  # each third place goes to the first-timer who has waited longest
UNKNOWN_NEED = 0.5  # of a change that nobody read, by somebody whose chance nobody knows
LIFT_DAYS, MOST_LIFT = 21, 5  # each three weeks of waiting count as a tenth of need, and no more than five of them
FINDING = 0.4  # content risk from which something of medium severity or worse was found
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Times = NDArray[np.datetime64]
Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Open pull requests of one lane as columns of one length, in an order that breaks ties.

    `chance` is P(clean) and `risk` the content risk, NaN where unknown. `waited` counts the days since it was first
    seen: `opened_at` is a claim of its author, so it only orders one day. `changed`: somebody approved an earlier
    round. `on_author`: the last word was a maintainer's.
    """

    chance: Floats
    risk: Floats
    waited: Floats
    opened_at: Times
    first_timer: Mask
    changed: Mask
    on_author: Mask

    def select(self, which: Positions) -> Self:
        return type(self)(*(getattr(self, name)[which] for name in self.__slots__))


def order_lane(waiting: Waiting, sort: QueueSort, verdicts: int) -> Positions:
    """Return the positions of all of them in the order shown, those that changed after an approval first.

    `verdicts` counts everything decided so far and each request for changes. With each of them the places kept for
    first-timers move up by one, so that a verdict on the first row leaves the order of the others as it was.
    """
    if sort == "need":
        keys = _need_keys(waiting)
    elif sort == "lowest":
        keys = [waiting.opened_at, waiting.chance]  # NaN sorts last
    else:
        age = waiting.opened_at.astype(np.int64)
        keys = [-age if sort == "newest" else age]
    order = np.lexsort([*keys, ~waiting.changed])
    if sort != "need":
        return order
    top = int(waiting.changed.sum())
    return np.concatenate([order[:top], _with_first_timers(waiting, order[top:], verdicts + top)])


def _need_keys(waiting: Waiting) -> list[NDArray[Any]]:
    """Return the keys of the order by need and by waiting, the last one first.

    What waits rises, yet never above a finding that needs a person at least as much: a finding for which its author has
    to do nothing is moved up to the first of those who stand there because they wait.
    """
    need = need_band(waiting.chance, waiting.risk)
    lift = np.minimum(waiting.waited // LIFT_DAYS, MOST_LIFT)
    keys: list[NDArray[Any]] = [waiting.opened_at, -waiting.waited, waiting.on_author]
    order = np.lexsort([*keys, -(need + lift)])
    place = np.empty(len(order))
    place[order] = np.arange(len(order))
    found = (np.nan_to_num(waiting.risk) >= FINDING) & ~waiting.on_author
    others = order[~found[order]]
    for band in np.unique(need[found]):
        behind = others[need[others] <= band]
        same = found & (need == band)
        place[same] = np.minimum(place[same], place[behind[:1]] - 0.5) if len(behind) else place[same]
    return [*keys, -need, place]


def need_band(chance: Floats, risk: Floats) -> Floats:
    """Return how much each change needs a person, in whole tenths from 0 to 9.

    Need is the larger of the content risk and the chance that the change does not stay clean: neither hides the other.
    Within a tenth the difference is noise, so there the turn and the age decide, and the order is stable.
    """
    need = np.fmax(1.0 - chance, risk)  # NaN only where both are
    return np.minimum(np.round(100 * np.where(np.isnan(need), UNKNOWN_NEED, need)) // 10, 9)


def _with_first_timers(waiting: Waiting, order: Positions, verdicts: int) -> Positions:
    """Give each TURN-th place of an order, counted from the first verdict on, to the longest waiting first-timer.

    Who has to answer themselves is given none: what nobody can decide would hold the places of all who came later.
    """
    first = order[(waiting.first_timer & ~waiting.on_author)[order]]
    oldest = first[np.lexsort([first, waiting.opened_at[first], -waiting.waited[first]])]
    everybody, newcomers = OrderedDict.fromkeys(order.tolist()), OrderedDict.fromkeys(oldest.tolist())
    places = []
    for place in range(verdicts + 1, verdicts + 1 + len(order)):
        found = next(iter(newcomers if newcomers and place % TURN == 0 else everybody))
        del everybody[found]
        newcomers.pop(found, None)
        places.append(found)
    return np.array(places, dtype=np.int64)
