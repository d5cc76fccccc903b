"""`manage.py import_osv`: import advisories on packages from the records that OSV and its databases publish."""

from pathlib import Path

from django.core.management.base import BaseCommand, CommandError, CommandParser

from trustsite.worker.handover import hand_over_job

SILENT_SECONDS = 120.0  # between two messages, of 500 records each


class Command(BaseCommand):
    """Make the owner of the store import OSV records; pull requests are checked against them without a network."""

    help = (
        "Import OSV records (JSON, or the YAML of PyPA) from a folder or a zip file, such as an ecosystem's all.zip. "
        "Doing it again replaces what changed; withdrawn advisories go."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("source", metavar="DIR_OR_ZIP", type=Path, help="a folder or a zip file of records")
        parser.add_argument("--replace", action="store_true", help="remove advisories that it does not name")

    def handle(self, *args: object, source: Path, replace: bool, **options: object) -> None:
        if not source.exists():
            raise CommandError(f"{source} does not exist: name a folder or a zip file of OSV records.")
        arguments = {"source": str(source.resolve()), "replace": replace}
        result = hand_over_job(
            "import_osv", arguments, lambda progress: self.stderr.write(progress["step"]), SILENT_SECONDS
        )
        for problem in result["problems"]:
            self.stderr.write(f"Left out {problem}.")
        self.stdout.write(
            f"{result['read']} records read: {result['kept']} kept, {result['withdrawn']} withdrawn, "
            f"{result['others']} not looked up here, {result['unusable']} unusable; {result['removed']} "
            "older ones let go."
        )
