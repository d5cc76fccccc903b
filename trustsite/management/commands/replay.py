"""`manage.py replay DIR`: run a recorded stream through the real worker."""

import json
import time
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.store.archive import COUNT
from ingest.store.transaction import Rows
from trustsite.demo.recorded import (
    REPORTS,
    offer_busiest,
    open_worker,
    progress_bar,
    reports_beside,
    run_beside,
    serve_beside,
    wait_until_settled,
)
from trustsite.drive import replay_place
from trustsite.standins import StandIns
from trustsite.standins.recording import Recording, RecordingProblem, open_recording
from trustsite.worker.worker import Worker

COUNTS = {
    "pull_requests": "pull_requests",
    "statuses": "statuses",
    "vouches": "vouches where superseded_at is null and kind = 'vouch'",
    "denounces": "vouches where superseded_at is null and kind = 'denounce'",
    "repositories": "repositories where owner_id is not null",
    "contributors": "contributors where first_seen_at is not null",
    "scored": "current_scores where repository_id = 0",
    "dead_letters": "dead_letters",
}


class Command(BaseCommand):
    """Serve a recording on loopback and process it; continue where an earlier run was killed."""

    help = "Replay a recorded stream through the real worker. Prints one line of JSON."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "folder", metavar="DIR", help="frames.ndjson.gz with its blobs, or bare .jsonl/.ndjson frames"
        )
        parser.add_argument("--serve", action="store_true", help="then train a model, and serve the pages until Ctrl-C")

    def handle(self, *args: object, folder: str, serve: bool, **options: object) -> None:
        """Process the recording and print the counts. Raises CommandError in one sentence for an unusable recording."""
        if settings.PLACE.root != replay_place(settings.PLACE.data_root, folder).root:
            raise CommandError("Name the recording first: manage.py replay DIR [--serve].", returncode=2)
        try:
            recording = open_recording(Path(folder))
        except RecordingProblem as problem:
            raise CommandError(str(problem), returncode=2) from problem
        settings.WATCH_EVERYTHING = True
        settings.WHOLE_STREAM = True
        with StandIns(recording) as peers:
            worker = open_worker(peers, recording, f"replay:{recording.fingerprint}", ())
            run_beside(worker, lambda: self._follow(worker, recording, Path(folder) if serve else None))

    def _follow(self, worker: Worker, recording: Recording, folder: Path | None) -> None:
        began = time.monotonic()
        with progress_bar(worker, recording) as show:
            wait_until_settled(worker, show)
        with worker.store.read() as rows:
            counts = summary(rows)
        self.stdout.write(json.dumps(counts | {"seconds": round(time.monotonic() - began, 1)}))
        if folder:
            worker.publisher.publish_now()
            call_command("migrate", verbosity=0, interactive=False)
            with worker.store.read() as rows:
                offered = offer_busiest(rows)
            self.stderr.write(f"Serving on http://{settings.BIND} until Ctrl-C; {offered}.")
            commands = ("train", *REPORTS) if settings.TRAIN_DAYS else REPORTS
            with reports_beside("--replay", str(folder), commands=commands):
                serve_beside(worker.consumer.stop_flag)


def summary(rows: Rows) -> dict[str, int]:
    """Return the counts of the store's contents, and of the present vouches and denounces, whatever their age."""
    counts = {name: rows.value(f"select count(*) from {where}") for name, where in COUNTS.items()}
    return {"events": rows.value(COUNT)} | counts
