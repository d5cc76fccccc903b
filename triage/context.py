"""What every page's frame shows: how fresh the data is, who is here, and whether a lane is shut."""

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone

from ingest.snapshot import Snapshot
from ingest.status import Status, read_status
from scoring import read
from scoring.explain_plain import plain_notice
from triage import acting, state
from triage.about_words import operator_told
from triage.access import may_read, viewing
from triage.lane_heads import site_notice
from triage.page_state import page_state
from triage.permissions import Role, Roles, sees_thresholds
from triage.requests import Request
from triage.webhook_notes import webhook_notes
from triage.words import Freshness, as_aware, freshness, unread_words

_newest: tuple[tuple[int, datetime], read.Dashboard] | None = None


def snapshot_of(request: HttpRequest) -> Snapshot | None:
    """The snapshot pinned for this request; None before the first one is published, or where a request ended early."""
    return getattr(request, "snapshot", None)


def dashboard_of(snapshot: Snapshot) -> read.Dashboard:
    """The aggregates of a snapshot, computed once for each: a snapshot never changes and every page's frame asks."""
    global _newest
    key = (snapshot.number, snapshot.published_at)
    held = _newest
    if held is None or held[0] != key:
        held = _newest = (key, read.dashboard(snapshot))
    return held[1]


def told_dashboard(request: Request, snapshot: Snapshot) -> read.Dashboard:
    """The aggregates as this viewer is told them: without exact thresholds for whoever maintains nothing."""
    board, exact = dashboard_of(snapshot), sees_thresholds(viewing(request))
    notice = board.lane_notice if exact else plain_notice(board.fast_lane_open, board.lane_notice)
    told = replace(board, lane_notice=site_notice(snapshot, exact, notice))
    return told if exact else replace(told, t_low=None, t_high=None)


def present(snapshot: Snapshot) -> datetime:
    """Now as naive UTC: the wall clock, in demo and replay the time of the recording's newest event."""
    newest = dashboard_of(snapshot).newest_event_at
    if settings.STREAM_CLOCK and newest is not None:
        return newest
    return datetime.now(UTC).replace(tzinfo=None)


def training_need(snapshot: Snapshot) -> read.TrainingNeed:
    """Return how much a model could learn from, and when the worker trains next: never on a recording."""
    days = 0 if settings.STREAM_CLOCK else settings.TRAIN_DAYS
    return read.training_need(snapshot, present(snapshot), settings.MODEL_DIR, days)


def worker_status() -> Status | None:
    """What the worker's heartbeat says; None where none was ever written."""
    return read_status(settings.STATUS_PATH)


def frame(request: HttpRequest) -> dict[str, object]:
    """Context processor: freshness, the banner, the sign-in corner; of the data nothing for who may not read it."""
    user = getattr(request, "user", None)
    pinned = snapshot_of(request)
    is_reader = user is not None and may_read(cast(Request, request))
    snapshot = pinned if is_reader else None
    roles = viewing(cast(Request, request)) if is_reader else Roles()
    begun = snapshot is not None and dashboard_of(snapshot).watched > 0
    offers = acting.offers_to(cast(Request, request), timezone.now()) if is_reader else []
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
        "viewer_administers": is_reader and roles.highest() >= Role.ADMIN,
        "viewer": user if user is not None and user.is_authenticated else None,
        "operator": operator_told(settings.OPERATOR_NAME, settings.OPERATOR_CONTACT, settings.STAGED),
        "demo_sign_in_offered": settings.DEMO_MAINTAINER is not None,
        "offers": offers,
        "offers_wait": bool(offers) and _is_worker_away(),
    }


def _is_worker_away() -> bool:
    """Whether what is decided now takes effect only once a worker runs again; a recording is at rest without one."""
    status = worker_status()
    return not settings.STREAM_CLOCK and (status is None or not status.is_alive(time.time()))


def _freshness(snapshot: Snapshot | None, is_reader: bool) -> Freshness:
    if not is_reader:
        return Freshness("none", "No data yet")
    return current_freshness(snapshot)


def current_freshness(snapshot: Snapshot | None) -> Freshness:
    """How current this snapshot is and what is wrong with ingest; None: nothing was published yet."""
    status, now, recorded = worker_status(), time.time(), settings.STREAM_CLOCK
    if snapshot is None:
        return state.with_state(Freshness("none", "No data yet"), state.troubles(status, now, 0, recorded), ())
    board = dashboard_of(snapshot)
    return state.with_state(
        freshness(board.newest_event_at, present(snapshot), recorded),
        state.troubles(status, now, board.gaps_open, recorded, bool(settings.BACKFILL_HOSTS), board.gap_reason),
        (*state.notes(status, now, board.dead_letters, board.unknown_shapes), *webhook_notes(timezone.now())),
    )
