"""`manage.py import_history`: past pull requests of another forge, so that a project that moves keeps its record."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from trustsite.worker.handover import hand_over_job

SILENT_SECONDS = 300.0  # between two words: 65,536 rows each, then the checks and the writing of up to 2,000,000


class Command(BaseCommand):
    """Has the owner of the store take a file of past pull requests, or let go of one taken before."""

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
        """Print what was taken or removed; CommandError in one sentence where it could not be done."""
        if (file is None) == (remove is None):
            raise CommandError("Name a FILE to take, or --remove SOURCE.")
        if file is None:
            done = hand_over_job("remove_history", {"source": remove}, silent_seconds=SILENT_SECONDS)
            self.stdout.write(f"{done['removed']} pull requests of {remove} removed.")
            return
        for path in filter(None, (file, identities)):
            if not path.is_file():
                raise CommandError(f"{path} does not exist: name a file.")
        wanted = {
            "path": str(file.resolve()),
            "identities": str(identities.resolve()) if identities else None,
            "source": source or file.stem,
        }
        done = hand_over_job("import_history", wanted, lambda told: self.stderr.write(told["step"]), SILENT_SECONDS)
        for line in summary(done):
            self.stdout.write(line)


def summary(done: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"{done['source']}: {done['pulls']} pull requests in {done['repositories']} projects by {done['people']} "
        f"people: {done['merged']} merged, {done['refused']} refused, {done['open']} open; {done['left_out']} of bots "
        "or unusable count in no figure."
    )
    if done["tied"]:
        yield f"{done['tied']} people are tied to a DID: {done['tied_pulls']} pull requests are part of their record."
    else:
        yield "No author has a DID (see --identities). They train and calibrate the model only."
    if done["pulls"]:
        share = done["checks_unknown"] / done["pulls"]
        yield f"The result of the checks is unknown for {share:.0%} of them, which counts as unknown and not as failed."
    if done["moved"]:
        yield f"{done['moved']} were merged before they were opened. Their merge counts from the opening."
    if done["erased"]:
        yield f"{done['erased']} belong to erased people, and were left out."
    if done["leaking"]:
        yield f"Ignored, because they follow from the outcome: {', '.join(done['leaking'])}."
    if done["unused"]:
        yield f"Columns that are not used: {', '.join(done['unused'])}."
