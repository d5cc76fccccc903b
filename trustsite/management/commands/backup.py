"""`manage.py backup`: write the whole state of one moment to a folder, while worker and web go on."""

import logging
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.backup.manifest import BackupProblem, told_of, write_backup
from trustsite.worker.handover import hand_over_job, places_from_settings

log = logging.getLogger(__name__)
SILENT_SECONDS = 600.0  # without progress: copying a store of 30 GB takes this long


class Command(BaseCommand):
    """Make the owner of the store copy the parts that must agree, copy the rest, and check all of it."""

    help = "Write a backup: store, archived events, accounts, models and diffs of one moment, checked after writing."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", metavar="DIR", nargs="?", help="a new folder; without it, one in BACKUP_DIR")
        parser.add_argument("--with-keys", action="store_true", help="also the drive's keys: keep such a backup secret")
        parser.add_argument("--no-diffs", action="store_true", help="without the diffs of pull requests")

    def handle(self, *args: object, folder: str | None, with_keys: bool, no_diffs: bool, **options: object) -> None:
        """Print the folder and its contents. Raises CommandError, and leaves nothing behind, if it failed."""
        name = f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%SZ}"
        target = Path(folder).absolute() if folder else settings.BACKUP_DIR / name
        places = places_from_settings()
        try:
            manifest = write_backup(target, places, self._copy_state, diffs=not no_diffs, keys=with_keys)
        except BackupProblem as problem:
            raise CommandError(str(problem), returncode=2) from problem
        self.stdout.write(told_of(manifest, target))
        if not with_keys:
            self.stdout.write(
                f"It holds no keys. Keep a copy of {places.keys} elsewhere: after an erasure you need it to restore "
                "on another drive."
            )

    def _copy_state(self, part: Path) -> dict[str, object]:
        arguments = {"folder": str(part), "accounts": str(places_from_settings().accounts)}
        result = hand_over_job(
            "copy_state", arguments, lambda progress: self.stderr.write(progress["step"]), SILENT_SECONDS
        )
        return dict(result)
