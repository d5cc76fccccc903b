"""Orders to merge exactly what was approved."""

from pathlib import Path

from ingest.git.patch import PatchProblem, load_patch
from ingest.lookups.forge import MergeOrder
from ingest.store.snapshots import Snapshot
from scoring.diff.mailbox import MailboxProblem, MailSource, write_mailbox
from scoring.queries import read
from scoring.queries.lists import merge_place


class NoOrder(Exception):
    """There is nothing that could be merged; a sentence says why."""


def build_order(snapshot: Snapshot, folder: Path, uri: str) -> MergeOrder:
    """Return the order for exactly the approved round, its patch read from `folder`. Raises NoOrder."""
    approval = next((candidate for candidate in read.approved(snapshot) if candidate.subject.uri == uri), None)
    if approval is None:
        raise NoOrder("The latest round of this pull request has no valid approval.")
    subject, place = approval.subject, merge_place(snapshot, uri)
    if place is None:
        raise NoOrder("Its knot, branch or its author's data server is not known yet.")
    source = MailSource(subject.author.did, subject.author.name, subject.title, subject.opened_at)
    try:
        patch = write_mailbox(load_patch(folder, subject.sha256 or ""), subject.seen.patch_id or "", source)
    except (PatchProblem, MailboxProblem) as problem:
        raise NoOrder(f"Its patch cannot be handed on: {problem}.") from problem
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


def is_merged(snapshot: Snapshot, uri: str) -> bool:
    """Return whether a pull request is known to be merged."""
    subject = read.subjects(snapshot, [uri]).get(uri)
    return subject is not None and subject.state == "merged"
