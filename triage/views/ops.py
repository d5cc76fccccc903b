"""`/ops/metrics` of the web process, for Prometheus."""

import time
from collections.abc import Iterable, Mapping

from django.conf import settings
from django.db.models import Count
from django.http import HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from scoring.queries.read import QueueQuery
from triage.access.permissions import is_invited
from triage.access.problems import mark_private, problem_response
from triage.access.requests import Request
from triage.access.sign_in import turned_away
from triage.access.tokens import bearer_token
from triage.context import dashboard_of, worker_status
from triage.measured import MEASURES
from triage.models import OutboxEntry
from triage.presenters.lane_heads import count_open
from triage.presenters.queue.freshness import Known, families
from triage.presenters.queue.row_actions import left_out
from triage.services.publishing.records import count_records, service_account

MEDIA = "text/plain; version=0.0.4; charset=utf-8"


class _FixedFamilies(Collector):
    """A collector of existing metric families."""

    def __init__(self, metric_families: Iterable[Metric]) -> None:
        self._found = tuple(metric_families)

    def collect(self) -> Iterable[Metric]:
        return self._found


@require_safe
def metrics(request: Request) -> HttpResponse:
    """Return every figure of this process and of what it knows about the worker.

    It needs a signed-in reader or a token that reads everything, even under PUBLIC_READ: an attacker could use how busy
    a site is, and whether its worker stands still. A request's address does not count, since behind a proxy on the same
    machine every request comes from loopback.
    """
    token = bearer_token(request, "read")
    if not is_invited(request) and (token is None or token.repo_key):
        return problem_response(turned_away(request))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_FixedFamilies(families(_known(request))))
    response = HttpResponse(generate_latest(registry) + generate_latest(MEASURES), content_type=MEDIA)
    mark_private(response)
    return response


def _known(request: Request) -> Known:
    """Return the known facts, even before anything is published.

    Then people most want to know whether a worker runs.
    """
    snapshot = request.snapshot
    approved, snoozed = left_out(QueueQuery(), snapshot, timezone.now()) if snapshot else (0, 0)
    return Known(
        board=dashboard_of(snapshot) if snapshot else None,
        left_out={"approved": approved, "snoozed": snoozed},
        lanes_open=count_open(snapshot) if snapshot else 0,
        published_at=snapshot.published_at if snapshot else None,
        status=worker_status(),
        outbox=_outbox(),
        publishing=_publishing(),
        now=time.time(),
        recorded=settings.STREAM_CLOCK,
    )


def _outbox() -> Mapping[str, int]:
    due = OutboxEntry.objects.filter(delivered_at=None, due_at__lte=timezone.now())
    return dict(due.values_list("kind").annotate(Count("pk")).order_by())


def _publishing() -> Mapping[str, int]:
    if service_account() is None:
        return {}
    counts = count_records()
    return {"write": counts.to_write, "delete": counts.to_delete}
