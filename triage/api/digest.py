"""`GET /digest`: the queue in plain text, for a mail: what waits, what is new, and what maintainers are asked."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.http import HttpResponse
from django.urls import reverse
from django.utils import timezone
from ninja import Router

from ingest.store.snapshots import Snapshot
from scoring.formatting import visible
from scoring.queries import read
from scoring.queries.read import Approved, Queue, QueueQuery, QueueRow
from scoring.types import Lane
from triage.access.permissions import Role, Roles
from triage.access.requests import Request
from triage.access.sign_in import person_of, viewing
from triage.api.base import MineFilter, RepositoryFilter, TextFilter, marked, problems, published, repository_key
from triage.context import present, told_dashboard
from triage.forms.filters import is_in_view
from triage.presenters.queue import queue as as_shown
from triage.presenters.queue import row_actions
from triage.presenters.queue.pills import row_pill
from triage.presenters.queue.row_actions import OpenCounts, open_words
from triage.presenters.text import age_words
from triage.services import snoozing
from triage.services.lane_closures import banners
from triage.services.objections import list_open

MOST = 20
NEW = timedelta(hours=24)
router = Router(tags=["site"])
TEXT = "text/plain; charset=utf-8"
EXAMPLE = """Sunstead, 20 November 2026 12:00 UTC. https://sunstead.example/

In the inbox: 1 flagged, 4 to review, 2 fast lane.
8 are open: 7 in the inbox, 1 approved and not merged yet. 0 more by people with push access.
"""
CONTENT = {"text/plain": {"schema": {"type": "string", "maxLength": 1_000_000}, "example": EXAMPLE}}


@dataclass(frozen=True, slots=True)
class Told:
    """The material of a digest; rows and texts as whoever asks may see them.

    `queue` holds of each group the newest MOST + 1, `added` is how many came within NEW, `closures` are sentences.
    `origin` is where this site is reached.
    """

    queue: Queue
    open: OpenCounts
    oldest: QueueRow | None
    added: int
    due: tuple[QueueRow, ...]
    due_total: int
    approved: tuple[Approved, ...]
    closures: tuple[str, ...]
    lane_notice: str
    now: datetime
    origin: str
    objections: tuple[datetime, ...] | None = None  # due days, earliest first; None: the reader maintains nothing
    snoozed: tuple[int, int] = (0, 0)  # how many rows, and how many of them are flagged


def digest_text(told: Told) -> str:
    """The whole text; every line ends in a line feed, and nobody's words break one."""
    parts = (_head(told), _waiting(told), _new(told), _audits(told), _objections(told), _lane(told), _approved(told))
    return "\n".join("".join(f"{line}\n" for line in part) for part in map(tuple, parts) if part)


def _head(told: Told) -> Iterator[str]:
    yield f"Sunstead, {told.now.day} {told.now:%B %Y %H:%M} UTC. {told.origin}/"
    if told.objections is not None:
        yield f"Read aloud: {told.origin}{reverse('briefing')}"


def _waiting(told: Told) -> Iterator[str]:
    counts, own = told.queue.counts, told.queue.own_count
    flagged, review, fast = (counts.get(lane, 0) for lane in (Lane.NEEDS_HUMAN, Lane.NORMAL_QUEUE, Lane.FAST_LANE))
    would = f", {some:,} would be fast lane" if (some := counts.get("would_be_fast_lane", 0)) else ""
    yield f"In the inbox: {flagged:,} flagged, {review:,} to review, {fast:,} fast lane{would}."
    yield f"{open_words(told.open)} {own:,} more by people with push access."
    if told.snoozed[0]:
        yield "Snoozed: {:,}, {:,} of them flagged.".format(*told.snoozed)
    if told.oldest is not None:
        yield f"The oldest waits for {age_words(told.oldest.opened_at, told.now)}: {_line(told, told.oldest)}"
    first = [group.oldest_first_timer for group in told.queue.groups if group.key != "own" and group.oldest_first_timer]
    if first:
        yield f"The oldest by a first-timer waits for {age_words(min(first), told.now)}."


def _new(told: Told) -> Iterator[str]:
    since = told.now - NEW
    rows = [row for group in told.queue.groups if group.key != "own" for row in group.rows if row.opened_at >= since]
    yield f"New within 24 hours: {told.added:,}."
    yield from (f"- {_line(told, row)}" for row in rows[:MOST])
    yield from _more(told.added - MOST)


def _audits(told: Told) -> Iterator[str]:
    if told.due_total:
        yield f"Random audits due: {told.due_total:,}."
        yield from (f"- {_line(told, row)}" for row in told.due[:MOST])
        yield from _more(told.due_total - MOST)
    else:
        yield "No audit is due."


def _objections(told: Told) -> Iterator[str]:
    if told.objections is None:
        return
    if told.objections:
        first = f"{told.objections[0].day} {told.objections[0]:%B %Y}"
        yield f"Open objections: {len(told.objections):,}, the first to be answered by {first}."
        yield f"- {told.origin}{reverse('objections')}"
    else:
        yield "No objection is open."


def _lane(told: Told) -> Iterator[str]:
    yield told.lane_notice or "The fast lane is open."
    yield from (f"- {visible(sentence)}." for sentence in told.closures)


def _approved(told: Told) -> Iterator[str]:
    yield f"Approved, not merged yet: {len(told.approved):,}."
    for one in told.approved[:MOST]:
        subject = one.subject
        yield f"- {visible(subject.repository_name)}: {visible(subject.title)} ({_address(told, subject.uri)})"
    yield from _more(len(told.approved) - MOST)


def _line(told: Told, row: QueueRow) -> str:
    """One pull request: lane, name, title, reason, address; text of others with what hides in it made visible."""
    named = f"{row_pill(row).word} · {visible(row.label)}: {visible(row.title)}"
    return f"{named}. {visible(row.sentence)}. {_address(told, row.uri)}"


def _address(told: Told, uri: str) -> str:
    return told.origin + reverse("pull", args=[uri])


def _more(count: int) -> Iterable[str]:
    return (f"- and {count:,} more.",) if count > 0 else ()


@router.get(
    "/digest",
    response={304: None, **problems(401, 403, 404, 422, 500, 503)},
    openapi_extra={"responses": {200: {"description": "The digest.", "content": CONTENT}}},
    summary="The queue as a mail",
    operation_id="get_digest",
)
def get_digest(
    request: Request, repository: RepositoryFilter = "", q: TextFilter = "", mine: MineFilter = False
) -> HttpResponse:
    """Return what waits, what came within 24 hours (20 at most, flagged first), audits due, how many
    objections are open, closed lanes, what is approved.

    `repository`, `q` and `mine` narrow all of it but the state of the lane, as they narrow the queue; objections are
    narrowed by `repository` alone. Plain text for a
    mail that cron sends; it names no threshold to people who maintain nothing. Ages move with the clock, so there is a
    new answer each minute.
    """
    now_minute = int(present(request.snapshot).timestamp() // 60) if request.snapshot else 0
    snapshot = published(request, now_minute)
    key = repository_key(snapshot, repository) if repository else ""
    only = row_actions.mine(person_of(request), snapshot) if mine else None
    told = _told(request, snapshot, QueueQuery(repository=key, text=q, only=only))
    return marked(request, HttpResponse(digest_text(told), content_type=TEXT))


def _open_objections(roles: Roles, snapshot: Snapshot, repository: str) -> tuple[datetime, ...] | None:
    """Return when those are due that the reader may answer; None for a reader who maintains nothing."""
    if roles.highest() < Role.MAINTAINER:
        return None
    return tuple(sorted(due for key, _, due in list_open(snapshot) if repository in ("", key)))


def _told(request: Request, snapshot: Snapshot, query: QueueQuery) -> Told:
    board, now = told_dashboard(request, snapshot), present(snapshot)
    due = [subject.uri for subject, _ in read.due_audits(snapshot)]
    sealed = tuple(row for row in as_shown.pulls(snapshot, due) if row.is_sealed and is_in_view(row, query))
    hidden = {one.pull_uri: one for one in snoozing.in_force(snapshot, timezone.now())}
    snoozed = [hidden[uri] for uri, one in read.subjects(snapshot, hidden).items() if is_in_view(one, query)]
    newest, clock = replace(query, sort="newest", size=MOST), timezone.now()
    return Told(
        queue=row_actions.less_in_flight(as_shown.queue(snapshot, newest), newest, snapshot, clock),
        open=row_actions.open_counts(newest, snapshot, clock),
        oldest=as_shown.longest_waiting(snapshot, query),
        added=read.opened_since(snapshot, now - NEW, as_shown.as_it_stands(snapshot, query)),
        due=sealed[:MOST],
        due_total=len(sealed),
        approved=tuple(one for one in as_shown.approved(snapshot) if is_in_view(one.subject, query)),
        closures=tuple(
            sentence
            for closure, sentence in banners(request, snapshot)
            if not query.repository or closure.repository in ("", query.repository)
        ),
        lane_notice=board.lane_notice,
        now=now,
        objections=_open_objections(viewing(request), snapshot, query.repository),
        snoozed=(len(snoozed), snoozing.count_flagged(snoozed)),
        origin=request.build_absolute_uri("/").rstrip("/"),
    )
