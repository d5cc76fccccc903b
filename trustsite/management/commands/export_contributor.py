"""`manage.py export_contributor`: write everything that is stored about one person as one JSON document."""

import os
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.erasure.export import export, pieces
from ingest.store.long_texts import LongTexts
from ingest.store.snapshots import SnapshotReader
from triage.services.erasure import account_of, said_by
from trustsite.command_line import held_did


class Command(BaseCommand):
    """Read the newest snapshot and the files that a snapshot leaves out; change nothing."""

    help = "Write all data about a person as one JSON document."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("who", metavar="DID|HANDLE", help="for example did:plc:… or ana.example.com")
        parser.add_argument("--out", metavar="FILE", help="where to write it (mode 600); without it, stdout")

    def handle(self, *args: object, who: str, out: str | None, **options: object) -> None:
        """Write it. Raises CommandError if there are no data or the file cannot be written."""
        call_command("migrate", verbosity=0, interactive=False)
        document = self._build_document(who)
        if out is None:
            for piece in pieces(document):
                self.stdout.write(piece, ending="")
            self.stdout.write("")
            return
        try:
            with os.fdopen(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.writelines(pieces(document))
                file.write("\n")
        except OSError as problem:
            raise CommandError(f"{out} cannot be written ({problem.strerror}).", returncode=2) from problem
        self.stderr.write(f"{Path(out).resolve()} holds everything.")

    def _build_document(self, who: str) -> dict[str, Any]:
        folders = (settings.STAGING_DIR, settings.MODEL_DIR, settings.PYG_ROOT, settings.LOG_DIR)
        with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
            did = held_did(who, snapshot)
            texts = LongTexts(settings.DUCKDB_PATH)
            exported = export(snapshot, did, settings.DIFF_CORPUS_DIR, folders, texts) if snapshot else None
            account = account_of(did)
            if snapshot is None or (exported is None and account is None):
                raise CommandError(f"No data about {did[:200]}.", returncode=2)
            return {
                "state_of": snapshot.published_at,
                **(exported or {"did": did}),
                "account": account,
                "rights": said_by(did),
            }
