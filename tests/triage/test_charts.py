"""Charts for any input: well-formed SVG, inside its picture, with a table of exactly what is drawn."""

import math
from datetime import datetime, timedelta
from xml.etree import ElementTree

import pytest
from django.template.loader import render_to_string
from hypothesis import given
from hypothesis import strategies as draw_from

from scoring.learning.shown_backtest import ShownBudget, ShownQuarter, ShownSeries
from scoring.learning.shown_model import ShownBin, ShownLane, ShownMonth
from scoring.read import Fare, HistoryPoint, LaneMonth, Neighbour, Person, VouchGraph
from scoring.verdict import Lane
from tests.triage.drawn_rows import HOSTILE, NOW
from triage import approval_charts, charts, learned_charts
from triage.plots import LARGEST, Plot, is_drawn, round_up
from triage.vouch_drawing import _width, fitted, vouch_plot

ANY = draw_from.floats(allow_nan=True, allow_infinity=True) | draw_from.sampled_from([0.0, 0.5, 1.0, 1e6, -1.0])
COUNTS = draw_from.integers(0, 10**6)
# What Unicode never assigns is no XML, and harmless in a page.
LETTERS = draw_from.characters(exclude_categories=("Cs", "Cn"))
TEXT = draw_from.text(LETTERS, max_size=30) | draw_from.sampled_from(HOSTILE)
BINS = draw_from.lists(draw_from.builds(ShownBin, COUNTS, ANY, ANY, ANY, ANY), max_size=12)
MONTHS = draw_from.lists(
    draw_from.builds(ShownMonth, draw_from.just("2026-03"), COUNTS.map(float), COUNTS.map(float), ANY, ANY), max_size=14
)
QUARTERS = draw_from.lists(
    draw_from.builds(ShownQuarter, draw_from.sampled_from([f"20{year}-04" for year in range(20, 30)]), ANY), max_size=8
)
SERIES = draw_from.lists(draw_from.builds(ShownSeries, TEXT, QUARTERS.map(tuple)), max_size=5)
BUDGETS = draw_from.lists(
    draw_from.builds(
        ShownBudget,
        draw_from.sampled_from(["recipe", "certificate"]),
        draw_from.sampled_from([0.02, 0.05, 0.1]),
        *[COUNTS] * 4,
        draw_from.none() | ANY,
        draw_from.tuples(draw_from.none() | ANY, draw_from.none() | ANY),
    ),
    max_size=6,
)


def lane(months: tuple[ShownMonth, ...] = (), certified: bool = True) -> ShownLane:
    n, bad = sum(one.n for one in months), sum(one.bad for one in months)
    until = NOW + timedelta(days=90)
    return ShownLane(certified, 0.93, 0.05, n, bad, 0.0, 0.03, None, NOW, until, months)


def parsed(page: str) -> ElementTree.Element:
    """The element of a text that is XML; an error for any other."""
    return ElementTree.fromstring(page)  # noqa: S314 (it was rendered here, and names no entity)


def drawn(plot: Plot) -> ElementTree.Element:
    """The picture of a plot, read by an XML parser: whatever is not well-formed is an error."""
    page = render_to_string("_fragments/plot.html", {"plot": plot})
    svg, table = page.split("</svg>")
    root = parsed(svg + "</svg>")
    assert root.get("role") == "img"
    assert [root.find(tag) is not None for tag in ("title", "desc")] == [True, True]
    assert not [part for part in root.iter() for name in ("style", "fill", "stroke") if name in part.attrib]
    shown = parsed(table.strip().split("</summary>")[1].strip().removesuffix("</details>"))
    assert len(shown.findall(".//tbody/tr")) == len(plot.table.rows)
    return root


def inside(plot: Plot) -> None:
    """Every place of a plot is a finite number within the picture."""
    root = drawn(plot)
    for part in root.iter():
        for name, most in (("x", plot.width), ("cx", plot.width), ("y", plot.height), ("cy", plot.height)):
            assert 0 <= float(part.get(name, 0)) <= most
        if part.tag == "rect":
            assert float(part.attrib["x"]) + float(part.attrib["width"]) <= plot.width + 0.1
            assert float(part.attrib["y"]) + float(part.attrib["height"]) <= plot.height + 0.1
        for pair in part.get("points", "").split():
            x, y = map(float, pair.split(","))
            assert 0 <= x <= plot.width
            assert 0 <= y <= plot.height
    assert all(len(row) == len(plot.table.columns) for row in plot.table.rows)
    assert not any("nan" in cell or "inf" in cell for row in plot.table.rows for cell in row[1:])


@given(BINS)
def test_a_reliability_curve_of_anything_is_whole_and_its_table_has_every_bin_of_it(bins: list[ShownBin]) -> None:
    plot, known = (
        learned_charts.reliability("one", bins),
        [one for one in bins if is_drawn(one.told, one.came, one.low, one.high)],
    )
    assert (plot is None) == (not known)
    if plot:
        inside(plot)
        assert len(plot.dots) == len(plot.table.rows) == len(known)
        assert [row[3] for row in plot.table.rows] == [f"{one.n:,}" for one in known]


@given(MONTHS, draw_from.sampled_from([1e-9, 0.02, 0.5, 0.999]))
def test_false_approvals_of_any_months_are_whole_and_name_the_budget(months: list[ShownMonth], budget: float) -> None:
    plot = approval_charts.false_approvals("one", lane(tuple(months)), (), budget)
    known = [one for one in months if one.n > 0 and is_drawn(one.low, one.high)]
    assert (plot is None) == (not known)
    if plot:
        inside(plot)
        assert len(plot.dots) == len(plot.table.rows) == len(known)
        assert any("budget" in label.words for label in plot.labels)


def test_what_the_lane_did_stands_beside_the_backtest_in_marks_and_table() -> None:
    back, live = ShownMonth("2026-02", 40, 1, 0.001, 0.13), LaneMonth("2026-03", 10, 3, 0.11, 0.6)
    plot = approval_charts.false_approvals("one", lane((back,)), (live,), 0.05)
    assert plot is not None
    inside(plot)
    assert (len(plot.dots), len(plot.boxes)) == (1, 1)
    assert (plot.dots[0].tone, plot.boxes[0].tone) == ("plain", "flag")
    assert [row[0] for row in plot.table.rows] == ["2026-02, backtest", "2026-03, live"]
    assert plot.summary.startswith("backtest (dots): none of 1 month; live (squares): 1 of 1 month above the budget")
    alone = approval_charts.false_approvals("one", None, (live,), 0.05)
    assert alone is not None
    assert not alone.dots


@given(SERIES)
def test_the_order_over_time_of_any_models_is_whole(series: list[ShownSeries]) -> None:
    plot = learned_charts.order_over_time("one", series)
    if plot:
        inside_but_for_names(plot)
        cells = [cell for row in plot.table.rows for cell in row[1:] if cell != "none"]
        assert len(plot.dots) == len(cells)


def inside_but_for_names(plot: Plot) -> None:
    """Names of lines may be pushed below one another, as many as there are."""
    drawn(plot)
    for stroke in plot.strokes:
        assert all(0 <= float(number) <= plot.width for pair in stroke.points.split() for number in pair.split(","))


@given(BUDGETS)
def test_budgets_of_any_lanes_are_whole(lanes: list[ShownBudget]) -> None:
    plot = learned_charts.budgets("one", lanes)
    known = [one for one in lanes if is_drawn(one.rate, *one.rate_ci)]
    assert (plot is None) == (not known)
    if plot:
        inside(plot)
        assert len(plot.dots) == len(plot.table.rows) == len(known)


FARES = draw_from.tuples(*[draw_from.lists(COUNTS, min_size=3, max_size=3)] * 2)


@given(FARES, draw_from.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)))
def test_first_timers_and_regulars_of_any_number_are_whole_and_stand_in_the_table(
    counts: tuple[list[int], list[int]], opened: datetime
) -> None:
    fares = [
        Fare(first, dict(zip(Lane, many, strict=True)), opened, opened)
        for first, many in zip((True, False), counts, strict=True)
    ]
    plot = charts.newcomers(fares, NOW)
    assert (plot is None) == (not any(map(sum, counts)))
    if plot:
        inside(plot)
        assert plot.table.rows[0] == ("Open", *(f"{sum(many):,}" for many in counts))
        stacked = [box for box in plot.boxes if box.tone != "plain"]
        assert sum(box.width for box in stacked) == pytest.approx(720 * sum(sum(many) > 0 for many in counts), abs=0.5)


@given(draw_from.lists(draw_from.tuples(ANY, ANY, ANY), max_size=300))
def test_a_score_history_of_anything_stays_in_its_picture(values: list[tuple[float, float, float]]) -> None:
    history = [
        HistoryPoint(NOW + timedelta(days=day), value, low, high, Lane.NORMAL_QUEUE)
        for day, (value, low, high) in enumerate(values)
    ]
    known = [one for one in values if is_drawn(*one)]
    trend = charts.trend([one for one in history if is_drawn(one.probability)]) if _nice(known) else None
    if trend:
        numbers = [float(number) for pair in f"{trend.points} {trend.band}".split() for number in pair.split(",")]
        assert all(0 <= number <= trend.width for number in numbers)
        assert len(trend.points.split()) * 2 == len(trend.band.split())


def _nice(known: list[tuple[float, float, float]]) -> bool:
    """Words round probabilities only: what else is stored is never one."""
    return len(known) > 1 and all(0 <= number <= 1 for one in known for number in one)


PEOPLE = draw_from.lists(
    draw_from.tuples(TEXT, draw_from.none() | draw_from.integers(0, 4), draw_from.booleans()), max_size=39
)


@given(PEOPLE, draw_from.integers(0, 10**6))
def test_a_vouch_graph_of_anybody_is_whole_and_no_names_overlap(people: list, left_out: int) -> None:
    around = [Neighbour(Person("did:plc:p", "the person"), 3)]
    around += [Neighbour(Person(f"did:plc:{at}", name), hops, onward) for at, (name, hops, onward) in enumerate(people)]
    vouches = tuple((at, 0) for at in range(1, len(around)))
    plot = vouch_plot(VouchGraph(tuple(around), vouches, left_out))
    inside(plot)
    assert len(plot.dots) == len(around)
    assert len(plot.table.rows) == len(plot.strokes) == len(vouches)
    places = [label for label in plot.labels if label.note]
    assert len({(label.x, label.y) for label in places}) == len(around)
    for label in places:
        half = sum(map(_width, label.words)) / 2
        assert half <= label.x <= plot.width - half
        beside = [one for one in places if one is not label and abs(one.y - label.y) < 25]
        assert all(abs(one.x - label.x) >= half + sum(map(_width, one.words)) / 2 for one in beside)
    assert (f"{left_out:,} more are not drawn" in plot.summary) == bool(left_out)


def test_the_same_graph_is_drawn_the_same_twice() -> None:
    people = tuple(Neighbour(Person(f"did:plc:{at}", f"p{at}"), at % 3 or None) for at in range(20))
    graph = VouchGraph(people, ((1, 0), (2, 0)), 0)
    assert vouch_plot(graph) == vouch_plot(graph)


def test_seeds_stand_on_top_the_person_below_and_whom_they_vouch_for_last() -> None:
    def one(name: str, hops: int | None, onward: bool = False) -> Neighbour:
        return Neighbour(Person(f"did:plc:{name}", name), hops, onward)

    people = (one("mara", 2), one("ana", 1), one("seed", 0), one("eve", None), one("liv", None, True))
    plot = vouch_plot(VouchGraph(people, ((2, 1), (1, 0), (3, 0), (0, 4)), 0))
    heights = {label.words: label.y for label in plot.labels}
    assert heights["seed"] < heights["ana"] < heights["eve"] < heights["mara"] < heights["liv"]
    assert heights["No trust path from the seeds"] < heights["eve"]
    assert ("ana", "mara", "1") in plot.table.rows
    assert ("eve", "mara", "none") in plot.table.rows


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_only_text_in_picture_and_table(name: str) -> None:
    graph = VouchGraph((Neighbour(Person("did:plc:a", name), 1), Neighbour(Person("did:plc:b", name), 0)), ((1, 0),), 0)
    page = render_to_string("_fragments/plot.html", {"plot": vouch_plot(graph)})
    assert not any(mark in page for mark in ("<script", "<img", "onload=alert(3)>", "\u202e", "\u200b"))
    drawn(vouch_plot(graph))


def test_a_name_is_cut_where_it_would_not_fit() -> None:
    assert fitted("ana.example", 110) == "ana.example"
    assert fitted("W" * 300, 110).endswith("W…")
    assert len(fitted("漢" * 30, 110)) < 10
    assert fitted("anybody.example.test", 75) == "anybody…"
    assert fitted("", 110) == ""


def test_one_point_is_a_chart_too() -> None:
    plot = learned_charts.reliability("one", [ShownBin(31, 0.9, 1.0, 0.8, 1.0)])
    assert plot is not None
    assert plot.summary.startswith("31 settled pull requests in 1 bin; every one lies in the band")
    month = ShownMonth("2026-03", 10**6, 10**6, 0.99, 1.0)
    whole = approval_charts.false_approvals("one", lane((month,)), (), 0.05)
    assert whole is not None
    assert whole.table.rows == (("2026-03, backtest", "1e+06", "1e+06", "100.0 %", "99.0 % to 100.0 %"),)


@given(draw_from.floats(1e-300, 1e300))
def test_the_top_of_an_axis_is_never_below_its_highest_figure(value: float) -> None:
    top = round_up(value)
    assert value <= top * (1 + 1e-9)
    assert top <= 10 * value
    assert math.isfinite(top) or value > LARGEST
