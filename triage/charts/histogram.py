"""Charts as geometry for inline SVG; the templates draw them and put the same figures in a table. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from scoring.formatting import percent_in_full
from scoring.queries.read import Bin, Dashboard, Fare, GroupKey
from triage.charts.plot import Box, Label, Plot, Table, Tone, percent_words, within
from triage.presenters.queue.pills import Kind

WIDTH, HEIGHT = 720, 270
TOP, BASE = 46, 234  # where the tallest bar ends and where all stand
GAP = 8
LANES: tuple[tuple[GroupKey, str, Kind, Tone], ...] = (
    ("needs_human", "Flagged", "flag", "flag"),
    ("normal_queue", "Needs review", "review", "review"),
    ("fast_lane", "Fast lane", "fast", "fast"),
    ("would_be_fast_lane", "Would be fast lane", "would", "hollow"),
)
IN_LANES = ("flagged", "to review", "fast lane", "would be fast lane")  # after a count
WHO = {True: "First-timers", False: "Regulars"}


@dataclass(frozen=True, slots=True)
class Part:
    """One lane's part of a bar."""

    tone: Tone
    count: int
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar with its figure above and its edge below; `parts` stand on one another from the bottom up, none empty."""

    label: str
    count: int
    parts: tuple[Part, ...]
    x: float
    y: float
    width: float
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
    kind: Kind
    count: int
    percent: str
    x: float
    width: float


def histogram(board: Dashboard) -> Histogram:
    """Bars of the ten bins with both thresholds named."""
    tallest = max((bin.count for bin in board.histogram), default=0)
    step = WIDTH / max(1, len(board.histogram))
    bars = tuple(_bar(index, bin, tallest, step, board.t_low is not None) for index, bin in enumerate(board.histogram))
    return Histogram(bars, _marks(board), _histogram_summary(board))


def _bar(index: int, bin: Bin, tallest: int, step: float, by_lane: bool) -> Bar:
    """A bar of at least two units where anybody is; lanes apart only for viewers who are told where they begin."""
    whole = max(2.0, (BASE - TOP) * bin.count / tallest) if bin.count else 0.0
    counts: list[tuple[Tone, int]] = [("plain", bin.count)]
    if by_lane:
        counts = [("flag", bin.flagged), ("review", bin.count - bin.flagged - bin.fast), ("fast", bin.fast)]
    parts, y = list[Part](), float(BASE)
    for tone, count in counts:
        if count > 0:
            height = whole * count / bin.count
            y -= height
            parts.append(Part(tone, count, round(y, 1), round(height, 1)))
    x, top = index * step, round(BASE - whole, 1)
    return Bar(
        f"{100 * bin.low:.0f}",
        bin.count,
        tuple(parts),
        round(x + GAP / 2, 1),
        top,
        round(step - GAP, 1),
        round(x + step / 2, 1),
    )


def histogram_table(board: Dashboard) -> Table:
    """The figures of the histogram, by lane for viewers who are told where lanes begin.

    Without a threshold of the whole site nobody is fast lane by their score alone, so there is no column of it.
    """
    lanes = ("Flagged", "Needs review", "Fast lane") if board.t_low is not None else ()
    lanes = lanes if board.t_high is not None else lanes[:1]
    rows = []
    for bin in board.histogram:
        counts = (bin.flagged, bin.count - bin.flagged - bin.fast, bin.fast)[: len(lanes)]
        rows.append(
            (f"{100 * bin.low:.0f} to {100 * bin.high:.0f} %", f"{bin.count:,}", *(f"{count:,}" for count in counts))
        )
    return Table(("Stays clean", "Contributors", *lanes), tuple(rows))


def _marks(board: Dashboard) -> tuple[Mark, ...]:
    if board.t_low is None:
        return ()
    anchor: Literal["start", "end"] = "end" if board.t_low > 0.25 else "start"
    low = Mark(round(board.t_low * WIDTH, 1), f"flagged below {percent_in_full(board.t_low)}", anchor)
    if board.t_high is None:
        return (low,)
    high = Mark(round(board.t_high * WIDTH, 1), f"fast lane from {percent_in_full(board.t_high)}", "end")
    return (low, high)


def _histogram_summary(board: Dashboard) -> str:
    start = board.t_high
    numbered = board.scored - board.not_enough_evidence
    if board.t_low is None:
        return f"{numbered:,} contributors with a number"
    high = "" if start is None else f", fast lane from {percent_in_full(start)}"
    return f"{numbered:,} contributors with a number; flagged below {percent_in_full(board.t_low)}{high}"


def lane_shares(counts: Mapping[GroupKey, int]) -> tuple[Share, ...]:
    """The lanes as parts of what the inbox shows but push-holders' own, in its order."""
    total = sum(counts.values())
    shares: list[Share] = []
    x = 0.0
    for lane, title, kind, _ in LANES:
        count = counts.get(lane, 0)
        width = 100 * count / total if total else 0.0
        shares.append(Share(title, kind, count, percent(count, total), round(x, 3), round(width, 3)))
        x += width
    return tuple(shares)


NONE_FLAGGED = "None is flagged: no finding is high, no chance is low enough, and no maintainer warns about an author."


def lane_now_words(counts: Mapping[GroupKey, int]) -> str:
    """Say how many pull requests in the inbox are fast lane now or would be, and why none is flagged where none is."""
    total, fast, would = sum(counts.values()), counts.get("fast_lane", 0), counts.get("would_be_fast_lane", 0)
    if not total:
        return "No pull request is in the inbox."
    told = f"{fast:,} of {total:,} in the inbox {'is' if fast == 1 else 'are'} fast lane now."
    told += f" {would:,} more would be, where the lane is shut." if would else ""
    return told if counts.get("needs_human") else f"{told} {NONE_FLAGGED}"


def percent(part: int, whole: int) -> str:
    """A share with one decimal, "none" where there is nothing to share."""
    return percent_words(part / whole) if whole else "none"


def newcomers(fares: Sequence[Fare], now: datetime) -> Plot | None:
    """Lane shares and waiting times of first-timers against those of regulars; None where nothing is open."""
    shown_fares = [one for one in fares if one.open]
    if not shown_fares:
        return None
    waits = {one.first_timers: _days(one.median_opened_at, now) for one in shown_fares}
    longest = max(waits.values()) or 1.0
    boxes, labels = list[Box](), list[Label]()
    for row, one in enumerate(shown_fares):
        y = 30.0 + 62 * row
        labels.append(Label(0, y, f"{WHO[one.first_timers]}: {_lane_words(one)}", "start"))
        boxes += _stacked(one, y + 8)
        y = 44.0 + 62 * (row + len(shown_fares))
        labels.append(
            Label(0, y, f"{WHO[one.first_timers]}: half are open for over {waits[one.first_timers]:,.1f} days", "start")
        )
        boxes.append(Box(0, y + 8, round(max(2.0, 720 * within(waits[one.first_timers] / longest)), 1), 16, "plain"))
    return Plot(
        key="newcomers",
        title="Lanes and waiting time of first-timers and regulars",
        summary="Lanes of open pull requests and how long half have waited, without those by people with push access",
        height=40 + 124 * len(shown_fares),
        table=_newcomers_table(fares, now),
        wide=True,
        boxes=tuple(boxes),
        labels=tuple(labels),
    )


def _stacked(one: Fare, y: float) -> list[Box]:
    boxes, x = list[Box](), 0.0
    for lane, _, _, tone in LANES:
        width = 720 * one.lanes.get(lane, 0) / one.open
        if width:
            boxes.append(Box(round(x, 1), y, round(width, 1), 16, tone))
        x += width
    return boxes


def _lane_words(one: Fare) -> str:
    counts = ((words, one.lanes.get(lane, 0)) for (lane, *_), words in zip(LANES, IN_LANES, strict=True))
    return ", ".join(f"{count:,} {words}" for words, count in counts if count)


def _days(moment: datetime | None, now: datetime) -> float:
    return max(0.0, (now - moment).total_seconds() / 86_400) if moment else 0.0


def _newcomers_table(fares: Sequence[Fare], now: datetime) -> Table:
    """Times in days; a year's decided ones show what waiting came to."""
    rows: list[tuple[str, ...]] = [("Open", *(f"{one.open:,}" for one in fares))]
    for lane, words, *_ in LANES:
        counts = ((one.lanes.get(lane, 0), one.open) for one in fares)
        rows.append((words, *(f"{count:,} ({percent(count, total)})" for count, total in counts)))
    waits = ((_wait(one.median_opened_at, now), _wait(one.oldest_opened_at, now)) for one in fares)
    median, oldest = zip(*waits, strict=True)
    rows += [("Open so far, median", *median), ("Open so far, longest", *oldest)]
    rows.append(("Merged or closed in a year", *(f"{one.decided:,}" for one in fares)))
    days = ("none" if one.median_days is None else f"{one.median_days:,.1f} days" for one in fares)
    return Table(
        ("Pull requests", *(WHO[one.first_timers] for one in fares)), (*rows, ("From opening to that, median", *days))
    )


def _wait(moment: datetime | None, now: datetime) -> str:
    return "none" if moment is None else f"{_days(moment, now):,.1f} days"
