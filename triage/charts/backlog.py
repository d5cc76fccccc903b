"""Charts of the backlog by week and of the time to a first answer, each with its answer in a sentence. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from scoring.queries.read import AnswerMonth, Answers, Week
from triage.charts.plot import Box, Dot, Frame, Label, Plot, Stroke, Table, line, places, round_up, whiskers
from triage.presenters.text import duration_words

BREADTH = 540
BARS = Frame(left=44, right=520, top=24, bottom=160)
MEDIANS = Frame(left=44, right=520, top=24, bottom=160)
ENOUGH = 10  # first answers in each group before medians are drawn
BESIDE = 6  # units between the middle of a month and each group's marks
FEW = 6  # least answers in a month for a 95 % interval of the median, and for a mark
WHO = {True: "First-timers", False: "Regulars"}


def backlog_answer(weeks: Sequence[Week]) -> tuple[str, str, str]:
    """Say whether the backlog shrinks: a word, a sentence, and the last week; "" where nothing was ever open."""
    if not weeks:
        return "", "", ""
    change, last = weeks[-1].open - weeks[0].open, weeks[-1]
    comparison = (
        f"{abs(change):,} {'more' if change > 0 else 'fewer'} are open than" if change else "As many are open as"
    )
    word = "No." if change > 0 else "Yes." if change else "It holds."
    week = f"Last week {last.came:,} came in and {last.decided:,} were decided."
    return word, f"{comparison} {len(weeks) - 1} weeks ago.", week


def has_trend(weeks: Sequence[Week]) -> bool:
    """Return whether at least two weeks have any pull request."""
    return sum(bool(week.open or week.came or week.decided) for week in weeks) >= 2


def backlog(weeks: Sequence[Week]) -> Plot | None:
    """Draw the open pull requests at the end of each week over the new and decided ones; None without a trend."""
    if not has_trend(weeks):
        return None
    frame = _scaled_frame(BARS, max(max(week.open, week.came, week.decided) for week in weeks))
    xs = [frame.x(0.04 + 0.92 * share) for share in places(len(weeks))]
    spots = [(x, frame.y(week.open)) for x, week in zip(xs, weeks, strict=True)]
    boxes = [
        Box(round(x + left, 1), frame.y(count), 9, round(frame.bottom - frame.y(count), 1), tone)
        for x, week in zip(xs, weeks, strict=True)
        for left, count, tone in ((-10, week.came, "hollow"), (1, week.decided, "plain"))
    ]
    named_weeks = [index for index in range(len(weeks)) if (len(weeks) - 1 - index) % 4 == 0]
    return Plot(
        key="backlog",
        title="Open pull requests by week",
        summary=f"From {weeks[0].open:,} open on {_day(weeks[0].at)} to {weeks[-1].open:,} on {_day(weeks[-1].at)}",
        height=190,
        table=_weeks_table(weeks),
        breadth=BREADTH,
        note="Across: weeks. Up: pull requests. Line: open at its end. Hollow bar: came in, full bar: decided.",
        rules=frame.rules((0, frame.highest / 2, frame.highest)),
        boxes=tuple(boxes),
        strokes=(Stroke(line(spots)),),
        dots=(Dot(*spots[-1]),),
        labels=(
            *_ticks(frame),
            *(Label(xs[index], 184, _day(weeks[index].at)) for index in named_weeks),
            Label(*_above(spots[0]), f"{weeks[0].open:,}", "start", note=True),
            Label(*_above(spots[-1]), f"{weeks[-1].open:,}", "end", note=True),
        ),
    )


def waiting_answer(groups: Sequence[Answers]) -> tuple[str, str]:
    """Say in a sentence how soon half got a first answer, and in another how many did and how many still wait."""
    answered = [(WHO[group.first_timers].lower(), group.all) for group in groups if group.all]
    waiting = [f"{group.waiting:,} from {WHO[group.first_timers].lower()}" for group in groups if group.waiting]
    total, rest = sum(group.waiting + group.heard for group in groups), sum(group.heard for group in groups)
    wait = "Nobody waits for a first answer."
    if waiting:
        verb, others = "waits" if total - rest == 1 else "wait", f"; {rest:,} got one" if rest else ""
        wait = f"Of {total:,} open, {' and '.join(waiting)} still {verb} for a first answer{others}."
    if not answered:
        return "Nobody has heard back in this time.", wait
    (who, month), *others = answered
    half = [f"Half of {who} got a first answer within {_days(month.median)}"]
    half += [f"half of {who} within {_days(month.median)}" for who, month in others]
    counted = " and ".join(f"{month.n:,} {who}" for who, month in answered)
    return f"{', '.join(half)}.", f"{counted} were answered in six months. {wait}"


def longest_words(groups: Sequence[Answers], now: datetime) -> tuple[str, str]:
    """Name the first-timer who has waited longest, with the at-uri of their pull request; "" where none waits."""
    group = next((group for group in groups if group.first_timers), None)
    if group is None or group.since is None:
        return "", ""
    return f"{group.author}, {duration_words((now - group.since).total_seconds())}", group.uri


def missing_answers(groups: Sequence[Answers]) -> str:
    """Say how many first answers are missing for medians by month; "" where there are enough."""
    counts = {group.first_timers: group.all.n if group.all else 0 for group in groups}
    if min(counts.values()) >= ENOUGH:
        return ""
    return (
        f"Medians by month need {ENOUGH} first answers in each group. So far first-timers have "
        f"{counts[True]:,} and regulars {counts[False]:,}."
    )


def waits(groups: Sequence[Answers]) -> Plot | None:
    """Draw the median days to a first answer by month, first-timers as dots and regulars as squares."""
    if missing_answers(groups):
        return None
    months = sorted({month.month for item in groups for month in item.months})
    months_by_group = {item.first_timers: [month for month in item.months if month.n >= FEW] for item in groups}
    if not any(months_by_group.values()):
        return None
    highest = max(min(month.high, 3 * month.median) for month_list in months_by_group.values() for month in month_list)
    frame = _scaled_frame(MEDIANS, max(highest, 0.1))
    xs = dict(zip(months, (frame.x(0.06 + 0.88 * share) for share in places(len(months))), strict=True))
    newcomer_months, regular_months = months_by_group[True], months_by_group[False]
    dots, squares = (
        [(round(xs[item.month] + beside, 1), frame.y(item.median)) for item in month_list]
        for month_list, beside in ((newcomer_months, -BESIDE), (regular_months, BESIDE))
    )
    return Plot(
        key="waits",
        title="Median days to a first answer by month",
        summary="; ".join(_median_words(who, month_list) for who, month_list in months_by_group.items() if month_list),
        height=190,
        table=_waits_table(groups),
        breadth=BREADTH,
        note="Across: month of the answer. Up: days until half had a first answer. Dots: first-timers. "
        "Squares: regulars. Whiskers: 95 % interval; an arrow: it goes on. "
        f"Newest: {'; '.join(_newest(months_by_group))}.",
        rules=frame.rules((0, frame.highest / 2, frame.highest)),
        strokes=(
            *(
                mark
                for item in newcomer_months
                for mark in whiskers(xs[item.month] - BESIDE, item.low, item.high, frame)
            ),
            *(
                mark
                for item in regular_months
                for mark in whiskers(xs[item.month] + BESIDE, item.low, item.high, frame)
            ),
            *(Stroke(line(spots), dash=dash) for spots, dash in ((dots, ""), (squares, "5 4")) if len(spots) > 1),
        ),
        dots=tuple(Dot(*spot) for spot in dots),
        boxes=tuple(Box(round(x - 4, 1), round(y - 4, 1), 8, 8, "plain") for x, y in squares),
        labels=(
            *_ticks(frame),
            *(Label(xs[month], 178, f"{month:%b}") for month in months),
        ),
    )


def _median_words(who: bool, months: Sequence[AnswerMonth]) -> str:
    """Describe the first and the last median of a line, each with its month."""
    shown = months if len(months) < 2 else (months[0], months[-1])
    return f"{WHO[who]}: {', '.join(f'{_days(month.median)} in {month.month:%b}' for month in shown)}"


def _newest(months_by_group: Mapping[bool, Sequence[AnswerMonth]]) -> list[str]:
    """Name the newest median of each line, shown below the picture, where a phone has room."""
    return [
        f"{WHO[who].lower()} {_days(months_of_group[-1].median)} in {months_of_group[-1].month:%b}"
        for who, months_of_group in months_by_group.items()
        if months_of_group
    ]


def _scaled_frame(frame: Frame, highest: float) -> Frame:
    return Frame(frame.left, frame.right, frame.top, frame.bottom, round_up(highest) if highest else 1.0)


def _ticks(frame: Frame) -> tuple[Label, ...]:
    values = (0.0, frame.highest / 2, frame.highest)
    return tuple(Label(frame.left - 6, frame.y(value) + 4, f"{value:g}", "end") for value in values)


def _above(spot: tuple[float, float]) -> tuple[float, float]:
    return spot[0], round(spot[1] - 8, 1)


def _day(moment: datetime) -> str:
    return f"{moment.day} {moment:%b}"


def _days(days: float) -> str:
    return f"{days:,.1f} days"


def _weeks_table(weeks: Sequence[Week]) -> Table:
    rows = ((_day(week.at), f"{week.open:,}", f"{week.came:,}", f"{week.decided:,}") for week in weeks)
    return Table(("Week to", "Open at its end", "Came in", "Decided"), tuple(rows))


def _waits_table(groups: Sequence[Answers]) -> Table:
    rows = tuple(
        (
            f"{month.month:%b %Y}, {WHO[group.first_timers].lower()}",
            f"{month.n:,}",
            f"{month.median:.1f}",
            f"{month.low:.1f} to {month.high:.1f}" if month.n >= FEW else "too few",
        )
        for group in groups
        for month in group.months
    )
    return Table(("Month", "Answered", "Median days", "95 % interval"), rows)
