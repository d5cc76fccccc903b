"""Charts of the backlog by week and of the time until people hear back, each with its answer in a sentence. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from scoring.queries.read import AnswerMonth, Answers, Week
from triage.charts.plot import Box, Dot, Frame, Label, Plot, Stroke, Table, line, places, round_up, whiskers
from triage.presenters.text import duration_words, first_answer_words

BREADTH = 540
BARS = Frame(left=44, right=520, top=24, bottom=160)
MEDIANS = Frame(left=44, right=520, top=24, bottom=160)
ENOUGH = 10  # first answers in each group before medians are drawn
BESIDE = 6  # units between the middle of a month and the marks of either group
FEW = 6  # answers of a month without which its median has no 95 % interval, and no mark
WHO = {True: "First-timers", False: "Regulars"}


def backlog_answer(weeks: Sequence[Week]) -> tuple[str, str, str]:
    """Answer whether the backlog shrinks: a word, a sentence, and the last week; "" where nothing was ever open."""
    if not weeks:
        return "", "", ""
    change, last = weeks[-1].open - weeks[0].open, weeks[-1]
    moved = f"{abs(change):,} {'more' if change > 0 else 'fewer'} are open than" if change else "As many are open as"
    word = "No." if change > 0 else "Yes." if change else "It holds."
    week = (
        f"Last week {last.came:,} came in and {last.decided:,} were decided, without those by people with push access."
    )
    return word, f"{moved} {len(weeks) - 1} weeks ago.", week


def has_trend(weeks: Sequence[Week]) -> bool:
    """Return whether two full weeks have anything in them."""
    return sum(bool(week.open or week.came or week.decided) for week in weeks) >= 2


def backlog(weeks: Sequence[Week]) -> Plot | None:
    """Draw what was open at the end of each week over what came and was decided in it; None without a trend."""
    if not has_trend(weeks):
        return None
    frame = _up_to(BARS, max(max(week.open, week.came, week.decided) for week in weeks))
    xs = [frame.x(0.04 + 0.92 * share) for share in places(len(weeks))]
    spots = [(x, frame.y(week.open)) for x, week in zip(xs, weeks, strict=True)]
    boxes = [
        Box(round(x + left, 1), frame.y(count), 9, round(frame.bottom - frame.y(count), 1), tone)
        for x, week in zip(xs, weeks, strict=True)
        for left, count, tone in ((-10, week.came, "hollow"), (1, week.decided, "plain"))
    ]
    named = [at for at in range(len(weeks)) if (len(weeks) - 1 - at) % 4 == 0]
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
            *(Label(xs[at], 184, _day(weeks[at].at)) for at in named),
            Label(*_above(spots[0]), f"{weeks[0].open:,}", "start", note=True),
            Label(*_above(spots[-1]), f"{weeks[-1].open:,}", "end", note=True),
        ),
    )


def waiting_answer(found: Sequence[Answers]) -> tuple[str, str]:
    """Say how soon half of those who heard back did, and how many of what is open still wait."""
    waiting = [f"{one.waiting:,} from {WHO[one.first_timers].lower()}" for one in found if one.waiting]
    total, rest = sum(one.waiting + one.heard for one in found), sum(one.heard for one in found)
    answer = "first answer" if all(one.has_comments for one in found) else "decision"
    wait = f"Nobody waits for a {answer}."
    if waiting:
        verb, others = "waits" if total - rest == 1 else "wait", f"; {rest:,} got one" if rest else ""
        wait = f"Of {total:,} open, {' and '.join(waiting)} still {verb} for a {answer}{others}."
    return first_answer_words(found) or "Nobody has heard back in six months.", wait


def longest_words(found: Sequence[Answers], now: datetime) -> tuple[str, str]:
    """Name the first-timer who has waited longest, with the address of what they sent; "" where none waits."""
    one = next((one for one in found if one.first_timers), None)
    if one is None or one.since is None:
        return "", ""
    return f"{one.author}, {duration_words((now - one.since).total_seconds())}", one.uri


def missing_answers(found: Sequence[Answers]) -> str:
    """Say how many first answers are missing for medians by month; "" where there are enough."""
    counts = {one.first_timers: one.all.n if one.all else 0 for one in found}
    if min(counts.values()) >= ENOUGH:
        return ""
    return (
        f"Medians by month need {ENOUGH} first answers in each group. So far first-timers have "
        f"{counts[True]:,} and regulars {counts[False]:,}."
    )


def waits(found: Sequence[Answers]) -> Plot | None:
    """Draw the median days to a first answer by month, first-timers as dots and regulars as squares."""
    if missing_answers(found):
        return None
    months = sorted({month.month for one in found for month in one.months})
    drawn = {one.first_timers: [month for month in one.months if month.n >= FEW] for one in found}
    if not any(drawn.values()):
        return None
    highest = max(min(month.high, 3 * month.median) for its in drawn.values() for month in its)
    frame = _up_to(MEDIANS, max(highest, 0.1))
    xs = dict(zip(months, (frame.x(0.06 + 0.88 * share) for share in places(len(months))), strict=True))
    first, other = drawn[True], drawn[False]
    dots, squares = (
        [(round(xs[one.month] + beside, 1), frame.y(one.median)) for one in its]
        for its, beside in ((first, -BESIDE), (other, BESIDE))
    )
    return Plot(
        key="waits",
        title="Median days to a first answer by month",
        summary="; ".join(_over_months(who, its) for who, its in drawn.items() if its),
        height=190,
        table=_waits_table(found),
        breadth=BREADTH,
        note="Across: month of the answer. Up: days until half of the answered had it. Dots: first-timers. "
        f"Squares: regulars. Whiskers: 95 % interval; an arrow: it goes on. Newest: {'; '.join(_newest(drawn))}.",
        rules=frame.rules((0, frame.highest / 2, frame.highest)),
        strokes=(
            *(mark for one in first for mark in whiskers(xs[one.month] - BESIDE, one.low, one.high, frame)),
            *(mark for one in other for mark in whiskers(xs[one.month] + BESIDE, one.low, one.high, frame)),
            *(Stroke(line(spots), dash=dash) for spots, dash in ((dots, ""), (squares, "5 4")) if len(spots) > 1),
        ),
        dots=tuple(Dot(*spot) for spot in dots),
        boxes=tuple(Box(round(x - 4, 1), round(y - 4, 1), 8, 8, "plain") for x, y in squares),
        labels=(
            *_ticks(frame),
            *(Label(xs[month], 178, f"{month:%b}") for month in months),
        ),
    )


def _over_months(who: bool, its: Sequence[AnswerMonth]) -> str:
    """Say the first and the last median of a line, each with its month."""
    shown = its if len(its) < 2 else (its[0], its[-1])
    return f"{WHO[who]}: {', '.join(f'{_days(one.median)} in {one.month:%b}' for one in shown)}"


def _newest(drawn: Mapping[bool, Sequence[AnswerMonth]]) -> list[str]:
    """Name the newest median of each line: below the picture, where there is room on a phone."""
    return [f"{WHO[who].lower()} {_days(its[-1].median)} in {its[-1].month:%b}" for who, its in drawn.items() if its]


def _up_to(frame: Frame, highest: float) -> Frame:
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


def _waits_table(found: Sequence[Answers]) -> Table:
    rows = tuple(
        (
            f"{month.month:%b %Y}, {WHO[one.first_timers].lower()}",
            f"{month.n:,}",
            f"{month.median:.1f}",
            f"{month.low:.1f} to {month.high:.1f}" if month.n >= FEW else "too few",
        )
        for one in found
        for month in one.months
    )
    return Table(("Month", "Answered", "Median days", "95 % interval"), rows)
