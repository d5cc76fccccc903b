"""`manage.py erase_contributor`: erase everything about one person, to the last byte."""

import sys
from collections.abc import Mapping

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.backup.manifest import backups
from ingest.erasure.rows import find_names, held_rows
from ingest.store.snapshots import Snapshot, SnapshotReader
from triage.models import Maintainer, Person
from triage.services.publishing.records import count_records
from trustsite.command_line import held_did
from trustsite.worker.handover import hand_over_job

SILENT_SECONDS = 600.0  # without progress: rewriting a store of 30 GB takes this long


class Command(BaseCommand):
    """Print the stored data's counts, ask, then make the worker erase it, or erase it here if none runs."""

    help = "Erase all data about a person, and keep the stream from bringing it back."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("who", metavar="DID|HANDLE", help="for example did:plc:… or ana.example.com")
        parser.add_argument("--yes", action="store_true", help="do not ask")
        parser.add_argument("--yes-maintainer", action="store_true", help="also where they maintain repositories here")

    def handle(self, *args: object, who: str, yes: bool, yes_maintainer: bool, **options: object) -> None:
        """Erase. Raises CommandError in one sentence if there are no data, nobody agreed or a step failed."""
        call_command("migrate", verbosity=0, interactive=False)
        with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
            did = held_did(who, snapshot)
            counts = _count_rows(did, snapshot)
            if _is_maintainer(did, snapshot) and not yes_maintainer:
                raise CommandError(
                    f"{did} maintains repositories here, whose trust begins with them: "
                    "name another maintainer first, then add --yes-maintainer.",
                    returncode=2,
                )
        self._tell(did, counts)
        if not yes:
            self._ask()
        result = hand_over_job(
            "erase", {"did": did}, lambda progress: self.stderr.write(progress["step"]), SILENT_SECONDS
        )
        self.stdout.write(
            f"Erased: {result['rows']} rows, {result['files']} files, {result['others']} rows of queue and accounts."
        )
        for sentence in result["kept"]:
            self.stdout.write(sentence)
        if left := count_records().to_delete:
            self.stdout.write(
                f"Public records still to be deleted by the worker: {left:,}. The erasure is complete once "
                "`manage.py service_account --status` says 0."
            )
        self._list_backups()

    def _tell(self, did: str, counts: Mapping[str, int]) -> None:
        self.stderr.write(f"About {did} there are, and will be gone or lose the mention:")
        for name, count in counts.items():
            self.stderr.write(f"  {count:>7} {name}")
        self.stderr.write("Diffs, logs, models, staged records, mirrors and every older snapshot are searched as well.")

    def _ask(self) -> None:
        if not sys.stdin.isatty():
            raise CommandError("No terminal to ask on: add --yes.", returncode=2)
        self.stderr.write("This cannot be undone. Type yes to go on: ", ending="")
        if input().strip().lower() != "yes":
            raise CommandError("Nothing was erased.", returncode=2)

    def _list_backups(self) -> None:
        old_backups = backups(settings.BACKUP_DIR, settings.BACKUP_DAYS, settings.ROOT)
        if old_backups:
            self.stdout.write("Older backups hold them until they expire:")
        for backup in old_backups:
            self.stdout.write(f"  {backup.path} (made {backup.made_at:%Y-%m-%d}, expires {backup.expires_at:%Y-%m-%d})")


def _count_rows(did: str, snapshot: Snapshot | None) -> dict[str, int]:
    """Return how many rows of each table name the person. Raises CommandError if none does."""
    rows_by_table = held_rows(snapshot, *find_names(snapshot, did)) if snapshot else ()
    counts = {name: len(rows) for name, rows in rows_by_table}
    counts |= {"account of this site": 1} if Person.objects.filter(did=did).exists() else {}
    if not counts:
        raise CommandError(f"No data about {did[:200]}, so nothing was erased.", returncode=2)
    return counts


def _is_maintainer(did: str, snapshot: Snapshot | None) -> bool:
    sql = "select count(*) from maintainers join contributors using (contributor_id) where did = ?"
    configured = snapshot is not None and snapshot.value(sql, [did])
    return bool(configured) or Maintainer.objects.filter(person__did=did).exists()
