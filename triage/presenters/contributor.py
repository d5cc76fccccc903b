"""Build the page of one contributor from what `scoring.queries.read` returns. Pure: the present time is an argument."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from urllib.parse import urlsplit

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
    Signal,
    TrustExplanation,
    VouchLine,
    clean_to_reach,
    estimate_after,
)
from scoring.types import Lane
from triage.charts.plot import Area, Dot, Frame, Label, Plot, Stroke, Table, is_drawn, line, outline, places
from triage.presenters.queue.rows import PersonView, person_view
from triage.presenters.text import age_words, share_words, vouching_words

FEW = 7  # pull requests shown before the reader asks for all
NAMED, LEAST = 3, 0.01  # vouchers named in the head, and the least share of trust of each
MUTUAL = 3  # vouches in return from which they are told: a ring vouches both ways
HISTORY = Frame(left=34, right=350, top=12, bottom=150, highest=100)
RESULTS: dict[PullResult, str] = {
    "open": "open",
    "clean": "clean",
    "bad": "reverted or fixed",
    "watching": "still watched",
    "outside": "merged elsewhere, not counted",
    "unmerged": "not merged",
    "uncounted": "merged, unconfirmed",
    "deleted": "record deleted",
}
TONES: dict[PullResult, str] = {"clean": "fast", "bad": "flag"}
PROOFS = {
    "handle": "Proven by its domain",
    "signed": "{who} saw",
    "mutual": "Links back:",
    "attested": "Confirmed by its issuer",
    "checked": "Checked with their declared keys",
    "read": "Told by {who}",
    "revoked": "Revoked by its issuer",
    "unverifiable": "Could not be proven",
    "declared": "Claimed, not used",
}
PROVEN = frozenset({"handle", "signed", "mutual", "attested", "checked"})
SIGNALS_SHOWN = 2  # the rest is folded away, so that the page fits one screen
RecordTab = Literal["", "all", "open", "bad", "unmerged"]
TABS: tuple[tuple[RecordTab, str], ...] = (
    ("", "All"),
    ("open", "Open"),
    ("bad", "Reverted or fixed"),
    ("unmerged", "Not merged"),
)


@dataclass(frozen=True, slots=True)
class SignalRow:
    """One fact: who proves or tells it, and the page that shows it with its host; both "" for none."""

    what: str
    proof: str
    is_proven: bool
    evidence: str
    host: str


@dataclass(frozen=True, slots=True)
class Hop:
    """One person on a path, with the weight of the vouch for them; "" for the seed."""

    person: PersonView
    weight: str


@dataclass(frozen=True, slots=True)
class PathView:
    """One path from a seed, with the last voucher's reason and their share of all trust."""

    hops: tuple[Hop, ...]
    said: str
    share: str


@dataclass(frozen=True, slots=True)
class VouchView:
    """One vouch with its share of all trust: 0 for a warning, and where no path uses it."""

    person: PersonView
    line: VouchLine
    is_seed: bool
    brought: float

    @property
    def share(self) -> str:
        """Return the share in words; "" for none."""
        return share_words(self.brought) if self.brought else ""


@dataclass(frozen=True, slots=True)
class RecordRow:
    """One pull request: its result in a word, and details of the outcome where there are any."""

    line: PullLine
    result: str
    tone: str
    more: str


@dataclass(frozen=True, slots=True)
class RecordView:
    """The pull requests in view, the number of hidden ones, and the tabs.

    A tab is its value, words, count, and whether it is selected.
    """

    rows: tuple[RecordRow, ...]
    tabs: tuple[tuple[str, str, int, bool], ...]
    hidden: int


def record_words(record: Record) -> str:
    """Describe how many pull requests somebody sent, and their outcomes."""
    if not record.total or record.first_at is None:
        return "No pull request yet."
    counts = ((record.results.get(result, 0), words) for result, words in RESULTS.items() if result != "deleted")
    outcomes = ", ".join(f"{count:,} {words}" for count, words in counts if count)
    return f"{_counted(record.total, 'pull request', 'pull requests')} since {record.first_at:%B %Y}: {outcomes}."


def vouched_words(vouches: Sequence[VouchView], record: Record, now: datetime) -> str:
    """Name the people who bring most of the trust, and give the age of the newest pull request."""
    names = [vouch.person.name for vouch in vouches if vouch.brought >= LEAST]
    if names:
        more = len(names) - NAMED
        sentence = f"Vouched for by {', '.join(names[:NAMED])}{f' and {more:,} more' if more > 0 else ''}."
        mutual = sum(vouch.line.mutual for vouch in vouches if vouch.brought >= LEAST)
        if mutual >= MUTUAL and 2 * mutual >= len(names):
            sentence += f" They vouch for {f'all {mutual:,}' if mutual == len(names) else f'{mutual:,}'} of these too."
    else:
        sentence = "No vouch from the seeds reaches them. That is unknown, not bad."
    if record.newest_at is None:
        return sentence
    return (
        f"{sentence} Newest pull request {age_words(record.newest_at, now).replace('just now', 'under a minute')} ago."
    )


def path_views(explanation: TrustExplanation | None, vouches: Sequence[VouchLine]) -> tuple[PathView, ...]:
    """Build the paths, which share nobody but seeds; () for a seed and where no path is known."""
    if explanation is None:
        return ()
    vouch_lines = {vouch.person.did: vouch for vouch in vouches if vouch.kind == "vouch"}
    contributions = {vouch.person.did: vouch for vouch in explanation.vouchers}
    views = []
    for number, path in enumerate(explanation.paths):
        if len(path) < 2:
            continue
        weights = explanation.weights[number] if number < len(explanation.weights) else (0.0,) * (len(path) - 1)
        marks = ("", *(f"{weight:.2g}" if weight else "" for weight in weights))
        hops = tuple(Hop(person_view(person), mark) for person, mark in zip(path, marks, strict=True))
        vouch_line, contribution = vouch_lines.get(path[-2].did), contributions.get(path[-2].did)
        words = [f"“{visible(vouch_line.reason)}”"] if vouch_line and vouch_line.reason else []
        words += [vouching_words(contribution.merges, contribution.evidence)] if contribution and not words else []
        words += [f"{vouch_line.seen_at:%b %Y}"] if vouch_line else []
        views.append(PathView(hops, " ".join(words), share_words(contribution.share) if contribution else ""))
    return tuple(views)


def paths_sentence(explanation: TrustExplanation | None, no_path: str) -> str:
    """Say on which accounts the trust depends."""
    if explanation is None or not explanation.paths:
        return no_path
    if not explanation.distance:
        return "A seed: trust starts here."
    if explanation.dominator is not None:
        return f"If {visible(explanation.dominator.name)} were compromised, this trust would be gone."
    if len(explanation.paths) > 1:
        limits = "; ".join(_limits_of_paths(explanation))
        return f"They share no account except seeds.{f' {limits}.' if limits else ''}"
    return "A seed vouches directly." if explanation.distance == 1 else "No single account carries all of it."


def _limits_of_paths(explanation: TrustExplanation) -> Iterator[str]:
    """Yield why several paths are weaker than they seem: they share one seed, or their last vouch brings little."""
    seeds = Counter(path[0] for path in explanation.paths)
    seed, times = seeds.most_common(1)[0]
    if times > 1:
        yield f"{'All' if len(seeds) == 1 else times} begin at {visible(seed.name)}"
    shares = {voucher.person.did: voucher.share for voucher in explanation.vouchers}
    weak = sum(shares.get(path[-2].did, 0.0) < LEAST for path in explanation.paths)
    if weak:
        yield f"{weak} {'brings' if weak == 1 else 'bring'} under 1 %"


def vouch_views(explanation: TrustExplanation | None, page: ContributorPage) -> tuple[VouchView, ...]:
    """Return every vouch, largest share first; those that bring no trust come last."""
    shares = {vouch.person.did: vouch.share for vouch in explanation.vouchers} if explanation else {}
    seeds = {vouch.did for vouch in page.score.seeds}
    ordered = sorted(page.vouches, key=lambda vouch: -shares.get(vouch.person.did, 0.0))
    return tuple(
        VouchView(
            person_view(vouch.person),
            vouch,
            vouch.person.did in seeds,
            shares.get(vouch.person.did, 0.0) if vouch.kind == "vouch" else 0.0,
        )
        for vouch in ordered
    )


def vouches_words(vouches: Sequence[VouchView], paths: Sequence[PathView]) -> str:
    """Say how many vouches are on no displayed path, and how many of them weigh nothing."""
    in_force = [vouch for vouch in vouches if vouch.line.kind == "vouch"]
    idle = sum(not vouch.brought for vouch in in_force)
    more = len(in_force) - idle - len(paths)
    sentences = (
        [f"{_counted(more, 'more vouch', 'more vouches')} from people that the seeds reach."] if more > 0 else []
    )
    if idle:
        sentences.append(f"{_counted(idle, 'vouch weighs', 'vouches weigh')} nothing: no path from the seeds.")
    return " ".join(sentences)


def record_view(page: ContributorPage, tab: RecordTab) -> RecordView:
    """Return the pull requests of one tab; without a tab the newest few."""
    tab_pulls = [pull for pull in page.pulls if tab in ("", "all") or pull.result == tab]
    shown = tab_pulls[:FEW] if tab == "" else tab_pulls
    tabs = tuple(
        (value, words, page.record.results.get(value, 0) if value else page.record.total, (value or "all") == tab)
        for value, words in TABS
        if not value or page.record.results.get(value)
    )
    count = page.record.results.get(tab, 0) if tab not in ("", "all") else page.record.total
    return RecordView(tuple(map(_record_row, shown)), tabs, count - len(shown))


def read_tab(value: str) -> RecordTab:
    """Return the tab that a query names; the first tab for any other value."""
    return next((tab for tab, _ in (*TABS, ("all", "")) if tab == value), "")


def _record_row(pull: PullLine) -> RecordRow:
    says_more = any(mark in pull.outcome for mark in ("commit", "marked", ";"))
    more = pull.outcome.removeprefix("open; ").removeprefix("not merged; ") if says_more else ""
    if pull.flagged:
        return RecordRow(pull, "open, flagged", "flag", more)
    return RecordRow(pull, RESULTS[pull.result], TONES.get(pull.result, ""), more)


def signal_rows(signals: Sequence[Signal]) -> tuple[tuple[SignalRow, ...], tuple[SignalRow, ...]]:
    """Return the facts on a person that are shown at once, and those that are folded away."""
    rows = tuple(map(_signal_row, signals))
    return rows[:SIGNALS_SHOWN], rows[SIGNALS_SHOWN:]


def _signal_row(signal: Signal) -> SignalRow:
    evidence, host = signal.evidence or "", urlsplit(signal.evidence or "").hostname or ""
    words = PROOFS[signal.proof]
    # The host that tells something is linked, so that its name need not stand there twice.
    proof = "Told by" if signal.proof == "read" and host else words.format(who=visible(signal.said_by))
    if signal.proof == "signed" and not host:
        proof = f"Signed by {visible(signal.said_by)}"
    return SignalRow(visible(signal.what), proof, signal.proof in PROVEN, evidence, visible(host))


def changes(
    score: ContributorScore, explanation: TrustExplanation | None, policy: Policy, start: float | None
) -> Iterator[tuple[str, str]]:
    """Yield events that would change the score or the lane, each with its effect; `start` is the lane's threshold."""
    if score.verdict.estimate.probability is None:
        yield "Pull requests like theirs that settle", "give a first number"
    else:
        yield from _after_clean_ones(score, policy, start)
        yield from _after_bad_ones(score, policy, start)
    if explanation and explanation.dominator:
        yield f"Losing {visible(explanation.dominator.name)}", "ends this trust"
    rules = policy.thresholds
    if "silence" in rules.conditions:
        yield f"{rules.silent_days} days away", f"always reviewed for {rules.account_change_days} days"


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
        effect = percent(after.probability)
        if start is not None and score.decision is Lane.FAST_LANE:
            effect += ", stays in the lane" if after.probability >= start else ", leaves the lane"
        yield words, effect


def score_history(history: Sequence[HistoryPoint], start: float | None) -> Plot | None:
    """Draw the recorded scores in per cent with their intervals; None where fewer than two have a number."""
    points = [
        (point.as_of, 100 * (point.probability or 0), 100 * point.low, 100 * point.high)
        for point in history
        if _known(point)
    ]
    if len(points) < 2:
        return None
    points.sort(key=lambda point: point[0])
    began, ended = points[0][0], points[-1][0]
    xs = _x_positions([point[0] for point in points])
    middle, low, high = ([(x, HISTORY.y(point[at])) for x, point in zip(xs, points, strict=True)] for at in (1, 2, 3))
    level, level_labels = _lane_level(start) if start is not None else ((), ())
    return Plot(
        key="history",
        title="Score history",
        summary=f"Share that stays clean went from {_point_words(history, began)} to {_point_words(history, ended)}",
        height=190,
        table=_history_table(history),
        rules=HISTORY.rules((0, 50, 100)),
        areas=(Area(outline(high, low)),),
        strokes=(Stroke(line(middle)), *level),
        dots=(Dot(*middle[-1]),),
        labels=(
            *(Label(HISTORY.left - 6, HISTORY.y(at) + 4, f"{at}", "end") for at in (0, 50, 100)),
            *level_labels,
            Label(HISTORY.left, 167, _day(began), "start"),
            Label(HISTORY.right, 167, _day(ended), "end"),
            Label(0, 186, "% that stay clean; band: 95 % interval", "start"),
        ),
    )


def _x_positions(moments: Sequence[datetime]) -> list[float]:
    """Return x positions of moments by time; evenly spaced where all are equal."""
    span = (moments[-1] - moments[0]).total_seconds()
    shares = [(moment - moments[0]).total_seconds() / span for moment in moments] if span else places(len(moments))
    return [HISTORY.x(share) for share in shares]


def _lane_level(start: float) -> tuple[tuple[Stroke, ...], tuple[Label, ...]]:
    y = HISTORY.y(100 * start)
    words = f"lane from {percent_in_full(start)}"
    return (Stroke(line([(HISTORY.left, y), (HISTORY.right, y)]), dash="4 4"),), (
        Label(40, y + 14, words, "start", note=True),
    )


def _known(point: HistoryPoint) -> bool:
    return point.probability is not None and is_drawn(point.probability, point.low, point.high)


def _point_words(history: Sequence[HistoryPoint], moment: datetime) -> str:
    point = next(point for point in history if point.as_of == moment and _known(point))
    return f"{percent(point.probability or 0)} ({percent_interval(point.low, point.high)}) on {_day(moment)}"


def _day(moment: datetime) -> str:
    return f"{moment.day} {moment:%b %Y}"


def _history_table(history: Sequence[HistoryPoint]) -> Table:
    rows = []
    for point in sorted(history, key=lambda point: point.as_of, reverse=True):
        if _known(point):
            figures = (percent(point.probability or 0), percent_interval(point.low, point.high))
            rows.append((f"{_day(point.as_of)} {point.as_of:%H:%M}", *figures))
    return Table(("Data up to (UTC)", "Stays clean", "95 % interval"), tuple(rows))


def _counted(count: int, singular: str, plural: str) -> str:
    return f"{count:,} {singular if count == 1 else plural}"
