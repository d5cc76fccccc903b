"""`manage.py compact`: store, accounts and queue written anew, without the room of what was deleted."""

import sqlite3
from contextlib import closing
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from trustsite.worker.handover import hand_over_job, places_from_settings

SILENT_SECONDS = 600.0  # without a word: writing a store of 30 GB anew takes this long
BUSY_SECONDS = 60.0


class Command(BaseCommand):
    """Has the owner of the store write it anew, then does the same with the SQLite files."""

    help = "Write the store and the SQLite files anew, compared row by row, and print what that saved."
    requires_system_checks = ()

    def handle(self, *args: object, **options: object) -> None:
        """Print the sizes; CommandError in one sentence where something could not be done, with the file as it was."""
        done = hand_over_job("compact", {}, lambda told: self.stderr.write(told["step"]), SILENT_SECONDS)
        self._told(settings.DUCKDB_PATH, done["before"], done["after"])
        for path in (places_from_settings().accounts, settings.QUEUE_PATH):
            if path.is_file():
                self._told(path, *_vacuumed(path))

    def _told(self, path: Path, before: int, after: int) -> None:
        self.stdout.write(f"{path}: {before / 1e6:,.1f} MB before, {after / 1e6:,.1f} MB after.")


def _vacuumed(path: Path) -> tuple[int, int]:
    """Bytes before and after, with what waits beside the file; whoever uses it waits meanwhile."""
    before = _bytes(path)
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as file:
            file.execute("vacuum")
            file.execute("pragma wal_checkpoint(truncate)").fetchall()
    except sqlite3.Error as problem:
        raise CommandError(f"{path} could not be compacted ({problem}): it is as it was, run this again.") from problem
    return before, _bytes(path)


def _bytes(path: Path) -> int:
    files = (path, path.with_name(path.name + "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())
