"""Computes how many settled pull requests a budget of false approvals needs, and when they are reached. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scoring.formatting import percent_in_full, things
from scoring.thresholds import items_needed


def outcomes_needed(rate: float, budget: float, delta: float, power: float = 0.5) -> float:
    """Return the mean number of independent outcomes that any certificate needs: kl(power | delta) / kl(rate | budget).

    The bound holds for every method that certifies a lane at `budget` with a chance of at most `delta`, and a lane with
    `rate` bad ones with a chance of at least `power` (docs/method.md has the proof). It is inf unless the rate is below
    the budget, and 0 for a power not above delta. Raises ValueError for shares outside [0, 1].
    """
    if not (0 <= rate <= 1 and 0 < budget < 1 and 0 < delta < 1 and 0 <= power <= 1):
        raise ValueError("rate and power must lie in [0, 1], budget and delta strictly between")
    if power <= delta:
        return 0.0
    return math.inf if rate >= budget else _divergence(power, delta) / _divergence(rate, budget)


def _divergence(chance: float, reference: float) -> float:
    """Return the Kullback-Leibler divergence of a coin of chance `one` from one of chance `other`, in nats."""
    parts = ((chance, reference), (1 - chance, 1 - reference))
    return sum(share * math.log(share / reference_share) for share, reference_share in parts if share > 0)


@dataclass(frozen=True, slots=True)
class Need:
    """The cases missing for a threshold: `needed` settled pull requests scored `threshold` or higher, `have` so far.

    `threshold` None: at no threshold was the share of bad ones within the budget, and `needed` is the smallest possible
    number, all of them clean. `weeks` is the time for the rest at the pace of the window, None if they never come:
    cases leave the window before enough have arrived, or there are none. With `authors` both numbers count people;
    those so far count for fewer if one of them sends most.
    """

    needed: int
    have: int
    threshold: float | None = None
    weeks: int | None = None
    authors: bool = False


def soonest_need(
    needed: Sequence[float], have: Sequence[float], thresholds: Sequence[float], weeks: float, longest: float
) -> Need | None:
    """Return the need of the threshold that is reached first at the pace of a window of `weeks`; None without one.

    A number that no window of `longest` weeks reaches is returned without a time, and only if no other is reached.
    """
    best, best_order = None, (True, math.inf)
    for count, count_so_far, threshold in zip(needed, have, thresholds, strict=True):
        missing = count - math.floor(count_so_far)
        if missing <= 0 or not math.isfinite(count):
            continue
        pace = count_so_far / weeks
        is_reached = pace > 0 and count <= pace * longest
        order = (not is_reached, missing / pace if pace > 0 else math.inf)
        if best is None or order < best_order:
            weeks_left = max(math.ceil(missing / pace), 1) if is_reached else None
            best, best_order = Need(int(count), math.floor(count_so_far), float(threshold), weeks_left), order
    return best


def earliest_need(
    lanes: Sequence[tuple[float, float, float]], weeks: float, longest: float, budget: float, delta: float, starts: int
) -> Need | None:
    """Return the need of the lane that could be certified first if its rate stays; None without one.

    Each lane is (threshold, let through, bad) in the last `weeks`; its rate is taken half a case worse than it was. It
    needs the outcomes that every method needs, and at least the fewest for `starts` sequences of tests.
    """
    fewest = items_needed(budget, delta / starts)
    rates = [(bad + 0.5) / (size + 1) for _, size, bad in lanes]
    needed = [max(outcomes_needed(rate, budget, delta), fewest) for rate in rates]
    whole_counts = [math.ceil(count) if math.isfinite(count) else count for count in needed]
    return soonest_need(
        whole_counts, [size for _, size, _ in lanes], [threshold for threshold, _, _ in lanes], weeks, longest
    )


def say_need(need: Need) -> str:
    """Return the need as the rest of a sentence: '128 settled pull requests at 93 % or above are needed, …'."""
    if need.threshold is None and need.have < need.needed:
        return f"{need.needed:,} settled pull requests are needed, all of them clean; {need.have:,} so far"
    if need.threshold is None:
        return (
            f"of {need.have:,} settled pull requests too many were bad at every score; a certificate needs at least "
            f"{need.needed:,} that are all clean"
        )
    threshold = f"at {percent_in_full(need.threshold)} or above are needed"
    if need.authors:
        return f"{need.needed} different authors {threshold}; those so far count for {need.have}"
    pace = f"about {things(need.weeks, 'week')}" if need.weeks is not None else "at this pace it will not be reached"
    return f"{need.needed:,} settled pull requests {threshold}, {need.have:,} so far, {pace}"


def say_low_need(need: Need) -> str:
    """Return the need of T_LOW as the rest of a sentence: '59 settled clean pull requests … are needed, …'."""
    if need.authors:
        return f"clean pull requests of {need.needed} people with a record are needed; those so far are of {need.have}"
    pace = f"about {things(need.weeks, 'week')}" if need.weeks is not None else "at this pace it will not be reached"
    return (
        f"{need.needed:,} settled clean pull requests of people with a record are needed, {need.have:,} so far, {pace}"
    )
