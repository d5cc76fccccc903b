"""Counts the cases in the fast lane under each threshold, for all thresholds at once. Pure.

Past outcomes by threshold are a curve, from which an estimated lane is offered. A maintainer sees the figures before
opening it. The same cases chose its threshold, so the figures are no promise: the bet against `Offer.bad_high`
(`scoring.certificates.in_force`) shuts a lane that is worse.
"""

from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
STEPS = 10_000  # thresholds lie on hundredths of a per cent, as every score is shown
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIXING = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)


@dataclass(frozen=True, slots=True)
class ScoredCases:
    """Settled cases with their scores at opening: columns of one length n, in any order.

    `scores` are P(clean) in [0, 1]; `bad` is 1 for a bad case, 0 for a clean one, or a probability; `weights` are above
    0: inverse odds of an audited case (at least 1), or shares of a case that is not settled yet (two rows of one author
    that sum to 1). Raises ValueError for other values.
    """

    scores: Floats
    bad: Floats
    authors: Integers
    opened_at: NDArray[np.datetime64]
    weights: Floats

    @classmethod
    def of(cls, scores: Any, bad: Any, authors: Any, opened_at: Any, weights: Any = None) -> Self:
        """Build the cases from array-like columns; without weights each case counts once."""
        scores = np.asarray(scores, dtype=np.float64)
        weights = np.ones(len(scores)) if weights is None else np.asarray(weights, dtype=np.float64)
        moments = np.asarray(opened_at, dtype="datetime64[us]")
        return cls(scores, np.asarray(bad, dtype=np.float64), np.asarray(authors, dtype=np.int64), moments, weights)

    def __post_init__(self) -> None:
        lengths = {column.shape for column in (self.scores, self.bad, self.authors, self.opened_at, self.weights)}
        if lengths != {(len(self.scores),)}:
            raise ValueError("the columns of cases cases must have one length")
        for name, column in (("scores", self.scores), ("bad", self.bad)):
            if not np.all((column >= 0) & (column <= 1)):  # also true of NaN
                raise ValueError(f"{name} must lie in [0, 1]")
        if not np.all((self.weights > 0) & np.isfinite(self.weights)):
            raise ValueError("weights must be above 0")
        if np.isnat(self.opened_at).any():
            raise ValueError("every case needs the moment of its opening")

    def __len__(self) -> int:
        return len(self.scores)

    def select(self, selection: NDArray[Any]) -> Self:
        return type(self)(
            self.scores[selection],
            self.bad[selection],
            self.authors[selection],
            self.opened_at[selection],
            self.weights[selection],
        )


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lane under each threshold, from the strictest to the loosest: columns of one length m.

    `sizes` and `bad` are sums of weights, `predicted` is the share of bad ones that the scores predict. `authors`
    counts people, `people` is their effective number when they bring different numbers of cases (Kish: 300 cases by one
    and 30 by others count as 1.2). `counts` is the effective number of cases: by Kish, at most the sum of the weights.
    `spread` is the variance of the weighted rate with authors as clusters. `picked_bad` counts the bad ones among one
    case an author, drawn by weight.
    """

    thresholds: Floats
    sizes: Floats
    bad: Floats
    predicted: Floats
    authors: Integers
    people: Floats
    counts: Floats
    spread: Floats
    picked_bad: Floats

    def __len__(self) -> int:
        return len(self.thresholds)

    @property
    def rates(self) -> Floats:
        return self.bad / self.sizes


def count_lanes(cases: ScoredCases, seed: int = 0) -> Lanes:
    """Count every lane by a threshold in hundredths of a per cent; `seed` draws one case an author."""
    steps = _score_steps(cases.scores)
    order = np.argsort(-steps, kind="stable")
    last_cases = np.flatnonzero(np.diff(steps[order], append=-1.0))  # the last case of each threshold
    bad, weight = cases.bad[order], cases.weights[order]
    people = _Authors(cases.authors[order])
    sizes, authors = np.cumsum(weight), np.cumsum(people.is_first)
    squares = people.running_products(weight, weight)
    return Lanes(
        thresholds=steps[order][last_cases] / STEPS,
        sizes=sizes[last_cases],
        bad=np.cumsum(weight * bad)[last_cases],
        predicted=(np.cumsum(weight * (1 - cases.scores[order])) / sizes)[last_cases],
        authors=authors[last_cases],
        people=(sizes**2 / squares)[last_cases],
        counts=np.minimum(sizes, sizes**2 / np.cumsum(weight**2))[last_cases],
        spread=_spread(people, bad, weight, squares)[last_cases] * (authors / np.maximum(authors - 1, 1))[last_cases],
        picked_bad=people.running_pick(bad, _draw_places(weight, seed))[last_cases],
    )


def count_clean_below(cases: ScoredCases, cap: float, seed: int = 0) -> Lanes:
    """Count the clean cases below each threshold from .0001 to `cap`; those below it are in `bad`.

    Each row has the same cases, weighted by how clean they are; only the number sent to a person differs.
    """
    clean_weights = cases.weights * (1 - cases.bad)
    order = np.flatnonzero(clean_weights > 0)[np.argsort(_score_steps(cases.scores)[clean_weights > 0], kind="stable")]
    grid = np.arange(1, round(cap * STEPS) + 1)
    counts_below = np.searchsorted(_score_steps(cases.scores)[order], grid, side="left")
    weight, people = clean_weights[order], _Authors(cases.authors[order])
    total, of_author = weight.sum(), people.totals(weight)
    below, squares, cross_products = (
        np.concatenate([[0.0], sums])[counts_below]
        for sums in (np.cumsum(weight), people.running_products(weight, weight), np.cumsum(weight * of_author))
    )
    rate, of_all = below / total, float(weight @ of_author)
    authors = int(people.is_first.sum())
    spread = (
        np.maximum(squares - 2 * rate * cross_products + rate**2 * of_all, 0.0)
        / total**2
        * authors
        / max(authors - 1, 1)
    )
    first_cases = people.first_of(_draw_places(weight, seed))
    rows = np.ones(len(grid))
    return Lanes(
        thresholds=grid / STEPS,
        sizes=total * rows,
        bad=below,
        predicted=np.zeros(len(grid)),
        authors=np.full(len(grid), authors),
        people=total**2 / of_all * rows,
        counts=min(total, total**2 / float(weight @ weight)) * rows,
        spread=spread,
        picked_bad=np.searchsorted(np.sort(first_cases), counts_below, side="left").astype(np.float64),
    )


def _score_steps(scores: Floats) -> Floats:
    # 1e-9 forgives the rounding of the product: .29 is 2,900 steps, not 2,899.
    return np.floor(scores * STEPS + 1e-9)


def _spread(people: "_Authors", bad: Floats, weight: Floats, squares: Floats) -> Floats:
    """Return the running variance of the weighted rate, from the squared sum of each author's residuals."""
    sizes, bad_weight = np.cumsum(weight), weight * bad
    rate = np.cumsum(bad_weight) / sizes
    cross_products, bad_products = (
        people.running_products(weight, bad_weight),
        people.running_products(bad_weight, bad_weight),
    )
    return np.maximum(bad_products - 2 * rate * cross_products + rate**2 * squares, 0.0) / sizes**2


@dataclass(frozen=True, slots=True)
class WindowPart:
    """One part of the window under the same thresholds: effective cases and the share of bad ones, 0 without any."""

    counts: Floats
    rates: Floats


def count_parts(cases: ScoredCases, lanes: Lanes, parts: int) -> list[WindowPart]:
    """Count the lanes in `parts` parts of the window with equal numbers of cases, the oldest first."""
    by_time = np.argsort(cases.opened_at, kind="stable")
    return [_count_part(cases.select(positions), lanes.thresholds) for positions in np.array_split(by_time, parts)]


def _count_part(cases: ScoredCases, thresholds: Floats) -> WindowPart:
    steps = _score_steps(cases.scores)
    order = np.argsort(-steps, kind="stable")
    bad, weight = cases.bad[order], cases.weights[order]
    # A lane may end before the first case of this part; its size is 0.
    lane_sizes = np.searchsorted(-steps[order], -np.round(thresholds * STEPS), side="right")
    size, bad_weight, square = (
        np.concatenate([[0.0], np.cumsum(column)])[lane_sizes] for column in (weight, weight * bad, weight**2)
    )
    kish = np.divide(size**2, square, out=np.zeros(len(lane_sizes)), where=square > 0)
    return WindowPart(
        np.minimum(size, kish), np.divide(bad_weight, size, out=np.zeros(len(lane_sizes)), where=size > 0)
    )


def _draw_places(weight: Floats, seed: int) -> Integers:
    """Draw an order of the cases; the chance to come first is proportional to the weight (exponential races)."""
    times = -np.log(_draw_uniform(len(weight), seed)) / weight
    places = np.empty(len(weight), dtype=np.int64)
    places[np.argsort(times, kind="stable")] = np.arange(len(weight))
    return places


def _draw_uniform(count: int, seed: int) -> Floats:
    """Return numbers in (0, 1) that are the same in every library and version (SplitMix64): others recompute them."""
    state = (np.arange(1, count + 1, dtype=np.uint64) + np.uint64(seed % 2**32) * np.uint64(2**32)) * GOLDEN
    for shift, factor in MIXING:
        state = (state ^ (state >> shift)) * factor
    return ((state ^ (state >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54


class _Authors:
    """Groups cases by author in the order of the scores, so that running sums need no loop."""

    def __init__(self, authors: Integers) -> None:
        self.order = np.argsort(authors, kind="stable")
        together = authors[self.order]
        self.starts = np.diff(together, prepend=together[:1] - 1) != 0
        self.number = np.cumsum(self.starts) - 1
        self.is_first = np.empty(len(authors), dtype=np.int64)
        self.is_first[self.order] = self.starts

    def _per_author(self, values: Floats) -> Floats:
        """Return the running sum within each author, authors grouped."""
        total = np.cumsum(values[self.order])
        before = np.where(self.starts, total - values[self.order], 0.0)
        return total - before[self.starts][self.number]

    def totals(self, values: Floats) -> Floats:
        """Return for each case the sum over all cases of its author."""
        sums = np.empty(len(values))
        sums[self.order] = np.bincount(self.number, values[self.order])[self.number]
        return sums

    def first_of(self, places: Integers) -> Integers:
        """Return the position of each author's case with the lowest place."""
        return self.order[np.lexsort((places[self.order], self.number))[self.starts]]

    def running_products(self, left: Floats, right: Floats) -> Floats:
        """Return the running sum over authors of (sum of left) * (sum of right), in the order of the scores."""
        a, b = self._per_author(left), self._per_author(right)
        change = a * b - (a - left[self.order]) * (b - right[self.order])
        added = np.empty(len(left))
        added[self.order] = change
        return np.cumsum(added)

    def running_pick(self, bad: Floats, places: Integers) -> Floats:
        """Return the running sum over authors of `bad` of the case with the lowest place so far."""
        # Each author's places are shifted below those of the author before, so that the running minimum restarts.
        lowest = np.minimum.accumulate(places[self.order] - self.number * len(places)) + self.number * len(places)
        by_place = np.empty(len(bad))
        by_place[places] = bad
        picked = by_place[lowest]
        change = picked - np.where(self.starts, 0.0, np.roll(picked, 1))
        added = np.empty(len(bad))
        added[self.order] = change
        return np.cumsum(added)


STEP = 100  # thresholds of a curve from 0 to 1, one each hundredth
MODEL_LENGTH = 200
Source = Literal["own", "starter"]  # settled pull requests of this site, or those of the projects of the starter model


@dataclass(frozen=True, slots=True)
class LanePoint:
    """The lane from one threshold upwards: how many it lets through and how many of those were bad, in weights.

    `bad_low` and `bad_high` are the 95 % interval of the share of bad ones, authors as clusters.
    """

    threshold: float
    let_through: float
    bad: float
    authors: int
    bad_low: float
    bad_high: float


@dataclass(frozen=True, slots=True)
class Group:
    """The lane of one group of senders, in weights: STEP + 1 columns, one for each hundredth from 0 to 1.

    `cases` counts the group's settled pull requests with and without a score.
    """

    cases: float
    let_through: tuple[float, ...]
    bad: tuple[float, ...]

    def at(self, threshold: float) -> tuple[float, float]:
        """Return how many go through from this threshold upwards, and how many of those were bad."""
        index = round(STEP * threshold)
        return self.let_through[index], self.bad[index]


@dataclass(frozen=True, slots=True)
class LaneCurve:
    """Every threshold from the strictest to the loosest on `cases` settled pull requests of `days` days.

    Pull requests by people with push access count only in `everybody`. `newcomers` are those by authors without a
    settled pull request at the opening. Either group is None if it was not counted. `source` says whose past it is,
    `model` which trained model gave the scores: "" without one.
    """

    source: Source
    cases: float
    days: float
    points: tuple[LanePoint, ...]
    newcomers: Group | None = None
    everybody: Group | None = None
    model: str = ""


@dataclass(frozen=True, slots=True)
class Offer:
    """The estimated lane that a maintainer may open: its threshold, and the figures shown with it.

    It would have let through `let_through` of `cases` settled pull requests, and `bad` of those were bad; `bad_low` and
    `bad_high` are the 95 % interval of their share. `bad_high` is the budget of the open lane. `model` is the trained
    model of the scores: "" without one, and for lanes opened before models were recorded.
    """

    threshold: float
    source: Source
    cases: float
    let_through: float
    bad: float
    bad_low: float
    bad_high: float
    model: str = ""

    @property
    def share(self) -> float:
        """Return the share of settled pull requests that the lane would have let through."""
        return self.let_through / self.cases if self.cases else 0.0


def check_offer(offer: Offer) -> None:
    """Raise ValueError for figures that cannot open a lane: numbers out of range, or no share to bet on."""
    if offer.source not in get_args(Source):
        raise ValueError(f"an offer rests on one of {', '.join(get_args(Source))}, not {str(offer.source)[:20]!r}")
    if len(offer.model) > MODEL_LENGTH:
        raise ValueError(f"the name of a model has at most {MODEL_LENGTH} characters")
    if not 0 <= offer.threshold <= 1:
        raise ValueError(f"a threshold lies in [0, 1], which {offer.threshold} does not")
    if not (0 <= offer.bad_low <= offer.bad_high and 0 < offer.bad_high < 1):
        raise ValueError(f"no bet can be made against a share of bad ones of {offer.bad_low} to {offer.bad_high}")
    if not 0 <= offer.bad <= offer.let_through <= offer.cases < float("inf"):
        raise ValueError(f"of {offer.cases} settled ones {offer.let_through} with {offer.bad} bad cannot be counted")
