"""View models of rows and of links to the forge. Pure: the present time is an argument."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2s
from typing import Literal

from scoring.explain.sentences import factor_label, plain_sentence, sentence, told_reasons
from scoring.formatting import trust_figure, visible
from scoring.queries.read import (
    ChangeFacts,
    Comment,
    ContentReview,
    ContributorScore,
    ForgeHome,
    Person,
    Queue,
    QueueGroup,
    QueueRow,
    TrustExplanation,
    hidden_words,
)
from scoring.types import Factor, Lane, Verdict
from triage.forms.filters import Bucket, QueueFilters
from triage.models import Action
from triage.presenters.pills import Kind, Pill, decided, pill, row_pill
from triage.presenters.review import ReviewView, review_view
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

_OWNER = re.compile(r"[A-Za-z0-9.:-]{1,253}")
_NAME = re.compile(r"(?!\.+$)[A-Za-z0-9._-]{1,100}")
TINTS = 6  # avatar colours in components.css
MINUS = "\N{MINUS SIGN}"  # as wide as a plus, so that signed figures align
FAILED_NAMED, NAME_LENGTH = 5, 60  # workflows that are named, and characters of each name
CI_WORDS = {"passed": "passed", "failed": "failed", "running": "running", "never_ran": "did not run on this round"}
TESTS_FAIL = "Its tests fail. No lane depends on tests, so look at them before you approve."
BAR_WIDTH = 200  # units of the factor bars' viewBox; the middle is zero
# Groups in the order of the queue: bucket, heading, icon, and the text of an empty one.
GROUPS: tuple[tuple[Bucket, str, Kind, str], ...] = (
    ("needs_human", "Flagged", "flag", "Nothing is flagged."),
    ("normal_queue", "Needs review", "review", "Nothing waits for a review."),
    ("fast_lane", "Fast lane", "fast", "The fast lane is empty."),
    ("own", "Sent by maintainers", "person", "No open pull request by people with push access."),
)


@dataclass(frozen=True, slots=True)
class ForgePlace:
    """An address on the forge, and the words of a link to it."""

    url: str
    words: str


def forge_place(home: ForgeHome, site: str) -> ForgePlace | None:
    """Return the nearest page at `site`: the pull request's, else its repository's list, else its author's.

    A moved repository is addressed by its current owner and name. None where the author's DID is not one that the forge
    accepts.
    """
    if not _OWNER.fullmatch(home.author):
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
    """One voucher with the share of trust through their vouch, and how they vouch."""

    person: PersonView
    share: str
    how: str


@dataclass(frozen=True, slots=True)
class TrustView:
    """Explains why the seeds trust somebody: the paths, their weak points, each voucher's part, and dependents."""

    chains: tuple[tuple[PersonView, ...], ...]
    sentences: tuple[str, ...]
    vouchers: tuple[VoucherView, ...]
    dependents: tuple[PersonView, ...]
    dependents_said: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """The Who side of a pull request or a person; `no_chain` says why there is no chain.

    `trust` is None if not requested.
    """

    pill: Pill
    chain: tuple[PersonView, ...]
    no_chain: str
    bars: tuple[FactorBar, ...]
    unused: tuple[FactorBar, ...]  # known factors without an effect on the score
    interval: str
    reasons: tuple[str, ...]
    missing: tuple[str, ...]
    trust: TrustView | None


@dataclass(frozen=True, slots=True)
class Expanded:
    """The data of the open row: why its author is trusted, and the findings of its review.

    `exact`: the viewer may see thresholds and what would change the lane, as maintainers of its repository may.
    """

    explained: TrustExplanation | None = None
    review: ContentReview | None = None
    exact: bool = False
    objections: tuple[str, ...] = ()  # the state of each, in a sentence
    place: ForgePlace | None = None
    quotes: Mapping[str, str] = field(default_factory=dict)  # lines that flags name
    facts: ChangeFacts | None = None
    dismissed: Mapping[str, str] = field(default_factory=dict)  # words on false alarms, by digest of the finding


NOTHING = Expanded()


@dataclass(frozen=True, slots=True)
class RowView:
    """One pull request as a row; `judgement` is None while it is not open in the pane.

    `decided` is the deciding reason in at most 42 characters, `decided_exact` its version for maintainers; `reason` is
    the sentence that begins with it.
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
    objections: tuple[str, ...] = ()
    place: ForgePlace | None = None  # on the forge
    facts: tuple[tuple[str, str], ...] = ()  # of the change, each with its name


@dataclass(frozen=True, slots=True)
class GroupView:
    """Rows under one header, cut to one page; `rest` counts those that are not on it.

    `count` equals the lane's tile: a row that was just approved is still shown but no longer counted.
    """

    bucket: Bucket
    key: str  # its id in the page: "would" for hypothetical fast-lane rows, else its bucket
    title: str
    kind: Kind
    count: int
    oldest: str
    oldest_first_timer: str
    rows: tuple[RowView, ...]
    borrowed: str  # the source of a borrowed order of rows without a number, "" for none
    rest: int
    page: int
    pages: int
    empty: str


@dataclass(frozen=True, slots=True)
class Tile:
    """A count that is also a filter; `bucket` is "" for all open pull requests."""

    bucket: Bucket
    title: str
    kind: Kind | Literal["all"]
    count: int


@dataclass(frozen=True, slots=True)
class CommentView:
    """A comment for display; `place` says where else it can be read."""

    author: str
    made_at: datetime
    place: str
    text: str


def comment_views(forge_comments: Sequence[Comment], notes: Sequence[Action]) -> tuple[CommentView, ...]:
    """Return the comments on the forge and those that maintainers wrote here, oldest first."""
    on_forge = [
        CommentView(
            visible(comment.author.name), comment.written_at.replace(tzinfo=UTC), "on Tangled", visible(comment.text)
        )
        for comment in forge_comments
    ]
    kinds = {"note": "for maintainers", "request_changes": "change request", "close": "why it should be closed"}
    here = [
        CommentView(
            visible(str(comment.person)),
            comment.made_at,
            kinds[comment.kind]
            if comment.kind == "note"
            else f"{kinds.get(comment.kind, 'here')}, not sent to Tangled",
            visible(comment.note),
        )
        for comment in notes
    ]
    return tuple(sorted([*on_forge, *here], key=lambda comment: comment.made_at))


def person_view(person: Person) -> PersonView:
    """Return a person with initials and a tint that depends on the DID alone."""
    name = visible(person.name)
    letters = [character for character in name.removeprefix("did:").split(":")[-1] if character.isalnum()]
    tint = blake2s(person.did.encode(), digest_size=2).digest()
    return PersonView(person.did, name, "".join(letters[:2]).upper() or "?", int.from_bytes(tint, "big") % TINTS)


def factor_bars(factors: Sequence[Factor]) -> tuple[FactorBar, ...]:
    """Return bars of all factors, largest effect first; the longest reaches the edge."""
    largest = max((abs(factor.effect) for factor in factors if factor.effect), default=0.0)
    ordered = sorted(factors, key=lambda factor: -abs(factor.effect or 0.0))
    return tuple(_factor_bar(factor, largest) for factor in ordered)


def _factor_bar(factor: Factor, largest: float) -> FactorBar:
    label = factor_label(factor.name)
    effect = factor.effect or 0.0
    width = round(abs(effect) / largest * BAR_WIDTH / 2, 1) if largest else 0.0
    if factor.effect is None or width == 0:
        return FactorBar(label, _figure(factor.value), "" if factor.effect is None else "0 %", "", BAR_WIDTH / 2, 0.0)
    x = BAR_WIDTH / 2 if effect > 0 else BAR_WIDTH / 2 - width
    sign: Literal["up", "down"] = "up" if effect > 0 else "down"
    return FactorBar(label, _figure(factor.value), f"{100 * effect:+.1f} %".replace("-", MINUS), sign, x, width)


def _figure(value: str | int | float | None) -> str:
    if value is None:
        return "none"
    if isinstance(value, float):
        return trust_figure(value)
    return f"{value:,}" if isinstance(value, int) else visible(value)


def trust_view(explanation: TrustExplanation | None, exact: bool = True) -> TrustView | None:
    """Return an explanation for display; None where there is neither trust nor anybody who depends on it."""
    if explanation is None or not (explanation.paths or explanation.dependents_total):
        return None
    return TrustView(
        tuple(tuple(person_view(person) for person in path) for path in explanation.paths if len(path) > 1),
        trust_sentences(explanation),
        tuple(
            VoucherView(
                person_view(voucher.person),
                share_words(voucher.share),
                vouching_words(voucher.merges, voucher.evidence),
            )
            for voucher in explanation.vouchers[:20]
        ),
        tuple(person_view(person) for person in explanation.dependents),
        dependents_words(explanation, exact),
    )


def judgement(
    verdict: Verdict,
    path: Sequence[Person],
    is_read: bool,
    explained: TrustExplanation | None = None,
    shadow: bool = False,
    exact: bool = True,
) -> Judgement:
    """Return the Who side of a verdict; without thresholds unless `exact`; `is_read` where its content was reviewed."""
    say, bars = sentence if exact else plain_sentence, factor_bars(verdict.factors)
    return Judgement(
        pill(verdict, shadow),
        tuple(person_view(person) for person in path),
        no_path_words(verdict),
        tuple(bar for bar in bars if bar.effect),
        tuple(bar for bar in bars if not bar.effect),
        interval_sentence(verdict.estimate),
        tuple(visible(say(reason)) for reason in told_reasons(verdict)),
        missing_evidence(verdict, path, is_read),
        trust_view(explained, exact),
    )


def score_judgement(
    score: ContributorScore, explained: TrustExplanation | None = None, exact: bool = True
) -> Judgement:
    """Return the Who side of a person."""
    return judgement(decided(score), score.path, True, explained, score.shadow, exact)


def row_anchor(uri: str) -> str:
    """Return the id of a row in the page, short and free of the characters of an at-uri."""
    return "pull-" + blake2s(uri.encode(), digest_size=6).hexdigest()


def row_view(row: QueueRow, now: datetime, filters: QueueFilters, more: Expanded | None = None) -> RowView:
    """Return one row; with `more` also its contents in the pane."""
    opened, more = more is not None, more or NOTHING
    return RowView(
        row,
        row_anchor(row.uri),
        visible(row.title) or "(no title)",
        visible(row.label),
        person_view(row.author),
        visible(row.decided),
        visible(row.decided_exact or row.decided),
        visible(row.sentence),
        row_pill(row),
        age_words(row.opened_at, now),
        filters.opening(row.uri),
        _row_judgement(row, more) if opened else None,
        review_view(more.review, more.quotes, row.patch_id, more.dismissed) if opened else None,
        more.exact,
        more.objections,
        more.place,
        fact_lines(more.facts) if more.facts else (),
    )


def _row_judgement(row: QueueRow, more: Expanded) -> Judgement:
    """Return the Who side of a row, with a warning on failed tests, though no lane depends on tests."""
    result = judgement(row.verdict, row.path, row.content_risk is not None, more.explained, row.shadow, more.exact)
    if row.hidden_by:
        result = replace(result, interval=f"{hidden_words(row.hidden_by)}.", missing=())
    return replace(result, reasons=(*result.reasons, TESTS_FAIL)) if row.ci == "failed" else result


def fact_lines(facts: ChangeFacts) -> tuple[tuple[str, str], ...]:
    """Return the known facts about a change, each as a name and its words."""
    lines = []
    if run := facts.run:
        names = ", ".join(visible(name[:NAME_LENGTH]) for name in run.failed[:FAILED_NAMED])
        if (rest := len(run.failed) - FAILED_NAMED) > 0:
            names += f" and {rest} more"
        lines.append(("CI", f"failed: {names}" if names else CI_WORDS[run.state]))
    owner_words = [f"{visible(owner.person.name)} {owner.merged:,}" for owner in facts.owners]
    if owner_words or facts.own:
        lines.append(("Same files", f"merged before: {', '.join([*owner_words, f'the author {facts.own:,}'])}"))
    return tuple(lines)


def tiles(queue: Queue) -> tuple[Tile, ...]:
    """Return the tile of all open pull requests, then those of the lanes in the order of the queue."""
    lanes = [Tile(bucket, title, kind, count_of(queue, bucket)) for bucket, title, kind, _ in GROUPS[:3]]
    return (Tile("", "Open", "all", sum(queue.counts.values())), *lanes)


def group_views(queue: Queue, filters: QueueFilters, now: datetime) -> tuple[GroupView, ...]:
    """Return the groups in view, in the order of the queue.

    An empty group is shown only where it alone was requested.
    """
    by_key = {group.key: group for group in queue.groups}
    views: list[GroupView] = []
    show_empty = bool(filters.bucket) and not replace(filters, bucket="").narrowed
    for bucket, title, kind, empty in GROUPS:
        group = by_key.get(bucket)
        if filters.bucket in ("", bucket) and ((group is not None and group.rows) or show_empty):
            view = _group_view(group, (bucket, title, kind, empty), queue, filters, now)
            views += _split_hypothetical(view, queue.watched) if bucket == "fast_lane" and queue.watched else [view]
    return tuple(views)


def _split_hypothetical(view: GroupView, watched: int) -> list[GroupView]:
    """Split the fast lane from the hypothetical fast-lane rows; omit an empty part."""
    fast, hypothetical = (tuple(item for item in view.rows if item.row.shadow is shadow) for shadow in (False, True))
    head = replace(view, key="would", title="Would be fast lane", kind="would", count=watched, rows=hypothetical)
    if not fast:
        return [head]
    if not hypothetical:
        return [view]
    unseen = max(watched - len(hypothetical), 0) if view.rest else 0
    lane_part = replace(view, rows=fast, rest=max(view.rest - unseen, 0), pages=1)
    return [lane_part, replace(head, rest=unseen, oldest="", oldest_first_timer="")]


def _borrowed_order(rows: Sequence[QueueRow], filters: QueueFilters) -> str:
    """Return the source of these rows' borrowed order, where the query sorts by it."""
    projects = next((row.borrowed_from for row in rows if row.borrowed_from), None)
    return borrowed_words(projects) if filters.sort == "lowest" else ""


def count_of(queue: Queue, bucket: Bucket) -> int:
    """Return a group's count for its header and tile; for the fast lane without hypothetical rows."""
    if bucket == "own":
        return queue.own_count
    return max(queue.counts.get(Lane(bucket), 0) - (queue.watched if bucket == "fast_lane" else 0), 0)


def _group_view(
    group: QueueGroup | None,
    words: tuple[Bucket, str, Kind, str],
    queue: Queue,
    filters: QueueFilters,
    now: datetime,
) -> GroupView:
    bucket, title, kind, empty = words
    rows, total = (group.rows, group.total) if group else ((), 0)
    pages = max(1, -(-total // filters.size)) if filters.bucket else 1
    return GroupView(
        bucket,
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
