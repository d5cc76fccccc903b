"""Answer pages with a 304 where the browser already has them, and prepare the pages of a new snapshot.

The frame, the queue's first page and trust are computed before somebody asks.
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
from scoring.redteam.render import FILE as ATTACKS
from scoring.training.summary import FILE as BACKTEST
from triage.access.requests import Request
from triage.context import current_freshness, dashboard_of, digest, page_state, present
from triage.middleware import snapshot_reader
from triage.presenters.queue import queue as as_shown
from triage.presenters.queue import row_actions

Page = Callable[..., HttpResponse]
AGES_SECONDS = 60  # resolution of ages on a page


def unless_held(page: Page) -> Page:
    """Give the page an ETag; answer 304 without building it where the browser already has it."""
    return _with_tag(page, page_tag)


def unless_fresh(page: Page) -> Page:
    """Give a part without ages an ETag, so that it stays unchanged while nothing happens."""
    return _with_tag(page, part_tag)


def page_tag(request: Request, snapshot: Snapshot) -> str | None:
    """Return the ETag of a page or of its fragment; they differ, or the Back button would show a bare fragment."""
    part, minute = part_tag(request, snapshot), int(present(snapshot).timestamp() // AGES_SECONDS)
    return part and f'W/"{digest((part, minute, _reports_written()))}"'


def _reports_written() -> list[int]:
    """Return when the commands last wrote each report that a page shows; no snapshot comes with one."""
    paths = (settings.LOG_DIR / name for name in (BACKTEST, ATTACKS))
    return [path.stat().st_mtime_ns for path in paths if path.exists()]


def part_tag(request: Request, snapshot: Snapshot) -> str | None:
    """Return the part's ETag; None while a message waits or something can be undone, since such a page counts down."""
    if len(get_messages(request)) or row_actions.offers_to(request, timezone.now()):
        return None
    htmx = request.htmx  # an opened row is a different part for each target and page
    form = (bool(htmx), bool(htmx.history_restore_request), htmx.target, htmx.trigger, htmx.current_url)
    accepted = request.headers.get("Accept")
    cookie = request.COOKIES.get(settings.CSRF_COOKIE_NAME)  # the token in its forms depends on it
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
    """Compute every page's frame, the queue's first page, and the most recently used seed sets."""
    dashboard_of(snapshot)
    as_shown.prepare(snapshot)
    renew(snapshot, policy_from_settings())


def start_preparing() -> None:
    """Prepare each new snapshot from now on."""
    snapshots.start(snapshots.Preparer(snapshot_reader(), prepare))
