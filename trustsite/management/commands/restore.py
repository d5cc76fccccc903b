"""`manage.py restore DIR`: the state of a backup in the place of this drive's; `--snapshot`: the newest snapshot."""

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
from triage.services.webhooks import keep_fresh
from trustsite import drive
from trustsite.worker.handover import make_runtime, open_store, places_from_settings


class Command(BaseCommand):
    """Checks the backup, moves it in, erases whoever was erased since, and publishes."""

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
        """Print what was done; CommandError in one sentence where nothing was changed, or what to do to go on."""
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
        done = restore_snapshot(places_from_settings(), replace, wall_now())
        self.stdout.write(
            f"{done.snapshot.name} is the store again: the state of {done.made_at:%Y-%m-%d %H:%M:%S} UTC."
        )
        self._tell_of_aside(done.aside)
        if done.lost:
            found, rows = sum(one.found for one in done.lost), sum(one.rows for one in done.lost)
            self.stdout.write(
                f"{len(done.lost)} files of the archive that the snapshot names are gone "
                f"({', '.join(one.name for one in done.lost[:3])}): {found:,} of their {rows:,} rows were found in "
                "later files and written again."
            )
        if done.unknown:
            self.stdout.write(
                "The former file could not be read. People erased after the snapshot was made are in it again: erase "
                "them once more (`manage.py erase_contributor`)."
            )
        self._take_over(done.erase)
        self.stdout.write("Published. Start the worker: it continues from there and applies what people decided since.")

    def _restore_backup(self, folder: str, replace: bool) -> None:
        done = restore(Path(folder).absolute(), places_from_settings(), replace, wall_now())
        call_command("migrate", verbosity=0, interactive=False)
        self._tell(folder, done)
        self._tell_of_webhook()
        self._take_over(done.erase)
        self.stdout.write("Published. Start worker and web: the worker reads on from there; everybody signs in again.")

    def _tell_of_aside(self, aside: Path | None) -> None:
        if aside:
            self.stdout.write(f"What was here lies in {aside}: delete it once it is not needed any more.")

    def _tell(self, folder: str, done: Restored) -> None:
        manifest = done.manifest
        self.stdout.write(f"{folder} is restored: the state of {manifest.made_at:%Y-%m-%d %H:%M:%S} UTC.")
        self._tell_of_aside(done.aside)
        if not any(name.startswith("keys/") for name in manifest.files):
            self.stdout.write("The backup holds no keys: those of this drive stay.")
        if done.unknown:
            self.stdout.write(
                "No tombstones of this drive could be read. People erased after the backup was made are in it again: "
                "erase them once more (`manage.py erase_contributor`)."
            )

    def _tell_of_webhook(self) -> None:
        """Say that messages which the backup had not sent go out again under their old id, unless they are old."""
        waiting, old = keep_fresh(timezone.now())
        if waiting or old:
            self.stdout.write(
                f"{waiting} messages of the webhook wait and keep their webhook-id, by which a receiver that had them "
                f"drops them; {old} that are older than a day are not sent."
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
        """Erase whoever was erased between the backup or snapshot and now."""
        if not erase:
            return
        fetcher = Fetcher(settings.STAND_IN_ORIGIN, settings.FETCH_TIMEOUT_SECONDS)
        try:
            runtime = make_runtime(store, fetcher, WallClock())
            for did in erase:
                JOBS["erase"](runtime, {"did": did}, lambda told: None)
        finally:
            fetcher.close()
        self.stdout.write(f"{len(erase)} who were erased after the backup was made were erased from it again.")
