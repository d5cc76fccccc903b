"""`GET /digest`: the queue in plain text, for a mail."""

from dataclasses import replace

from django.http import HttpResponse
from django.utils import timezone
from ninja import Router

from ingest.store.snapshots import Snapshot
from scoring.queries import read
from scoring.queries.read import QueueQuery
from triage.access.requests import Request
from triage.access.sign_in import person_of
from triage.api.base import MineFilter, RepositoryFilter, TextFilter, marked, problems, published, repository_key
from triage.context import present, told_dashboard
from triage.forms.filters import is_in_view
from triage.presenters import queue as as_shown
from triage.presenters import row_actions
from triage.presenters.digest import MOST, NEW, Told, digest_text
from triage.services import snoozing
from triage.services.lane_closures import banners

router = Router(tags=["site"])
TEXT = "text/plain; charset=utf-8"
EXAMPLE = """Sunstead, 20 November 2026 12:00 UTC. https://sunstead.example/

In the inbox: 1 flagged, 4 to review, 2 fast lane.
8 are open: 7 in the inbox, 1 approved and not merged yet. 0 more by people with push access.
"""
CONTENT = {"text/plain": {"schema": {"type": "string", "maxLength": 1_000_000}, "example": EXAMPLE}}


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
    told = _told(request, snapshot, QueueQuery(repository=key, text=q, only=only))
    return marked(request, HttpResponse(digest_text(told), content_type=TEXT))


def _told(request: Request, snapshot: Snapshot, query: QueueQuery) -> Told:
    board, now = told_dashboard(request, snapshot), present(snapshot)
    due = read.audits_due(snapshot)
    sealed = tuple(row for row in as_shown.pulls(snapshot, due) if row.is_sealed and is_in_view(row, query))
    first = as_shown.queue(snapshot, replace(query, sort="oldest", size=1)).groups
    hidden = {one.pull_uri: one for one in snoozing.in_force(snapshot, timezone.now())}
    snoozed = [hidden[uri] for uri, one in read.subjects(snapshot, hidden).items() if is_in_view(one, query)]
    oldest = [row for group in first if group.key != "own" for row in group.rows]
    newest, clock = replace(query, sort="newest", size=MOST), timezone.now()
    return Told(
        queue=row_actions.less_in_flight(as_shown.queue(snapshot, newest), newest, snapshot, clock),
        open=row_actions.open_counts(newest, snapshot, clock),
        oldest=min(oldest, key=lambda row: row.opened_at, default=None),
        added=read.opened_since(snapshot, now - NEW, as_shown.unsnoozed(snapshot, query)),
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
        snoozed=(len(snoozed), snoozing.count_flagged(snoozed)),
        origin=request.build_absolute_uri("/").rstrip("/"),
    )
