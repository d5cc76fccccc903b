"""The order within a lane: changes that most need a person come first, and each first-timer gets a turn. Pure.

docs/method.md states the rule and its bound. Pages, API and backtest use this order.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scoring.queries.types import FINDING, Place, QueueSort

TURN = 3  # each third place goes to the first-timer who has waited longest
UNKNOWN_CHANCE = 0.5  # of an author whose chance is unknown or hidden
LIFT_DAYS, MOST_LIFT = 21, 5  # each three weeks of waiting count as a tenth of need, at most five times
DIGITS = 9  # of a chance; what is smaller differs between two passes over the same evidence
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Times = NDArray[np.datetime64]
Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Open pull requests of one lane as columns of equal length, in an order that breaks ties.

    `chance` is P(clean) and `risk` the content risk, NaN where unknown. `waited` counts the days since it was first
    seen: `opened_at` is the author's claim, so it only orders rows within a day. `changed`: somebody approved an
    earlier round, or asked for changes and the author answered. `on_author`: a maintainer spoke last, or its author
    marked it as merged, which nothing confirms.
    `series` is the same number for what one author offered to one repository under one title.
    """

    chance: Floats
    risk: Floats
    waited: Floats
    opened_at: Times
    first_timer: Mask
    changed: Mask
    on_author: Mask
    series: Positions

    def select(self, positions: Positions) -> Self:
        return type(self)(*(getattr(self, name)[positions] for name in self.__slots__))


def order_lane(waiting: Waiting, sort: QueueSort, verdicts: int) -> Positions:
    """Return the positions of all rows in display order; those that changed after an approval come first.

    By need and by age, those that wait for their author come last. By need, of several with one author, repository and
    title the first stands for all: the others come after what else waits, so that copies do not fill the list.

    `verdicts` counts all decisions so far, requests for changes included. With each of them the places for first-timers
    move up by one, so that a verdict on the first row leaves the order of the others unchanged.
    """
    if sort == "need":
        keys = _need_keys(waiting)
    elif sort == "lowest":
        keys = [waiting.opened_at, np.round(waiting.chance, DIGITS)]  # NaN sorts last
    else:
        age = waiting.opened_at.astype(np.int64)
        keys = [-age] if sort == "newest" else [age, waiting.on_author]
    order = np.lexsort([*keys, ~waiting.changed])
    if sort != "need":
        return order
    copies = _copies(waiting, order)
    order = order[np.lexsort([copies[order], waiting.on_author[order], ~waiting.changed[order]])]
    first_timers = waiting.first_timer & ~waiting.on_author & ~copies
    changed_count = int(waiting.changed.sum())
    return np.concatenate(
        [
            order[:changed_count],
            _with_first_timers(waiting, first_timers, order[changed_count:], verdicts + changed_count),
        ]
    )


def _copies(waiting: Waiting, order: Positions) -> Mask:
    """Mark those whose author has another with their title before them in this order; none that changed."""
    copies = np.ones(len(order), dtype=bool)
    copies[order[np.unique(waiting.series[order], return_index=True)[1]]] = False
    return copies & ~waiting.changed


def _need_keys(waiting: Waiting) -> list[NDArray[Any]]:
    """Return the sort keys by need and by waiting, the most important last.

    A row that waits for its author comes after all others. A waiting row rises, yet never above a finding that needs a
    person at least as much: a finding moves up to the first row that stands there because it waited.
    """
    need = need_band(waiting.chance, waiting.risk)
    lift = _lift(waiting)
    keys: list[NDArray[Any]] = [waiting.opened_at, -waiting.waited]
    order = np.lexsort([*keys, -(need + lift)])
    ranks = np.empty(len(order))
    ranks[order] = np.arange(len(order))
    has_finding = (np.nan_to_num(waiting.risk) >= FINDING) & ~waiting.on_author
    others = order[~(has_finding | waiting.on_author)[order]]
    for band in np.unique(need[has_finding]):
        behind = others[need[others] <= band]
        same_band = has_finding & (need == band)
        ranks[same_band] = np.minimum(ranks[same_band], ranks[behind[:1]] - 0.5) if len(behind) else ranks[same_band]
    return [*keys, -need, ranks, waiting.on_author]


def _lift(waiting: Waiting) -> Floats:
    """Return what waiting adds to the need, in whole tenths."""
    return np.minimum(waiting.waited // LIFT_DAYS, MOST_LIFT)


def explain_places(
    waiting: Waiting, order: Positions, borrowed: Mask, sort: QueueSort, verdicts: int, cut: slice
) -> list[Place]:
    """Return why the rows of a part of `order`, which `order_lane` made of the same arguments, stand there.

    `borrowed`: the chance is that of such changes in other projects, and is not shown.
    """
    shown, first = waiting.select(order[cut]), cut.indices(len(order))[0] + 1
    need = need_band(shown.chance, shown.risk)
    raised, without_finding = need + _lift(shown), np.nan_to_num(shown.risk) < FINDING
    # Each TURN-th place goes to a first-timer as long as one is left, so a first-timer there has it by turn.
    turn = shown.first_timer & ((np.arange(len(need)) + first + verdicts) % TURN == 0)
    copies = _copies(waiting, order)[order[cut]]
    causes = np.select([shown.changed, shown.on_author, copies, turn], ["changed", "author", "copy", "turn"], "need")
    by_risk = np.nan_to_num(shown.risk) > 1.0 - np.where(np.isnan(shown.chance), UNKNOWN_CHANCE, shown.chance)
    sources = np.select(
        [~without_finding, by_risk, np.isnan(shown.chance), borrowed[order[cut]]],
        ["finding", "risk", "unknown", "borrowed"],
        "chance",
    )
    chosen, kept = (None, ()) if sort == "need" else (sort, ("changed", "author") if sort == "oldest" else ("changed",))
    columns = (causes, sources, need.astype(int), raised.astype(int), shown.waited.astype(int))
    return [
        Place(number, len(order), cause if chosen is None or cause in kept else chosen, *numbers)
        for number, (cause, *numbers) in enumerate(zip(*(column.tolist() for column in columns), strict=True), first)
    ]


def need_band(chance: Floats, risk: Floats) -> Floats:
    """Return how much each change needs a person, in whole tenths from 0 to 9.

    Need is the larger of the content risk and the chance that the change does not stay clean: neither hides the other.
    With a finding the two count together, as if they were independent. Within a tenth the difference is noise, so age
    decides, and the order is stable.
    """
    known, bad = np.where(np.isnan(chance), UNKNOWN_CHANCE, chance), np.nan_to_num(risk)
    clean = np.where(bad >= FINDING, known * (1.0 - bad), np.minimum(known, 1.0 - bad))
    return np.minimum(np.round(np.round(100 * (1.0 - clean), DIGITS - 2)) // 10, 9)


def _with_first_timers(waiting: Waiting, entitled: Mask, order: Positions, verdicts: int) -> Positions:
    """Give each TURN-th place of an order, counted from the first verdict on, to the longest waiting first-timer.

    Only those `entitled` get one. A first-timer who has to answer first does not: rows that nobody can decide would
    block the places of all later ones.
    """
    first_timers = order[entitled[order]]
    oldest = first_timers[np.lexsort([first_timers, waiting.opened_at[first_timers], -waiting.waited[first_timers]])]
    everybody, newcomers = OrderedDict.fromkeys(order.tolist()), OrderedDict.fromkeys(oldest.tolist())
    chosen = []
    for position in range(verdicts + 1, verdicts + 1 + len(order)):
        next_row = next(iter(newcomers if newcomers and position % TURN == 0 else everybody))
        del everybody[next_row]
        newcomers.pop(next_row, None)
        chosen.append(next_row)
    return np.array(chosen, dtype=np.int64)
