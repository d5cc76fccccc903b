"""`manage.py doctor`: print one line for each possible problem, `ok` or what to do."""

import json
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from ingest.clock import wall_now
from ingest.http.fetcher import Fetcher
from ingest.worker.status import read_status
from triage.access.oauth.published import check_documents
from trustsite.doctor import CHECKS, Check, Finding, Patient, examine, peer_checks
from trustsite.labels import labels_check
from trustsite.publishing import publishing_check
from trustsite.worker.handover import places_from_settings


class Command(BaseCommand):
    """Check everything and change nothing; it works without worker or drive."""

    help = "Look at drive, store, snapshots, queue, clock, keys, models and settings: one line each, ok or what to do."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--network", action="store_true", help="also ask the servers that this site depends on, and itself"
        )
        parser.add_argument("--json", action="store_true", help="print one object")

    def handle(self, *args: object, network: bool, **options: object) -> None:
        """Print the findings; exit with status 1 if one is not ok."""
        with closing(Fetcher(settings.STAND_IN_ORIGIN, settings.FETCH_TIMEOUT_SECONDS)) as fetcher:
            setting_values = {name: getattr(settings, name) for name in dir(settings) if name.isupper()}
            checks: list[tuple[str, Check]] = [
                *CHECKS,
                ("labels", labels_check(fetcher, network)),
                ("publishing", publishing_check(fetcher, network)),
                *(peer_checks(setting_values, fetcher) if network else ()),
            ]
            if network and settings.PUBLIC_ORIGIN:
                checks.append(("public_origin", lambda _: check_documents(settings.PUBLIC_ORIGIN, fetcher)))
            status = read_status(settings.STATUS_PATH)
            findings = examine(Patient(places_from_settings(), status, wall_now(), setting_values), checks)
        self._print(findings, bool(options["json"]))
        if not all(finding.ok for finding in findings):
            sys.exit(1)

    def _print(self, results: Sequence[Finding], as_json: bool) -> None:
        if as_json:
            findings = [asdict(result) for result in results]
            self.stdout.write(json.dumps({"ok": all(result.ok for result in results), "findings": findings}))
            return
        for result in results:
            mark = self.style.SUCCESS("ok   ") if result.ok else self.style.WARNING("look ")
            self.stdout.write(f"{mark} {result.name:<13} {result.told}")
