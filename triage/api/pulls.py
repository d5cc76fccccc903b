"""The queue and each pull request in it: decision, reason codes, explanation."""

from typing import Annotated

from ninja import Router
from ninja.params.functions import Query

from ingest.store.snapshots import PerSnapshot, Snapshot
from scoring.queries import read
from scoring.queries.read import QueueQuery, QueueSort
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
from triage.api.pull_schemas import PullOut, QueueOut, pull_out
from triage.forms.filters import URI_LIMIT, Bucket
from triage.presenters import queue as as_shown
from triage.presenters import row_actions

MOST_ROWS = 100
EXAMPLE_URI = "https://tangled.org/tangled.sh/core/pulls/12"
router = Router(tags=["pull requests"])
Briefing = Annotated[bool, Query(description="1 adds what is read aloud of it.", example="1")]
_orders = PerSnapshot[tuple[str, ...]]()


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
    return pull_out(row, sees_thresholds(viewing(request), row.repository_key), briefing)


@router.get(
    "/queue",
    response={200: QueueOut, 304: None, **problems(401, 403, 404, 422, 500, 503)},
    summary="Open pull requests by lane",
    operation_id="get_queue",
    auth=RepositoryReader(),
)
def get_queue(
    request: Request,
    bucket: Annotated[Bucket, Query(description="One lane, or own; empty for all.")] = "",
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
    order = _order(snapshot, QueueQuery(bucket=bucket or None, text=q, repository=key, sort=sort, only=only))
    try:
        start = first_after(order, cursor)
    except MalformedCursor as problem:
        raise ApiProblem(422, str(problem), code="malformed_cursor") from problem
    page = order[start : start + limit]
    rows, roles = as_shown.pulls(snapshot, page), viewing(request)
    return QueueOut(
        total=len(order),
        pull_requests=[pull_out(row, sees_thresholds(roles, row.repository_key), briefing) for row in rows],
        next=write_cursor(page[-1], start + len(page)) if start + len(page) < len(order) else None,
        snapshot=snapshot.number,
    )


def _order(snapshot: Snapshot, query: QueueQuery) -> tuple[str, ...]:
    shown = as_shown.unsnoozed(snapshot, query)
    return _orders.get(snapshot, shown, lambda: read.queue_order(snapshot, shown))
