"""Summarises a model, its attempt at a threshold and the newest backtest in small files for pages.

They are JSON of a declared type beside the model or the report, written atomically. They name no person and no pull
request. Pages treat them as untrusted: bounded and typed, or ignored.
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
from scoring.graph.checkpoint import CheckpointProblem, pointed
from scoring.models.storage import ModelProblem, serving_name

Shown = TypeVar("Shown", bound=msgspec.Struct)


def write_summary(path: Path, record: msgspec.Struct) -> Path:
    """Write a summary atomically over the earlier one. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, msgspec.json.encode(record, order="sorted"))
    return path


def read_summary(path: Path, kind: type[Shown], largest: int) -> Shown | None:
    """Read a summary; None without one of this type within `largest` bytes."""
    try:
        with path.open("rb") as file:
            data = file.read(largest + 1)
        return decode_json(data if len(data) <= largest else b"", kind)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


FORM = "sunstead-figures/1"
ENDING = ".figures.json"
FILE_LIMIT = 256 * 1024  # bytes of a file that is read; 20 bins and 13 months need 4 KB
STEPS = 10_000  # of a score in a certificate
SURE = 0.025  # each end of a 95 % interval
Words = Annotated[str, msgspec.Meta(max_length=1000)]
Size = Annotated[int, msgspec.Meta(ge=0, le=10**12)]
Wait = Annotated[float, msgspec.Meta(ge=0)]


class ShownBin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One bin of a reliability curve, as `metrics.Bin`."""

    n: Size
    told: Unit
    came: Unit
    low: Unit
    high: Unit


class ShownScope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The model that serves one scope, with its figures on the judged years, scored as it would have been then.

    `self_lift` is the most by which anybody raised their own P alone, None if that was never measured.
    """

    model: Words
    n: Size
    auc: Unit | None
    ece: Unit | None
    ece_high: Unit | None
    bins: Annotated[tuple[ShownBin, ...], msgspec.Meta(max_length=100)]
    self_lift: float | None = None


class ShownMonth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One month's pull requests that the lane would have let through, by weight, with a 95 % interval of the bad share.

    The interval treats pull requests as independent: with authors as clusters it would be wider.
    """

    month: Annotated[str, msgspec.Meta(pattern="^[0-9]{4}-[0-9]{2}$")]
    n: Weight
    bad: Weight
    low: Unit
    high: Unit


class ShownShare(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The bad ones among `n` settled pull requests, by weight, with a 95 % interval, authors as clusters."""

    n: Weight
    bad: Weight
    low: Unit
    high: Unit


class ShownLane(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One attempt at the threshold of the fast lane: the pull requests let through at `threshold`.

    If nothing was certified, that is the nearest threshold, or None; `need` says what is missing. `low` and `high` are
    a 95 % interval of the share of bad ones with authors as clusters. `review` and `flagged` are those that score
    lower, above and below T_LOW; None in older files.
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
    """The model named `model`; `lane` is None without an attempt. `t_low` is the result of T_LOW's, "" without one."""

    form: Literal["sunstead-figures/1"]
    model: Digest
    made_at: Moment
    cases: Size
    person: ShownScope
    change: ShownScope
    lane: ShownLane | None
    t_low: Words = ""


def shown_model(
    record: Mapping[str, Any], name: str, certificate: Certificate | None, t_low_result: str = "", t_low: float = 0.0
) -> ShownModel:
    """Return the figures of a record by `model_files` and of its attempts at T_HIGH and T_LOW.

    `t_low` is the threshold in force since.
    """
    person, change = (_shown_scope(record["scopes"][scope]) for scope in ("person", "change"))
    made_at = datetime.fromisoformat(record["made_at"])
    lane = None if certificate is None else shown_lane(certificate, t_low)
    return ShownModel(FORM, name, made_at, record["cases"], person, change, lane, t_low_result)


def _shown_scope(record: Mapping[str, Any]) -> ShownScope:
    figures, serves = record["metrics"], record["decision"]["serves"]
    lift = next((trial["self_lift"] for trial in record["decision"]["trials"] if trial["name"] == serves), None)
    bins = tuple(ShownBin(**trial) for trial in figures["reliability"])
    return ShownScope(serves, figures["n"], figures["auc"], figures["ece"], figures["ece_band"][1], bins, lift)


def shown_lane(certificate: Certificate, t_low: float = 0.0) -> ShownLane:
    """Return the figures of an attempt at T_HIGH: the lane by month, and the lower scores above and below T_LOW."""
    result = certificate.found
    nearest = result.need.threshold if result.need else None
    threshold = nearest if result.threshold is None else result.threshold
    inside = [] if threshold is None else _cases_from(certificate.cases, threshold)
    n, bad = _weigh_cases(inside)
    certified = result.threshold is not None
    low, high = interval(bad, n, result.effective if certified else n)
    times = (certificate.made_at, certificate.expires_at)
    edges = ((t_low, result.threshold), (0.0, t_low))  # without a certificate the lane is shut: all are below it
    below = (_shown_share(certificate.cases, start, end) for start, end in edges)
    counts = (certificate.budget, n, bad, low, high, result.need)
    return ShownLane(certified, threshold, *counts, *times, _shown_months(inside), *below)


def _shown_share(cases: tuple[Case, ...], start: float, end: float | None) -> ShownShare:
    """Return the share of bad ones among cases that scored from `start` to below `end`."""
    import numpy as np

    steps = range(round(start * STEPS), STEPS + 1 if end is None else round(end * STEPS))
    selected = [case for case in cases if case.score in steps]
    n, bad = _weigh_cases(selected)
    if not selected:
        return ShownShare(n, bad, *interval(bad, n, n))
    # One score for all, so that they form one lane.
    bad_shares, authors, odds = (
        np.array([getattr(case, name) for case in selected]) for name in ("bad", "author", "odds")
    )
    lane = count_lanes(
        ScoredCases.of(np.zeros(len(selected)), bad_shares, authors, np.zeros(len(selected), "M8[us]"), 1 / odds)
    )
    return ShownShare(n, bad, *interval(bad, n, float(effective_counts(lane)[-1])))


def interval(bad: float, n: float, counts: float) -> tuple[float, float]:
    """Return a 95 % Clopper-Pearson interval of bad / n for `counts` effective cases; (0, 1) if n is 0."""
    import numpy as np

    if n <= 0 or counts <= 0:
        return 0.0, 1.0
    bad_count = counts * bad / n
    high, clean = upper_bound(np.array([bad_count, counts - bad_count]), np.array([counts, counts]), SURE).tolist()
    return round(max(0.0, 1 - clean), 6), round(min(1.0, high), 6)


def _cases_from(cases: tuple[Case, ...], threshold: float) -> list[Case]:
    return sorted((case for case in cases if case.score >= round(threshold * STEPS)), key=lambda case: case.opened)


def _shown_months(inside: list[Case]) -> tuple[ShownMonth, ...]:
    def of_months() -> Iterator[ShownMonth]:
        for month, cases in groupby(inside, key=lambda case: f"{datetime.fromtimestamp(case.opened, UTC):%Y-%m}"):
            n, bad = _weigh_cases(list(cases))
            yield ShownMonth(month, n, bad, *interval(bad, n, n))

    return tuple(of_months())


def _weigh_cases(cases: list[Case]) -> tuple[float, float]:
    """Return the weight of all cases, and of the bad ones."""
    return round(sum(1 / case.odds for case in cases), 6), round(sum(case.bad / case.odds for case in cases), 6)


def write_figures(folder: Path, figures: ShownModel) -> Path:
    """Write the figures beside their model. Raises OSError."""
    return write_summary(folder / f"{figures.model}{ENDING}", figures)


def read_serving(folder: Path, label: LabelName) -> tuple[str | None, ShownModel | None]:
    """Return the name of the model that serves a label, or None, and its figures, None if they cannot be read."""
    try:
        name = serving_name(folder, label)
    except (ModelProblem, OSError):
        return None, None
    figures = None if name is None else read_summary(folder / f"{name}{ENDING}", ShownModel, FILE_LIMIT)
    return name, figures if figures is not None and figures.model == name else None


Group = Literal["outside", "newcomers", "all"]
Scope = Literal["person", "change"]
GRAPH, GRAPH_FORM = "graphsage", "sunstead-graph/1"
GRAPH_FILE = f"{GRAPH}{ENDING}"  # of a backtest


class ShownTrial(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One trial of the graph network: `gain` is in log-loss over what served before it, with a 95 % interval.

    `group` is "all" or "outside" (by people who may not push). `later`, of a backtest alone, is the gain over the blend
    in the judged quarters after it, which no trial saw, with its interval.
    """

    label: Words
    scope: Scope
    group: Group
    n: Size
    authors: Size
    auc: Unit | None
    log_loss: float | None
    gain: float | None
    gain_low: float | None
    gain_high: float | None
    seed_spread: float | None
    self_lift: float
    promoted: bool
    why: Words
    later: tuple[float, float, float] | None = None


class ShownRings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One simulated network with planted rings: the AUC of three models, and 95 % intervals of what is gained."""

    n: Size
    graph: Unit
    blend: Unit
    unheard: Unit
    over_blend: tuple[float, float]
    over_unheard: tuple[float, float]


class ShownTimes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The seconds of one fit of one net, the milliseconds of one pull request by all of them, and the bytes stored."""

    fit_seconds: Wait
    one_ms: Wait
    stored_bytes: Size


class ShownGraph(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The graph network as it was tried at `at` (naive UTC) on `cases` pull requests, over `seeds` seeds.

    `checkpoint` names what a training stored, "" for a backtest, which stores nothing.
    """

    form: Literal["sunstead-graph/1"]
    at: Moment
    cases: Size
    seeds: Size
    trials: Annotated[tuple[ShownTrial, ...], msgspec.Meta(max_length=12)]
    rings: Annotated[tuple[ShownRings, ...], msgspec.Meta(max_length=9)] = ()
    checkpoint: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{64})?$")] = ""
    times: ShownTimes | None = None


def shown_trial(decision: Mapping[str, Any], label: str, scope: Scope, group: Group) -> ShownTrial | None:
    """Return the trial of the graph network in a decision as plain values; None where it was not tried."""
    trial = next((one for one in decision["trials"] if one["name"] == GRAPH), None)
    if trial is None:
        return None
    values = {name: value for name, value in trial.items() if name != "name"}
    return ShownTrial(label, scope, group, decision["n"], decision["authors"], **values)


def read_graph(folder: Path, label: LabelName) -> ShownGraph | None:
    """Return the card of the graph network that a label points at; None without a readable one."""
    try:
        name = pointed(folder, label)
    except CheckpointProblem:
        return None
    card = None if name is None else read_summary(folder / f"{name}{ENDING}", ShownGraph, FILE_LIMIT)
    return card if card is not None and card.checkpoint == name else None


def read_graph_backtest(folder: Path) -> ShownGraph | None:
    """Return the trial of the graph network in the newest backtest that had it."""
    return read_summary(folder / GRAPH_FILE, ShownGraph, FILE_LIMIT)


BACKTEST_FORM = "sunstead-backtest/2"
FILE = "backtest.json"
BACKTEST_LIMIT = 1024 * 1024  # bytes of a file that is read; three labels of five years need 20 KB
Edges = tuple[float | None, float | None]


class ShownGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One group's judged and bad pull requests, and the AUC of their scores; None if undefined.

    `group` is "outside" (by people who may not push), "newcomers" (the first of each of them) or "all".
    """

    group: Group
    n: Size
    bad: Size
    auc: Unit | None


class ShownBudget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The observed outcome of a lane chosen monthly; `way` says whether by the recipe or by certificates."""

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
    """The result of one order of the queue: `replays.order_figures` says what each field is."""

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
    """One definition of a clean pull request, judged on days of opening from `since` to `until`, None without any."""

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


def shown_backtest(result: Mapping[str, Any], besides: Mapping[str, Any], moment: datetime) -> ShownBacktest:
    """Return a run's summary for the page; `result` and `besides` come from `backtest.run`."""
    labels = tuple(
        _shown_label(label, figures, besides[label]["judged"]) for label, figures in result["labels"].items()
    )
    return ShownBacktest(BACKTEST_FORM, moment.replace(microsecond=0), result["cases"], labels)


def _shown_label(label: str, figures: Mapping[str, Any], judged: Mapping[str, Any]) -> ShownLabel:
    parts: Mapping[Group, Mapping[str, Any]] = {"outside": figures["without_push_holders"], "all": figures}
    gates: Mapping[Group, Mapping[str, Any]] = {
        "outside": figures["gate"]["without_push_holders"],
        "all": figures["gate"],
    }
    return ShownLabel(
        label,
        judged["since"],
        judged["until"],
        tuple(ShownGroup(name, **values) for name, values in judged["groups"].items()),
        tuple(
            ShownBin(values.n, values.told, values.came, values.low, values.high) for values in judged["reliability"]
        ),
        tuple(lane for group, gate in gates.items() for lane in _shown_budgets(group, gate.get("budgets", {}))),
        tuple(
            ShownOrder(group, name, **values)
            for group, figures_of_group in parts.items()
            for name, values in figures_of_group["order"].items()
        ),
    )


def _shown_budgets(group: Group, lanes: Mapping[str, Mapping[str, Any]]) -> Iterator[ShownBudget]:
    for budget, lane in lanes.items():
        yield _shown_budget(group, "recipe", float(budget), lane["n"], lane)
        yield _shown_budget(group, "certificate", float(budget), lane["n"], lane["certificate"])


def _shown_budget(
    group: Group, way: Literal["recipe", "certificate"], budget: float, n: int, lane: Mapping[str, Any]
) -> ShownBudget:
    low, high = lane["rate_ci"]
    counts = (n, lane["lane"], lane["authors"], lane["false_approvals"])
    return ShownBudget(group, way, budget, *counts, lane["rate"], (low, high), lane["newcomers"], lane["newcomers_bad"])


def write_backtest(folder: Path, backtest: ShownBacktest) -> Path:
    """Write the run over the earlier one. Raises OSError."""
    return write_summary(folder / FILE, backtest)


def read_backtest(folder: Path) -> ShownBacktest | None:
    """Read the newest run; None without a readable one."""
    return read_summary(folder / FILE, ShownBacktest, BACKTEST_LIMIT)
