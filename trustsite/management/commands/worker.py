"""`manage.py worker`: the process that owns the store."""

from django.core.management.base import BaseCommand, CommandError

from ingest.errors import StoreProblem
from trustsite.logs import keep_log
from trustsite.worker.watch import watched
from trustsite.worker.worker import Worker, stream_from_settings


class Command(BaseCommand):
    """Listens, derives, asks the network, scores and publishes until SIGTERM or Ctrl-C."""

    help = "Run the worker: it owns the store, listens to the stream, scores and publishes."
    requires_system_checks = ()

    def handle(self, *args: object, **options: object) -> None:
        """Work until stopped; CommandError where the store cannot be owned."""
        try:
            worker = Worker(stream_from_settings())
        except StoreProblem as problem:
            raise CommandError(str(problem), returncode=2) from problem
        keep_log("worker")
        try:
            with watched(worker):
                worker.run()
        except StoreProblem as problem:
            raise CommandError(f"Stopped. The next start continues. {problem}", returncode=2) from problem
