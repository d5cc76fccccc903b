"""`manage.py worker`: run the process that owns the store."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from datetime import timedelta

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection
from django.utils import timezone

from ingest.errors import StoreProblem
from ingest.labels.process import LabelServer
from scoring.review.anthropic_client import Listener, listen, stop_listening
from scoring.review.settings import ledger_from_settings
from triage.access.admission import CODE_MINUTES, SignInProblem, make_code
from triage.access.permissions import has_admin
from triage.access.tokens import own_origin
from trustsite.labels import label_config
from trustsite.logs import keep_log
from trustsite.ops.metrics import Asked, Traces, WorkerCollector, lag_of, serve
from trustsite.worker.handover import FOLLOWED_DAYS
from trustsite.worker.worker import Worker, stream_from_settings


class Command(BaseCommand):
    """Listen, derive, ask the network, score and publish until SIGTERM or Ctrl-C."""

    help = "Run the worker: it owns the store, listens to the stream, scores and publishes."
    requires_system_checks = ()

    def handle(self, *args: object, **options: object) -> None:
        try:
            worker = Worker(stream_from_settings())
        except StoreProblem as problem:
            raise CommandError(str(problem), returncode=2) from problem
        keep_log("worker")
        self._offer_first_admin()
        try:
            with watched(worker):
                worker.run()
        except StoreProblem as problem:
            raise CommandError(f"Stopped. The next start continues. {problem}", returncode=2) from problem

    def _offer_first_admin(self) -> None:
        """Print a code with which its operator becomes admin, where the site has none and FIRST_ADMIN names none.

        It goes to a terminal alone and is never logged: elsewhere what a process prints is kept in a journal or a
        container's log, which other people and programs read.
        """
        try:
            if settings.FIRST_ADMIN or not _has_accounts() or has_admin():
                return
            if self.stdout.isatty():
                code = make_code(timezone.now())
                how = f"Type this code at {own_origin()}/begin within {CODE_MINUTES} minutes, then sign in: {code}"
            else:
                how = "`manage.py first_admin` prints a code that makes you admin."
            self.stdout.write(f"This site has no admin yet. {how}")
            self.stdout.flush()
        except SignInProblem:  # somebody became admin at this moment
            return
        except DatabaseError:
            self.stderr.write("The accounts of this site cannot be read: `manage.py doctor` says why.")


def _has_accounts() -> bool:
    """Return True if the accounts have today's tables: `init_drive` or the web process makes them."""
    return "triage_firstadmincode" in connection.introspection.table_names()


@contextmanager
def watched(worker: Worker) -> Generator[None]:
    with ExitStack() as ends:
        _listen_until_end(worker.measures.called, ends)
        if settings.OTLP_ENDPOINT:
            traces = Traces(settings.OTLP_ENDPOINT, settings.OTLP_HEADERS, worker.measures.dollars)
            ends.callback(traces.stop)
            _listen_until_end(traces.called, ends)
        if settings.OPS_BIND:
            worker.measures.registry.register(_make_collector(worker))
            server = serve(settings.OPS_BIND, worker.measures.registry)
            if server is not None:
                ends.callback(server.stop)
        if settings.LABELER_BIND:
            labels = LabelServer(label_config())
            labels.start()
            ends.callback(labels.stop)
        yield


def _listen_until_end(listener: Listener, ends: ExitStack) -> None:
    listen(listener)
    ends.callback(stop_listening, listener)


def _make_collector(worker: Worker) -> WorkerCollector:
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
            asks_declared=settings.ASK_DECLARED,
            ending=worker.consumer.stop_flag.is_set,
        )
    )
