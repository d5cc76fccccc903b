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
from triage.access.requests import Request
from triage.access.sign_in import person_of
from triage.api.base import MineFilter, RepositoryFilter, TextFilter, marked, problems, published, repository_key
from triage.context import present, told_dashboard
from triage.forms.filters import is_in_view
from triage.presenters import queue as as_shown
from triage.presenters import row_actions
from triage.presenters.pills import row_pill
from triage.presenters.row_actions import OpenCounts, open_words
from triage.presenters.text import age_words
from triage.services import snoozing
from triage.services.lane_closures import banners

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
    """The content of a digest; rows and texts as the caller may see them.

    `queue` holds the newest MOST + 1 of each group, `added` counts those opened within NEW, `closures` are sentences.
    `origin` is the address of this site.
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
    snoozed: tuple[int, int] = (0, 0)  # number of rows, and of flagged ones among them


def digest_text(content: Told) -> str:
    """Return the whole text; every line ends in a line feed, and no stranger's text contains one."""
    parts = (_head(content), _waiting(content), _new(content), _audits(content), _lane(content), _approved(content))
    return "\n".join("".join(f"{line}\n" for line in part) for part in map(tuple, parts) if part)


def _head(content: Told) -> Iterator[str]:
    yield f"Sunstead, {content.now.day} {content.now:%B %Y %H:%M} UTC. {content.origin}/"


def _waiting(content: Told) -> Iterator[str]:
    counts, own = content.queue.counts, content.queue.own_count
    flagged, review, fast = (counts.get(lane, 0) for lane in (Lane.NEEDS_HUMAN, Lane.NORMAL_QUEUE, Lane.FAST_LANE))
    yield f"In the inbox: {flagged:,} flagged, {review:,} to review, {fast:,} fast lane."
    yield f"{open_words(content.open)} {own:,} more by people with push access."
    if content.snoozed[0]:
        yield "Snoozed: {:,}, {:,} of them flagged.".format(*content.snoozed)
    if content.oldest is not None:
        age = age_words(content.oldest.opened_at, content.now)
        yield f"The oldest waits for {age}: {_line(content, content.oldest)}"
    newcomer_times = [
        group.oldest_first_timer for group in content.queue.groups if group.key != "own" and group.oldest_first_timer
    ]
    if newcomer_times:
        yield f"The oldest by a first-timer waits for {age_words(min(newcomer_times), content.now)}."


def _new(content: Told) -> Iterator[str]:
    since = content.now - NEW
    rows = [row for group in content.queue.groups if group.key != "own" for row in group.rows if row.opened_at >= since]
    yield f"New within 24 hours: {content.added:,}."
    yield from (f"- {_line(content, row)}" for row in rows[:MOST])
    yield from _more(content.added - MOST)


def _audits(content: Told) -> Iterator[str]:
    if content.due_total:
        yield f"Random audits due: {content.due_total:,}."
        yield from (f"- {_line(content, row)}" for row in content.due[:MOST])
        yield from _more(content.due_total - MOST)
    else:
        yield "No audit is due."


def _lane(content: Told) -> Iterator[str]:
    yield content.lane_notice or "The fast lane is open."
    yield from (f"- {visible(sentence)}." for sentence in content.closures)


def _approved(content: Told) -> Iterator[str]:
    yield f"Approved, not merged yet: {len(content.approved):,}."
    for approval in content.approved[:MOST]:
        subject = approval.subject
        yield f"- {visible(subject.repository_name)}: {visible(subject.title)} ({_address(content, subject.uri)})"
    yield from _more(len(content.approved) - MOST)


def _line(content: Told, row: QueueRow) -> str:
    """Return one pull request: lane, name, title, reason, address.

    Strangers' text with invisible characters spelled out.
    """
    title = f"{row_pill(row).word} · {visible(row.label)}: {visible(row.title)}"
    return f"{title}. {visible(row.sentence)}. {_address(content, row.uri)}"


def _address(content: Told, uri: str) -> str:
    return content.origin + reverse("pull", args=[uri])


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
    """Return what waits, what came within 24 hours (20 at most, flagged first), audits due, closed lanes, what is
    approved.

    `repository`, `q` and `mine` narrow all of it but the state of the lane, as they narrow the queue. Plain text for a
    mail that cron sends; it names no threshold to people who maintain nothing. Ages move with the clock, so there is a
    new answer each minute.
    """
    now_minute = int(present(request.snapshot).timestamp() // 60) if request.snapshot else 0
    snapshot = published(request, now_minute)
    key = repository_key(snapshot, repository) if repository else ""
    only = row_actions.mine(person_of(request), snapshot) if mine else None
    content = _collect(request, snapshot, QueueQuery(repository=key, text=q, only=only))
    return marked(request, HttpResponse(digest_text(content), content_type=TEXT))


def _collect(request: Request, snapshot: Snapshot, query: QueueQuery) -> Told:
    board, now = told_dashboard(request, snapshot), present(snapshot)
    due = read.audits_due(snapshot)
    sealed = tuple(row for row in as_shown.pulls(snapshot, due) if row.is_sealed and is_in_view(row, query))
    oldest_groups = as_shown.queue(snapshot, replace(query, sort="oldest", size=1)).groups
    snoozes = {item.pull_uri: item for item in snoozing.in_force(snapshot, timezone.now())}
    snoozed = [snoozes[uri] for uri, item in read.subjects(snapshot, snoozes).items() if is_in_view(item, query)]
    oldest = [row for group in oldest_groups if group.key != "own" for row in group.rows]
    newest, clock = replace(query, sort="newest", size=MOST), timezone.now()
    return Told(
        queue=row_actions.less_in_flight(as_shown.queue(snapshot, newest), newest, snapshot, clock),
        open=row_actions.open_counts(newest, snapshot, clock),
        oldest=min(oldest, key=lambda row: row.opened_at, default=None),
        added=read.opened_since(snapshot, now - NEW, as_shown.unsnoozed(snapshot, query)),
        due=sealed[:MOST],
        due_total=len(sealed),
        approved=tuple(item for item in as_shown.approved(snapshot) if is_in_view(item.subject, query)),
        closures=tuple(
            sentence
            for closure, sentence in banners(request, snapshot)
            if not query.repository or closure.repository in ("", query.repository)
        ),
        lane_notice=board.lane_notice,
        now=now,
        snoozed=(len(snoozed), snoozing.count_flagged(snoozed)),
        origin=request.build_absolute_uri("/").rstrip("/"),
    )
