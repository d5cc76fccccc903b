"""`manage.py check_pins`: check if the packages that Sunstead is built from have become unsafe."""

from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.store.snapshots import SnapshotReader
from scoring.formatting import visible
from scoring.packages.entry import Package
from scoring.review.pins import PinProblem, count_advisories, read_pins, unsafe_pins

PINS = settings.BASE_DIR / "requirements" / "base.txt"
EMPTY = "No advisory on a package of Python was imported: run `manage.py import_osv` with the all.zip of PyPI first."


class Command(BaseCommand):
    """Look every pin up in the imported OSV records of the newest snapshot; ask no server."""

    help = (
        "Look the pinned packages up in the OSV records that `manage.py import_osv` took. Exit status 0: none is "
        "affected; 1: some are; 2: there is nothing to look them up in."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pins", metavar="FILE", type=Path, default=PINS, help="default: requirements/base.txt")

    def handle(self, *args: object, pins: Path, **options: object) -> None:
        """Print a line an advisory. Raises CommandError: 1 if there is any, 2 if the check is impossible."""
        packages = _read_packages(pins)
        with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
            advisory_count = count_advisories(snapshot) if snapshot else 0
            if snapshot is None or not advisory_count:
                raise CommandError(EMPTY, returncode=2)
            unsafe = unsafe_pins(snapshot, packages)
        for pin in unsafe:
            for advisory in pin.advisories:
                description = f"{advisory.id} ({advisory.severity or 'severity unknown'}): {visible(advisory.summary)}"
                self.stdout.write(f"{pin.package.name} {pin.package.version}: {description} {advisory.url}")
        if unsafe:
            raise CommandError(f"{len(unsafe)} of {len(packages)} pinned packages fall under an advisory: update them.")
        self.stdout.write(f"None of {len(packages)} pinned packages falls under one of {advisory_count:,} advisories.")


def _read_packages(pins: Path) -> tuple[Package, ...]:
    try:
        return read_pins(pins.read_text())
    except (OSError, UnicodeDecodeError, PinProblem) as problem:
        raise CommandError(f"{pins} holds no pins that can be read: {problem}", returncode=2) from problem
