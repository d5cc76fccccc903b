"""View models of rows and of links to the forge, made from the answers of queries. Pure: the present is an argument."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2s
from math import floor
from typing import Literal

from scoring.explain.sentences import factor_label, plain_sentence, sentence, told_reasons
from scoring.formatting import percent, percent_interval, percents, trust_figure, visible
from scoring.queries.read import (
    ChangeFacts,
    ContentReview,
    ContributorScore,
    ForgeHome,
    GroupKey,
    PeerOpinion,
    Person,
    Queue,
    QueueGroup,
    QueueRow,
    RoundSignatures,
    Signal,
    TrustExplanation,
    hidden_words,
)
from scoring.types import MOST_FACTORS, Factor, Verdict
from triage.forms.filters import Bucket, QueueFilters
from triage.presenters.peers import PeerView, opinion_view
from triage.presenters.queue.pills import Kind, Pill, decided, lane_pill, pill, row_pill
from triage.presenters.queue.review import ReviewView, review_view
from triage.presenters.text import (
    age_words,
    borrowed_words,
    brief_age,
    dependents_words,
    interval_sentence,
    missing_evidence,
    no_path_words,
    share_words,
    trust_sentences,
    vouching_words,
)
from triage.services.objections import Spoken

_OWNER = re.compile(r"[A-Za-z0-9.:-]{1,253}")
_NAME = re.compile(r"(?!\.+$)[A-Za-z0-9._-]{1,100}")
TINTS = 6  # avatar colours in components.css
MINUS = "\N{MINUS SIGN}"  # as wide as a plus, so that signed figures align
FAILED_NAMED, NAME_LENGTH = 5, 60  # workflows that are named, and characters of each name
CI_WORDS = {"passed": "passed", "failed": "failed", "running": "running", "never_ran": "did not run on this round"}
CLAIMED = "Its author says that it was merged, and nothing confirms it. No lane depends on that."
TESTS_FAIL = "Its tests fail. Look at them before you approve."
BAR_WIDTH = 200  # units of the factor bars' viewBox; the middle is zero
# The order of the queue. Bucket, heading, icon, and what an empty one says.
GROUPS: tuple[tuple[GroupKey, str, Kind, str], ...] = (
    ("needs_human", "Flagged", "flag", "Nothing is flagged."),
    ("normal_queue", "Needs review", "review", "Nothing waits for a review."),
    ("fast_lane", "Fast lane", "fast", "The fast lane is empty."),
    ("would_be_fast_lane", "Would be fast lane", "would", "Nothing would be fast lane where the lane is not open."),
    ("own", "From people with push access", "person", "No open pull request by people with push access."),
)


@dataclass(frozen=True, slots=True)
class ForgePlace:
    """An address on the forge, and what a link to it says."""

    url: str
    words: str


def forge_place(home: ForgeHome, site: str) -> ForgePlace | None:
    """The nearest page on the forge at `site`: the pull request's, else its repository's list, else its author's.

    A repository that moved is addressed by who owns it now and as it is called now. None without a site, and where the
    author's DID is none that the forge would give.
    """
    if not site or not _OWNER.fullmatch(home.author):
        return None
    base, owner = site.rstrip("/"), home.handle or home.owner or ""
    if not (home.name and _NAME.fullmatch(home.name) and _OWNER.fullmatch(owner)):
        return ForgePlace(f"{base}/{home.author}", "Open its author on Tangled")
    pulls = f"{base}/{owner}/{home.name}/pulls"
    if home.number is None:
        return ForgePlace(pulls, f"Open {home.name} on Tangled")
    return ForgePlace(f"{pulls}/{home.number}", f"Open {home.name} #{home.number} on Tangled")


@dataclass(frozen=True, slots=True)
class PersonView:
    """A person with an avatar: two letters on one of TINTS."""

    did: str
    name: str
    initials: str
    tint: int


@dataclass(frozen=True, slots=True)
class FactorBar:
    """One factor as a signed bar around the middle of `BAR_WIDTH`; `sign` is "" where it does not move P."""

    label: str
    value: str
    effect: str
    sign: Literal["up", "down", ""]
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class VoucherView:
    """One voucher with the share of the trust that arrives over their vouch, and how they vouch."""

    person: PersonView
    share: str
    how: str


@dataclass(frozen=True, slots=True)
class TrustView:
    """Explains why the seeds trust somebody: the ways, their weak points, each voucher's part, who depends on them."""

    chains: tuple[tuple[PersonView, ...], ...]
    sentences: tuple[str, ...]
    vouchers: tuple[VoucherView, ...]
    dependents: tuple[PersonView, ...]
    dependents_said: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """The Who side of a pull request or a person; `no_chain` says why it has none, `trust` is None if not asked for."""

    pill: Pill
    chain: tuple[PersonView, ...]
    no_chain: str
    bars: tuple[FactorBar, ...]
    ends: tuple[str, ...]  # the start's name and chance, then the chance with all and its interval; () without a chance
    unused: tuple[FactorBar, ...]  # factors that are known and move no score
    interval: str
    reasons: tuple[str, ...]
    missing: tuple[str, ...]
    trust: TrustView | None


@dataclass(frozen=True, slots=True)
class Expanded:
    """The data of the one row that is open: why its author is trusted, and what its review found.

    `exact`: whether the viewer is told thresholds and what would change the lane, as maintainers of its repository are.
    """

    explained: TrustExplanation | None = None
    review: ContentReview | None = None
    exact: bool = False
    objections: tuple[Spoken, ...] = ()
    place: ForgePlace | None = None
    quotes: Mapping[str, str] = field(default_factory=dict)  # lines that flags name
    facts: ChangeFacts | None = None
    dismissed: Mapping[str, str] = field(default_factory=dict)  # words on false alarms, by digest of the finding
    peers: tuple[PeerOpinion, ...] = ()
    upstream: tuple[Signal, ...] = ()  # of the repository


NOTHING = Expanded()


@dataclass(frozen=True, slots=True)
class RowView:
    """One pull request as a row; `judgement` is None while it is closed.

    `decided` is what decided its place, in at most 42 characters, `decided_exact` the same as maintainers are told it;
    `reason` the sentence that begins with it, as maintainers are told it where `exact`.
    """

    row: QueueRow
    anchor: str
    title: str
    label: str
    author: PersonView
    decided: str
    decided_exact: str
    reason: str
    pill: Pill
    age: str
    opening: str  # query string of the inbox with this row open
    judgement: Judgement | None  # None outside the pane
    review: ReviewView | None = None  # None also where nobody has read the change yet
    exact: bool = False
    objections: tuple[Spoken, ...] = ()
    place: ForgePlace | None = None  # on the forge
    facts: tuple[tuple[str, str], ...] = ()  # of the change, each with its name
    peers: tuple[PeerView, ...] = ()  # what other sites say


@dataclass(frozen=True, slots=True)
class GroupView:
    """Rows under one header, cut to one page; `rest` counts those that are not on it.

    `count` is that of the lane's tile: what was just approved still has a row and counts no more.
    """

    bucket: Bucket
    title: str
    kind: Kind
    count: int
    oldest: str
    oldest_first_timer: str
    rows: tuple[RowView, ...]
    borrowed: str  # from where the order of those without a number is, "" where it is nobody else's
    rest: int
    page: int
    pages: int
    empty: str


@dataclass(frozen=True, slots=True)
class Tile:
    """A count that is also a filter; `bucket` is "" for all open ones."""

    bucket: Bucket
    title: str
    kind: Kind | Literal["all"]
    count: int


def person_view(person: Person) -> PersonView:
    """A person with initials and a tint that depends on the DID alone."""
    name = visible(person.name)
    letters = [character for character in name.removeprefix("did:").split(":")[-1] if character.isalnum()]
    tint = blake2s(person.did.encode(), digest_size=2).digest()
    return PersonView(person.did, name, "".join(letters[:2]).upper() or "?", int.from_bytes(tint, "big") % TINTS)


def factor_bars(verdict: Verdict) -> tuple[FactorBar, ...]:
    """Bars of all factors, those that move P first and largest first; the longest reaches the edge.

    Their points are whole numbers that lead from the chance without them, as shown, to the chance with them, as shown:
    each is rounded down, and those that lose most by it get back what is then missing.
    """
    ordered = sorted(verdict.factors, key=lambda factor: -abs(factor.effect or 0.0))
    exact = [100 * (factor.effect or 0.0) for factor in ordered]
    largest = max(map(abs, exact), default=0.0) / 100
    points = [floor(one) for one in exact]
    probability = verdict.estimate.probability
    if probability is not None and largest:
        missing = percents(probability) - percents(start_of(verdict, probability)) - sum(points)
        by_loss = sorted(filter(exact.__getitem__, range(len(exact))), key=lambda place: points[place] - exact[place])
        raised = by_loss[: max(missing, 0)]
        for place in raised:
            points[place] += 1
        points[0] += missing - len(raised)  # 0 but for the noise of floating point
    return tuple(_factor_bar(factor, count, largest) for factor, count in zip(ordered, points, strict=True))


def start_of(verdict: Verdict, probability: float) -> float:
    """Return the chance before any of the factors that are named."""
    return min(max(probability - sum(factor.effect or 0.0 for factor in verdict.factors), 0.0), 1.0)


def _start_label(verdict: Verdict) -> str:
    moving = sum(bool(factor.effect) for factor in verdict.factors)
    return "Where everybody starts" if moving < MOST_FACTORS else "The start, with smaller factors"


def _factor_bar(factor: Factor, points: int, largest: float) -> FactorBar:
    label = factor_label(factor.name)
    effect = factor.effect or 0.0
    width = round(abs(effect) / largest * BAR_WIDTH / 2, 1) if largest else 0.0
    if factor.effect is None or width == 0:
        said = "" if factor.effect is None else _points(points)
        return FactorBar(label, _figure(factor.value), said, "", BAR_WIDTH / 2, 0.0)
    x = BAR_WIDTH / 2 if effect > 0 else BAR_WIDTH / 2 - width
    sign: Literal["up", "down"] = "up" if effect > 0 else "down"
    return FactorBar(label, _figure(factor.value), _points(points), sign, x, width)


def _points(count: int) -> str:
    """Say an effect on a chance, such as "+46 points"."""
    return f"{count:+d} {'point' if abs(count) == 1 else 'points'}".replace("-", MINUS) if count else "0 points"


def _figure(value: str | int | float | None) -> str:
    if value is None:
        return "none"
    if isinstance(value, float):
        return trust_figure(value)
    return f"{value:,}" if isinstance(value, int) else visible(value)


def trust_view(found: TrustExplanation | None, exact: bool = True) -> TrustView | None:
    """An explanation as shown; None where there is nothing to explain: no trust, and nobody who hangs on it."""
    if found is None or not (found.paths or found.dependents_total):
        return None
    return TrustView(
        tuple(tuple(person_view(person) for person in path) for path in found.paths if len(path) > 1),
        trust_sentences(found),
        tuple(
            VoucherView(person_view(one.person), share_words(one.share), vouching_words(one.merges, one.evidence))
            for one in found.vouchers[:20]
        ),
        tuple(person_view(person) for person in found.dependents),
        dependents_words(found, exact),
    )


def judgement(
    verdict: Verdict,
    path: Sequence[Person],
    is_read: bool,
    explained: TrustExplanation | None = None,
    shadow: bool = False,
    exact: bool = True,
) -> Judgement:
    """The Who side of a verdict; without the thresholds unless `exact`; `is_read` where its content was reviewed."""
    say, bars = sentence if exact else plain_sentence, factor_bars(verdict)
    estimate = verdict.estimate
    chance = estimate.probability
    return Judgement(
        pill(verdict, shadow),
        tuple(person_view(person) for person in path),
        no_path_words(verdict),
        tuple(bar for bar in bars if bar.effect),
        ()
        if chance is None
        else (
            _start_label(verdict),
            percent(start_of(verdict, chance)),
            percent(chance),
            percent_interval(estimate.low, estimate.high),
        ),
        tuple(bar for bar in bars if not bar.effect),
        interval_sentence(verdict.estimate),
        tuple(visible(say(reason)) for reason in told_reasons(verdict)),
        missing_evidence(verdict, path, is_read),
        trust_view(explained, exact),
    )


def score_judgement(
    score: ContributorScore, explained: TrustExplanation | None = None, exact: bool = True
) -> Judgement:
    """The Who side of a person."""
    return judgement(decided(score), score.path, True, explained, score.shadow, exact)


def row_anchor(uri: str) -> str:
    """The id of a row in the page, short and free of the characters of an at-uri."""
    return "pull-" + blake2s(uri.encode(), digest_size=6).hexdigest()


def row_view(row: QueueRow, now: datetime, filters: QueueFilters, more: Expanded | None = None) -> RowView:
    """Return one row; with `more` also what the pane shows of it."""
    opened, more, exact = more is not None, more or NOTHING, row.decided_exact or row.decided
    return RowView(
        row,
        row_anchor(row.uri),
        visible(row.title) or "(no title)",
        visible(row.label),
        person_view(row.author),
        visible(row.decided),
        visible(exact),
        visible(exact + row.sentence.removeprefix(row.decided) if more.exact else row.sentence),
        row_pill(row),
        age_words(row.opened_at, now),
        filters.opening(row.uri),
        _row_judgement(row, more) if opened else None,
        review_view(more.review, more.quotes, row.patch_id, more.dismissed) if opened else None,
        more.exact,
        more.objections,
        more.place,
        (*(fact_lines(more.facts) if more.facts else ()), *upstream_lines(more.upstream)),
        tuple(map(opinion_view, more.peers)),
    )


def without_people(view: RowView) -> RowView:
    """Return a row as anybody may see it: the change and its lane, without its author, the reasons and the chance."""
    return replace(
        view,
        author=replace(view.author, name="", initials=""),
        decided="",
        decided_exact="",
        reason="",
        pill=lane_pill(view.pill),
        judgement=None,
    )


def _row_judgement(row: QueueRow, more: Expanded) -> Judgement:
    """The Who side of a row, with what its row says first though no lane depends on it."""
    made = judgement(row.verdict, row.path, row.content_risk is not None, more.explained, row.shadow, more.exact)
    if row.hidden_by:
        made = replace(made, interval=f"{hidden_words(row.hidden_by)}.", missing=())
    is_told = any(reason.code == "tests_failed" for reason in row.verdict.reasons)
    beside = ((CLAIMED, row.claim), (TESTS_FAIL, row.ci == "failed" and not is_told))
    return replace(made, reasons=(*made.reasons, *(words for words, holds in beside if holds)))


def beside_words(facts: ChangeFacts | None) -> str:
    """Say how many more the author has open, and how many of these have the same title; "" for none."""
    others, alike = facts.beside if facts else (0, 0)
    same = f", {'' if alike == others else f'{alike:,} '}with this title" if alike else ""
    return f"{others:,} more open by them{same}" if others else ""


def fact_lines(facts: ChangeFacts) -> tuple[tuple[str, str], ...]:
    """Return the facts that are known about a change, each as a name and its words."""
    lines = []
    if run := facts.run:
        names = ", ".join(visible(name[:NAME_LENGTH]) for name in run.failed[:FAILED_NAMED])
        if (rest := len(run.failed) - FAILED_NAMED) > 0:
            names += f" and {rest} more"
        lines.append(("CI", f"failed: {names}" if names else CI_WORDS[run.state]))
    known = [f"{visible(owner.person.name)} {owner.merged:,}" for owner in facts.owners]
    if known or facts.own:
        lines.append(("Same files", f"merged before: {', '.join([*known, f'the author {facts.own:,}'])}"))
    if facts.signatures:
        lines.append(("Signature", signature_words(facts.signatures)))
    return tuple(lines)


def upstream_lines(signals: Sequence[Signal]) -> tuple[tuple[str, str], ...]:
    """Return what others say of the repository's upstream, as a name and its words."""
    words = "; ".join(f"{visible(signal.what)}, says {signal.said_by}" for signal in signals)
    return (("Upstream", words),) if words else ()


def signature_words(signatures: RoundSignatures) -> str:
    """Say how many of a round's commits are signed, by whose key, and when that was first seen."""
    commits, declared = signatures.commits, signatures.declared
    share = "Signed" if declared == commits else f"{declared} of {commits} commits signed"
    if signatures.key_seen_at is not None:
        seen = f"{signatures.key_seen_at.day} {signatures.key_seen_at:%B %Y}"
        return f"{share} by a key its author declared, first seen {seen}"
    if not signatures.signed:
        return "Not signed"
    share = "Signed" if signatures.signed == commits else f"{signatures.signed} of {commits} commits signed"
    return f"{share} by a key that its author does not declare"


def tiles(queue: Queue) -> tuple[Tile, ...]:
    """All in the inbox, then the lanes that add up to it; the one that only watches stands where it holds something."""
    lanes = [Tile(bucket, title, kind, count_of(queue, bucket)) for bucket, title, kind, _ in GROUPS[:4]]
    whole = Tile("", "In the inbox", "all", sum(queue.counts.values()))
    return (whole, *(tile for tile in lanes if tile.count or tile.bucket != "would_be_fast_lane"))


def group_views(queue: Queue, filters: QueueFilters, now: datetime) -> tuple[GroupView, ...]:
    """The groups in view, in the order of the queue; an empty one stands only where it alone was asked for."""
    found = {group.key: group for group in queue.groups}
    views: list[GroupView] = []
    empty_itself = bool(filters.bucket) and not replace(filters, bucket="").narrowed
    for bucket, title, kind, empty in GROUPS:
        group = found.get(bucket)
        if filters.bucket in ("", bucket) and ((group is not None and group.rows) or empty_itself):
            views.append(_group_view(group, (bucket, title, kind, empty), queue, filters, now))
    return tuple(views)


def _borrowed_order(rows: Sequence[QueueRow], filters: QueueFilters) -> str:
    """From where the order of these rows is borrowed, where that order is asked for."""
    found = next((row.borrowed_from for row in rows if row.borrowed_from), None)
    return borrowed_words(found) if filters.sort == "lowest" else ""


def count_of(queue: Queue, bucket: GroupKey) -> int:
    """Return how many pull requests a group has, as its header and its tile say."""
    return queue.own_count if bucket == "own" else queue.counts.get(bucket, 0)


def _group_view(
    group: QueueGroup | None,
    words: tuple[GroupKey, str, Kind, str],
    queue: Queue,
    filters: QueueFilters,
    now: datetime,
) -> GroupView:
    bucket, title, kind, empty = words
    rows, total = (group.rows, group.total) if group else ((), 0)
    pages = max(1, -(-total // filters.size)) if filters.bucket else 1
    return GroupView(
        bucket,
        title,
        kind,
        count_of(queue, bucket),
        brief_age(age_words(group.oldest if group else None, now)),
        brief_age(age_words(group.oldest_first_timer if group else None, now)),
        tuple(row_view(row, now, filters) for row in rows),
        _borrowed_order(rows, filters),
        0 if filters.bucket else total - len(rows),
        min(filters.page, pages),
        pages,
        empty,
    )
