"""`manage.py digest`: one hash a table, the same for equal content however it arrived."""

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.store.digest import digest
from ingest.store.snapshots import SnapshotReader


class Command(BaseCommand):
    """Reads the newest snapshot of the drive's store, of the demo's or of a replay's."""

    help = "Print one hash a table of the newest snapshot."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the store's options; trustsite.drive chose the place itself from the same words."""
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--demo", action="store_true", help="the demo's store")
        which.add_argument("--replay", metavar="DIR", help="the store that a replay of DIR keeps")

    def handle(self, *args: object, **options: object) -> None:
        with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
            if snapshot is None:
                raise CommandError(
                    "Nothing was published there yet: run the worker, demo or replay first.", returncode=2
                )
            for table, value in digest(snapshot).items():
                self.stdout.write(f"{value}  {table}")
