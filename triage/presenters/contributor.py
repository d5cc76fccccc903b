"""The page of one contributor, shaped from what `scoring.queries.read` found. Pure: the present is an argument."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from scoring.config.policy import Policy
from scoring.explain.what_would_change import MOST_TOLD
from scoring.formatting import percent, percent_in_full, percent_interval, visible
from scoring.queries.read import (
    ContributorPage,
    ContributorScore,
    HistoryPoint,
    PullLine,
    PullResult,
    Record,
    TrustExplanation,
    VouchLine,
    clean_to_reach,
    estimate_after,
)
from scoring.types import Lane
from triage.charts.plot import Area, Dot, Frame, Label, Plot, Stroke, Table, is_drawn, line, outline, places
from triage.presenters.rows import PersonView, person_view
from triage.presenters.text import age_words, share_words, vouching_words

FEW = 7  # pull requests that are shown before somebody asks for all
NAMED, LEAST = 3, 0.01  # vouchers named in the head, and the share of trust from which they are
HISTORY = Frame(left=34, right=350, top=12, bottom=150, highest=100)
RESULTS: dict[PullResult, str] = {
    "open": "open",
    "clean": "clean",
    "bad": "reverted or fixed",
    "watching": "still watched",
    "unmerged": "not merged",
    "uncounted": "merged, unconfirmed",
    "deleted": "record deleted",
}
TONES: dict[PullResult, str] = {"clean": "fast", "bad": "flag"}
PROOFS = {
    "handle": "Proven by its domain",
    "attested": "Confirmed by its issuer",
    "declared": "Declared, not used",
    "revoked": "Revoked by its issuer",
    "unverifiable": "Could not be proven",
}
RecordTab = Literal["", "all", "open", "bad", "unmerged"]
TABS: tuple[tuple[RecordTab, str], ...] = (
    ("", "All"),
    ("open", "Open"),
    ("bad", "Reverted or fixed"),
    ("unmerged", "Not merged"),
)


@dataclass(frozen=True, slots=True)
class Hop:
    """One person on a path, with the weight of the vouch that leads to them; "" for the seed."""

    person: PersonView
    weight: str


@dataclass(frozen=True, slots=True)
class PathView:
    """One path from a seed, with what the last voucher said and the share of all trust that arrives over them."""

    hops: tuple[Hop, ...]
    said: str
    share: str


@dataclass(frozen=True, slots=True)
class VouchView:
    """One vouch with the share of all trust that it brings: 0 for a warning, and where no path leads over it."""

    person: PersonView
    line: VouchLine
    is_seed: bool
    brought: float

    @property
    def share(self) -> str:
        """The share in words; "" for none."""
        return share_words(self.brought) if self.brought else ""


@dataclass(frozen=True, slots=True)
class RecordRow:
    """One pull request: its result in a word, and what was found or marked where that says more."""

    line: PullLine
    result: str
    tone: str
    more: str


@dataclass(frozen=True, slots=True)
class RecordView:
    """The pull requests in view, how many are hidden, and the tabs: value, words, count, whether it is this one."""

    rows: tuple[RecordRow, ...]
    tabs: tuple[tuple[str, str, int, bool], ...]
    hidden: int


def record_words(record: Record) -> str:
    """Say what somebody sent and what became of it."""
    if not record.total or record.first_at is None:
        return "No pull request yet."
    counts = ((record.results.get(result, 0), words) for result, words in RESULTS.items() if result != "deleted")
    told = ", ".join(f"{count:,} {words}" for count, words in counts if count)
    return f"{_counted(record.total, 'pull request', 'pull requests')} since {record.first_at:%B %Y}: {told}."


def vouched_words(vouches: Sequence[VouchView], record: Record, now: datetime) -> str:
    """Name who brings most of the trust, and say when the newest pull request came."""
    names = [one.person.name for one in vouches if one.brought >= LEAST]
    if names:
        more = len(names) - NAMED
        told = f"Vouched for by {', '.join(names[:NAMED])}{f' and {more:,} more' if more > 0 else ''}."
    else:
        told = "No vouch from the seeds reaches them. That is unknown, not bad."
    if record.newest_at is None:
        return told
    return f"{told} Newest pull request {age_words(record.newest_at, now).replace('just now', 'under a minute')} ago."


def path_views(found: TrustExplanation | None, vouches: Sequence[VouchLine]) -> tuple[PathView, ...]:
    """Draw the paths that share nobody but seeds; () for a seed and where no path is known."""
    if found is None:
        return ()
    said = {one.person.did: one for one in vouches if one.kind == "vouch"}
    brought = {one.person.did: one for one in found.vouchers}
    views = []
    for number, path in enumerate(found.paths):
        if len(path) < 2:
            continue
        weights = found.weights[number] if number < len(found.weights) else (0.0,) * (len(path) - 1)
        marks = ("", *(f"{weight:.2g}" if weight else "" for weight in weights))
        hops = tuple(Hop(person_view(person), mark) for person, mark in zip(path, marks, strict=True))
        last, held = said.get(path[-2].did), brought.get(path[-2].did)
        words = [f"“{visible(last.reason)}”"] if last and last.reason else []
        words += [vouching_words(held.merges, held.evidence)] if held and not words else []
        words += [f"{last.seen_at:%b %Y}"] if last else []
        views.append(PathView(hops, " ".join(words), share_words(held.share) if held else ""))
    return tuple(views)


def paths_sentence(found: TrustExplanation | None, no_path: str) -> str:
    """Say what the trust hangs on."""
    if found is None or not found.paths:
        return no_path
    if not found.distance:
        return "A seed: trust starts here."
    if found.dominator is not None:
        return f"If {visible(found.dominator.name)} were compromised, this trust would be gone."
    if len(found.paths) > 1:
        limits = "; ".join(_limits_of_paths(found))
        return f"They share no account except seeds.{f' {limits}.' if limits else ''}"
    return "A seed vouches directly." if found.distance == 1 else "No single account carries all of it."


def _limits_of_paths(found: TrustExplanation) -> Iterator[str]:
    """Yield what makes several paths hang on less than they seem to: one seed, or a last vouch that brings little."""
    begun = Counter(path[0] for path in found.paths)
    seed, times = begun.most_common(1)[0]
    if times > 1:
        yield f"{'All' if len(begun) == 1 else times} begin at {visible(seed.name)}"
    brought = {one.person.did: one.share for one in found.vouchers}
    weak = sum(brought.get(path[-2].did, 0.0) < LEAST for path in found.paths)
    if weak:
        yield f"{weak} {'brings' if weak == 1 else 'bring'} under 1 %"


def vouch_views(found: TrustExplanation | None, page: ContributorPage) -> tuple[VouchView, ...]:
    """Return every vouch, the one that brings most first; those over which no trust comes last."""
    brought = {one.person.did: one.share for one in found.vouchers} if found else {}
    seeds = {one.did for one in page.score.seeds}
    ordered = sorted(page.vouches, key=lambda one: -brought.get(one.person.did, 0.0))
    return tuple(
        VouchView(
            person_view(one.person),
            one,
            one.person.did in seeds,
            brought.get(one.person.did, 0.0) if one.kind == "vouch" else 0.0,
        )
        for one in ordered
    )


def vouches_words(vouches: Sequence[VouchView], paths: Sequence[PathView]) -> str:
    """Say how many vouches are on no drawn path, and how many of them weigh nothing."""
    standing = [one for one in vouches if one.line.kind == "vouch"]
    idle = sum(not one.brought for one in standing)
    more = len(standing) - idle - len(paths)
    told = [f"{_counted(more, 'more vouch', 'more vouches')} from people that the seeds reach."] if more > 0 else []
    if idle:
        told.append(f"{_counted(idle, 'vouch weighs', 'vouches weigh')} nothing: no path from the seeds.")
    return " ".join(told)


def record_view(page: ContributorPage, tab: RecordTab) -> RecordView:
    """Return the pull requests of one tab; without one the newest few."""
    found = [one for one in page.pulls if tab in ("", "all") or one.result == tab]
    shown = found[:FEW] if tab == "" else found
    tabs = tuple(
        (value, words, page.record.results.get(value, 0) if value else page.record.total, (value or "all") == tab)
        for value, words in TABS
        if not value or page.record.results.get(value)
    )
    count = page.record.results.get(tab, 0) if tab not in ("", "all") else page.record.total
    return RecordView(tuple(map(_record_row, shown)), tabs, count - len(shown))


def read_tab(value: str) -> RecordTab:
    """Return the tab that a query names; anything else is the first."""
    return next((tab for tab, _ in (*TABS, ("all", "")) if tab == value), "")


def _record_row(one: PullLine) -> RecordRow:
    says_more = any(mark in one.outcome for mark in ("commit", "marked", ";"))
    more = one.outcome.removeprefix("open; ").removeprefix("not merged; ") if says_more else ""
    return RecordRow(one, RESULTS[one.result], TONES.get(one.result, ""), more)


def changes(
    score: ContributorScore, found: TrustExplanation | None, policy: Policy, start: float | None
) -> Iterator[tuple[str, str]]:
    """Yield what would change the score or the lane, and what would come of it; `start` is the lane's threshold."""
    if score.verdict.estimate.probability is None:
        yield "A first settled pull request", "gives a first number"
    else:
        yield from _after_clean_ones(score, policy, start)
        yield from _after_bad_ones(score, policy, start)
    if found and found.dominator:
        yield f"Losing {visible(found.dominator.name)}", "ends this trust"
    rules = policy.thresholds
    if "silence" in rules.conditions:
        yield f"{rules.silent_days} days away", f"a person looks for {rules.account_change_days} days"


def _after_clean_ones(score: ContributorScore, policy: Policy, start: float | None) -> Iterator[tuple[str, str]]:
    """Yield how many clean ones bring the chance to where it warns nobody, or to where the lane starts."""
    low, chance = policy.thresholds.t_low, score.verdict.estimate.probability or 0.0
    target = low if chance < low else start
    count = clean_to_reach(score, target, policy) if target is not None else None
    if target is not None and count and count <= MOST_TOLD:
        reached = "no longer flagged for it" if chance < low else "where the lane starts"
        yield f"{count:,} more that {'stays' if count == 1 else 'stay'} clean", f"{percent_in_full(target)}, {reached}"


def _after_bad_ones(score: ContributorScore, policy: Policy, start: float | None) -> Iterator[tuple[str, str]]:
    for count, words in ((1, "One revert or fix"), (2, "Two of them")):
        after = estimate_after(score, count, policy)
        if after is None or after.probability is None:
            yield "A revert or a fix", "lowers it; the model says how far once it happens"
            return
        told = percent(after.probability)
        if start is not None and score.decision is Lane.FAST_LANE:
            told += ", stays in the lane" if after.probability >= start else ", leaves the lane"
        yield words, told


def score_history(history: Sequence[HistoryPoint], start: float | None) -> Plot | None:
    """Draw the recorded scores in per cent within their intervals; None where fewer than two have a number."""
    known = [(one.as_of, 100 * (one.probability or 0), 100 * one.low, 100 * one.high) for one in history if _known(one)]
    if len(known) < 2:
        return None
    known.sort(key=lambda one: one[0])
    began, ended = known[0][0], known[-1][0]
    xs = _over_time([one[0] for one in known])
    middle, low, high = ([(x, HISTORY.y(one[at])) for x, one in zip(xs, known, strict=True)] for at in (1, 2, 3))
    level, named = _level(start) if start is not None else ((), ())
    return Plot(
        key="history",
        title="Score history",
        summary=f"Share that stays clean went from {_said(history, began)} to {_said(history, ended)}",
        height=190,
        table=_history_table(history),
        rules=HISTORY.rules((0, 50, 100)),
        areas=(Area(outline(high, low)),),
        strokes=(Stroke(line(middle)), *level),
        dots=(Dot(*middle[-1]),),
        labels=(
            *(Label(HISTORY.left - 6, HISTORY.y(at) + 4, f"{at}", "end") for at in (0, 50, 100)),
            *named,
            Label(HISTORY.left, 167, _day(began), "start"),
            Label(HISTORY.right, 167, _day(ended), "end"),
            Label(0, 186, "% that stay clean; band: 95 % interval", "start"),
        ),
    )


def _over_time(moments: Sequence[datetime]) -> list[float]:
    """Place moments in their order, beside each other where all are the same."""
    span = (moments[-1] - moments[0]).total_seconds()
    shares = [(moment - moments[0]).total_seconds() / span for moment in moments] if span else places(len(moments))
    return [HISTORY.x(share) for share in shares]


def _level(start: float) -> tuple[tuple[Stroke, ...], tuple[Label, ...]]:
    y = HISTORY.y(100 * start)
    words = f"lane from {percent_in_full(start)}"
    return (Stroke(line([(HISTORY.left, y), (HISTORY.right, y)]), dash="4 4"),), (
        Label(40, y + 14, words, "start", note=True),
    )


def _known(one: HistoryPoint) -> bool:
    return one.probability is not None and is_drawn(one.probability, one.low, one.high)


def _said(history: Sequence[HistoryPoint], moment: datetime) -> str:
    one = next(one for one in history if one.as_of == moment and _known(one))
    return f"{percent(one.probability or 0)} ({percent_interval(one.low, one.high)}) on {_day(moment)}"


def _day(moment: datetime) -> str:
    return f"{moment.day} {moment:%b %Y}"


def _history_table(history: Sequence[HistoryPoint]) -> Table:
    rows = []
    for one in sorted(history, key=lambda one: one.as_of, reverse=True):
        if _known(one):
            told = (percent(one.probability or 0), percent_interval(one.low, one.high))
            rows.append((f"{_day(one.as_of)} {one.as_of:%H:%M}", *told))
    return Table(("Data up to (UTC)", "Stays clean", "95 % interval"), tuple(rows))


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
