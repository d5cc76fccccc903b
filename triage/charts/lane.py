"""Draw the fast lane's curve: for each threshold the share let through against its share of bad ones. Pure."""

from collections.abc import Sequence

from scoring.certificates.lane_counts import LaneCurve, LanePoint, Offer
from scoring.formatting import bad_bound, bad_interval, bad_percent, percent_in_full, weighted
from triage.charts.plot import (
    Anchor,
    Area,
    Dot,
    Frame,
    Label,
    Plot,
    Stroke,
    Table,
    line,
    outline,
    percent_words,
    round_up,
)

LEFT, RIGHT, TOP, BOTTOM = 90.0, 710.0, 20.0, 230.0
HEIGHT = 276
ANCHORS: tuple[Anchor, ...] = ("start", "middle", "end")  # of the ticks, so that none is cut at an edge
WHOSE = {"own": "your past", "starter": "other projects"}


def lane_plot(
    key: str, own: LaneCurve | None, starter: LaneCurve | None, offer: Offer | None, budget: float
) -> Plot | None:
    """Plot both pasts on common axes, with the interval of the one behind the offer; None without any past."""
    curves = [item for item in (own, starter) if item is not None and item.points]
    if not curves:
        return None
    main = next((item for item in curves if offer is not None and item.source == offer.source), curves[0])
    frame, widest = _frame(curves, main, offer, budget)

    def spot(item: LanePoint, curve: LaneCurve, value: float) -> tuple[float, float]:
        return frame.x(item.let_through / curve.cases / widest), frame.y(value)

    band = [[spot(item, main, getattr(item, end)) for item in main.points] for end in ("bad_high", "bad_low")]
    level = frame.y(budget)
    lines = tuple(
        Stroke(
            line(spot(item, drawn_curve, item.bad / item.let_through) for item in _inside(drawn_curve, frame)),
            dash=_dash(drawn_curve is main),
        )
        for drawn_curve in curves
    )
    ticks = (0.0, 0.5, 1.0)
    levels = [frame.highest * tick for tick in ticks]
    return Plot(
        key=key,
        title="Share let through against the share of it that is bad",
        summary=_summary(curves, offer, budget),
        height=HEIGHT,
        table=_table(curves),
        wide=True,
        note=_note(offer, budget),
        rules=frame.rules(levels),
        areas=(Area(outline(band[0], band[1])),),
        strokes=(Stroke(line([(LEFT, level), (RIGHT, level)]), "flag", "6 4"), *lines, *_whisker(frame, offer, widest)),
        dots=_dots(frame, offer, widest),
        labels=(
            *(Label(LEFT - 8, frame.y(level_value) + 5, f"{100 * level_value:g} %", "end") for level_value in levels),
            *(
                Label(frame.x(tick), BOTTOM + 32, f"{100 * widest * tick:g} %", anchor)
                for tick, anchor in zip(ticks, ANCHORS, strict=True)
            ),
        ),
    )  # fmt: skip


def _frame(curves: Sequence[LaneCurve], main: LaneCurve, offer: Offer | None, budget: float) -> tuple[Frame, float]:
    """Return the axes: as wide as the loosest lane, and high enough for the offer's interval and every share.

    Without an offer they hold the whole interval, because its upper end is what keeps the lane shut.
    """
    widest = round_up(max(item.points[-1].let_through / item.cases for item in curves))
    counted = max(item.bad / item.let_through for item in main.points)
    upper_end = 1.1 * offer.bad_high if offer else max(item.bad_high for item in main.points)
    highest = max(2 * budget, upper_end, min(counted, 4 * budget))
    return Frame(LEFT, RIGHT, TOP, BOTTOM, min(round_up(highest), 1.0)), min(widest, 1.0)


def _inside(curve: LaneCurve, frame: Frame) -> list[LanePoint]:
    """Return the points within the axes: a line along the upper edge would show a share that was never counted."""
    return [point for point in curve.points if point.bad / point.let_through <= frame.highest]


def _dash(is_main: bool) -> str:
    return "" if is_main else "2 5"


def _whisker(frame: Frame, offer: Offer | None, widest: float) -> tuple[Stroke, ...]:
    if offer is None:
        return ()
    x = frame.x(offer.share / widest)
    return (Stroke(line([(x, frame.y(offer.bad_low)), (x, frame.y(offer.bad_high))])),)


def _dots(frame: Frame, offer: Offer | None, widest: float) -> tuple[Dot, ...]:
    if offer is None:
        return ()
    return (Dot(frame.x(offer.share / widest), frame.y(offer.bad / offer.let_through), 6.0),)


def _note(offer: Offer | None, budget: float) -> str:
    """Explain axes and marks below the picture, since words in it would hide the lines on a phone."""
    sentence = (
        "Across: share of pull requests that the lane lets through. Up: share of those that turn out bad. "
        f"Dashed: your budget, {percent_in_full(budget)}."
    )
    if offer is None:
        return sentence
    start, most = percent_in_full(offer.threshold), bad_bound(offer.bad_high)
    return f"{sentence} Dot: an opening today, from {start} on: up to {most} bad."


def _summary(curves: Sequence[LaneCurve], offer: Offer | None, budget: float) -> str:
    whose = " and ".join(WHOSE[curve.source] for curve in curves)
    if offer is None:
        return f"{whose}: no threshold keeps bad ones within {percent_in_full(budget)} with enough of them to tell"
    return (
        f"{whose}: at {percent_words(offer.share)} let through {bad_percent(offer.bad / offer.let_through)} bad, at "
        f"most {bad_bound(offer.bad_high)}; budget {percent_in_full(budget)}"
    )


def _table(curves: Sequence[LaneCurve]) -> Table:
    columns = ("From", "Let through", "Of", "Share", "Bad", "Share bad", "95 % interval", "Authors")
    return Table(columns, tuple(_row(point, curve) for curve in curves for point in curve.points))


def _row(point: LanePoint, curve: LaneCurve) -> tuple[str, ...]:
    return (
        f"{percent_in_full(point.threshold)}, {WHOSE[curve.source]}",
        weighted(point.let_through),
        weighted(curve.cases),
        percent_words(point.let_through / curve.cases),
        weighted(point.bad),
        bad_percent(point.bad / point.let_through),
        f"{bad_interval(point.bad_low, point.bad_high)} %",
        f"{point.authors:,}",
    )
