"""`manage.py merge_approved`: merge one approved pull request on its forge, in a maintainer's own name."""

import sys
from getpass import getpass

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.clock import wall_now
from ingest.git.patch import PatchProblem, load_patch
from ingest.http.fetcher import Fetcher
from ingest.lookups.forge import MergeOrder, Outcome, TokenSession, merge
from ingest.store.snapshots import Snapshot, SnapshotReader
from scoring.diff.mailbox import MailboxProblem, MailSource, write_mailbox
from scoring.queries import read
from scoring.queries.lists import data_server, merge_place

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
            order, pds = _build_order(snapshot, pull), data_server(snapshot, did)
        if pds is None:
            raise CommandError(f"The data server of {did[:200]} is not known here.", returncode=2)
        token = (getpass("Access token: ") if sys.stdin.isatty() else sys.stdin.readline()).strip()
        fetcher = Fetcher(settings.STAND_IN_ORIGIN, settings.FETCH_TIMEOUT_SECONDS)
        try:
            result = merge(fetcher, TokenSession(fetcher, did, pds, token), order, wall_now())
        finally:
            fetcher.close()
        if result.outcome is not Outcome.MERGED:
            raise CommandError(result.sentence, returncode=3 if result.outcome in PARTIAL else 1)
        self.stdout.write(result.sentence)


def _build_order(snapshot: Snapshot, uri: str) -> MergeOrder:
    """Return the order for exactly the approved round. Raises CommandError without approval or data."""
    approval = next((candidate for candidate in read.approved(snapshot) if candidate.subject.uri == uri), None)
    if approval is None:
        raise CommandError("The latest round of this pull request has no valid approval.", returncode=2)
    subject, place = approval.subject, merge_place(snapshot, uri)
    if place is None:
        raise CommandError("Its knot, branch or its author's data server is not known yet.", returncode=2)
    source = MailSource(subject.author.did, subject.author.name, subject.title, subject.opened_at)
    try:
        text = load_patch(settings.DIFF_CORPUS_DIR, subject.sha256 or "")
        patch = write_mailbox(text, subject.seen.patch_id or "", source)
    except (PatchProblem, MailboxProblem) as problem:
        raise CommandError(f"Its patch cannot be handed on: {problem}.", returncode=2) from problem
    return MergeOrder(
        place.knot,
        place.repository,
        place.owner,
        place.name,
        place.branch,
        uri,
        subject.seen.record_cid or "",
        place.author_pds,
        patch,
        subject.title,
    )
