"""`manage.py import_history`: import past pull requests of another forge, so that a project that moves has its
record.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from trustsite.worker.handover import hand_over_job

SILENT_SECONDS = 300.0  # between two messages: 65,536 rows each, then the checks and writing of up to 2,000,000


class Command(BaseCommand):
    """Make the owner of the store import a file of past pull requests, or remove an earlier import."""

    help = (
        "Take past pull requests from a Parquet or CSV file (docs/history.md lists the columns). Doing it again "
        "replaces what the same source held."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", type=Path, nargs="?", help="Parquet, or CSV by its ending")
        parser.add_argument(
            "--identities", metavar="FILE", type=Path, help="who its authors are: CSV or JSON of author and did"
        )
        parser.add_argument("--source", metavar="NAME", help="what to call it (default: the name of the file)")
        parser.add_argument("--remove", metavar="SOURCE", help="remove everything that was imported under this name")

    def handle(
        self,
        *args: object,
        file: Path | None,
        identities: Path | None,
        source: str | None,
        remove: str | None,
        **options: object,
    ) -> None:
        """Print how much was imported or removed. Raises CommandError in one sentence if that was impossible."""
        if (file is None) == (remove is None):
            raise CommandError("Name a FILE to take, or --remove SOURCE.")
        if file is None:
            result = hand_over_job("remove_history", {"source": remove}, silent_seconds=SILENT_SECONDS)
            self.stdout.write(f"{result['removed']} pull requests of {remove} removed.")
            return
        for path in filter(None, (file, identities)):
            if not path.is_file():
                raise CommandError(f"{path} does not exist: name a file.")
        arguments = {
            "path": str(file.resolve()),
            "identities": str(identities.resolve()) if identities else None,
            "source": source or file.stem,
        }
        result = hand_over_job(
            "import_history", arguments, lambda progress: self.stderr.write(progress["step"]), SILENT_SECONDS
        )
        for line in summary(result):
            self.stdout.write(line)


def summary(result: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"{result['source']}: {result['pulls']} pull requests in {result['repositories']} projects by "
        f"{result['people']} people: {result['merged']} merged, {result['refused']} refused, {result['open']} open; "
        f"{result['left_out']} of bots or unusable count in no figure."
    )
    if result["tied"]:
        yield (
            f"{result['tied']} people are tied to a DID: {result['tied_pulls']} pull requests are part of their record."
        )
    else:
        yield "No author has a DID (see --identities). They train and calibrate the model only."
    if result["pulls"]:
        share = result["checks_unknown"] / result["pulls"]
        yield f"The result of the checks is unknown for {share:.0%} of them, which counts as unknown and not as failed."
    if result["moved"]:
        yield f"{result['moved']} were merged before they were opened. Their merge counts from the opening."
    if result["erased"]:
        yield f"{result['erased']} belong to erased people, and were left out."
    if result["leaking"]:
        yield f"Ignored, because they follow from the outcome: {', '.join(result['leaking'])}."
    if result["unused"]:
        yield f"Columns that are not used: {', '.join(result['unused'])}."
