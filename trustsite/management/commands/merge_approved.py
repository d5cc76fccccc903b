"""`manage.py merge_approved`: merge one approved pull request on its forge, in a maintainer's own name."""

import sys
from getpass import getpass

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.clock import wall_now
from ingest.http.fetcher import Fetcher
from ingest.lookups.forge import Outcome, TokenSession, merge
from ingest.store.snapshots import SnapshotReader
from scoring.queries.lists import data_server
from scoring.queries.merge_orders import NoOrder, build_order, is_merged

PARTIAL = {Outcome.NOT_RECORDED, Outcome.UNKNOWN}


class Command(BaseCommand):
    """Read the newest snapshot and change only the forge, and only under MERGE_ON_FORGE=1."""

    help = (
        "Merge an approved pull request on its knot, in your name: try the merge, make sure that the record is still "
        "the approved one, merge, write the status. Needs MERGE_ON_FORGE=1 and, on standard input, an access token of "
        "your own data server. The token is sent only there. Exit 3: merged and not recorded, or not known."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("pull", metavar="AT-URI", help="the pull request, as manage.py approved lists it")
        parser.add_argument("--as", dest="did", metavar="DID", required=True, help="who merges: you")

    def handle(self, *args: object, pull: str, did: str, **options: object) -> None:
        """Merge, or raise CommandError: (2) nothing was tried, (1) nothing was merged, (3) partly or perhaps merged."""
        if not settings.MERGE_ON_FORGE:
            raise CommandError("Merging on the forge is off: set MERGE_ON_FORGE=1, or use git am.", returncode=2)
        with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
            if snapshot is None:
                raise CommandError("Nothing was published there yet: run the worker first.", returncode=2)
            try:
                order, pds = build_order(snapshot, settings.DIFF_CORPUS_DIR, pull), data_server(snapshot, did)
            except NoOrder as problem:
                raise CommandError(str(problem), returncode=2) from problem
        if pds is None:
            raise CommandError(f"The data server of {did[:200]} is not known here.", returncode=2)
        token = (getpass("Access token: ") if sys.stdin.isatty() else sys.stdin.readline()).strip()
        fetcher = Fetcher(settings.STAND_IN_ORIGIN, settings.FETCH_TIMEOUT_SECONDS)
        try:
            result = merge(fetcher, TokenSession(fetcher, did, pds, token), order, wall_now(), _is_merged)
        finally:
            fetcher.close()
        if result.outcome is not Outcome.MERGED:
            raise CommandError(result.sentence, returncode=3 if result.outcome in PARTIAL else 1)
        self.stdout.write(result.sentence)


def _is_merged(uri: str) -> bool:
    with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
        return snapshot is not None and is_merged(snapshot, uri)
