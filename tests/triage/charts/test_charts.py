"""Charts for any input: well-formed SVG, inside its picture, with a table of exactly what is drawn."""

import math
import re
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import combinations
from xml.etree import ElementTree

import pytest
from django.template.loader import render_to_string
from hypothesis import given
from hypothesis import strategies as draw_from

from scoring.queries.queue import LANE_KEYS
from scoring.queries.read import AnswerMonth, Answers, Fare, HistoryPoint, LaneMonth, Week
from scoring.training.summary import ShownBin, ShownBudget, ShownLabel, ShownLane, ShownMonth
from scoring.types import Lane
from tests.triage.worlds.drawn_rows import HOSTILE, NOW
from triage.charts import backlog, histogram, reports
from triage.charts.plot import LARGEST, Frame, Label, Plot, is_drawn, month_words, round_up, whiskers
from triage.presenters import contributor
from triage.presenters.text import first_answer_words

ANY = draw_from.floats(allow_nan=True, allow_infinity=True) | draw_from.sampled_from([0.0, 0.5, 1.0, 1e6, -1.0])
COUNTS = draw_from.integers(0, 10**6)
SHARES = draw_from.floats(0, 1)
# What Unicode never assigns is no XML, and harmless in a page.
LETTERS = draw_from.characters(exclude_categories=("Cs", "Cn"))
TEXT = draw_from.text(LETTERS, max_size=30) | draw_from.sampled_from(HOSTILE)
BINS = draw_from.lists(draw_from.builds(ShownBin, COUNTS, ANY, ANY, ANY, ANY), max_size=12)
MONTHS = draw_from.lists(
    draw_from.builds(ShownMonth, draw_from.just("2026-03"), COUNTS.map(float), COUNTS.map(float), ANY, ANY), max_size=14
)
BUDGETS = draw_from.lists(
    draw_from.builds(
        ShownBudget,
        draw_from.sampled_from(["outside", "all"]),
        draw_from.sampled_from(["recipe", "certificate"]),
        draw_from.sampled_from([0.02, 0.05, 0.1]),
        *[COUNTS] * 4,
        draw_from.none() | SHARES,
        draw_from.tuples(draw_from.none() | SHARES, draw_from.none() | SHARES),
        COUNTS,
        COUNTS,
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
    page = render_to_string("charts/_plot.html", {"plot": plot})
    svg, table = page.split("</svg>")
    root = parsed(svg + "</svg>")
    assert root.get("role") == "img"
    assert [root.find(tag) is not None for tag in ("title", "desc")] == [True, True]
    assert not [part for part in root.iter() for name in ("style", "fill", "stroke") if name in part.attrib]
    shown = parsed(table.strip().split("</summary>")[1].strip().removesuffix("</details>"))
    assert len(shown.findall(".//tbody/tr")) == len(plot.table.rows)
    return root


LETTER = 0.56  # of the size of letters, the mean breadth of one in figures and names of months
PHONE = {360: 13, 540: 19, 720: 25}  # size of letters on a phone in a plot's units, by its breadth


def overlapping(plot: Plot) -> list[tuple[str, str]]:
    """The labels of a plot that would be printed over each other on a phone."""
    return [
        (one.words, other.words)
        for (one, left, right), (other, begin, end) in combinations(spans_of(plot), 2)
        if left < end and begin < right and abs(one.y - other.y) < 0.8 * PHONE[plot.width]
    ]


def spans_of(plot: Plot) -> list[tuple[Label, float, float]]:
    """Every label with its left and right end on a phone."""
    spans = []
    for label in plot.labels:
        breadth = LETTER * PHONE[plot.width] * len(label.words)
        left = label.x - {"start": 0, "middle": breadth / 2, "end": breadth}[label.anchor]
        spans.append((label, left, left + breadth))
    return spans


def inside(plot: Plot) -> None:
    """Every place of a plot is a finite number within the picture, and no label hides another on a phone."""
    assert overlapping(plot) == []
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
        reports.reliability("one", bins),
        [one for one in bins if is_drawn(one.told, one.came, one.low, one.high)],
    )
    assert (plot is None) == (not known)
    if plot:
        inside(plot)
        assert len(plot.dots) == len(plot.table.rows) == len(known)
        assert [row[3] for row in plot.table.rows] == [f"{one.n:,}" for one in known]


@given(MONTHS, draw_from.sampled_from([1e-9, 0.02, 0.5, 0.999]))
def test_false_approvals_of_any_months_are_whole_and_name_the_budget(months: list[ShownMonth], budget: float) -> None:
    plot = reports.false_approvals("one", lane(tuple(months)), (), budget)
    known = [one for one in months if one.n > 0 and is_drawn(one.low, one.high)]
    assert (plot is None) == (not known)
    if plot:
        inside(plot)
        assert len(plot.dots) == len(plot.table.rows) == len(known)
        assert "Dashed: budget " in plot.note


def test_what_the_lane_did_stands_beside_the_backtest_in_marks_and_table() -> None:
    back, live = ShownMonth("2026-02", 40, 1, 0.001, 0.13), LaneMonth("2026-03", 10, 3, 0.11, 0.6, 0.05)
    plot = reports.false_approvals("one", lane((back,)), (live,), 0.05)
    assert plot is not None
    inside(plot)
    assert (len(plot.dots), len(plot.boxes)) == (1, 1)
    assert (plot.dots[0].tone, plot.boxes[0].tone) == ("plain", "flag")
    assert [row[0] for row in plot.table.rows] == ["Feb 2026, backtest", "Mar 2026, live"]
    assert plot.summary.startswith("backtest (dots): none of 1 month; live (squares): 1 of 1 month above the limit")
    alone = reports.false_approvals("one", None, (live,), 0.05)
    assert alone is not None
    assert not alone.dots


@given(BUDGETS)
def test_lanes_of_any_figures_are_rows_of_words(lanes: list[ShownBudget]) -> None:
    label = ShownLabel("label_clean_fix", None, None, (), (), tuple(lanes), ())
    table = reports.lanes_table(label)
    assert len(table.rows) == sum(one.group == "outside" for one in lanes)
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert not any(word in cell for row in table.rows for cell in row for word in ("none", "recipe", "None"))


FARES = draw_from.tuples(*[draw_from.lists(COUNTS, min_size=4, max_size=4)] * 2)


@given(FARES, draw_from.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)))
def test_first_timers_and_regulars_of_any_number_are_whole_and_stand_in_the_table(
    counts: tuple[list[int], list[int]], opened: datetime
) -> None:
    fares = [
        Fare(first, dict(zip(LANE_KEYS, many, strict=True)), opened, opened)
        for first, many in zip((True, False), counts, strict=True)
    ]
    plot = histogram.newcomers(fares, NOW)
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
    plot = contributor.score_history([one for one in history if _nice(one)], 0.88)
    assert (plot is None) == (sum(map(_nice, history)) < 2)
    if plot:
        inside(plot)
        assert len(plot.table.rows) == sum(map(_nice, history))


def _nice(one: HistoryPoint) -> bool:
    """Words round probabilities only: what else is stored is never one."""
    values = (one.probability, one.low, one.high)
    return is_drawn(*values) and all(0 <= value <= 1 for value in values if value is not None)


@given(draw_from.lists(draw_from.tuples(COUNTS, COUNTS, COUNTS), max_size=13))
def test_a_backlog_of_any_size_is_whole_and_stands_in_the_table(counts: list[tuple[int, int, int]]) -> None:
    weeks = [Week(NOW + timedelta(weeks=at), *one) for at, one in enumerate(counts)]
    plot = backlog.backlog(weeks)
    assert (plot is None) == (sum(any(one) for one in counts) < 2)
    if plot:
        inside(plot)
        assert len(plot.table.rows) == len(weeks)


@given(draw_from.lists(draw_from.tuples(draw_from.integers(1, 99), *[draw_from.floats(0, 4_000)] * 3), max_size=7))
def test_waiting_times_of_any_length_are_whole_and_medians_need_ten_answers_in_each_group(
    given_months: list[tuple[int, float, float, float]],
) -> None:
    months = tuple(
        AnswerMonth(datetime(2026, 1 + at, 1), n, sorted(days)[1], min(days), max(days))
        for at, (n, *days) in enumerate(given_months)
    )
    total = sum(one.n for one in months)
    whole = AnswerMonth(NOW, total, 1.0, 0.5, 2.0) if months else None
    found = [Answers(who, months, whole) for who in (True, False)]
    plot = backlog.waits(found)
    assert bool(backlog.missing_answers(found)) == (total < 10)
    if plot:
        inside(plot)
        assert len(plot.table.rows) == 2 * len(months)


def test_on_a_phone_a_year_of_months_is_named_beside_each_other_and_inside_the_picture() -> None:
    year = [f"2025-{month:02}" for month in range(1, 13)]
    back = tuple(ShownMonth(month, 40.0, 3.0, 0.01, 0.2) for month in year)
    live = tuple(LaneMonth(month, 10, 1, 0.0, 0.4, 0.229) for month in year)
    heard = tuple(AnswerMonth(datetime(2026, month, 1), 20, 77.7, 15.5, 185.5) for month in range(1, 7))
    waited = [Answers(who, heard, heard[-1]) for who in (True, False)]
    weeks = [Week(NOW - timedelta(weeks=at), 149, 15, 8) for at in range(13)]
    shown = (reports.false_approvals("one", lane(back), live, 0.229), backlog.waits(waited), backlog.backlog(weeks))
    for plot in shown:
        assert plot is not None
        assert overlapping(plot) == []
        assert [one.words for one, left, right in spans_of(plot) if left < 0 or right > plot.width] == []
    assert len({label.words for label in shown[0].labels if "2025" in label.words}) == 4 if shown[0] else False
    assert "Newest: first-timers 77.7 days in Jun; regulars 77.7 days in Jun." in (shown[1].note if shown[1] else "")


def test_the_counts_of_who_waits_and_who_was_answered_add_up_to_what_is_open() -> None:
    found = [Answers(True, (), None, 21, heard=2), Answers(False, (), None, 23, heard=3)]
    said = "Of 49 open, 21 from first-timers and 23 from regulars still wait for a first answer; 5 got one."
    assert backlog.waiting_answer(found) == ("Nobody has heard back in six months.", said)
    one = [Answers(True, (), None, 1), Answers(False, (), None)]
    assert backlog.waiting_answer(one)[1] == "Of 1 open, 1 from first-timers still waits for a first answer."
    assert backlog.waiting_answer([Answers(True, (), None, heard=4)])[1] == "Nobody waits for a first answer."


def test_a_median_of_the_answered_stands_beside_how_many_still_wait_and_says_where_no_comment_is_known() -> None:
    month = AnswerMonth(NOW, 29, 24.68, 3.0, 80.0)
    found = Answers(True, (month,), month, waiting=125)
    said = "Of the 29 first-timers who got an answer in six months, half had it within 24.7 days; 125 still wait."
    regulars = Answers(False, (), replace(month, n=1), waiting=1)
    assert backlog.waiting_answer([found, regulars])[0] == (
        f"{said} The one regular who got an answer in six months had it within 24.7 days; 1 still waits."
    )
    assert first_answer_words([replace(found, waiting=0)]).endswith("; nobody still waits.")
    recorded = backlog.waiting_answer([replace(found, has_comments=False)])
    assert recorded[0] == (
        "Comments were not recorded: only merges and closes are known. "
        "Of the 29 first-timers who got a decision in six months, half had it within 24.7 days; 125 still wait."
    )
    assert recorded[1] == "Of 125 open, 125 from first-timers still wait for a decision."


@pytest.mark.parametrize(
    ("ends", "word", "said"),
    [
        ((71, 49), "Yes.", "22 fewer are open than 1 weeks ago."),
        ((8, 49), "No.", "41 more are open than 1 weeks ago."),
        ((9, 9), "It holds.", "As many are open as 1 weeks ago."),
    ],
)
def test_the_backlog_is_answered_in_a_word_and_its_figures(ends: tuple[int, int], word: str, said: str) -> None:
    told = backlog.backlog_answer([Week(NOW, one, 23, 25) for one in ends])
    week = "Last week 23 came in and 25 were decided, without those by people with push access."
    assert told == (word, said, week)


def test_a_whisker_that_is_cut_at_the_edge_ends_in_an_arrow() -> None:
    frame = Frame(0, 100, 0, 100, 10)
    whole, cut = (whiskers(50, 1, high, frame)[-1].points for high in (9, 11))
    assert len(whole.split()) == 2
    assert len(cut.split()) == 3, "an arrow"


@pytest.mark.parametrize(("month", "said"), [("2026-01", "Jan 2026"), ("2025-12", "Dec 2025"), ("odd-13", "odd-13")])
def test_a_month_is_named_in_words(month: str, said: str) -> None:
    assert month_words(month) == said


def test_where_much_of_the_inbox_lies_below_what_was_tested_that_is_said() -> None:
    lowest = reports.lowest_told((ShownBin(20, 0.9324, 0.8947, 0.7894, 1.0), ShownBin(19, 0.3341, 0.3, 0.2, 0.5)))
    assert reports.rarely_tested_words(lowest, 73, 147) == (
        "73 of the 147 open ones with a chance lie below 33.4 %, the average of the lowest bin, where less was tested."
    )
    assert reports.rarely_tested_words(lowest, 20, 147) == "", "less than a fifth"
    assert reports.rarely_tested_words(lowest, 4, 5) == "", "so few could tell whose chance it is"
    assert reports.lowest_told(()) == 0.0


INSIDE = (ShownBin(19, 0.7718, 0.9473, 0.5789, 0.9473), ShownBin(20, 0.9324, 0.8947, 0.7894, 1.0))
RECORDED = ShownBin(131, 0.645674, 0.732824, 0.564885, 0.725191)  # 73 % of 56 to 73 % in whole percents
DEMO = ShownBin(19, 0.922978, 0.736842, 0.789474, 1.0)


@pytest.mark.parametrize(
    ("bins", "word", "told"),
    [
        (INSIDE, "Yes, so far.", "93.2 %, 89.4 % ~ 78.9-100.0 % there. No bin lies outside."),
        ((*INSIDE, DEMO), "Not", "92.2 %, 73.6 % ~ 78.9-100.0 % there. 1 of 3 bins lies outside."),
        ((RECORDED,), "Not", "64.5 %, 73.2 % ~ 56.4-72.6 % there. 1 of 1 bin lies outside."),
        ((RECORDED, DEMO), "Not", "92.2 %, 73.6 % ~ 78.9-100.0 % there. 2 of 2 bins lie outside."),
        ((ShownBin(4, 0.771, 0.947, 0.5, 1.0),), "Too early to tell.", "50.0-100.0 % there."),
        ((), "Not tested yet.", ""),
    ],
)  # fmt: skip
def test_an_honest_score_is_judged_by_the_figures_of_its_table(
    bins: tuple[ShownBin, ...], word: str, told: str
) -> None:
    said = reports.score_answer(bins)
    assert said[0].startswith(word)
    assert told.replace("-", "\N{EN DASH}").replace("~", "stayed clean; honest scores give") in said[1]


@given(draw_from.lists(draw_from.builds(ShownBin, COUNTS, SHARES, SHARES, SHARES, SHARES), min_size=1, max_size=12))
def test_what_is_said_of_the_score_agrees_with_the_printed_table(bins: list[ShownBin]) -> None:
    plot, (word, evidence) = reports.reliability("one", bins), reports.score_answer(bins)
    assert plot is not None
    rows, outside = [row[:2] for row in plot.table.rows], []
    for told, came, band, _ in plot.table.rows:
        low, high = (float(end.split()[0]) for end in band.split("\N{EN DASH}"))
        outside += [] if low <= float(came.split()[0]) <= high else [(told, came)]
    named = tuple(re.findall(r"[0-9.]+ %", evidence)[:2])
    assert (word == "Not everywhere.") == bool(outside) == ("every one lies" not in plot.summary)
    assert named in (outside or rows), "a reader finds the named bin in the table, on the side that is claimed"


def test_one_point_is_a_chart_too() -> None:
    plot = reports.reliability("one", [ShownBin(31, 0.9, 1.0, 0.8, 1.0)])
    assert plot is not None
    assert plot.summary.startswith("31 settled pull requests in 1 bin; every one lies in the band")
    assert "Both axes run from 80 to 100 %" in plot.note, "no empty room below the scores"
    assert [one.words for one in plot.labels[:6]] == ["80", "90", "100"] * 2
    assert (plot.dots[0].x, plot.dots[0].y) == (196.0, 12.0), "in the middle of 80 to 100, and at the top"
    month = ShownMonth("2026-03", 10**6, 10**6, 0.99, 1.0)
    whole = reports.false_approvals("one", lane((month,)), (), 0.05)
    assert whole is not None
    assert whole.table.rows == (("Mar 2026, backtest", "1,000,000", "1,000,000", "100.0 %", "99.0\N{EN DASH}100.0 %"),)


@given(draw_from.floats(1e-300, 1e300))
def test_the_top_of_an_axis_is_never_below_its_highest_figure(value: float) -> None:
    top = round_up(value)
    assert value <= top * (1 + 1e-9)
    assert top <= 10 * value
    assert math.isfinite(top) or value > LARGEST
