"""`manage.py verify_certificate`: whether a certificate says what its own cases and the store say."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.store.snapshots import SnapshotReader
from scoring.certificates.certificate import (
    ENDING,
    FOLDER_LIMIT,
    Certificate,
    CertificateProblem,
    decode,
    load_certificate,
    read_bytes,
)
from scoring.certificates.verify import compare_with_store, differences, differences_to_previous
from scoring.formatting import bad_percent, percent_in_full


class Command(BaseCommand):
    """Reads one file, the one before it and the newest snapshot; changes nothing."""

    help = (
        "Recompute a certificate from its own cases, and compare them with the store where it has them. Exit status 0: "
        "nothing differs; 1: something does, or it has expired; 2: the file cannot be read."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE", help="a file below MODEL_DIR/certificates, or a copy")
        parser.add_argument("--as-of", type=_moment, metavar="TIME", help="as it would be at that time (default: now)")
        parser.add_argument("--no-store", action="store_true", help="only what follows from the file itself")

    def handle(self, *args: object, file: Path, as_of: datetime | None, no_store: bool, **options: object) -> None:
        """Print what was recomputed; CommandError with every difference."""
        try:
            data = read_bytes(file)
        except CertificateProblem as problem:
            raise CommandError(f"{file} is not a certificate: {problem}.", returncode=2) from problem
        now = as_of or datetime.now(UTC).replace(tzinfo=None)
        found = differences(data, file.name.removesuffix(ENDING), now)
        try:
            told = decode(data)
        except CertificateProblem:
            raise CommandError("\n".join(found)) from None
        found += _of_chain(file, told)
        found += () if no_store else self._of_store(told, now)
        if found:
            raise CommandError("\n".join(found))
        self.stdout.write("\n".join(_words(told)))

    def _of_store(self, told: Certificate, now: datetime) -> list[str]:
        with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
            if snapshot is None:
                return []
            found, compared = compare_with_store(snapshot, told, settings.LABEL_WINDOW_DAYS, now)
        self.stdout.write(f"{compared:,} of its {len(told.cases):,} cases are in the store.")
        return found


def _of_chain(file: Path, told: Certificate) -> list[str]:
    """Return what each file changed of the one before it, back to the first.

    A successor is nothing without what it extends.

    Attempts may lie elsewhere: then the chain is followed as far as it is there.
    """
    for _ in range(FOLDER_LIMIT):
        if told.previous is None:
            first = told.attempt == 1 and not told.later
            return [] if first else ["It names no earlier file, but it is not a first attempt."]
        place = file.with_name(f"{told.previous}{ENDING}")
        if not place.exists():
            return ["The certificate that it extends is missing beside it."] if told.later else []
        try:
            before = load_certificate(place)
        except CertificateProblem as problem:
            return [f"The file before it does not count: {problem}."]
        if found := differences_to_previous(told, before):
            return found
        told = before
    return [f"More than {FOLDER_LIMIT:,} files come before it."]


def _words(told: Certificate) -> Iterator[str]:
    found, budget = told.found, percent_in_full(told.budget)
    if found.threshold is None:
        yield f"It certifies no threshold ({found.why}), from {len(told.cases):,} cases."
    elif told.side == "high":
        yield (
            f"It certifies {percent_in_full(found.threshold)} for a budget of {budget}: {found.k:g} of {found.n:g} "
            f"were bad, by {found.authors:,} authors; the rate is at most {bad_percent(found.bound)}."
        )
    else:
        yield (
            f"It certifies T_LOW {percent_in_full(found.threshold)} for a budget of {budget}: {found.k:g} of "
            f"{found.n:g} clean ones scored lower, by {found.authors:,} authors; the share is at most "
            f"{bad_percent(found.bound)}."
        )
    yield f"Attempt {told.attempt} spent {told.delta_spent:g} of {told.delta:g}; it expires {told.expires_at}."
    if told.note:
        yield f"It was {told.note}."
    if told.later:
        bad, count = sum(one.bad for one in told.later), len(told.later)
        yield f"Since then {count:,} outcomes became known, {bad:g} of them bad."


def _moment(text: str) -> datetime:
    """Naive UTC of an ISO 8601 date or time; ValueError, which argparse words, otherwise."""
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
