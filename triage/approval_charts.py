"""False approvals over time: what the lane would have let through in the backtest, and what it really did. Pure.

Both are drawn against the budget, told apart by the form of their marks, and stand in one table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scoring.figures import bad_interval, bad_percent, percent_in_full
from scoring.learning.shown_model import ShownLane, ShownMonth, ShownShare
from scoring.read_lane_results import LaneMonth, share_interval
from scoring.verdict import Lane
from triage.plots import (
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
    places,
    round_up,
    some_of,
    whiskers,
)

FRAME = Frame(left=92, right=555, top=16, bottom=212)  # the name of the budget stands to the right of it
TICKS = 7  # months named below an axis: at phone width a name takes a twelfth of it
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
