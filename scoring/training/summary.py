"""Summarises a model, its attempt at a threshold and the newest backtest in small files that a page shows.

They are JSON of a declared type beside the model or the report, whole or not there. They name nobody and no pull
request.

A page reads such a file as something that anybody may have written: bounded, typed, or not at all.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from ingest.files import write_whole
from ingest.json_decoding import decode_json
from scoring.certificates.certificate import Case, Certificate, Digest, Moment, NeedRecord, Share, Unit, Weight
from scoring.certificates.lane_counts import ScoredCases, count_lanes
from scoring.certificates.threshold import effective_counts, upper_bound
from scoring.dataset.cases import LabelName
from scoring.models.storage import ModelProblem, serving_name

Shown = TypeVar("Shown", bound=msgspec.Struct)


def keep_shown(path: Path, shown: msgspec.Struct) -> Path:
    """Put it in the place of the one before, whole or not at all. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, msgspec.json.encode(shown, order="sorted"))
    return path


def read_shown(path: Path, kind: type[Shown], largest: int) -> Shown | None:
    """Return what was kept there; None where there is none, or none of this type within `largest` bytes."""
    try:
        with path.open("rb") as file:
            data = file.read(largest + 1)
        return decode_json(data if len(data) <= largest else b"", kind)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


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
    """The model that serves one scope, and how it did on the judged years, scored as it would have been then.

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
    """One month's pull requests that the lane would have let through, by weight; a 95 % interval of the bad share.

    The interval takes each pull request for itself: with authors as clusters it would be wider.
    """

    month: Annotated[str, msgspec.Meta(pattern="^[0-9]{4}-[0-9]{2}$")]
    n: Weight
    bad: Weight
    low: Unit
    high: Unit


class ShownShare(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The bad ones among `n` settled pull requests, by weight; a 95 % interval of the share, authors as clusters."""

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
    need: NeedRecord | None
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
    """Return what an attempt at T_HIGH says of the lane, month by month, and of what scores lower, above T_LOW and
    below.
    """
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
    """Return what became of those that scored from `start` to below `end`."""
    import numpy as np

    steps = range(round(start * STEPS), STEPS + 1 if end is None else round(end * STEPS))
    found = [one for one in cases if one.score in steps]
    n, bad = _weigh(found)
    if not found:
        return ShownShare(n, bad, *interval(bad, n, n))
    # One score for all: they are one lane, counted together.
    told, authors, odds = (np.array([getattr(one, name) for one in found]) for name in ("bad", "author", "odds"))
    together = count_lanes(
        ScoredCases.of(np.zeros(len(found)), told, authors, np.zeros(len(found), "M8[us]"), 1 / odds)
    )
    return ShownShare(n, bad, *interval(bad, n, float(effective_counts(together)[-1])))


def interval(bad: float, n: float, counts: float) -> tuple[float, float]:
    """A 95 % Clopper-Pearson interval of bad / n that stands for `counts` independent ones; (0, 1) where n is 0."""
    import numpy as np

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


BACKTEST_FORM = "sunstead-backtest/2"
FILE = "backtest.json"
LARGEST_BACKTEST = 1024 * 1024  # bytes of a file that is read; three labels of five years need 20 KB
Wait = Annotated[float, msgspec.Meta(ge=0)]
Edges = tuple[float | None, float | None]
Group = Literal["outside", "newcomers", "all"]


class ShownGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One group's judged and bad pull requests, and how well the score ordered them; None: undefined.

    `group` is "outside" (by people who may not push), "newcomers" (the first of each of them) or "all".
    """

    group: Group
    n: Size
    bad: Size
    auc: Unit | None


class ShownBudget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The real outcome of a lane that was chosen month by month, `way` by the recipe or by certificates."""

    group: Group
    way: Literal["recipe", "certificate"]
    budget: Share
    n: Size
    lane: Size
    authors: Size
    bad: Size
    rate: Unit | None
    rate_ci: Edges
    newcomers: Size  # of the lane, and how many of these were bad
    newcomers_bad: Size


class ShownOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of one order of the queue: `queue_orders.order_figures` says what each field is."""

    group: Group
    name: Words
    tenth: Unit
    tenth_bad: Unit | None
    third: Unit
    window: Wait | None
    wait: Wait | None
    first_timer_wait: Wait | None
    first_timer_longest: Wait | None
    longest: Wait | None
    bad: Size | None = None  # none in older files


class ShownLabel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One definition of a clean pull request, judged from `since` until `until`, days of opening; None for nothing."""

    label: Words
    since: date | None
    until: date | None
    groups: Annotated[tuple[ShownGroup, ...], msgspec.Meta(max_length=3)]
    bins: Annotated[tuple[ShownBin, ...], msgspec.Meta(max_length=100)]
    budgets: Annotated[tuple[ShownBudget, ...], msgspec.Meta(max_length=20)]
    orders: Annotated[tuple[ShownOrder, ...], msgspec.Meta(max_length=20)]


class ShownBacktest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One run of the backtest, at `at` (naive UTC), on `cases` pull requests."""

    form: Literal["sunstead-backtest/2"]
    at: Moment
    cases: Size
    labels: Annotated[tuple[ShownLabel, ...], msgspec.Meta(max_length=10)]


def shown_backtest(found: Mapping[str, Any], besides: Mapping[str, Any], at: datetime) -> ShownBacktest:
    """Return what of a run a page shows; `found` and `besides` are what `backtest.run` returns."""
    labels = tuple(_label(label, figures, besides[label]["judged"]) for label, figures in found["labels"].items())
    return ShownBacktest(BACKTEST_FORM, at.replace(microsecond=0), found["cases"], labels)


def _label(label: str, figures: Mapping[str, Any], judged: Mapping[str, Any]) -> ShownLabel:
    parts: Mapping[Group, Mapping[str, Any]] = {"outside": figures["without_push_holders"], "all": figures}
    gates: Mapping[Group, Mapping[str, Any]] = {
        "outside": figures["gate"]["without_push_holders"],
        "all": figures["gate"],
    }
    return ShownLabel(
        label,
        judged["since"],
        judged["until"],
        tuple(ShownGroup(name, **one) for name, one in judged["groups"].items()),
        tuple(ShownBin(one.n, one.told, one.came, one.low, one.high) for one in judged["reliability"]),
        tuple(lane for group, gate in gates.items() for lane in _budgets(group, gate.get("budgets", {}))),
        tuple(ShownOrder(group, name, **one) for group, part in parts.items() for name, one in part["order"].items()),
    )


def _budgets(group: Group, lanes: Mapping[str, Mapping[str, Any]]) -> Iterator[ShownBudget]:
    for budget, lane in lanes.items():
        yield _budget(group, "recipe", float(budget), lane["n"], lane)
        yield _budget(group, "certificate", float(budget), lane["n"], lane["certificate"])


def _budget(
    group: Group, way: Literal["recipe", "certificate"], budget: float, n: int, lane: Mapping[str, Any]
) -> ShownBudget:
    low, high = lane["rate_ci"]
    counts = (n, lane["lane"], lane["authors"], lane["false_approvals"])
    return ShownBudget(group, way, budget, *counts, lane["rate"], (low, high), lane["newcomers"], lane["newcomers_bad"])


def keep_backtest(folder: Path, shown: ShownBacktest) -> Path:
    """Put the run in the place of the one before. Raises OSError."""
    return keep_shown(folder / FILE, shown)


def read_backtest(folder: Path) -> ShownBacktest | None:
    """The newest run that was kept; None where there is none, or none that can be read."""
    return read_shown(folder / FILE, ShownBacktest, LARGEST_BACKTEST)
