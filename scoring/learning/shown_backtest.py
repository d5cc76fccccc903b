"""The newest backtest as a page shows it: a small file that the command writes beside its report."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from scoring.learning.certificate import Moment, Share, Unit
from scoring.learning.shown_model import ShownBin, Size, Words
from scoring.shown_files import keep_shown, read_shown

FORM = "sunstead-backtest/1"
FILE = "backtest.json"
LARGEST = 1024 * 1024  # bytes of a file that is read; three labels of five years need 60 KB
SCOPES = ("change", "person")
Wait = Annotated[float, msgspec.Meta(ge=0)]
Edges = tuple[float | None, float | None]


class ShownFigures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one model did in the test: `name` says which, and on whom; None stands where nothing is defined."""

    name: Words
    n: Size
    auc: Unit | None
    brier: Unit | None
    log_loss: float | None
    ece: Unit | None
    ece_band: Edges


class ShownQuarter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The AUC of one model in the quarter that began with `month`."""

    month: Annotated[str, msgspec.Meta(pattern="^[0-9]{4}-[0-9]{2}$")]
    auc: Unit


class ShownSeries(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One model's AUC, quarter by quarter, oldest first."""

    model: Words
    quarters: Annotated[tuple[ShownQuarter, ...], msgspec.Meta(max_length=200)]


class ShownTest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One scope ("change", "person"): which model was chosen and why no other, and how each did in the test."""

    scope: Words
    serves: Words
    since: Words | None
    models: Annotated[tuple[ShownFigures, ...], msgspec.Meta(max_length=20)]
    bins: Annotated[tuple[ShownBin, ...], msgspec.Meta(max_length=100)]
    series: Annotated[tuple[ShownSeries, ...], msgspec.Meta(max_length=20)]
    why: Annotated[tuple[Words, ...], msgspec.Meta(max_length=100)]


class ShownBudget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What really came of a lane that was chosen month by month, `way` by the recipe or by certificates."""

    way: Literal["recipe", "certificate"]
    budget: Share
    n: Size
    lane: Size
    authors: Size
    bad: Size
    rate: Unit | None
    rate_ci: Edges
    newcomers: Size | None = None  # of the lane, and how many of these were bad; None in older files
    newcomers_bad: Size | None = None


class ShownOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one order of the queue would have done: `queue_orders.order_figures` says what each field is."""

    name: Words
    tenth: Unit
    tenth_bad: Unit | None
    third: Unit
    window: Wait | None
    wait: Wait | None
    first_timer_wait: Wait | None
    first_timer_longest: Wait | None
    longest: Wait | None


class ShownLabel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One definition of a clean pull request."""

    label: Words
    tests: Annotated[tuple[ShownTest, ...], msgspec.Meta(max_length=4)]
    budgets: Annotated[tuple[ShownBudget, ...], msgspec.Meta(max_length=20)]
    orders: Annotated[tuple[ShownOrder, ...], msgspec.Meta(max_length=20)] = ()  # of everybody; none in older files


class ShownBacktest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One run of the backtest, at `at` (naive UTC), on `cases` pull requests."""

    form: Literal["sunstead-backtest/1"]
    at: Moment
    data: Words
    seed: Size
    cases: Size
    labels: Annotated[tuple[ShownLabel, ...], msgspec.Meta(max_length=10)]


def shown_backtest(found: Mapping[str, Any], besides: Mapping[str, Any], at: datetime) -> ShownBacktest:
    """What of a run a page shows; `found` and `besides` are what `backtest.run` returns."""
    labels = tuple(_label(label, figures, besides[label]) for label, figures in found["labels"].items())
    return ShownBacktest(FORM, at.replace(microsecond=0), found["data"], found["seed"], found["cases"], labels)


def _label(label: str, figures: Mapping[str, Any], besides: Mapping[str, Any]) -> ShownLabel:
    parts = {"change": figures, "person": figures["person"]}
    gate = figures["gate"]["without_push_holders"]
    tests = tuple(_test(scope, parts[scope], gate, besides[scope]) for scope in SCOPES)
    lanes = gate.get("budgets", {})
    orders = tuple(ShownOrder(name, **one) for name, one in figures["order"].items())
    return ShownLabel(label, tests, tuple(_budgets(lanes)), orders)


def _test(scope: str, part: Mapping[str, Any], gate: Mapping[str, Any], beside: Mapping[str, Any]) -> ShownTest:
    """Without push-holders' own: nobody has to judge those. Newcomers, and what the gate takes, beside the models."""
    outside = part["without_push_holders"]
    models = {**outside["models"], f"{part['test']['model']}, newcomers": outside["newcomers"]}
    if scope == "change":
        models |= {"gate: the lower of the two": gate["test"], "gate, newcomers": gate["newcomers"]}
    why = [f"{one['name']}: {one['why']}" for one in beside["decision"]["trials"][1:]]
    return ShownTest(
        scope,
        part["test"]["model"],
        part["test"]["from"],
        tuple(_figures(name, one) for name, one in models.items()),
        tuple(ShownBin(one.n, one.told, one.came, one.low, one.high) for one in beside["reliability"]),
        tuple(ShownSeries(name, _quarters(values)) for name, values in beside["auc"].items()),
        tuple(words[:1000] for words in (*why, *beside["said"])),
    )


def _figures(name: str, one: Mapping[str, Any]) -> ShownFigures:
    low, high = one["ece_band"]
    return ShownFigures(name, one["n"], one["auc"], one["brier"], one["log_loss"], one["ece"], (low, high))


def _quarters(values: Any) -> tuple[ShownQuarter, ...]:
    return tuple(ShownQuarter(month, value) for month, value in values)


def _budgets(lanes: Mapping[str, Mapping[str, Any]]) -> Iterator[ShownBudget]:
    for budget, lane in lanes.items():
        yield _budget("recipe", float(budget), lane["n"], lane)
        yield _budget("certificate", float(budget), lane["n"], lane["certificate"])


def _budget(way: Literal["recipe", "certificate"], budget: float, n: int, lane: Mapping[str, Any]) -> ShownBudget:
    low, high = lane["rate_ci"]
    counts = (n, lane["lane"], lane["authors"], lane["false_approvals"])
    return ShownBudget(way, budget, *counts, lane["rate"], (low, high), lane["newcomers"], lane["newcomers_bad"])


def keep_backtest(folder: Path, shown: ShownBacktest) -> Path:
    """Put the run in the place of the one before. Raises OSError."""
    return keep_shown(folder / FILE, shown)


def read_backtest(folder: Path) -> ShownBacktest | None:
    """The newest run that was kept; None where there is none, or none that can be read."""
    return read_shown(folder / FILE, ShownBacktest, LARGEST)
