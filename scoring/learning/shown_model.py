"""The figures of a model and of its attempt at a threshold, small enough for a page: a file beside the model.

It names nobody and no pull request.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from scoring.learning.cases import LabelName
from scoring.learning.certificate import Case, Certificate, Digest, Moment, Share, ToldNeed, Unit, Weight
from scoring.learning.pointers import ModelProblem, serving_name
from scoring.shown_files import keep_shown, read_shown

FORM = "sunstead-figures/1"
ENDING = ".figures.json"
LARGEST = 256 * 1024  # bytes of a file that is read; 20 bins and 13 months need 4 KB
STEPS = 10_000  # of a score in a certificate
SURE = 0.025  # each end of a 95 % interval
Words = Annotated[str, msgspec.Meta(max_length=1000)]
Size = Annotated[int, msgspec.Meta(ge=0, le=10**12)]


class ShownBin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One bin of a reliability curve, as `measures.Bin`."""

    n: Size
    told: Unit
    came: Unit
    low: Unit
    high: Unit


class ShownScope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What serves one scope and how it did on the judged years, scored as it would have been then.

    `self_lift` is the most that anybody raised P by what they can do alone, None where the model was never tried.
    """

    model: Words
    n: Size
    auc: Unit | None
    ece: Unit | None
    ece_high: Unit | None
    bins: Annotated[tuple[ShownBin, ...], msgspec.Meta(max_length=100)]
    self_lift: float | None = None


class ShownMonth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the lane would have let through of one month's pull requests, by weight; a 95 % interval of the bad share.

    The interval takes each pull request for itself: with authors as clusters it would be wider.
    """

    month: Annotated[str, msgspec.Meta(pattern="^[0-9]{4}-[0-9]{2}$")]
    n: Weight
    bad: Weight
    low: Unit
    high: Unit


class ShownShare(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many of `n` settled pull requests were bad, by weight; a 95 % interval of that share, authors as clusters."""

    n: Weight
    bad: Weight
    low: Unit
    high: Unit


class ShownLane(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One attempt at the threshold of the fast lane: what would have been let through at `threshold`.

    Where nothing was certified that is the threshold that comes nearest, or None; `need` says what is missing. `low`
    and `high` are a 95 % interval of the share of bad ones with authors as clusters. `review` and `flagged` are those
    that score lower, on either side of T_LOW; None in a file of before they were counted.
    """

    certified: bool
    threshold: Unit | None
    budget: Share
    n: Weight
    bad: Weight
    low: Unit
    high: Unit
    need: ToldNeed | None
    made_at: Moment
    expires_at: Moment
    months: Annotated[tuple[ShownMonth, ...], msgspec.Meta(max_length=60)]
    review: ShownShare | None = None
    flagged: ShownShare | None = None


class ShownModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The model named `model`; `lane` is None where no threshold was attempted. `t_low` says what came of the attempt
    at T_LOW, "" where none was made."""

    form: Literal["sunstead-figures/1"]
    model: Digest
    made_at: Moment
    cases: Size
    person: ShownScope
    change: ShownScope
    lane: ShownLane | None
    t_low: Words = ""


def shown_model(
    record: Mapping[str, Any], name: str, certificate: Certificate | None, said: str = "", t_low: float = 0.0
) -> ShownModel:
    """The figures of the record that `model_files` makes, and of the attempts that were made with it: that at T_HIGH,
    and what was said of that at T_LOW, which is `t_low` since.
    """
    person, change = (_scope(record["scopes"][scope]) for scope in ("person", "change"))
    made_at = datetime.fromisoformat(record["made_at"])
    lane = None if certificate is None else shown_lane(certificate, t_low)
    return ShownModel(FORM, name, made_at, record["cases"], person, change, lane, said)


def _scope(part: Mapping[str, Any]) -> ShownScope:
    figures, serves = part["metrics"], part["decision"]["serves"]
    lift = next((one["self_lift"] for one in part["decision"]["trials"] if one["name"] == serves), None)
    bins = tuple(ShownBin(**one) for one in figures["reliability"])
    return ShownScope(serves, figures["n"], figures["auc"], figures["ece"], figures["ece_band"][1], bins, lift)


def shown_lane(certificate: Certificate, t_low: float = 0.0) -> ShownLane:
    """What an attempt at T_HIGH says of the lane, month by month, and of what scores lower, above T_LOW and below."""
    found = certificate.found
    nearest = found.need.threshold if found.need else None
    threshold = nearest if found.threshold is None else found.threshold
    inside = [] if threshold is None else _inside(certificate.cases, threshold)
    n, bad = _weigh(inside)
    certified = found.threshold is not None
    low, high = interval(bad, n, found.effective if certified else n)
    times = (certificate.made_at, certificate.expires_at)
    edges = ((t_low, found.threshold), (0.0, t_low))  # where nothing is certified the lane is shut: all are below it
    below = (_share(certificate.cases, start, end) for start, end in edges)
    counts = (certificate.budget, n, bad, low, high, found.need)
    return ShownLane(certified, threshold, *counts, *times, _months(inside), *below)


def _share(cases: tuple[Case, ...], start: float, end: float | None) -> ShownShare:
    """What became of those that scored from `start` to below `end`."""
    import numpy as np

    from scoring.learning.lanes import Judged, lanes_of
    from scoring.threshold import effective_counts

    steps = range(round(start * STEPS), STEPS + 1 if end is None else round(end * STEPS))
    found = [one for one in cases if one.score in steps]
    n, bad = _weigh(found)
    if not found:
        return ShownShare(n, bad, *interval(bad, n, n))
    # One score for all: they are one lane, counted together.
    told, authors, odds = (np.array([getattr(one, name) for one in found]) for name in ("bad", "author", "odds"))
    together = lanes_of(Judged.of(np.zeros(len(found)), told, authors, np.zeros(len(found), "M8[us]"), 1 / odds))
    return ShownShare(n, bad, *interval(bad, n, float(effective_counts(together)[-1])))


def interval(bad: float, n: float, counts: float) -> tuple[float, float]:
    """A 95 % Clopper-Pearson interval of bad / n that stands for `counts` independent ones; (0, 1) where n is 0."""
    import numpy as np

    from scoring.threshold import upper_bound  # and all that learns, of which pages are spared

    if n <= 0 or counts <= 0:
        return 0.0, 1.0
    worst = counts * bad / n
    high, clean = upper_bound(np.array([worst, counts - worst]), np.array([counts, counts]), SURE).tolist()
    return round(max(0.0, 1 - clean), 6), round(min(1.0, high), 6)


def _inside(cases: tuple[Case, ...], threshold: float) -> list[Case]:
    return sorted((one for one in cases if one.score >= round(threshold * STEPS)), key=lambda one: one.opened)


def _months(inside: list[Case]) -> tuple[ShownMonth, ...]:
    def of_months() -> Iterator[ShownMonth]:
        for month, cases in groupby(inside, key=lambda one: f"{datetime.fromtimestamp(one.opened, UTC):%Y-%m}"):
            n, bad = _weigh(list(cases))
            yield ShownMonth(month, n, bad, *interval(bad, n, n))

    return tuple(of_months())


def _weigh(cases: list[Case]) -> tuple[float, float]:
    """The weights of all of them, and of the bad ones."""
    return round(sum(1 / one.odds for one in cases), 6), round(sum(one.bad / one.odds for one in cases), 6)


def keep_figures(folder: Path, shown: ShownModel) -> Path:
    """Write the figures beside their model. Raises OSError."""
    return keep_shown(folder / f"{shown.model}{ENDING}", shown)


def read_serving(folder: Path, label: LabelName) -> tuple[str | None, ShownModel | None]:
    """The name of the model that serves a label, None for none, and its figures, None where they cannot be read."""
    try:
        name = serving_name(folder, label)
    except (ModelProblem, OSError):
        return None, None
    found = None if name is None else read_shown(folder / f"{name}{ENDING}", ShownModel, LARGEST)
    return name, found if found is not None and found.model == name else None
