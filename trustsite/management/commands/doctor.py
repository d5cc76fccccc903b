"""`manage.py doctor`: one line for each thing that may be wrong, `ok` or what to do."""

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
from trustsite.doctor import CHECKS, Check, Finding, Patient, examine, peer_checks
from trustsite.worker.handover import places_from_settings


class Command(BaseCommand):
    """Looks at everything, changes nothing, and needs neither worker nor drive to say what is wrong."""

    help = "Look at drive, store, snapshots, queue, clock, keys, models and settings: one line each, ok or what to do."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--network", action="store_true", help="also ask the servers that this site depends on")
        parser.add_argument("--json", action="store_true", help="print one object")

    def handle(self, *args: object, network: bool, **options: object) -> None:
        """Print the findings; exit status 1 where one is not ok."""
        with closing(Fetcher(settings.STAND_IN_ORIGIN, settings.FETCH_TIMEOUT_SECONDS)) as fetcher:
            chosen = {name: getattr(settings, name) for name in dir(settings) if name.isupper()}
            checks: list[tuple[str, Check]] = [*CHECKS, *(peer_checks(chosen, fetcher) if network else ())]
            status = read_status(settings.STATUS_PATH)
            found = examine(Patient(places_from_settings(), status, wall_now(), chosen), checks)
        self._print(found, bool(options["json"]))
        if not all(one.ok for one in found):
            sys.exit(1)

    def _print(self, found: Sequence[Finding], as_json: bool) -> None:
        if as_json:
            findings = [asdict(one) for one in found]
            self.stdout.write(json.dumps({"ok": all(one.ok for one in found), "findings": findings}))
            return
        for one in found:
            mark = self.style.SUCCESS("ok   ") if one.ok else self.style.WARNING("look ")
            self.stdout.write(f"{mark} {one.name:<13} {one.told}")
