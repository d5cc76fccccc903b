"""`manage.py compact`: rewrite store, accounts and queue without the room of deleted rows."""

import sqlite3
from contextlib import closing
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from trustsite.worker.handover import hand_over_job, places_from_settings

SILENT_SECONDS = 600.0  # without progress: rewriting a store of 30 GB takes this long
BUSY_SECONDS = 60.0


class Command(BaseCommand):
    """Make the owner of the store rewrite it, then rewrite the SQLite files."""

    help = "Write the store and the SQLite files anew, compared row by row, and print what that saved."
    requires_system_checks = ()

    def handle(self, *args: object, **options: object) -> None:
        """Print the sizes. Raises CommandError if a file could not be compacted, with that file unchanged."""
        result = hand_over_job("compact", {}, lambda progress: self.stderr.write(progress["step"]), SILENT_SECONDS)
        self._print_sizes(settings.DUCKDB_PATH, result["before"], result["after"])
        for path in (places_from_settings().accounts, settings.QUEUE_PATH):
            if path.is_file():
                self._print_sizes(path, *_compact_sqlite(path))

    def _print_sizes(self, path: Path, before: int, after: int) -> None:
        self.stdout.write(f"{path}: {before / 1e6:,.1f} MB before, {after / 1e6:,.1f} MB after.")


def _compact_sqlite(path: Path) -> tuple[int, int]:
    """Compact a SQLite file while its users wait; return its bytes before and after, including the WAL."""
    before = _file_bytes(path)
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as file:
            file.execute("vacuum")
            file.execute("pragma wal_checkpoint(truncate)").fetchall()
    except sqlite3.Error as problem:
        raise CommandError(f"{path} could not be compacted ({problem}): it is as it was, run this again.") from problem
    return before, _file_bytes(path)


def _file_bytes(path: Path) -> int:
    files = (path, path.with_name(path.name + "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())
