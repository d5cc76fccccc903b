"""`manage.py digest`: print one hash a table; equal content gives equal hashes, however it arrived."""

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.store.digest import digest
from ingest.store.snapshots import SnapshotReader


class Command(BaseCommand):
    """Read the newest snapshot of the drive's store, of the demo's or of a replay's."""

    help = "Print one hash a table of the newest snapshot."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the store's options; trustsite.drive has already chosen the place from these arguments."""
        group = parser.add_mutually_exclusive_group()
        group.add_argument("--demo", action="store_true", help="the demo's store")
        group.add_argument("--replay", metavar="DIR", help="the store that a replay of DIR keeps")

    def handle(self, *args: object, **options: object) -> None:
        with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
            if snapshot is None:
                raise CommandError(
                    "Nothing was published there yet: run the worker, demo or replay first.", returncode=2
                )
            for table, value in digest(snapshot).items():
                self.stdout.write(f"{value}  {table}")
