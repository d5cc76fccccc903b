"""`manage.py verify_certificate`: compare a certificate with its own cases and the store."""

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
    """Read one file, the one before it and the newest snapshot; change nothing."""

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
        """Print the recomputed values. Raises CommandError with every difference."""
        try:
            data = read_bytes(file)
        except CertificateProblem as problem:
            raise CommandError(f"{file} is not a certificate: {problem}.", returncode=2) from problem
        now = as_of or datetime.now(UTC).replace(tzinfo=None)
        problems = differences(data, file.name.removesuffix(ENDING), now)
        try:
            certificate = decode(data)
        except CertificateProblem:
            raise CommandError("\n".join(problems)) from None
        problems += _check_chain(file, certificate)
        problems += () if no_store else self._compare_store(certificate, now)
        if problems:
            raise CommandError("\n".join(problems))
        self.stdout.write("\n".join(_describe(certificate)))

    def _compare_store(self, certificate: Certificate, now: datetime) -> list[str]:
        with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
            if snapshot is None:
                return []
            problems, compared = compare_with_store(snapshot, certificate, settings.LABEL_WINDOW_DAYS, now)
        self.stdout.write(f"{compared:,} of its {len(certificate.cases):,} cases are in the store.")
        return problems


def _check_chain(file: Path, certificate: Certificate) -> list[str]:
    """Return how each file contradicts the one before it, back to the first.

    A successor is only valid together with the certificate that it extends. Attempts may lie elsewhere: then the chain
    is followed as far as its files are there.
    """
    for _ in range(FOLDER_LIMIT):
        if certificate.previous is None:
            first = certificate.attempt == 1 and not certificate.later
            return [] if first else ["It names no earlier file, but it is not a first attempt."]
        place = file.with_name(f"{certificate.previous}{ENDING}")
        if not place.exists():
            return ["The certificate that it extends is missing beside it."] if certificate.later else []
        try:
            previous = load_certificate(place)
        except CertificateProblem as problem:
            return [f"The file before it does not count: {problem}."]
        if problems := differences_to_previous(certificate, previous):
            return problems
        certificate = previous
    return [f"More than {FOLDER_LIMIT:,} files come before it."]


def _describe(certificate: Certificate) -> Iterator[str]:
    result, budget = certificate.found, percent_in_full(certificate.budget)
    if result.threshold is None:
        yield f"It certifies no threshold ({result.why}), from {len(certificate.cases):,} cases."
    elif certificate.side == "high":
        yield (
            f"It certifies {percent_in_full(result.threshold)} for a budget of {budget}: {result.k:g} of {result.n:g} "
            f"were bad, by {result.authors:,} authors; the rate is at most {bad_percent(result.bound)}."
        )
    else:
        yield (
            f"It certifies T_LOW {percent_in_full(result.threshold)} for a budget of {budget}: {result.k:g} of "
            f"{result.n:g} clean ones scored lower, by {result.authors:,} authors; the share is at most "
            f"{bad_percent(result.bound)}."
        )
    yield (
        f"Attempt {certificate.attempt} spent {certificate.delta_spent:g} of {certificate.delta:g}; it expires "
        f"{certificate.expires_at}."
    )
    if certificate.note:
        yield f"It was {certificate.note}."
    if certificate.later:
        bad, count = sum(outcome.bad for outcome in certificate.later), len(certificate.later)
        yield f"Since then {count:,} outcomes became known, {bad:g} of them bad."


def _moment(text: str) -> datetime:
    """Parse an ISO 8601 date or time as naive UTC. Raises ValueError, which argparse turns into a message."""
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
