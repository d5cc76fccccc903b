"""`GET /digest`: the queue in plain text, for a mail."""

from django.http import HttpResponse
from ninja import Router

from ingest.snapshot import Snapshot
from scoring import read
from scoring.read import QueueQuery
from triage import as_shown
from triage.api.base import marked, problems, published
from triage.context import present, told_dashboard
from triage.digest import MOST, NEW, Told, digest_text
from triage.incidents import banners
from triage.middleware import Request

router = Router(tags=["site"])
TEXT = "text/plain; charset=utf-8"
EXAMPLE = """Sunstead, 20 November 2026 12:00 UTC. https://sunstead.example/

Open: 1 flagged, 4 to review, 2 in the fast lane; 0 by people who may push.
"""
CONTENT = {"text/plain": {"schema": {"type": "string", "maxLength": 1_000_000}, "example": EXAMPLE}}


@router.get(
    "/digest",
    response={304: None, **problems(401, 403, 500, 503)},
    openapi_extra={"responses": {200: {"description": "The digest.", "content": CONTENT}}},
    summary="The queue as a mail",
    operation_id="get_digest",
)
def get_digest(request: Request) -> HttpResponse:
    """What waits, what came within 24 hours (20 at most, flagged first), audits due, closed lanes, what is approved.

    Plain text for a mail that cron sends; it names no threshold to whoever maintains nothing. Ages move with the clock,
    so there is a new answer each minute.
    """
    now_minute = int(present(request.snapshot).timestamp() // 60) if request.snapshot else 0
    snapshot = published(request, now_minute)
    return marked(request, HttpResponse(digest_text(_told(request, snapshot)), content_type=TEXT))


def _told(request: Request, snapshot: Snapshot) -> Told:
    board, now = told_dashboard(request, snapshot), present(snapshot)
    due = read.audits_due(snapshot)
    sealed = tuple(row for row in as_shown.pulls(snapshot, due) if row.is_sealed)
    first = as_shown.queue(snapshot, QueueQuery(sort="oldest", size=1)).groups
    oldest = [row for group in first if group.key != "own" for row in group.rows]
    return Told(
        queue=as_shown.queue(snapshot, QueueQuery(sort="newest", size=MOST)),
        oldest=min(oldest, key=lambda row: row.opened_at, default=None),
        added=read.opened_since(snapshot, now - NEW),
        due=sealed[:MOST],
        due_total=len(sealed),
        approved=as_shown.approved(snapshot),
        closures=tuple(sentence for _, sentence in banners(request, snapshot)),
        lane_notice=board.lane_notice,
        now=now,
        origin=request.build_absolute_uri("/").rstrip("/"),
    )
