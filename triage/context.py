"""Values of every page's frame: the data's freshness, the viewer, shut lanes, and a digest of the page's state.

The digest, of sixteen characters, covers everything on which a page depends besides its address: the snapshot, people's
actions, and the viewer.
"""

import time
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import blake2s
from secrets import token_hex
from typing import cast

from django.conf import settings
from django.db import connection
from django.http import HttpRequest
from django.utils import timezone

from ingest.store.snapshots import PerSnapshot, Snapshot
from ingest.worker.status import Status, read_status
from scoring.explain.sentences import plain_notice
from scoring.queries import read
from triage.access.oauth.sessions import IN_BROWSER
from triage.access.permissions import Role, Roles, is_invited, sees_thresholds
from triage.access.requests import Request
from triage.access.sign_in import may_read, person_of, viewing
from triage.models import Person
from triage.presenters.about import operator_told
from triage.presenters.lane_heads import site_notice
from triage.presenters.queue import freshness as state
from triage.presenters.queue import row_actions
from triage.presenters.text import Freshness, as_aware, freshness, unread_words
from triage.services.author_answers import find_waiting
from triage.services.notifying.webhooks import webhook_notes
from triage.services.publishing.records import publishing_notes

DONE = """
select (select max(id) from triage_change), (select count(*) from triage_snooze where until > %s),
  count(*), max(expires_at)
from triage_lease where expires_at > %s and person_id is not %s
"""
TWO_CLOCKS = "Ages count to the end of the recording. What people do here has today's date."
STARTED = token_hex(8)  # a restarted web process may have other code and settings


def page_state(request: Request, snapshot: Snapshot) -> str:
    """Return a digest of the snapshot, the last change by anybody, other people's leases, the viewer and their roles.

    Every action, undo, closure, objection and setting is in the log of changes. Computed once for a request.
    """
    state = getattr(request, "page_state", None)
    if state is None:
        roles = viewing(request)
        asked_at = getattr(request.user, "outcomes_asked_at", None)
        saved = getattr(request.user, "saved_filters", None)
        account = request.session.get(IN_BROWSER) if isinstance(request.user, Person) else None
        viewer = (request.user.pk, str(request.user), roles.least, sorted(roles.held.items()), asked_at, saved, account)
        parts = (STARTED, snapshot.number, snapshot.published_at, _last_activity(request, timezone.now()), viewer)
        state = request.page_state = digest(parts)
    return state


def digest(parts: tuple[object, ...]) -> str:
    """Return sixteen characters that identify these values and reveal nothing of them."""
    return blake2s(repr(parts).encode(), digest_size=8, key=STARTED.encode()).hexdigest()


def _last_activity(request: Request, now: datetime) -> tuple[object, ...]:
    """Return the last change, the number of snoozes with a day, and other people's leases: their number and latest end.

    Raw SQL: every page asks, and the ORM takes 1 ms to build two aggregates that SQLite answers in .02 ms.
    """
    viewer = request.user.pk if isinstance(request.user, Person) else None
    with connection.cursor() as cursor:
        moment = connection.ops.adapt_datetimefield_value(now)
        return cursor.execute(DONE, [moment, moment, viewer]).fetchone()


_newest: tuple[tuple[int, datetime], read.Dashboard] | None = None


def snapshot_of(request: HttpRequest) -> Snapshot | None:
    """Return the snapshot pinned for this request.

    None before the first one is published, or where a request ended early.
    """
    return getattr(request, "snapshot", None)


def dashboard_of(snapshot: Snapshot) -> read.Dashboard:
    """Return a snapshot's aggregates, computed once for each: a snapshot never changes and every page's frame asks."""
    global _newest
    key = (snapshot.number, snapshot.published_at)
    cached = _newest
    if cached is None or cached[0] != key:
        cached = _newest = (key, read.dashboard(snapshot))
    return cached[1]


def told_dashboard(request: Request, snapshot: Snapshot) -> read.Dashboard:
    """Return the aggregates that this viewer may see: without exact thresholds for people who maintain nothing."""
    board, exact = dashboard_of(snapshot), sees_thresholds(viewing(request))
    notice = board.lane_notice if exact else plain_notice(board.has_threshold, board.lane_notice)
    shown = replace(board, lane_notice=site_notice(snapshot, exact, notice))
    return shown if exact else replace(shown, t_low=None, t_high=None)


def present(snapshot: Snapshot) -> datetime:
    """Return the present time as naive UTC: the wall clock.

    In demo and replay the time of the recording's newest event.
    """
    newest = dashboard_of(snapshot).newest_event_at
    if settings.STREAM_CLOCK and newest is not None:
        return newest
    return datetime.now(UTC).replace(tzinfo=None)


_need_cache = PerSnapshot[read.TrainingNeed](1)


def training_need(snapshot: Snapshot) -> read.TrainingNeed:
    """Return how much a model could learn from, and when the worker trains next: never on a recording.

    A replay that is served trains once, beside its pages.
    """
    days, window = 0 if settings.STREAM_CLOCK else settings.TRAIN_DAYS, settings.LABEL_WINDOW_DAYS

    def count() -> read.TrainingNeed:
        return read.training_need(snapshot, present(snapshot), settings.MODEL_DIR, days, window)

    need = _need_cache.get(snapshot, "", count)
    return replace(need, is_training=need.is_enough and runs_beside("train"))


def runs_beside(command: str) -> bool:
    """Return whether this process, a demo or a replay, still runs that command beside its pages."""
    child = settings.BESIDE.get(command)
    return child is not None and child.poll() is None


def worker_status() -> Status | None:
    """Return the worker's heartbeat; None where none was ever written."""
    return read_status(settings.STATUS_PATH)


def frame(request: HttpRequest) -> dict[str, object]:
    """Build the context of every page: freshness, banner, sign-in corner; no data for people who may not read it."""
    user = getattr(request, "user", None)
    pinned = snapshot_of(request)
    is_reader = user is not None and may_read(cast(Request, request))
    snapshot = pinned if is_reader else None
    roles = viewing(cast(Request, request)) if is_reader else Roles()
    begun = snapshot is not None and dashboard_of(snapshot).watched > 0
    offers = row_actions.offers_to(cast(Request, request), timezone.now()) if is_reader else []
    return {
        "freshness": _freshness(snapshot, is_reader) if snapshot or not pinned else None,
        "page_state": page_state(cast(Request, request), snapshot) if snapshot else "",
        "newest_event_at": as_aware(dashboard_of(snapshot).newest_event_at) if snapshot else None,
        "lane_notice": told_dashboard(cast(Request, request), snapshot).lane_notice if snapshot and begun else "",
        "review_notice": unread_words(dashboard_of(snapshot).asks_claude)
        if snapshot and not settings.ANTHROPIC_API_KEY
        else "",
        "viewer_maintains": is_reader and sees_thresholds(roles),
        "viewer_sets_up": roles.role("") >= Role.MAINTAINER,
        "viewer_runs_site": roles.role("") >= Role.ADMIN,
        "viewer_administers": is_reader and roles.highest() >= Role.ADMIN,
        "viewer": user if user is not None and user.is_authenticated else None,
        "viewer_invited": user is not None and is_invited(cast(Request, request)),
        "viewer_reads": is_reader,
        "viewer_is_known": is_reader and person_of(cast(Request, request)) is not None,
        "viewer_asked": len(find_waiting(str(user.did), pinned, timezone.now()))
        if isinstance(user, Person) and pinned
        else 0,
        "operator": operator_told(settings.OPERATOR_NAME, settings.OPERATOR_CONTACT, settings.STAGED),
        "demo_sign_in_offered": settings.DEMO_MAINTAINER is not None,
        "offers": offers,
        "offers_wait": bool(offers) and _is_worker_away(),
    }


def _is_worker_away() -> bool:
    """Return whether decisions take effect only once a worker runs again.

    A recording needs no worker.
    """
    status = worker_status()
    return not settings.STREAM_CLOCK and (status is None or not status.is_alive(time.time()))


def _freshness(snapshot: Snapshot | None, is_reader: bool) -> Freshness:
    if not is_reader:
        return Freshness("none", "No data yet")
    return current_freshness(snapshot)


def current_freshness(snapshot: Snapshot | None) -> Freshness:
    """Return the age of this snapshot and the problems of ingest; None: nothing was published yet."""
    status, now, recorded = worker_status(), time.time(), settings.STREAM_CLOCK
    if snapshot is None:
        return state.with_state(Freshness("none", "No data yet"), state.troubles(status, now, 0, recorded), ())
    board = dashboard_of(snapshot)
    return state.with_state(
        freshness(board.newest_event_at, present(snapshot), recorded),
        state.troubles(status, now, board.gaps_open, recorded, bool(settings.BACKFILL_HOSTS), board.gap_reason),
        (
            *((TWO_CLOCKS,) if recorded else ()),
            *state.notes(status, now, board.dead_letters, board.unknown_shapes),
            *webhook_notes(timezone.now()),
            *publishing_notes(),
        ),
    )
