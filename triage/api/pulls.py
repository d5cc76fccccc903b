"""Operations on pull requests: the queue, each one in it with what its decision rests on, and what is approved."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

from django.conf import settings
from ninja import Field, Router, Schema
from ninja.params.functions import Body, Query

from ingest.store.snapshots import PerSnapshot, Snapshot
from scoring.explain.findings import finding_name
from scoring.explain.sentences import plain_sentence, sentence, told_reasons
from scoring.explain.spoken import briefing
from scoring.queries import read
from scoring.queries.read import Approved, PeerOpinion, QueueQuery, QueueRow, QueueSort, hidden_words
from scoring.types import Lane, ShownFinding
from triage.access.permissions import sees_thresholds
from triage.access.problems import ApiProblem
from triage.access.requests import Request
from triage.access.sign_in import person_of, viewing
from triage.access.tokens import held_to
from triage.api.base import (
    LONGEST,
    MalformedCursor,
    MineFilter,
    RepositoryFilter,
    RepositoryReader,
    TextFilter,
    check_reach_of,
    first_after,
    problems,
    published,
    repository_key,
    write_cursor,
)
from triage.api.schemas import (
    EXAMPLE_DID,
    BadgeOut,
    Count,
    PersonOut,
    Severity,
    Share,
    badge_out,
    person_out,
    rounded,
    rounded_or_none,
)
from triage.context import present
from triage.forms.filters import URI_LIMIT, Bucket
from triage.presenters.queue import queue as as_shown
from triage.presenters.queue import row_actions
from triage.presenters.queue.pills import row_pill
from triage.presenters.queue.review import strongest_open
from triage.presenters.text import BRIEFING_LENGTH
from triage.services.actions import dismissed_among

LONGEST_TEXT = 4_096  # bytes of UTF-8 of any text that another wrote
Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
MOST_ROWS = 100
MOST_ADDRESSES = 100
EXAMPLE_URI = "https://tangled.org/tangled.sh/core/pulls/12"
ABOUT_BUCKET = (
    "One group, or empty for all: needs_human (Flagged), normal_queue (Needs review), fast_lane, would_be_fast_lane "
    "(the lane of its repository is not open), own (by people with push access)."
)
router = Router(tags=["pull requests"])
Briefing = Annotated[bool, Query(description="1 adds what is read aloud of it.", example="1")]
_orders = PerSnapshot[tuple[str, ...]]()


class ReasonOut(Schema):
    """One reason for the lane."""

    code: str = Field(description="Code of the reason; never changes its meaning.", examples=["no_path"])
    text: Text = Field(description="The same as a sentence.")


class ChangeOut(Schema):
    """The size of the change; null where the patch was not read yet."""

    files: Count | None = Field(description="Files changed.")
    added: Count | None = Field(description="Lines added.")
    removed: Count | None = Field(description="Lines removed.")


class StrongestOut(Schema):
    """The strongest finding of the scanners in the round that was judged, without those called false alarms."""

    name: Text = Field(description="Name of the problem, as on pages.", examples=["Prompt injection"])
    severity: Severity = Field(description="How much it weighs.")
    file: Text | None = Field(description="Path in the change; null where it concerns all of it.")
    line: int | None = Field(
        ge=1, description="Line of the new file, from 1, or of the old one where removed; null for the whole file."
    )
    removed: bool = Field(description="The line is one that the change removes.")
    explanation: Text = Field(description="The problem in one sentence; may hold words of the change.")


class PeerOut(Schema):
    """The judgement of another site about a pull request, proven by its signed repository."""

    did: str = Field(description="DID of the site.", examples=[EXAMPLE_DID])
    name: Text = Field(description="Its verified handle, else the shortened DID.")
    uri: Text = Field(description="at-uri of its record.")
    decision: str = Field(description="fast_lane, normal_queue, needs_human or withdrawn.", examples=["needs_human"])
    current: bool = Field(description="It is about the version that stands now.")
    own_word: bool = Field(
        description="False: it rests on others' assessments or repeats this site's, so counts nothing."
    )
    weight: Share = Field(description="Weight of its word here: its agreement with audited outcomes, from 0.")
    audits: Count = Field(description="Audited pull requests here that it had judged before.")
    lowers: bool = Field(description="It sends this one to a person here; otherwise it only informs.")


class PullOut(Schema):
    """One open pull request of a watched repository, as its row says; everything another wrote is to be escaped."""

    uri: Text = Field(description="at-uri of its record.")
    page: Text | None = Field(description="Its address on the forge's own site, where known.")
    title: Text = Field(description="Title, as its author wrote it; cut at 4 kB.")
    label: Text = Field(description="Repository and number, or the last of its key.", examples=["core #12"])
    repository: Text = Field(description="Key of the repository.")
    repository_name: Text = Field(description="Name of the repository.")
    author: PersonOut
    own: bool = Field(description="The author has push access here: in its own group, in no lane's counts.")
    first_timer: bool = Field(description="The author has no settled pull request here yet.")
    on_author: bool = Field(description="A maintainer had the last word, so the author's comes next.")
    labels: list[Text] = Field(
        max_length=20, description="Labels that people with push access put on it, by name; at most 20."
    )
    opened_at: datetime = Field(description="When it was first seen; RFC 3339, UTC.")
    round: int = Field(ge=1, description="The round that was judged, from 1 as on the pages.", examples=[1])
    record_cid: str | None = Field(description="CID of the record that was judged.")
    patch_id: str | None = Field(description="Hash of the patch that was judged; null: not read.")
    change: ChangeOut
    decision: Lane = Field(
        description="Lane: fast_lane, normal_queue or needs_human. With shadow, fast_lane is only what it would be."
    )
    shadow: bool = Field(description="The lane of its repository is shut and only watched: this is what it would be.")
    sealed: bool = Field(description="A random audit is due, so the rest of the decision is hidden.")
    hidden_by: str | None = Field(
        None,
        description="at-uri of a pull request of the same author whose audit a maintainer has to answer first: until "
        "then calibrated_prob is null and says nothing. null where nothing is hidden.",
    )
    calibrated_prob: Share | None = Field(
        description="Chance that it stays clean; null: no score yet, or hidden (see hidden_by)."
    )
    low: Share = Field(description="Lower end of its 95 % interval.")
    high: Share = Field(description="Upper end of its 95 % interval.")
    cases: Count = Field(description="Settled pull requests behind the estimate.")
    structural_trust: Share = Field(description="Trust of the author from the repository's seeds, in [0, 1].")
    content_risk: Share | None = Field(description="Risk of the content, in [0, 1]; null: not reviewed.")
    badge: BadgeOut = Field(description="Lane and chance as pages say them.")
    decided: Text = Field(description="The cause of its place, in at most 42 characters; `explanation` begins with it.")
    explanation: Text = Field(description="Why, in one line.")
    finding: StrongestOut | None = Field(description="Strongest finding; null while sealed, and where there is none.")
    reasons: list[ReasonOut] = Field(description="Strongest first.")
    path: list[PersonOut] = Field(description="Trust path, seed first; empty: none.")
    peers: list[PeerOut] = Field(description="Judgements of other sites; empty while sealed, and where there is none.")
    as_of: datetime = Field(description="Only events seen before this moment counted; RFC 3339, UTC.")
    model_version: str = Field(description="Version of the model that computed calibrated_prob.")
    briefing: Annotated[str, Field(max_length=BRIEFING_LENGTH)] | None = Field(
        None, description="With briefing=1: one to three sentences to read aloud, without words that others wrote."
    )


class QueueOut(Schema):
    """One page of the queue, in its order: flagged, needs review, fast lane, would be fast lane, own."""

    total: Count = Field(
        description="Rows of the inbox that fulfil the filters, on all pages, with the `own` ones. "
        "Pages and `open.inbox` of /metrics count the latter apart: `total` less `own`."
    )
    own: Count = Field(description="Rows among them by people with push access.")
    pull_requests: list[PullOut]
    next: str | None = Field(description="Cursor of the next page; null on the last one.")
    snapshot: int = Field(ge=0, description="Number of the snapshot that everything here was read from.", examples=[42])


def pull_out(
    row: QueueRow,
    exact: bool,
    peers: Sequence[PeerOpinion] = (),
    briefed: bool = False,
    finding: StrongestOut | None = None,
) -> PullOut:
    """A row as JSON; the thresholds in its reasons only where `exact`."""
    say, estimate = sentence if exact else plain_sentence, row.verdict.estimate
    return PullOut(
        uri=row.uri,
        page=row.page,
        title=cut(row.title),
        label=cut(row.label),
        repository=row.repository_key,
        repository_name=cut(row.repository_name),
        author=person_out(row.author),
        own=row.own,
        first_timer=row.first_timer,
        on_author=row.on_author,
        labels=[cut(label) for label in row.labels],
        opened_at=row.opened_at.replace(tzinfo=UTC),
        round=row.round + 1,
        record_cid=row.record_cid,
        patch_id=row.patch_id,
        change=ChangeOut(files=row.files, added=row.added, removed=row.removed),
        decision=row.verdict.lane,
        shadow=row.shadow,
        sealed=row.is_sealed,
        hidden_by=row.hidden_by.uri if row.hidden_by else None,
        calibrated_prob=rounded_or_none(estimate.probability),
        low=rounded(estimate.low),
        high=rounded(estimate.high),
        cases=estimate.cases,
        structural_trust=rounded(row.structural_trust),
        content_risk=rounded_or_none(row.content_risk),
        badge=badge_out(row_pill(row)),
        decided=row.decided,
        explanation=cut(row.sentence),
        finding=None if row.is_sealed else finding,
        reasons=[ReasonOut(code=one.code, text=cut(say(one))) for one in told_reasons(row.verdict)],
        path=[person_out(person) for person in row.path],
        peers=[] if row.is_sealed else [peer_out(opinion) for opinion in peers],
        as_of=row.as_of.replace(tzinfo=UTC),
        model_version=row.model_version,
        briefing=_spoken(row) if briefed else None,
    )


def peer_out(opinion: PeerOpinion) -> PeerOut:
    """One peer's word as JSON."""
    return PeerOut(
        did=opinion.peer.did,
        name=cut(opinion.peer.name),
        uri=opinion.uri,
        decision=opinion.decision,
        current=opinion.is_current,
        own_word=opinion.is_own_word,
        weight=rounded(opinion.agreement.weight),
        audits=opinion.agreement.audits,
        lowers=opinion.lowers,
    )


def _spoken(row: QueueRow) -> str:
    if row.hidden_by:
        return f"{hidden_words(row.hidden_by)}."
    return " ".join(briefing(row.verdict, "change", row.shadow))


def pulls_out(request: Request, snapshot: Snapshot, rows: Sequence[QueueRow], briefed: bool = False) -> list[PullOut]:
    """Rows as JSON for this reader, each with what peers say and its strongest finding."""
    uris, roles = [row.uri for row in rows], viewing(request)
    peers = read.peer_opinions(snapshot, uris, present(snapshot)) if settings.PEERS else {}
    findings = _strongest(snapshot, rows, uris)
    return [
        pull_out(
            row, sees_thresholds(roles, row.repository_key), peers.get(row.uri, ()), briefed, findings.get(row.uri)
        )
        for row in rows
    ]


def _strongest(snapshot: Snapshot, rows: Sequence[QueueRow], uris: Collection[str]) -> dict[str, StrongestOut]:
    found = read.standing_findings(snapshot, list(uris))
    dismissed = dismissed_among(found)
    strongest = {
        row.uri: strongest_open(found.get(row.uri, ()), row.patch_id, dismissed.get(row.uri, ())) for row in rows
    }
    return {uri: _strongest_out(note) for uri, note in strongest.items() if note}


def _strongest_out(found: ShownFinding) -> StrongestOut:
    return StrongestOut(
        name=finding_name(found.scanner, found.rule, found.type),
        severity=found.severity,
        file=None if found.file is None else cut(found.file),
        line=found.line,
        removed=found.removed,
        explanation=cut(found.explanation),
    )


def cut(text: str) -> str:
    """The text, at most LONGEST_TEXT bytes of it, never ending within a character."""
    return text.encode(errors="replace")[:LONGEST_TEXT].decode(errors="ignore")


@router.get(
    "/pull",
    response={200: PullOut, 304: None, **problems(401, 404, 422, 500, 503)},
    summary="How one open pull request is judged",
    operation_id="get_pull",
    auth=RepositoryReader(),
)
def get_pull(
    request: Request,
    uri: Annotated[
        str,
        Query(
            description="The at-uri of its record, or the address of its page on the forge.",
            min_length=1,
            max_length=URI_LIMIT,
            example=EXAMPLE_URI,
        ),
    ],
    briefing: Briefing = False,
) -> PullOut:
    """Its decision, why, and what it rests on; only for what is open in a watched repository.

    To a token for one repository those of others are unknown.
    """
    snapshot = published(request)
    named = uri if uri.startswith("at://") else read.pull_at(snapshot, uri)
    row = as_shown.pull(snapshot, named) if named else None
    if row is None or held_to(request) not in ("", row.repository_key):
        detail = "No open pull request of a watched repository has this address; it may be merged or closed."
        raise ApiProblem(404, detail, code="not_open")
    return pulls_out(request, snapshot, [row], briefing)[0]


class PullsIn(Schema):
    """The pull requests that are asked about."""

    uris: list[Annotated[str, Field(min_length=1, max_length=URI_LIMIT)]] = Field(
        description=f"One to {MOST_ADDRESSES} at-uris of records or addresses of pages on the forge.",
        min_length=1,
        max_length=MOST_ADDRESSES,
        examples=[[EXAMPLE_URI]],
    )
    briefing: bool = Field(False, description="True adds what is read aloud of each.")


class FoundOut(Schema):
    """One entry that was asked about."""

    asked: str = Field(description="The entry as it was sent.")
    pull_request: PullOut | None = Field(
        description="Its judgement; null where no open pull request of a watched repository has this address."
    )


class PullsOut(Schema):
    """The answer to each entry, in the order asked for."""

    found: list[FoundOut]
    snapshot: int = Field(ge=0, description="Number of the snapshot that everything here was read from.", examples=[42])


@router.post(
    "/pulls",
    response={200: PullsOut, **problems(400, 401, 413, 415, 422, 500, 503)},
    summary=f"How up to {MOST_ADDRESSES} open pull requests are judged",
    operation_id="get_pulls",
    auth=RepositoryReader(),
)
def get_pulls(request: Request, asked: Annotated[PullsIn, Body()]) -> PullsOut:
    """The same for many at once; an entry that is not open here, or not this token's to read, is null."""
    snapshot, held = published(request), held_to(request)
    addresses = list(dict.fromkeys(asked.uris))
    uris = {one: one for one in addresses if one.startswith("at://")} | read.pulls_at(snapshot, addresses)
    rows = as_shown.pulls(snapshot, list(dict.fromkeys(uris.values())))
    rows = tuple(row for row in rows if held in ("", row.repository_key))
    told = {one.uri: one for one in pulls_out(request, snapshot, rows, asked.briefing)}
    found = [FoundOut(asked=_as_sent(one), pull_request=told.get(uris.get(one, ""))) for one in asked.uris]
    return PullsOut(found=found, snapshot=snapshot.number)


def _as_sent(text: str) -> str:
    return text.encode(errors="replace").decode()  # half of a surrogate pair is no UTF-8


@router.get(
    "/queue",
    response={200: QueueOut, 304: None, **problems(401, 403, 404, 422, 500, 503)},
    summary="Open pull requests by lane",
    operation_id="get_queue",
    auth=RepositoryReader(),
)
def get_queue(
    request: Request,
    bucket: Annotated[Bucket, Query(description=ABOUT_BUCKET)] = "",
    repository: RepositoryFilter = "",
    q: TextFilter = "",
    mine: MineFilter = False,
    sort: Annotated[
        QueueSort, Query(description="Order within a lane; need: most in need of a person first.")
    ] = "need",
    limit: Annotated[int, Query(description="Rows of a page.", ge=1, le=MOST_ROWS)] = 50,
    cursor: Annotated[str, Query(description="`next` of the page before.", max_length=LONGEST)] = "",
    briefing: Briefing = False,
) -> QueueOut:
    """The rows of the queue page, in its order and without what a maintainer snoozed; what was approved and waits
    to be merged is in /approved.json.

    A token for one repository gets its rows, and 403 where it names another.
    """
    if repository:
        check_reach_of(request, repository)
    snapshot = published(request)
    key = repository_key(snapshot, repository) if repository else held_to(request)
    only = row_actions.mine(person_of(request), snapshot) if mine else None
    query = QueueQuery(bucket=bucket or None, text=q, repository=key, sort=sort, only=only)
    order = _order(snapshot, query)
    own = _order(snapshot, replace(query, bucket="own")) if bucket in ("", "own") else ()
    try:
        start = first_after(order, cursor)
    except MalformedCursor as problem:
        raise ApiProblem(422, str(problem), code="malformed_cursor") from problem
    page = order[start : start + limit]
    return QueueOut(
        total=len(order),
        own=len(own),
        pull_requests=pulls_out(request, snapshot, as_shown.pulls(snapshot, page), briefing),
        next=write_cursor(page[-1], start + len(page)) if start + len(page) < len(order) else None,
        snapshot=snapshot.number,
    )


def _order(snapshot: Snapshot, query: QueueQuery) -> tuple[str, ...]:
    shown = as_shown.as_it_stands(snapshot, query)
    return _orders.get(snapshot, shown, lambda: read.queue_order(snapshot, shown))


class ApprovedOut(Schema):
    """One approval in force: exactly this round of this pull request, and no other, was approved."""

    pull_request: str = Field(description="at-uri of its record.")
    title: str = Field(description="Title, as its author wrote it; escape it where shown.")
    repository: str = Field(description="Key of the repository.")
    repository_name: str = Field(description="Name of the repository.")
    target_branch: str | None = Field(description="Branch that it wants to change; null: the record names none.")
    author: str = Field(description="DID of the author.", examples=[EXAMPLE_DID])
    state: str = Field(description="State on the forge: open or merged.", examples=["open"])
    record_cid: str | None = Field(description="CID of the record that was approved.")
    round: int = Field(ge=1, description="The round that was approved, from 1 as on the pages.", examples=[1])
    patch_ref: str | None = Field(description="Name of its patch; null: none is known.")
    patch_id: str | None = Field(description="Hash of the patch that was approved; null: it was not read.")
    approved_by: str = Field(description="DID of who approved it.", examples=[EXAMPLE_DID])
    approved_at: datetime = Field(description="When it took effect; RFC 3339, UTC.")


class ApprovedListOut(Schema):
    """Approvals in force, oldest first."""

    snapshot: int = Field(ge=0, description="Number of the snapshot that everything here was read from.", examples=[42])
    approved: list[ApprovedOut]


@router.get(
    "/approved.json",
    response={200: ApprovedListOut, 304: None, **problems(401, 500, 503)},
    summary="Approved pull requests that are not merged yet",
    operation_id="get_approved",
    auth=RepositoryReader(),
)
def get_approved(request: Request) -> ApprovedListOut:
    """Each names the record, the round and the patch that were approved; what changed since is not among them.

    `state` is "merged" where the forge says so and the patch was not seen on the target branch yet. A token for one
    repository gets that one's.
    """
    snapshot = published(request)
    held = held_to(request)
    found = [approved_out(one) for one in read.approved(snapshot) if held in ("", one.subject.repository_key)]
    return ApprovedListOut(snapshot=snapshot.number, approved=found)


def approved_out(one: Approved) -> ApprovedOut:
    """One approval as JSON."""
    subject = one.subject
    return ApprovedOut(
        pull_request=subject.uri,
        title=subject.title,
        repository=subject.repository_key,
        repository_name=subject.repository_name,
        target_branch=subject.target_branch,
        author=subject.author.did,
        state=subject.state,
        record_cid=subject.seen.record_cid,
        round=subject.seen.round + 1,
        patch_ref=subject.patch_ref,
        patch_id=subject.seen.patch_id,
        approved_by=one.approver.did,
        approved_at=one.approved_at.replace(tzinfo=UTC),
    )
