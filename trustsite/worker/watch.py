"""Everything that watches over a running worker, from its settings: figures at OPS_BIND, traces to OTLP_ENDPOINT."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from datetime import timedelta

from django.conf import settings

from scoring.review.anthropic_client import Listener, listen, stop_listening
from scoring.review.settings import ledger_from_settings
from trustsite.ops.metrics import Asked, WorkerCollector, lag_of
from trustsite.ops.server import serve
from trustsite.ops.traces import Traces
from trustsite.worker.handover import FOLLOWED_DAYS
from trustsite.worker.worker import Worker


@contextmanager
def watched(worker: Worker) -> Generator[None]:
    """The worker's figures and traces, for as long as the block runs."""
    with ExitStack() as ends:
        _hear(worker.measures.called, ends)
        if settings.OTLP_ENDPOINT:
            traces = Traces(settings.OTLP_ENDPOINT, settings.OTLP_HEADERS, worker.measures.dollars)
            ends.callback(traces.stop)
            _hear(traces.called, ends)
        if settings.OPS_BIND:
            worker.measures.registry.register(_collector(worker))
            server = serve(settings.OPS_BIND, worker.measures.registry)
            if server is not None:
                ends.callback(server.stop)
        yield


def _hear(listener: Listener, ends: ExitStack) -> None:
    listen(listener)
    ends.callback(stop_listening, listener)


def _collector(worker: Worker) -> WorkerCollector:
    ledger = ledger_from_settings(worker.store)

    def lag() -> float | None:
        return lag_of(worker.listener.cursor_us, worker.store)

    return WorkerCollector(
        Asked(
            store=worker.store,
            queued=worker.huey.pending_count,
            spent=ledger.spent_today,
            budget=settings.REVIEW_DOLLARS_A_DAY,
            lag_seconds=lag,
            followed=timedelta(days=FOLLOWED_DAYS),
            ending=worker.consumer.stop_flag.is_set,
        )
    )
