"""Tell monitors that the site is alive and ready, without private information."""

import time
from datetime import UTC, datetime

from django.conf import settings
from ninja import Field, Router, Schema, Status

from triage.access.requests import Request
from triage.api.base import Requests, problems
from triage.context import dashboard_of, worker_status
from triage.presenters.queue.freshness import newest_event

router = Router(tags=["operation"])


class HealthOut(Schema):
    """The answer for a monitor: 200 where `ready`, else 503."""

    live: bool = Field(description="The web process answers: always true.", examples=[True])
    ready: bool = Field(description="A snapshot is served and the worker runs.")
    worker: bool = Field(description="The worker was running within the last 30 seconds.")
    snapshot: int | None = Field(ge=0, description="Number of the newest published snapshot; null: none yet.")
    snapshot_age_seconds: float | None = Field(ge=0, description="Since it was published; null: none yet.")
    lag_seconds: float | None = Field(
        ge=0, description="Between the newest event handled and now; null: none yet, or a recording is played."
    )
    clock_behind_minutes: int = Field(
        ge=0,
        description="How slow the worker's clock is at least: all events are dated ahead of it. 0: it is not.",
    )


@router.get(
    "/health",
    response={200: HealthOut, 503: HealthOut, **problems(500)},
    summary="Live, ready, lag and snapshot age",
    operation_id="get_health",
    auth=None,
    throttle=Requests("health", times=10),
)
def get_health(request: Request) -> Status:
    """For load balancers, container health checks and uptime monitors; needs no token."""
    health = _health(request, time.time())
    return Status(200 if health.ready else 503, health)


def _health(request: Request, now: float) -> HealthOut:
    snapshot, status = request.snapshot, worker_status()
    is_running = status is not None and status.is_alive(now)
    newest = newest_event(dashboard_of(snapshot) if snapshot else None, status)
    return HealthOut(
        live=True,
        ready=snapshot is not None and is_running,
        worker=is_running,
        snapshot=snapshot.number if snapshot else None,
        snapshot_age_seconds=_since(snapshot.published_at, now) if snapshot else None,
        lag_seconds=max(0.0, now - newest) if newest is not None and not settings.STREAM_CLOCK else None,
        clock_behind_minutes=status.clock_behind_minutes if is_running and status is not None else 0,
    )


def _since(moment: datetime, now: float) -> float:
    return max(0.0, now - moment.replace(tzinfo=UTC).timestamp())
