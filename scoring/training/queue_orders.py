"""Compares orders of the queue: the bad ones that they show first, and how long they let people wait. Pure.

Bad is what its label calls not clean. Chances are those of opening, so that no order knows more than was known then.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.queries.queue_order import Floats, Mask, Positions, Times, Waiting, order_lane
from scoring.training.metrics import number

WINDOW, FIRST = 30, 10  # successive arrivals, and how many of them are counted from the top
DAY = np.timedelta64(1, "D")
Order = Callable[[Positions, int, float], Positions]  # of these, ascending, after so many verdicts, on that day


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Judged pull requests in the order of opening, as columns of one length.

    `waiting` is what the queue sees of each on its first day; `model` is P(clean) of the served model alone;
    `decided_at` is when the recorded verdict came.
    """

    waiting: Waiting
    model: Floats
    bad: Mask
    decided_at: Times


def order_figures(arrivals: Arrivals, seed: int) -> dict[str, dict[str, Any]]:
    """Return the figures of each order by its name; no "risk" where no content risk is known.

    `bad` counts the bad ones; `tenth` and `third` are the shares of them that stand there if all wait at once,
    `tenth_bad` the share of the first tenth that is bad, `window` the mean number of bad ones in the first 10 of 30
    successive arrivals. Waits are in days, as `_waits` plays them.
    """
    orders = _orders(arrivals, seed)
    return {name: {**_shares(arrivals, order), **_waiting(arrivals, order)} for name, order in orders.items()}


def _orders(arrivals: Arrivals, seed: int) -> dict[str, Order]:
    """The served order, and those that it is compared with; the older one is first where these make no difference."""
    count, risk = len(arrivals.bad), arrivals.waiting.risk
    opened = np.floor(_days(arrivals, arrivals.waiting.opened_at))
    keys: dict[str, NDArray[Any]] = {
        "oldest": np.zeros(count),
        "model": arrivals.model,
        "random": np.random.default_rng(seed).random(count),
        "best": ~arrivals.bad,
    }
    if not np.isnan(risk).all():
        keys["risk"] = -np.nan_to_num(risk)

    def by_need(which: Positions, verdicts: int, day: float) -> Positions:
        waiting = replace(arrivals.waiting.select(which), waited=day - opened[which])
        return which[order_lane(waiting, "need", verdicts)]

    def by(key: NDArray[Any]) -> Order:
        return lambda which, verdicts, day: which[np.argsort(key[which], kind="stable")]

    return {"need": by_need, **{name: by(key) for name, key in keys.items()}}


def _shares(arrivals: Arrivals, order: Order) -> dict[str, float | None]:
    bad, days = arrivals.bad, np.floor(_days(arrivals, arrivals.waiting.opened_at))
    count, every = len(bad), max(int(bad.sum()), 1)
    ordered = bad[order(np.arange(count), 0, max(days, default=0))]
    tenth, third = ordered[: count // 10], ordered[: count // 3]
    windows = (np.arange(start, start + WINDOW) for start in range(count - WINDOW + 1))
    tops = [order(window, int(window[0]), days[window[-1]])[:FIRST] for window in windows]
    return {
        "bad": int(bad.sum()),
        "tenth": number(tenth.sum() / every),
        "tenth_bad": number(tenth.mean()) if len(tenth) else None,
        "third": number(third.sum() / every),
        "window": number(bad[np.array(tops)].sum() / len(tops)) if tops else None,
    }


def _waiting(arrivals: Arrivals, order: Order) -> dict[str, float | None]:
    waits, first = _waits(arrivals, order), arrivals.waiting.first_timer
    of_first = waits[first]
    return {
        "wait": number(np.median(waits)) if len(waits) else None,
        "longest": number(waits.max()) if len(waits) else None,
        "first_timer_wait": number(np.median(of_first)) if len(of_first) else None,
        "first_timer_longest": number(of_first.max()) if len(of_first) else None,
    }


def _waits(arrivals: Arrivals, order: Order) -> Floats:
    """Return for how many days each waits where every day as many verdicts are given as were recorded on that day.

    They are given at the end of the day, to the first rows of what waits then.
    """
    opened = _days(arrivals, arrivals.waiting.opened_at)
    waits = np.full(len(opened), np.nan)
    queue, given = np.zeros(0, dtype=np.int64), 0
    verdicts = np.bincount(_days(arrivals, arrivals.decided_at).astype(np.int64)) if len(opened) else ()
    for day, count in enumerate(verdicts):
        arrived = np.arange(*np.searchsorted(opened, [day, day + 1]))
        queue = np.concatenate([queue, arrived])
        if count:
            read = order(queue, given, day)[:count]
            waits[read] = day + 1 - opened[read]
            given += len(read)
            queue = np.setdiff1d(queue, read, assume_unique=True)
    return waits


def _days(arrivals: Arrivals, times: Times) -> Floats:
    """Days since the day of the first arrival."""
    return (times - arrivals.waiting.opened_at[0].astype("datetime64[D]")) / DAY if len(times) else np.zeros(0)
