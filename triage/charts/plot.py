"""Plots as plain geometry for inline SVG, each with a table of the same figures. Pure.

A plot is 360 units wide, or 720 where it is `wide`: on a phone both are as wide as the screen, and the style sheet
enlarges a wide one's letters to match. Shares outside [0, 1] are drawn at the edge; a figure that is not a finite
number is neither drawn nor in the table.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Tone = Literal["flag", "review", "fast", "plain", "hollow"]
Anchor = Literal["start", "middle", "end"]
Spot = tuple[float, float]
NARROW, WIDE = 360, 720
LARGEST = 1e15  # largest figure that is drawn; no count here exceeds it
NOT_SHOWN = "\N{EN DASH}"  # where there is no figure


@dataclass(frozen=True, slots=True)
class Table:
    """A plot's figures as text: the first column names the row."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Label:
    """Words at a place of a plot; a `note` names a mark and stays readable over lines."""

    x: float
    y: float
    words: str
    anchor: Anchor = "middle"
    note: bool = False


@dataclass(frozen=True, slots=True)
class Stroke:
    """A line through `points` in SVG notation; `dash` is a stroke-dasharray, "" for a full line."""

    points: str
    tone: Tone = "plain"
    dash: str = ""
    width: float = 2.0


@dataclass(frozen=True, slots=True)
class Area:
    """A filled outline through `points`, drawn faintly."""

    points: str


@dataclass(frozen=True, slots=True)
class Dot:
    """A measured figure."""

    x: float
    y: float
    radius: float = 4.0
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Box:
    """A bar, or a part of one."""

    x: float
    y: float
    width: float
    height: float
    tone: Tone


@dataclass(frozen=True, slots=True)
class Plot:
    """One figure: `key` is unique on a page, `summary` describes the picture in a sentence."""

    key: str
    title: str
    summary: str
    height: int
    table: Table
    wide: bool = False
    breadth: int = 0  # in its own units, where it is neither narrow nor wide
    note: str = ""  # explains axes and marks, below the picture
    rules: tuple[Stroke, ...] = ()  # axes and grid lines
    areas: tuple[Area, ...] = ()
    boxes: tuple[Box, ...] = ()
    strokes: tuple[Stroke, ...] = ()
    dots: tuple[Dot, ...] = ()
    labels: tuple[Label, ...] = ()

    @property
    def width(self) -> int:
        """Return the width in the plot's own units."""
        return self.breadth or (WIDE if self.wide else NARROW)


@dataclass(frozen=True, slots=True)
class Frame:
    """Maps shares and values to coordinates: the edges of the area that the axes enclose."""

    left: float
    right: float
    top: float
    bottom: float
    highest: float = 1.0  # value at the top; 0 is at the bottom

    def x(self, share: float) -> float:
        """Return the coordinate of a share of the width."""
        return round(self.left + (self.right - self.left) * within(share), 1)

    def y(self, value: float) -> float:
        """Return the coordinate of a value between 0 and the highest."""
        return round(self.bottom - (self.bottom - self.top) * within(value / self.highest), 1)

    def rules(self, values: Iterable[float]) -> tuple[Stroke, ...]:
        """Return a horizontal line at each of these values."""
        return tuple(Stroke(line([(self.left, self.y(value)), (self.right, self.y(value))])) for value in values)


def within(share: float) -> float:
    """Return the share limited to [0, 1]."""
    return min(max(share, 0.0), 1.0)


def is_drawn(*values: float | None) -> bool:
    """Return whether all of these can be drawn: finite, and at most LARGEST."""
    return all(value is not None and math.isfinite(value) and abs(value) <= LARGEST for value in values)


def line(spots: Iterable[Spot]) -> str:
    """Return points in SVG notation."""
    return " ".join(f"{round(x, 1):g},{round(y, 1):g}" for x, y in spots)


def outline(upper: Sequence[Spot], lower: Sequence[Spot]) -> str:
    """Return the outline of a band between two lines of equal length."""
    return line([*upper, *reversed(lower)])


def places(count: int) -> list[float]:
    """Return evenly spaced shares of the width for `count` figures, the middle for one."""
    return [index / (count - 1) for index in range(count)] if count > 1 else [0.5] * count


def some_of(count: int, most: int) -> list[int]:
    """Return at most `most` evenly spaced indexes below `count`, counted back from the last: the ticks with names."""
    step = max(1, math.ceil(count / max(1, most)))
    return sorted(range(count - 1, -1, -step))


def percent_words(share: float) -> str:
    """Format a share in per cent with one decimal."""
    return f"{100 * share:.1f} %"


def month_words(month: str) -> str:
    """Format a month such as "2026-03" in words; return anything else unchanged."""
    year, _, number = month.partition("-")
    names = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
    if not number.isdigit() or not 1 <= int(number) <= len(names):
        return month
    return f"{names[int(number) - 1]} {year}"


def whiskers(x: float, low: float, high: float, frame: "Frame", tone: Tone = "plain") -> tuple[Stroke, ...]:
    """Return an interval as a line with a bar at each end; an end beyond the frame has an arrow instead."""
    top, bottom = frame.y(high), frame.y(low)
    ends = [line([(x - 4, bottom), (x + 4, bottom)])]
    is_cut = high > frame.highest * (1 + 1e-9)
    ends.append(line([(x - 4, top + 5), (x, top), (x + 4, top + 5)] if is_cut else [(x - 4, top), (x + 4, top)]))
    return tuple(Stroke(points, tone, width=1.5) for points in (line([(x, bottom), (x, top)]), *ends))


def round_up(value: float) -> float:
    """Return the least 1, 2 or 5 times a power of ten that is not below a positive value: the top of an axis."""
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in (1, 2, 5) if value <= step * power * (1 + 1e-9)), 10 * power)
