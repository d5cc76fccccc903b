"""`manage.py restore DIR`: put a backup's state in the place of this drive's; `--snapshot`: use the newest snapshot."""

from collections.abc import Sequence
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from ingest.backup.manifest import BackupProblem
from ingest.backup.missing_store import restore_snapshot
from ingest.backup.restore import Restored, restore
from ingest.clock import WallClock, wall_now
from ingest.errors import StoreProblem
from ingest.http.fetcher import Fetcher
from ingest.store.archive import adopt
from ingest.store.database import Store
from ingest.store.snapshots import PublishProblem, publish
from ingest.worker.jobs import JOBS, JobProblem
from triage.services.notifying.webhooks import keep_fresh
from trustsite import drive
from trustsite.worker.handover import make_runtime, open_store, places_from_settings


class Command(BaseCommand):
    """Check the backup, move it in, erase people who were erased since, and publish."""

    help = "Restore a backup, or the newest snapshot. It is checked first; the current state is kept aside."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        source = parser.add_mutually_exclusive_group(required=True)
        source.add_argument("folder", metavar="DIR", nargs="?", help="the folder that `manage.py backup` made")
        source.add_argument(
            "--snapshot", action="store_true", help="only the store, from the newest whole snapshot here"
        )
        parser.add_argument("--replace", action="store_true", help="keep the current state aside and replace it")

    def handle(self, *args: object, folder: str | None, replace: bool, **options: object) -> None:
        """Print the result. Raises CommandError in one sentence if nothing was changed, or with the next step."""
        drive.check_ground(settings.PLACE.root)
        if not (settings.PLACE.root / drive.MARKER).is_file():
            raise CommandError("This drive has no mark: run `manage.py init_drive` first.", returncode=2)
        drive.require_store_folder(settings.DUCKDB_PATH, settings.PLACE.root)
        try:
            if folder is None:
                self._restore_snapshot(replace)
            else:
                self._restore_backup(folder, replace)
        except BackupProblem as problem:
            raise CommandError(str(problem), returncode=2) from problem

    def _restore_snapshot(self, replace: bool) -> None:
        restored = restore_snapshot(places_from_settings(), replace, wall_now())
        self.stdout.write(
            f"{restored.snapshot.name} is the store again: the state of {restored.made_at:%Y-%m-%d %H:%M:%S} UTC."
        )
        self._tell_of_aside(restored.aside)
        if restored.lost:
            found_rows, rows = (
                sum(lost_file.found for lost_file in restored.lost),
                sum(lost_file.rows for lost_file in restored.lost),
            )
            self.stdout.write(
                f"{len(restored.lost)} files of the archive that the snapshot names are gone "
                f"({', '.join(lost_file.name for lost_file in restored.lost[:3])}): "
                f"{found_rows:,} of their {rows:,} rows were found in later files and written again."
            )
        if restored.unknown:
            self.stdout.write(
                "The former file could not be read. People erased after the snapshot was made are in it again: erase "
                "them once more (`manage.py erase_contributor`)."
            )
        self._take_over(restored.erase)
        self.stdout.write("Published. Start the worker: it continues from there and applies what people decided since.")

    def _restore_backup(self, folder: str, replace: bool) -> None:
        restored = restore(Path(folder).absolute(), places_from_settings(), replace, wall_now())
        call_command("migrate", verbosity=0, interactive=False)
        self._tell(folder, restored)
        self._tell_of_webhook()
        self._take_over(restored.erase)
        self.stdout.write("Published. Start worker and web: the worker reads on from there; everybody signs in again.")

    def _tell_of_aside(self, aside: Path | None) -> None:
        if aside:
            self.stdout.write(f"What was here lies in {aside}: delete it once it is not needed any more.")

    def _tell(self, folder: str, restored: Restored) -> None:
        manifest = restored.manifest
        self.stdout.write(f"{folder} is restored: the state of {manifest.made_at:%Y-%m-%d %H:%M:%S} UTC.")
        self._tell_of_aside(restored.aside)
        if not any(name.startswith("keys/") for name in manifest.files):
            self.stdout.write("The backup holds no keys: those of this drive stay.")
        if restored.unknown:
            self.stdout.write(
                "No tombstones of this drive could be read. People erased after the backup was made are in it again: "
                "erase them once more (`manage.py erase_contributor`)."
            )

    def _tell_of_webhook(self) -> None:
        """Report that messages which the backup had not sent go out again under their old id, unless they are old."""
        waiting, expired = keep_fresh(timezone.now())
        if waiting or expired:
            self.stdout.write(
                f"{waiting} messages of the webhook wait and keep their webhook-id, by which a receiver that had them "
                f"drops them; {expired} that are older than a day are not sent."
            )

    def _take_over(self, erase: Sequence[str]) -> None:
        """Own the restored store: find the archive, erase these people, publish."""
        try:
            store = open_store()
        except StoreProblem as problem:
            raise CommandError(f"It is restored, but cannot be opened: {problem}") from problem
        try:
            adopt(store, settings.STAGING_DIR)
            self._erase(store, erase)
            publish(store, settings.SNAPSHOT_DIR)
        except (StoreProblem, JobProblem, PublishProblem) as problem:
            raise CommandError(f"It is restored; the next worker goes on with this: {problem}") from problem
        finally:
            store.close()

    def _erase(self, store: Store, erase: Sequence[str]) -> None:
        """Erase people who were erased between the backup or snapshot and now."""
        if not erase:
            return
        fetcher = Fetcher(settings.STAND_IN_ORIGIN, settings.FETCH_TIMEOUT_SECONDS)
        try:
            runtime = make_runtime(store, fetcher, WallClock())
            for did in erase:
                JOBS["erase"](runtime, {"did": did}, lambda progress: None)
        finally:
            fetcher.close()
        self.stdout.write(f"{len(erase)} who were erased after the backup was made were erased from it again.")
