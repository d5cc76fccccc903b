"""Compares orders of the queue: how many bad ones they show first, and how long people wait. Pure.

Bad means not clean by the label. Chances are those at opening, so that no order uses later facts.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.queries.queue_order import Floats, Mask, Positions, Times, Waiting, order_lane
from scoring.training.metrics import number

WINDOW, FIRST = 30, 10  # successive arrivals, and the number counted from the top
DAY = np.timedelta64(1, "D")
Order = Callable[[Positions, int, float], Positions]  # (positions, number of verdicts, day) -> positions in order


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Judged pull requests in the order of opening, as columns of one length.

    `waiting` are the queue's facts on the first day; `model` is P(clean) of the served model alone; `decided_at` is the
    moment of the recorded verdict.
    """

    waiting: Waiting
    model: Floats
    bad: Mask
    decided_at: Times


def order_figures(arrivals: Arrivals, seed: int) -> dict[str, dict[str, Any]]:
    """Return the figures of each order by its name; no "risk" if no content risk is known.

    `bad` counts the bad ones; `tenth` and `third` are their shares in the first tenth and third if all wait at once,
    `tenth_bad` is the share of the first tenth that is bad, `window` the mean number of bad ones in the first 10 of 30
    successive arrivals. Waits are in days, as `_waits` simulates them.
    """
    orders = _orders(arrivals, seed)
    return {
        name: {**_share_figures(arrivals, order), **_waiting_figures(arrivals, order)} for name, order in orders.items()
    }


def _orders(arrivals: Arrivals, seed: int) -> dict[str, Order]:
    """Return the served order and those to compare it with; on ties the older one is first."""
    count, risk = len(arrivals.bad), arrivals.waiting.risk
    opened = np.floor(_days_since_first(arrivals, arrivals.waiting.opened_at))
    keys: dict[str, NDArray[Any]] = {
        "oldest": np.zeros(count),
        "model": arrivals.model,
        "random": np.random.default_rng(seed).random(count),
        "best": ~arrivals.bad,
    }
    if not np.isnan(risk).all():
        keys["risk"] = -np.nan_to_num(risk)

    def by_need(positions: Positions, verdicts: int, day: float) -> Positions:
        waiting = replace(arrivals.waiting.select(positions), waited=day - opened[positions])
        return positions[order_lane(waiting, "need", verdicts)]

    def by(key: NDArray[Any]) -> Order:
        return lambda positions, verdicts, day: positions[np.argsort(key[positions], kind="stable")]

    return {"need": by_need, **{name: by(key) for name, key in keys.items()}}


def _share_figures(arrivals: Arrivals, order: Order) -> dict[str, float | None]:
    bad, days = arrivals.bad, np.floor(_days_since_first(arrivals, arrivals.waiting.opened_at))
    count, all_bad = len(bad), max(int(bad.sum()), 1)
    ordered = bad[order(np.arange(count), 0, max(days, default=0))]
    tenth, third = ordered[: count // 10], ordered[: count // 3]
    windows = (np.arange(start, start + WINDOW) for start in range(count - WINDOW + 1))
    tops = [order(window, int(window[0]), days[window[-1]])[:FIRST] for window in windows]
    return {
        "bad": int(bad.sum()),
        "tenth": number(tenth.sum() / all_bad),
        "tenth_bad": number(tenth.mean()) if len(tenth) else None,
        "third": number(third.sum() / all_bad),
        "window": number(bad[np.array(tops)].sum() / len(tops)) if tops else None,
    }


def _waiting_figures(arrivals: Arrivals, order: Order) -> dict[str, float | None]:
    waits, first_timers = _waits(arrivals, order), arrivals.waiting.first_timer
    first_timer_waits = waits[first_timers]
    return {
        "wait": number(np.median(waits)) if len(waits) else None,
        "longest": number(waits.max()) if len(waits) else None,
        "first_timer_wait": number(np.median(first_timer_waits)) if len(first_timer_waits) else None,
        "first_timer_longest": number(first_timer_waits.max()) if len(first_timer_waits) else None,
    }


def _waits(arrivals: Arrivals, order: Order) -> Floats:
    """Return the days that each waits if each day has as many verdicts as were recorded on it.

    Verdicts come at the end of the day, for the first rows of the queue then.
    """
    opened = _days_since_first(arrivals, arrivals.waiting.opened_at)
    waits = np.full(len(opened), np.nan)
    queue, verdict_count = np.zeros(0, dtype=np.int64), 0
    verdicts = np.bincount(_days_since_first(arrivals, arrivals.decided_at).astype(np.int64)) if len(opened) else ()
    for day, count in enumerate(verdicts):
        arrived = np.arange(*np.searchsorted(opened, [day, day + 1]))
        queue = np.concatenate([queue, arrived])
        if count:
            decided = order(queue, verdict_count, day)[:count]
            waits[decided] = day + 1 - opened[decided]
            verdict_count += len(decided)
            queue = np.setdiff1d(queue, decided, assume_unique=True)
    return waits


def _days_since_first(arrivals: Arrivals, times: Times) -> Floats:
    """Return days since the day of the first arrival."""
    return (times - arrivals.waiting.opened_at[0].astype("datetime64[D]")) / DAY if len(times) else np.zeros(0)
