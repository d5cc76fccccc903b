"""Past outcomes by threshold, and the offer of an estimated fast lane from them. Pure, and light to import.

A maintainer sees the figures before opening an estimated lane. The same cases chose its threshold, so the figures are
no promise: the bet against `Offer.bad_high` (`scoring.certificates.drift`) shuts a lane that is worse.
"""

from dataclasses import dataclass
from typing import Literal, get_args

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
