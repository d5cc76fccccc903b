"""Measures, a collector and all that both processes tell Prometheus, as tests make them."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from django.conf import settings
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ingest.store.database import Store
from ingest.worker.status import Status
from scoring.review.anthropic_client import ModelCall
from scoring.review.costs import Usage, parse_prices
from tests.triage.worlds.pages_world import DrawnWorld
from triage.measured import MEASURES
from triage.presenters.queue.freshness import Known, families
from trustsite.ops.metrics import Asked, Measures, WorkerCollector, lag_of

MODEL = "claude-sonnet-4-6"
USAGE = Usage(input_tokens=1_000, output_tokens=100, cache_write_tokens=10, cache_read_tokens=5_000)
CALL = ModelCall("chat", MODEL, 1.0, 2.5, 2, "answered", USAGE)


def measures() -> Measures:
    """Fresh ones, with the prices of the settings."""
    return Measures(parse_prices(settings.CLAUDE_PRICES))


def asked(store: Store, ending: bool = False) -> Asked:
    """What the worker's collector asks; `ending`: of a worker that ends."""

    def lag() -> float | None:
        return lag_of(0, store)

    return Asked(store, lambda: 3, lambda: 4.0, 5.0, lag, timedelta(days=44), True, lambda: ending)


def expositions(store: Store) -> tuple[str, str]:
    """All that the web process tells, and all that the worker does."""
    now = datetime.now(UTC)
    known = Known(
        board=DrawnWorld().dashboard(None),
        left_out={"approved": 1, "snoozed": 0},
        lanes_open=1,
        published_at=now.replace(tzinfo=None),
        status=Status(written_at=now.timestamp(), cursor_us=1),
        outbox={"role": 1},
        publishing={"write": 1, "delete": 0},
        now=now.timestamp(),
        recorded=False,
    )
    counted = measures()
    counted.called(CALL)
    counted.ran("score_everyone", 0.1, False)
    counted.registry.register(WorkerCollector(replace(asked(store), lag_seconds=lambda: 1.0)))
    given = CollectorRegistry(auto_describe=False)
    given.register(_Given(known))
    told = [generate_latest(registry).decode() for registry in (given, MEASURES, counted.registry)]
    return told[0] + told[1], told[2]


class _Given(Collector):
    def __init__(self, known: Known) -> None:
        self.known = known

    def collect(self) -> Iterator[Metric]:
        yield from families(self.known)
