"""Charts of what was learned: reliability, order over time, what each budget gave. Pure.

None stands for a chart that has nothing to show: pages then say what is missing.

False approvals over time: what the lane would have let through in the backtest, and what it really did. Pure.

Both are drawn against the budget, told apart by the form of their marks, and stand in one table.

What the attack simulations found last, in sentences for the dashboard. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scoring.formatting import bad_interval, bad_percent, percent, percent_in_full, percent_interval
from scoring.queries.lanes import LaneMonth, share_interval
from scoring.redteam.render import ShownReport, answer, ground_words
from scoring.training.summary import (
    ShownBacktest,
    ShownBin,
    ShownBudget,
    ShownFigures,
    ShownLane,
    ShownMonth,
    ShownSeries,
    ShownShare,
)
from scoring.types import Lane
from triage.charts.plot import (
    Area,
    Box,
    Dot,
    Frame,
    Label,
    Plot,
    Stroke,
    Table,
    is_drawn,
    line,
    month_words,
    outline,
    percent_words,
    places,
    round_up,
    some_of,
    whiskers,
)

SQUARE = Frame(left=44, right=348, top=12, bottom=288)
BROAD = Frame(left=92, right=555, top=16, bottom=212)  # names of lines stand to the right of it
TICKS = 7  # months named below an axis: at phone width a name takes a twelfth of it
ENDS = 30  # units between the names of two lines: the letters of a phone are 25 high
DASHES = ("", "9 4", "2 4", "12 4 2 4")
WAYS = {"recipe": "by the recipe", "certificate": "as certified"}


def reliability(key: str, bins: Sequence[ShownBin], words: str = "") -> Plot | None:
    """Predicted against observed, bin by bin, in the band in which calibrated probabilities would lie."""
    drawn = [one for one in bins if is_drawn(one.told, one.came, one.low, one.high)]
    if not drawn:
        return None
    spots = [(SQUARE.x(one.told), SQUARE.y(one.came)) for one in drawn]
    upper, lower = (
        [(SQUARE.x(one.told), SQUARE.y(edge)) for one, edge in zip(drawn, edges, strict=True)]
        for edges in ([one.high for one in drawn], [one.low for one in drawn])
    )
    outside = sum(not one.low <= one.came <= one.high for one in drawn)
    return Plot(
        key=key,
        title=f"Predicted against observed clean merges{words}",
        summary=f"{sum(one.n for one in drawn):,} settled pull requests in {_bins(len(drawn))}; {_outside(outside)}",
        height=330,
        note="Across: what was said. Up: what came true. Band: where 95 % of honest scores would fall.",
        table=_reliability_table(drawn),
        rules=(*_axes(SQUARE), Stroke(line([(44, 288), (348, 12)]), dash="4 4")),
        areas=(Area(outline(upper, lower)),) if len(drawn) > 1 else (),
        strokes=(Stroke(line(spots)),) if len(drawn) > 1 else (Stroke(line([upper[0], lower[0]])),),
        dots=tuple(Dot(x, y) for x, y in spots),
        labels=(
            *_share_ticks(SQUARE),
            *(Label(SQUARE.x(at), 306, f"{100 * at:g}") for at in (0, 0.5, 1)),
            Label(196, 324, "said: % that stays clean"),
        ),
    )


def score_answer(bins: Sequence[ShownBin]) -> tuple[str, str]:
    """Answer whether scores come true: a word, and what it rests on; "" where nothing was judged."""
    drawn = [one for one in bins if is_drawn(one.told, one.came, one.low, one.high)]
    if not drawn:
        return "Too early to say.", ""
    largest = max(drawn, key=lambda one: (one.n, one.told))
    outside = sum(not one.low <= one.came <= one.high for one in drawn)
    word = "Yes, so far." if not outside else "Not everywhere."
    groups = "the one group lies" if len(drawn) == 1 else f"all {len(drawn)} groups lie"
    where = f"{groups} inside the band" if not outside else f"{outside} of {len(drawn)} groups lie outside the band"
    return word, f"Where it said {percent(largest.told)}, {percent(largest.came)} stayed clean; {where}."


def _bins(count: int) -> str:
    return "1 bin" if count == 1 else f"{count} bins"


def _outside(outside: int) -> str:
    if not outside:
        return "every one lies in the band in which calibrated probabilities would"
    return f"{outside} outside the band in which calibrated probabilities would lie in 95 of 100 draws"


def _reliability_table(drawn: Sequence[ShownBin]) -> Table:
    rows = tuple(
        (percent(one.told), percent(one.came), percent_interval(one.low, one.high), f"{one.n:,}") for one in drawn
    )
    return Table(("Predicted", "Observed", "Band", "Pull requests"), rows)


def order_over_time(key: str, series: Sequence[ShownSeries]) -> Plot | None:
    """The AUC of every model, quarter by quarter, from one half (a coin) at the bottom to 1."""
    found = {
        one.model: {quarter.month: quarter.auc for quarter in one.quarters if is_drawn(quarter.auc)} for one in series
    }
    found = {model: values for model, values in found.items() if values}
    names = sorted({month for values in found.values() for month in values})
    if not names:
        return None
    frame = BROAD
    xs = dict(zip(names, (frame.x(share) for share in places(len(names))), strict=True))
    lines = {
        model: [(xs[month], frame.y(2 * values[month] - 1)) for month in sorted(values)]
        for model, values in found.items()
    }
    columns = ("Quarter from", *found)
    rows = tuple((month_words(month), *(_auc(values.get(month)) for values in found.values())) for month in names)
    return Plot(
        key=key,
        title="AUC of each quarter",
        summary=f"{len(names)} quarters; 1 orders every pair right, 0.5 is chance",
        height=250,
        table=Table(columns, rows),
        wide=True,
        rules=frame.rules((0, 0.5, 1)),
        strokes=tuple(
            Stroke(line(spots), dash=dash) for spots, dash in zip(lines.values(), _dashes(len(lines)), strict=True)
        ),
        dots=tuple(Dot(x, y, 3.0) for spots in lines.values() for x, y in spots),
        labels=(
            *(Label(frame.left - 10, frame.y(at) + 5, f"{0.5 + at / 2:g}", "end") for at in (0, 0.5, 1)),
            *(Label(xs[names[at]], 238, month_words(names[at])) for at in some_of(len(names), TICKS)),
            *_ends([(lines[model][-1][1], model, values[max(values)]) for model, values in found.items()], frame),
        ),
    )


def _dashes(count: int) -> list[str]:
    return [DASHES[index % len(DASHES)] for index in range(count)]


def _ends(ends: Sequence[tuple[float, str, float]], frame: Frame) -> list[Label]:
    """The name and last figure of each line beside its end, pushed apart where they would stand on one another."""
    labels, last = [], -ENDS * 1.0
    for y, model, value in sorted(ends):
        last = max(y + 5, last + ENDS)
        labels.append(Label(frame.right + 10, round(last, 1), f"{model[:8]} {value:.2f}", "start"))
    return labels


def _auc(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def order_words(found: ShownBacktest | None, label: str) -> str:
    """Say in one line how well the queue's order did in the newest backtest, or what would measure it."""
    labels = found.labels if found else ()
    orders = {order.name: order for one in labels if one.label == label for order in one.orders}
    need, oldest, model = (orders.get(name) for name in ("need", "oldest", "model"))
    if not (need and oldest and model) or need.wait is None or need.first_timer_longest is None:
        return "The order of the inbox is not measured yet. manage.py backtest measures it on past pull requests."
    return (
        "Of past pull requests that were refused, reverted or fixed, the first third of the inbox holds "
        f"{percent_words(need.third)}; oldest first {percent_words(oldest.third)}, the model alone "
        f"{percent_words(model.third)}. Half wait up to {need.wait:.1f} days, no first-timer more than "
        f"{need.first_timer_longest:.1f}."
    )


def figures_table(models: Sequence[ShownFigures]) -> Table:
    """How each model did."""
    columns = ("Model", "Pull requests", "AUC", "Brier score", "Log-loss", "ECE", "ECE if calibrated")
    return Table(columns, tuple(_figures(one) for one in models))


def _figures(one: ShownFigures) -> tuple[str, ...]:
    low, high = one.ece_band
    edges = "none" if low is None or high is None else f"{low:.3f} to {high:.3f}"
    is_outside = one.ece is not None and high is not None and one.ece > high
    error = f"{_auc(one.ece)}, too large" if is_outside else _auc(one.ece)
    return one.name, f"{one.n:,}", *(_auc(value) for value in (one.auc, one.brier, one.log_loss)), error, edges


def budgets(key: str, lanes: Sequence[ShownBudget]) -> Plot | None:
    """What really came of lanes with a budget: the share of bad ones with its interval beside what was allowed."""
    drawn = [one for one in lanes if is_drawn(one.rate, *one.rate_ci)]
    if not drawn:
        return None
    highest = min(1.0, round_up(max(max(one.budget, one.rate_ci[1] or 0.0) for one in drawn)))
    frame = Frame(BROAD.left, BROAD.right, BROAD.top, BROAD.bottom, highest)
    xs = [frame.x((index + 0.5) / len(drawn)) for index in range(len(drawn))]
    marks: list[Stroke] = []
    for x, one in zip(xs, drawn, strict=True):
        marks.append(Stroke(line([(x, frame.y(one.rate_ci[0] or 0.0)), (x, frame.y(one.rate_ci[1] or 0.0))])))
        marks.append(Stroke(line([(x - 40, frame.y(one.budget)), (x + 40, frame.y(one.budget))]), "flag", "6 4"))
    kept = sum((one.rate or 0.0) <= one.budget for one in drawn)
    return Plot(
        key=key,
        title="What each budget really gave",
        summary=f"{_kept(kept, len(drawn), len(lanes) - len(drawn))}; the interval counts authors as clusters",
        height=274,
        table=budget_table(drawn),
        wide=True,
        rules=frame.rules((0, highest / 2, highest)),
        strokes=tuple(marks),
        dots=tuple(
            Dot(x, frame.y(one.rate or 0.0), 5.0, "flag" if (one.rate or 0.0) > one.budget else "plain")
            for x, one in zip(xs, drawn, strict=True)
        ),
        labels=(
            *(Label(frame.left - 10, frame.y(at) + 5, f"{100 * at:g} %", "end") for at in (0, highest / 2, highest)),
            *(Label(x, 238, percent_in_full(one.budget)) for x, one in zip(xs, drawn, strict=True)),
            *(Label(x, 264, one.way) for x, one in zip(xs, drawn, strict=True)),
        ),
    )


def _kept(kept: int, drawn: int, never: int) -> str:
    told = f"{kept} of {drawn} lanes kept the budget (dashed)"
    return f"{told}, {never} never opened" if never else told


def budget_table(lanes: Sequence[ShownBudget]) -> Table:
    """The lanes as rows."""
    return Table(
        ("Lane", "Let through", "Of", "People", "Bad", "Share", "95 % interval", "Newcomers, bad"),
        tuple(_budget(one) for one in lanes),
    )


def _budget(one: ShownBudget) -> tuple[str, ...]:
    low, high = one.rate_ci
    edges = "none" if low is None or high is None else f"{bad_interval(low, high)} %"
    share = "none" if one.rate is None else bad_percent(one.rate)
    counts = (f"{one.lane:,}", f"{one.n:,}", f"{one.authors:,}", f"{one.bad:,}")
    newcomers = "unknown" if one.newcomers is None else f"{one.newcomers:,}, {one.newcomers_bad:,}"
    return f"{percent_in_full(one.budget)}, {WAYS[one.way]}", *counts, share, edges, newcomers


def _axes(frame: Frame) -> tuple[Stroke, ...]:
    return (Stroke(line([(frame.left, frame.top), (frame.left, frame.bottom), (frame.right, frame.bottom)])),)


def _share_ticks(frame: Frame) -> tuple[Label, ...]:
    return tuple(Label(frame.left - 8, frame.y(at) + 4, f"{100 * at:g}", "end") for at in (0, 0.5, 1))


FRAME = Frame(left=92, right=555, top=16, bottom=212)  # the name of the budget stands to the right of it

BESIDE = 6  # units between the middle of a month and the marks of either series
SIDE = 10  # of a square
EDGE = 0.04  # of the breadth, kept free at either end: marks stand clear of the axis and of the budget's name
Month = ShownMonth | LaneMonth


@dataclass(frozen=True, slots=True)
class _Series:
    name: str
    months: Sequence[Month]
    beside: int

    def over(self, budget: float) -> int:
        return sum(one.bad / one.n > budget for one in self.months)


def false_approvals(key: str, lane: ShownLane | None, results: Sequence[LaneMonth], budget: float) -> Plot | None:
    """The share of bad ones in the fast lane by month: of the backtest as dots, of what it really did as squares.

    None where neither has a month. `budget` is a share in (0, 1).
    """
    series = [
        _Series(name, drawn, beside)
        for name, months, beside in (
            ("backtest (dots)", lane.months if lane else (), -BESIDE),
            ("live (squares)", results, BESIDE),
        )
        if (drawn := [one for one in months if one.n > 0 and is_drawn(one.n, one.bad, one.low, one.high)])
    ]
    if not series:
        return None
    names = sorted({one.month for its in series for one in its.months})
    frame = _frame(series, budget)
    xs = dict(zip(names, (frame.x(EDGE + (1 - 2 * EDGE) * share) for share in places(len(names))), strict=True))
    level = frame.y(budget)
    return Plot(
        key=key,
        title="Bad ones the lane let through, by month",
        summary=_summary(series, budget),
        height=250,
        table=_table(series),
        wide=True,
        note="Across: month. Up: the share that turned out bad. Whiskers: 95 % interval; an arrow: it goes on.",
        rules=frame.rules((0, frame.highest / 2, frame.highest)),
        strokes=(
            Stroke(line([(frame.left, level), (frame.right, level)]), "flag", "6 4"),
            *(
                mark
                for its in series
                for one in its.months
                for mark in whiskers(xs[one.month] + its.beside, one.low, one.high, frame)
            ),
        ),
        dots=tuple(_dot(one, xs, frame, budget) for its in series if its.beside < 0 for one in its.months),
        boxes=tuple(_square(one, xs, frame, budget) for its in series if its.beside > 0 for one in its.months),
        labels=(
            *(
                Label(frame.left - 10, frame.y(at) + 5, f"{100 * at:g} %", "end")
                for at in (0, frame.highest / 2, frame.highest)
            ),
            *(Label(xs[names[at]], 238, month_words(names[at])) for at in some_of(len(names), TICKS)),
            Label(frame.right + 12, level + 5, f"budget {percent_in_full(budget)}", "start"),
        ),
    )


def lane_answer(results: Sequence[LaneMonth], budget: float) -> tuple[str, str]:
    """Answer how much of what the lane let through turned out bad: a figure, and what it rests on; "" for nothing."""
    settled, bad = sum(one.n for one in results), sum(one.bad for one in results)
    if not settled:
        return "", ""
    _, high = share_interval(bad, settled)
    within = "within" if high <= budget else "not surely within" if bad / settled <= budget else "above"
    told = f"{bad:,} of them turned out bad: {bad_percent(bad / settled)}, at most {bad_percent(high)} (95 %)."
    return f"{settled:,} settled.", f"{told} That is {within} the budget of {percent_in_full(budget)}."


def _frame(series: Sequence[_Series], budget: float) -> Frame:
    """The axes, high enough for twice the budget and for every share, though not for every whisker."""
    highest = max(one.bad / one.n for its in series for one in its.months)
    top = min(1.0, round_up(max(2 * budget, 1.2 * highest)))
    return Frame(FRAME.left, FRAME.right, FRAME.top, FRAME.bottom, top)


def _dot(one: Month, xs: dict[str, float], frame: Frame, budget: float) -> Dot:
    share = one.bad / one.n
    return Dot(round(xs[one.month] - BESIDE, 1), frame.y(share), SIDE / 2, "flag" if share > budget else "plain")


def _square(one: Month, xs: dict[str, float], frame: Frame, budget: float) -> Box:
    share = one.bad / one.n
    x, y = xs[one.month] + BESIDE - SIDE / 2, frame.y(share) - SIDE / 2
    return Box(round(x, 1), round(y, 1), SIDE, SIDE, "flag" if share > budget else "plain")


def _summary(series: Sequence[_Series], budget: float) -> str:
    told = "; ".join(f"{its.name}: {_over(its.over(budget), len(its.months))}" for its in series)
    return f"{told} above the budget of {percent_in_full(budget)}; single months may exceed it, the total may not"


def _over(over: int, months: int) -> str:
    return f"{over or 'none'} of {months} month{'' if months == 1 else 's'}"


def _table(series: Sequence[_Series]) -> Table:
    rows = tuple(_row(one, its.name) for its in series for one in its.months)
    return Table(("Month", "Let through", "Bad", "Share", "95 % interval"), rows)


def _row(one: Month, name: str) -> tuple[str, ...]:
    counts = (f"{one.n:,.6g}", f"{one.bad:,.6g}")
    shares = (bad_percent(one.bad / one.n), f"{bad_interval(one.low, one.high)} %")
    return f"{month_words(one.month)}, {name.partition(' ')[0]}", *counts, *shares


def like_these(lane: ShownLane | None) -> Mapping[str, str]:
    """What the backtest says of each lane's rows, in a sentence by lane; none for a lane where it had no pull request.

    It knows scores and no findings: of what is not let through it counts those whose score alone leads there.
    """
    shares = {Lane.FAST_LANE: lane, Lane.NORMAL_QUEUE: lane and lane.review, Lane.NEEDS_HUMAN: lane and lane.flagged}
    return {str(key): _came(key, share) for key, share in shares.items() if share is not None and share.n > 0}


def _came(lane: Lane, share: ShownLane | ShownShare) -> str:
    these = (
        "like these in the backtest" if lane is Lane.FAST_LANE else "in the backtest that the score alone sends here"
    )
    edges = bad_interval(share.low, share.high)
    return f"of {share.n:,.6g} {these} {share.bad:,.6g} needed a fix, 95 % interval {edges} %"


def lane_words(lane: ShownLane, exact: bool) -> str:
    """On which lane the figures of the backtest rest, by the exact threshold or not."""
    at = f" at {percent_in_full(lane.threshold)} or above" if exact and lane.threshold is not None else ""
    if lane.certified:
        made = f"{lane.made_at.day} {lane.made_at:%b %Y}"
        return f"Backtest: what the certified threshold would have let through{at}, of the year before {made}."
    return f"Backtest: nothing is certified. This is what the threshold that comes nearest would have let through{at}."


NOT_YET = (
    "Not run yet. The operator starts the simulations with manage.py redteam. They attack a copy of the vouch graph "
    "and change nothing."
)


def attack_sentences(found: ShownReport | None) -> tuple[str, ...]:
    """The last run in two sentences with its date; where there is none, how to start one."""
    if found is None:
        return (NOT_YET,)
    return answer(found), f"Simulated on {found.at.day} {found.at:%b %Y} on {ground_words(found)}"
