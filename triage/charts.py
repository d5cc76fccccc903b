"""Charts as geometry for inline SVG; the templates draw them and put the same figures in a table. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scoring.figures import shown, shown_interval, shown_threshold
from scoring.read import Dashboard, HistoryPoint
from scoring.verdict import Lane

Tone = Literal["flag", "review", "fast", "plain"]
WIDTH, HEIGHT = 720, 270
TOP, BASE = 46, 234  # where the tallest bar ends and where all stand
GAP = 8


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar with its figure above and its edge below; `height` is 0 only where the count is 0."""

    label: str
    count: int
    tone: Tone
    x: float
    y: float
    width: float
    height: float
    middle: float


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical line at a threshold, named; `anchor` keeps the name inside the picture."""

    x: float
    words: str
    anchor: Literal["start", "end"]


@dataclass(frozen=True, slots=True)
class Histogram:
    """The score distribution; `summary` says in one sentence what the picture shows."""

    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    summary: str
    width: int = WIDTH
    height: int = HEIGHT
    base: int = BASE


@dataclass(frozen=True, slots=True)
class Share:
    """One lane's part of the open pull requests; `x` and `width` are percent of the whole."""

    title: str
    tone: Tone
    count: int
    percent: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Trend:
    """Recorded scores in order of time as points of a polyline; empty below two scores with a number."""

    points: str
    last_x: float
    last_y: float
    summary: str
    width: int = 240
    height: int = 48


def histogram(board: Dashboard) -> Histogram:
    """Bars of the ten bins with both thresholds named."""
    tallest = max((bin.count for bin in board.histogram), default=0)
    step = WIDTH / max(1, len(board.histogram))
    bars = tuple(
        _bar(index, bin.low, bin.count, tallest, step, _tone(bin.low, bin.high, board))
        for index, bin in enumerate(board.histogram)
    )
    return Histogram(bars, _marks(board), _histogram_summary(board))


def _bar(index: int, low: float, count: int, tallest: int, step: float, tone: Tone) -> Bar:
    height = max(2.0, (BASE - TOP) * count / tallest) if count else 0.0
    x = index * step
    return Bar(
        f"{low:.1f}",
        count,
        tone,
        round(x + GAP / 2, 1),
        round(BASE - height, 1),
        round(step - GAP, 1),
        round(height, 1),
        round(x + step / 2, 1),
    )


def _tone(low: float, high: float, board: Dashboard) -> Tone:
    """A bin has a lane's colour only where all of it lies in that lane and the viewer is told where lanes begin."""
    if board.t_high is not None and low >= board.t_high - 1e-9:
        return "fast"
    if board.t_low is None:
        return "plain"
    return "flag" if high <= board.t_low + 1e-9 else "review"


def _marks(board: Dashboard) -> tuple[Mark, ...]:
    if board.t_low is None:
        return ()
    anchor: Literal["start", "end"] = "end" if board.t_low > 0.25 else "start"
    low = Mark(round(board.t_low * WIDTH, 1), f"flagged below {shown_threshold(board.t_low)}", anchor)
    if board.t_high is None:
        return (low,)
    high = Mark(round(board.t_high * WIDTH, 1), f"fast lane from {shown_threshold(board.t_high)}", "end")
    return (low, high)


def _histogram_summary(board: Dashboard) -> str:
    start = board.t_high
    numbered = board.scored - board.not_enough_evidence
    if board.t_low is None:
        return f"{numbered:,} contributors with a number; the fast lane is {'open' if board.fast_lane_open else 'shut'}"
    high = "the fast lane is shut" if start is None else f"the fast lane starts at {shown_threshold(start)}"
    return f"{numbered:,} contributors with a number; flagged below {shown_threshold(board.t_low)}, {high}"


def lane_shares(board: Dashboard) -> tuple[Share, ...]:
    """The three lanes as parts of all open pull requests that are not push-holders' own, in the order of the queue."""
    words: tuple[tuple[Lane, str, Tone], ...] = (
        (Lane.NEEDS_HUMAN, "Flagged", "flag"),
        (Lane.NORMAL_QUEUE, "Needs review", "review"),
        (Lane.FAST_LANE, "Fast lane", "fast"),
    )
    total = sum(board.lanes.get(lane, 0) for lane, _, _ in words)
    shares: list[Share] = []
    x = 0.0
    for lane, title, tone in words:
        count = board.lanes.get(lane, 0)
        width = 100 * count / total if total else 0.0
        shares.append(Share(title, tone, count, percent(count, total), round(x, 3), round(width, 3)))
        x += width
    return tuple(shares)


def percent(part: int, whole: int) -> str:
    """A share with one decimal, "none" where there is nothing to share."""
    return f"{100 * part / whole:.1f} %" if whole else "none"


def trend(history: Sequence[HistoryPoint]) -> Trend | None:
    """A contributor's scores over time; None where fewer than two have a number."""
    known = [(point.as_of, point.probability, point) for point in history if point.probability is not None]
    if len(known) < 2:
        return None
    known.sort(key=lambda pair: pair[0])
    step = 232 / (len(known) - 1)
    spots = [(round(4 + index * step, 1), round(44 - 40 * value, 1)) for index, (_, value, _) in enumerate(known)]
    first, last = (f"{shown(value)} ({shown_interval(one.low, one.high)})" for _, value, one in (known[0], known[-1]))
    summary = f"P(clean) with its 95 % interval went from {first} to {last} over {len(known)} recorded scores"
    return Trend(" ".join(f"{x},{y}" for x, y in spots), *spots[-1], summary)
