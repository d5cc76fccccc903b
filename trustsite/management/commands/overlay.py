"""`manage.py overlay`: write the browser extension as one file."""

from hashlib import sha256
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError, CommandParser

from triage.services.overlay import ARCHIVE, archive


class Command(BaseCommand):
    """Write the file that `/overlay` serves; it needs neither a drive nor the network."""

    help = "Write the browser extension as a zip. The same sources give the same bytes on every machine."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        what = "the file to write, by default %(default)s in this folder"
        parser.add_argument("file", type=Path, nargs="?", default=Path(ARCHIVE), metavar="FILE", help=what)

    def handle(self, *args: object, file: Path, **options: object) -> None:
        """Write it and tell its hash. Raises CommandError where it cannot be written."""
        data = archive()
        try:
            file.write_bytes(data)
        except OSError as problem:
            raise CommandError(f"{file} cannot be written: {problem.strerror}.") from problem
        self.stdout.write(f"{file}: {len(data):,} bytes, SHA-256 {sha256(data).hexdigest()}")
