"""Draw charts and tables of reports: reliability, budgets, false approvals, attack simulations. Pure.

The budgets show the results of each. None means that a chart has nothing to show:
pages then say what is missing.

False approvals over time are those of the backtest and the lane's real ones. Both are drawn against the budget, with
different marks, in one table.

The last attack simulations are described in sentences for the dashboard.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, sqrt

from scoring.formatting import (
    bad_interval,
    bad_percent,
    budget_percent,
    percent_in_full,
    things,
    weighted,
)
from scoring.models.base import SIGMAS
from scoring.queries.lanes import LaneMonth
from scoring.redteam.render import ShownReport, say_graph, say_result
from scoring.training.summary import (
    ShownBacktest,
    ShownBin,
    ShownBudget,
    ShownGroup,
    ShownLabel,
    ShownLane,
    ShownMonth,
    ShownShare,
)
from scoring.types import Lane
from triage.charts.plot import (
    NOT_SHOWN,
    Area,
    Box,
    Dot,
    Frame,
    Label,
    Plot,
    Spot,
    Stroke,
    Table,
    is_drawn,
    line,
    month_words,
    outline,
    places,
    round_up,
    some_of,
    whiskers,
)

SQUARE = Frame(left=44, right=348, top=12, bottom=288)
TICKS = 4  # months named below an axis: at phone width a name takes a sixth of it
OUTSIDE = ("outside", "recipe")  # group and way of the estimated lane for people without push access
WAYS = {"recipe": "estimated", "certificate": "certified"}
GROUPS: Mapping[str, str] = {
    "outside": "people without push access",
    "newcomers": "newcomers among them, their first",
    "all": "all, with push access too",
}


def reliability(key: str, bins: Sequence[ShownBin], words: str = "") -> Plot | None:
    """Plot predicted against observed shares, bin by bin, with the band for calibrated probabilities."""
    valid_bins = _printed(bins)
    if not valid_bins:
        return None
    low, high = _tenths(
        [value for score_bin in valid_bins for value in (score_bin.told, score_bin.came, score_bin.low, score_bin.high)]
    )

    def place(told: float, came: float) -> Spot:
        return SQUARE.x((told - low) / (high - low)), SQUARE.y((came - low) / (high - low))

    spots = [place(score_bin.told, score_bin.came) for score_bin in valid_bins]
    upper, lower = (
        [place(score_bin.told, score_bin.high) for score_bin in valid_bins],
        [place(score_bin.told, score_bin.low) for score_bin in valid_bins],
    )
    named = [(share, f"{100 * (low + share * (high - low)):g}") for share in (0, 0.5, 1)]
    outside = sum(_outside(score_bin) > 0 for score_bin in valid_bins)
    return Plot(
        key=key,
        title=f"Predicted against observed clean merges{words}",
        summary=f"{sum(score_bin.n for score_bin in valid_bins):,} settled pull requests "
        f"in {_bins(len(valid_bins))}; {_outside_words(outside)}",
        height=330,
        note="Across: what was said. Up: what came true. Band: honest scores stay within it in 95 of 100 cases."
        + (
            ""
            if (low, high) == (0, 1)
            else f" Both axes run from {100 * low:g} to {100 * high:g} %, where the scores are."
        ),
        table=_reliability_table(valid_bins),
        rules=(*_axes(SQUARE), Stroke(line([(44, 288), (348, 12)]), dash="4 4")),
        areas=(Area(outline(upper, lower)),) if len(valid_bins) > 1 else (),
        strokes=(Stroke(line(spots)),) if len(valid_bins) > 1 else (Stroke(line([upper[0], lower[0]])),),
        dots=tuple(Dot(x, y) for x, y in spots),
        labels=(
            *(Label(SQUARE.left - 8, SQUARE.y(share) + 4, words, "end") for share, words in named),
            *(Label(SQUARE.x(share), 306, words) for share, words in named),
            Label(196, 324, "said: % that stays clean"),
            Label(52, 24, "came true: % that stayed clean", "start", note=True),
        ),
    )


def _tenths(shares: Sequence[float]) -> tuple[float, float]:
    """Return the range of whole tenths in [0, 1] that holds all of these, at least one tenth wide."""
    low = min(max(floor(10 * min(shares) + 1e-9), 0), 9)
    high = min(max(ceil(10 * max(shares) - 1e-9), low + 1), 10)
    return low / 10, high / 10


FEWEST_OF_EACH = 10  # below it an AUC without skill differs from a half by more than a real order would
WIDEST = 0.3  # of a band of honest scores: by a wider one any score looks honest


def score_answer(bins: Sequence[ShownBin]) -> tuple[str, str]:
    """Say whether scores come true: a word, and its evidence; "" where nothing was judged.

    The evidence is the bin that lies furthest outside its band, or the largest where none does.
    """
    valid_bins = _printed(bins)
    if not valid_bins:
        return "Not tested yet.", ""
    outside = sum(_outside(score_bin) > 0 for score_bin in valid_bins)
    named = max(valid_bins, key=lambda score_bin: (max(_outside(score_bin), 0), score_bin.n, score_bin.told))
    band, lie = f"{bad_interval(named.low, named.high)} %", "lie" if outside > 1 else "lies"
    share = f"{outside} of {_bins(len(valid_bins))}" if outside else "No bin"
    told = (
        "Not everywhere." if outside else "Yes, so far." if named.high - named.low <= WIDEST else "Too early to tell."
    )
    return (
        told,
        f"Where it said {_tenth_percent(named.told)}, {_tenth_percent(named.came)} stayed clean; honest scores give "
        f"{band} there. {share} {lie} outside.",
    )


def lowest_told(bins: Sequence[ShownBin]) -> float:
    """Return the average chance in the lowest bin that was tested; 0 where none was."""
    return min((one.told for one in _printed(bins)), default=0.0)


def rarely_tested_words(lowest: float, below: int, numbered: int) -> str:
    """Say how many of the open ones lie below the lowest bin's average; "" where they are less than a fifth."""
    if 5 * below < numbered or below < 5:  # fewer could tell whose chance it is
        return ""
    return (
        f"{below:,} of the {numbered:,} open ones with a chance lie below {_tenth_percent(lowest)}, the average of the "
        "lowest bin, where less was tested."
    )


def _printed(bins: Sequence[ShownBin]) -> list[ShownBin]:
    """Return the bins that can be drawn, with shares in tenths of a per cent, bands rounded outwards.

    Sentence, chart and table all rest on these figures, so that a reader who compares the printed ones finds the same.
    """
    return [
        ShownBin(one.n, *(floor(round(1000 * share, 6)) / 1000 for share in (one.told, one.came, one.low)), high)
        for one in bins
        if is_drawn(one.told, one.came, one.low, one.high)
        for high in (ceil(round(1000 * one.high, 6)) / 1000,)
    ]


def _outside(score_bin: ShownBin) -> float:
    """Return how far the observed share lies outside the band; 0 or less inside."""
    return round(max(score_bin.low - score_bin.came, score_bin.came - score_bin.high), 9)


def _tenth_percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _bins(count: int) -> str:
    return "1 bin" if count == 1 else f"{count} bins"


def _outside_words(outside: int) -> str:
    if not outside:
        return "every one lies in the band in which calibrated probabilities would"
    return f"{outside} outside the band within which calibrated probabilities lie everywhere in 95 of 100 draws"


def _reliability_table(bins: Sequence[ShownBin]) -> Table:
    rows = tuple(
        (_tenth_percent(one.told), _tenth_percent(one.came), f"{bad_interval(one.low, one.high)} %", f"{one.n:,}")
        for one in bins
    )
    return Table(("Predicted", "Observed", "Band", "Pull requests"), rows)


def verdict(label: ShownLabel) -> tuple[str, str]:
    """Say whether the score separates clean from bad in the backtest, with the share of correct pairs."""
    outside = label.groups[0]
    if outside.auc is None or not outside.bad or outside.bad == outside.n:
        return "Too early to say.", ""
    word = "Yes, in part" if tells_apart(label) else "Hardly" if outside.auc > 0.5 - _no_skill(outside) else "No"
    return (
        f"{word}.",
        f"Of {things(outside.n, 'past pull request')} a clean one scored above a bad one in {pairs(outside.auc)} "
        "pairs; chance gives 50.",
    )


def tells_apart(label: ShownLabel) -> bool:
    """Return whether the score ordered the backtest's pull requests of outsiders better than luck would."""
    outside = label.groups[0]
    return outside.auc is not None and 0 < outside.bad < outside.n and outside.auc - 0.5 > _no_skill(outside)


def is_without_order(label: ShownLabel) -> bool:
    """Return whether a backtest of FEWEST_OF_EACH clean and bad ones by outsiders found no order."""
    outside = label.groups[0]
    return min(outside.bad, outside.n - outside.bad) >= FEWEST_OF_EACH and not tells_apart(label)


def _no_skill(group: ShownGroup) -> float:
    """Return by how much an AUC without skill differs from a half at most, in 95 of 100 cases (Mann and Whitney)."""
    clean, bad = group.n - group.bad, group.bad
    return SIGMAS * sqrt((group.n + 1) / (12 * clean * bad))


def backtest_of(report: ShownBacktest | None, label: str) -> ShownLabel | None:
    """Return the newest backtest of a label; None where it has judged nothing."""
    candidate = next((candidate for candidate in report.labels if candidate.label == label), None) if report else None
    return candidate if candidate and candidate.groups and candidate.groups[0].n else None


def groups_table(label: ShownLabel) -> Table:
    """Return for each group how many turned out bad, and how well the score ordered them."""
    rows = tuple(
        (GROUPS[group.group], f"{group.n:,}", f"{group.bad:,}", _bad_share(group), pairs(group.auc))
        for group in label.groups
    )
    return Table(("Sent by", "Pull requests", "Went bad", "Share", "Pairs in the right order"), rows)


def lanes_table(label: ShownLabel) -> Table:
    """Return what a lane of each budget would have let through, without and with people who may push."""
    everybody = {(lane.budget, lane.way): lane for lane in label.budgets if lane.group == "all"}
    rows = tuple(
        _lane_row(lane, everybody.get((lane.budget, lane.way))) for lane in label.budgets if lane.group == "outside"
    )
    heads = ("Let through", "Of", "People", "Went bad", "Share", "95 % interval", "All: let through, bad")
    return Table(("Budget", *heads), rows)


OWN_RULE = (
    "A larger budget let through fewer here because the smallest one has a rule of its own: it opens as soon as its "
    "count keeps half the budget. The larger one is tested in steps and needs more cases before it opens."
)
OWN_THRESHOLD = (
    "“All” is a lane of its own, with thresholds chosen on everybody's past. It can let through fewer than the lane "
    "without people with push access."
)


def lane_notes(label: ShownLabel) -> tuple[str, ...]:
    """Explain the counts of `lanes_table` that look wrong: a larger budget, or everybody's lane, with fewer."""
    lanes = {(lane.group, lane.way, lane.budget): lane.lane for lane in label.budgets}
    outside = sorted((budget, count) for (group, way, budget), count in lanes.items() if (group, way) == OUTSIDE)
    shrinks = any(later < earlier for (_, earlier), (_, later) in pairwise(outside))
    is_more = any(count > lanes.get(("all", *rest), count) for (group, *rest), count in lanes.items() if group != "all")
    return (*([OWN_RULE] if shrinks else []), *([OWN_THRESHOLD] if is_more else []))


def _lane_row(lane: ShownBudget, everybody: ShownBudget | None) -> tuple[str, ...]:
    low, high = lane.rate_ci
    edges = NOT_SHOWN if low is None or high is None else f"{bad_interval(low, high)} %"
    share = "never opened" if lane.rate is None else bad_percent(lane.rate)
    beside = f"{everybody.lane:,}, {everybody.bad:,}" if everybody else NOT_SHOWN
    name = f"{percent_in_full(lane.budget)}, {WAYS[lane.way]}"
    return name, *(f"{count:,}" for count in (lane.lane, lane.n, lane.authors, lane.bad)), share, edges, beside


def lane_sentence(label: ShownLabel) -> tuple[str, str]:
    """Say what an estimated lane of the smallest budget would have let through: its counts, and their meaning."""
    lane = _smallest_estimated(label)
    if lane is None or not lane.lane or lane.rate is None:
        return "Nothing.", "No lane would ever have opened in this past."
    relation = "within" if lane.rate <= lane.budget else "above"
    bad = f"{lane.bad:,} of them went bad, {bad_percent(lane.rate)}"
    return (
        f"{lane.lane:,} of {lane.n:,}.",
        f"{bad}. That is {relation} {percent_in_full(lane.budget)}, the smallest budget that the backtest tries.",
    )


def _smallest_estimated(label: ShownLabel) -> ShownBudget | None:
    lanes = [lane for lane in label.budgets if (lane.group, lane.way) == OUTSIDE]
    return min(lanes, key=lambda lane: lane.budget, default=None)


def newcomers_sentence(label: ShownLabel) -> tuple[str, str]:
    """Say how people's first pull requests turned out: their share of bad ones, and the lane's effect on them."""
    groups = {group.group: group for group in label.groups}
    first_pulls, outside = groups.get("newcomers"), groups.get("outside")
    if not first_pulls or not outside or not first_pulls.n:
        return "Too early to say.", ""
    lane = _smallest_estimated(label)
    through = (
        f" The lane would have let {lane.newcomers:,} of them through, {lane.newcomers_bad:,} bad." if lane else ""
    )
    return (
        f"{first_pulls.bad:,} of {things(first_pulls.n, 'first pull request')} went bad.",
        f"That is {_bad_share(first_pulls)}; of everybody's {_bad_share(outside)}.{through}",
    )


def pairs(value: float | None) -> str:
    """Format an AUC as pairs of a clean and a bad pull request in which the clean one scored higher."""
    return NOT_SHOWN if value is None else f"{100 * value:.0f} of 100"


def _bad_share(group: ShownGroup) -> str:
    return bad_percent(group.bad / group.n) if group.n else NOT_SHOWN


def _axes(frame: Frame) -> tuple[Stroke, ...]:
    return (Stroke(line([(frame.left, frame.top), (frame.left, frame.bottom), (frame.right, frame.bottom)])),)


FRAME = Frame(left=92, right=700, top=16, bottom=212)
BESIDE = 6  # units between the middle of a month and each series' marks
SIDE = 10  # of a square
EDGE = 0.08  # share of the width, free at either end: marks are clear of the axis, and names stay inside the picture
Month = ShownMonth | LaneMonth


@dataclass(frozen=True, slots=True)
class _Series:
    name: str
    months: Sequence[Month]
    beside: int

    def over(self, budget: float) -> int:
        return sum(month.bad / month.n > budget for month in self.months)


def false_approvals(key: str, lane: ShownLane | None, results: Sequence[LaneMonth], budget: float) -> Plot | None:
    """Plot the fast lane's share of bad ones by month: the backtest's as dots, the real ones as squares.

    None where neither has a month. `budget` is a share in (0, 1).
    """
    series = [
        _Series(name, valid_months, beside)
        for name, months, beside in (
            ("backtest (dots)", lane.months if lane else (), -BESIDE),
            ("live (squares)", results, BESIDE),
        )
        if (
            valid_months := [
                month for month in months if month.n > 0 and is_drawn(month.n, month.bad, month.low, month.high)
            ]
        )
    ]
    if not series:
        return None
    names = sorted({month.month for line_of in series for month in line_of.months})
    frame = _frame(series, budget)
    xs = dict(zip(names, (frame.x(EDGE + (1 - 2 * EDGE) * share) for share in places(len(names))), strict=True))
    level, limit = frame.y(budget), "limit" if results else "budget"
    return Plot(
        key=key,
        title="Bad ones the lane let through, by month",
        summary=_summary(series, limit, budget),
        height=250,
        table=_table(series),
        wide=True,
        note="Across: month. Up: the share that turned out bad. Whiskers: 95 % interval; an arrow: it goes on. "
        f"Dashed: {limit} {budget_percent(budget)}.",
        rules=frame.rules((0, frame.highest / 2, frame.highest)),
        strokes=(
            Stroke(line([(frame.left, level), (frame.right, level)]), "flag", "6 4"),
            *(
                mark
                for line_of in series
                for month in line_of.months
                for mark in whiskers(xs[month.month] + line_of.beside, month.low, month.high, frame)
            ),
        ),
        dots=tuple(
            _dot(month, xs, frame, budget) for line_of in series if line_of.beside < 0 for month in line_of.months
        ),
        boxes=tuple(
            _square(month, xs, frame, budget) for line_of in series if line_of.beside > 0 for month in line_of.months
        ),
        labels=(
            *(
                Label(frame.left - 10, frame.y(tick) + 5, f"{100 * tick:g} %", "end")
                for tick in (0, frame.highest / 2, frame.highest)
            ),
            *(Label(xs[names[tick]], 242, month_words(names[tick])) for tick in some_of(len(names), TICKS)),
        ),
    )


def live_budget(results: Sequence[LaneMonth]) -> float:
    """Return the budgeted share of bad ones, averaged over the lanes at the time."""
    return sum(month.n * month.budget for month in results) / sum(month.n for month in results)


def _frame(series: Sequence[_Series], budget: float) -> Frame:
    """Return the axes, high enough for twice the budget and for every share, though not for every whisker."""
    highest = max(month.bad / month.n for line_of in series for month in line_of.months)
    top = min(1.0, round_up(max(2 * budget, 1.2 * highest)))
    return Frame(FRAME.left, FRAME.right, FRAME.top, FRAME.bottom, top)


def _dot(month: Month, xs: dict[str, float], frame: Frame, budget: float) -> Dot:
    share = month.bad / month.n
    return Dot(round(xs[month.month] - BESIDE, 1), frame.y(share), SIDE / 2, "flag" if share > budget else "plain")


def _square(month: Month, xs: dict[str, float], frame: Frame, budget: float) -> Box:
    share = month.bad / month.n
    x, y = xs[month.month] + BESIDE - SIDE / 2, frame.y(share) - SIDE / 2
    return Box(round(x, 1), round(y, 1), SIDE, SIDE, "flag" if share > budget else "plain")


def _summary(series: Sequence[_Series], limit: str, budget: float) -> str:
    parts = "; ".join(f"{line_of.name}: {_count_over(line_of.over(budget), len(line_of.months))}" for line_of in series)
    return f"{parts} above the {limit} of {budget_percent(budget)}; single months may exceed it, the total may not"


def _count_over(over: int, months: int) -> str:
    return f"{over or 'none'} of {months} month{'' if months == 1 else 's'}"


def _table(series: Sequence[_Series]) -> Table:
    rows = tuple(_row(month, line_of.name) for line_of in series for month in line_of.months)
    return Table(("Month", "Let through", "Bad", "Share", "95 % interval"), rows)


def _row(month: Month, name: str) -> tuple[str, ...]:
    counts = (weighted(month.n), weighted(month.bad))
    shares = (bad_percent(month.bad / month.n), f"{bad_interval(month.low, month.high)} %")
    return f"{month_words(month.month)}, {name.partition(' ')[0]}", *counts, *shares


LIKE_THESE = 20  # of fewer the interval tells nothing: 2.5 to 100 % for one


def like_these(lane: ShownLane | None) -> Mapping[str, str]:
    """Return the backtest's result for each lane's rows, a sentence by lane.

    Lanes with fewer than LIKE_THESE pull requests in the backtest are omitted. It knows scores and no findings: rows
    outside the fast lane are those that the score alone sends there.
    """
    shares = {Lane.FAST_LANE: lane, Lane.NORMAL_QUEUE: lane and lane.review, Lane.NEEDS_HUMAN: lane and lane.flagged}
    return {str(key): _lane_result(key, share) for key, share in shares.items() if share and share.n >= LIKE_THESE}


def _lane_result(lane: Lane, share: ShownLane | ShownShare) -> str:
    these = "like these" if lane is Lane.FAST_LANE else "with such scores"
    edges = bad_interval(share.low, share.high)
    return (
        f"In the backtest {weighted(share.bad)} of {weighted(share.n)} {these} needed a fix (95 % interval {edges} %)."
    )


def lane_words(lane: ShownLane, exact: bool) -> str:
    """Say which lane is behind the backtest's figures, with its exact threshold or without."""
    at = f" at {percent_in_full(lane.threshold)} or above" if exact and lane.threshold is not None else ""
    if lane.certified:
        made_on = f"{lane.made_at.day} {lane.made_at:%b %Y}"
        return f"Backtest: what the certified threshold would have let through{at}, of the year before {made_on}."
    return f"Backtest: nothing is certified. This is what the threshold that comes nearest would have let through{at}."


NOT_YET = (
    "Not run yet. The operator starts the simulations with manage.py redteam. They attack a copy of the vouch graph "
    "and change nothing."
)


def attack_sentences(report: ShownReport | None) -> tuple[str, ...]:
    """Describe the last run in two sentences with its date; without one, how to start it."""
    if report is None:
        return (NOT_YET,)
    return say_result(report), f"Simulated on {report.at.day} {report.at:%b %Y} on {say_graph(report)}"
