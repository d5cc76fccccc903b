"""`manage.py verify_assessment`: say what a published assessment claims, and what of it can be proven."""

from contextlib import closing
from datetime import UTC, datetime

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.http.fetcher import Fetcher
from scoring.certificates.certificate import FILE_LIMIT
from scoring.pipeline.lane_thresholds import CERTIFICATES
from triage.services.publishing.verifying import Verifier

MARKS = {"yes": "yes", "no": "NO", "unknown": "not known"}


class Command(BaseCommand):
    """Fetch the record, its proof and the pull request; change nothing."""

    help = (
        "Fetch an assessment that any site of Sunstead published, with the proof of its repository, and say in words "
        "what was claimed, by whom, of which version, and whether the certificate that it names recomputes. Exit "
        "status 0: it is proven; 1: it is not, or its certificate does not recompute; 2: its servers do not answer."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("uri", metavar="AT-URI", help="at://DID/org.sunstead.assessment/KEY")

    def handle(self, *args: object, uri: str, **options: object) -> None:
        """Print what was found. Raises CommandError where it is not proven."""
        with closing(Fetcher(settings.STAND_IN_ORIGIN, settings.FETCH_TIMEOUT_SECONDS)) as fetcher:
            verifier = Verifier(
                fetcher,
                settings.PLC_URL,
                settings.MODEL_DIR / CERTIFICATES,
                datetime.now(UTC).replace(tzinfo=None),
                FILE_LIMIT,
                frozenset(settings.PEERS),
            )
            found = verifier.verify(uri)
        if found.is_proven is None:
            raise CommandError(found.answer, returncode=2)
        if not found.is_proven:
            raise CommandError(found.answer)
        self.stdout.write(found.answer)
        self.stdout.write("It says:")
        for name, words in found.claims:
            self.stdout.write(f"  {name}: {words}")
        self.stdout.write("Checked:")
        for check in found.checks:
            self.stdout.write(f"  {check.name}: {MARKS[check.state]}. {check.words}")
        if any(check.name == "Certificate" and check.state == "no" for check in found.checks):
            raise CommandError("The certificate that it names does not recompute.")
