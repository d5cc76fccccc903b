"""Answers pages with a 304 where the browser holds what it would get, and prepares those of a new snapshot.

Computed before somebody asks are the frame, the queue's first page and trust.
"""

from collections.abc import Callable
from functools import wraps

from django.conf import settings
from django.contrib.messages import get_messages
from django.http import HttpResponse
from django.utils import timezone
from django.utils.cache import get_conditional_response

from ingest.store import snapshots
from ingest.store.snapshots import Snapshot
from scoring.config.policy import policy_from_settings
from scoring.queries.read import renew
from triage.access.requests import Request
from triage.context import current_freshness, dashboard_of, digest, page_state, present
from triage.middleware import snapshot_reader
from triage.presenters import queue as as_shown
from triage.presenters import row_actions

Page = Callable[..., HttpResponse]
AGES_SECONDS = 60  # how finely a page tells ages


def unless_held(page: Page) -> Page:
    """The page with an ETag; 304 without making it where that is what the browser holds."""
    return _with_tag(page, page_tag)


def unless_fresh(page: Page) -> Page:
    """The same for a part that tells no ages, so that it stays the same for as long as nothing happens."""
    return _with_tag(page, part_tag)


def page_tag(request: Request, snapshot: Snapshot) -> str | None:
    """The ETag of a page or of its fragment, which never share one: the Back button would show a bare fragment."""
    part, minute = part_tag(request, snapshot), int(present(snapshot).timestamp() // AGES_SECONDS)
    return part and f'W/"{digest((part, minute))}"'


def part_tag(request: Request, snapshot: Snapshot) -> str | None:
    """None while a message waits or something can be undone: such a page counts down and is never the same twice."""
    if len(get_messages(request)) or row_actions.offers_to(request, timezone.now()):
        return None
    asking = request.htmx  # a row that opens is another part for each place and page that asks
    form = (bool(asking), bool(asking.history_restore_request), asking.target, asking.trigger, asking.current_url)
    accepted = request.headers.get("Accept")
    cookie = request.COOKIES.get(settings.CSRF_COOKIE_NAME)  # what stands in its forms goes with it
    return f'W/"{digest((page_state(request, snapshot), current_freshness(snapshot), form, accepted, cookie))}"'


def _with_tag(page: Page, tag_of: Callable[[Request, Snapshot], str | None]) -> Page:
    @wraps(page)
    def answer(request: Request, snapshot: Snapshot, **arguments: str) -> HttpResponse:
        tag = tag_of(request, snapshot)
        response = get_conditional_response(request, etag=tag) or page(request, snapshot, **arguments)
        if tag and response.status_code in (200, 304):
            response["ETag"] = tag
        return response

    return answer


def prepare(snapshot: Snapshot) -> None:
    """Compute every page's frame, the queue as it opens, and the rows of the seed sets that were asked for last."""
    dashboard_of(snapshot)
    as_shown.prepare(snapshot)
    renew(snapshot, policy_from_settings())


def start_preparing() -> None:
    """Do so for each new snapshot from now on."""
    snapshots.start(snapshots.Preparer(snapshot_reader(), prepare))
