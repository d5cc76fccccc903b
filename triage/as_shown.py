"""The queue and its rows as pages show them: what `scoring.read` found, with what people did since that snapshot."""

from collections.abc import Sequence
from dataclasses import replace

from ingest.snapshot import Snapshot
from scoring import read
from scoring.read import Queue, QueueQuery, QueueRow
from triage.auditing import unsealed
from triage.closing import lowered, lowered_row, standing_closures


def queue(snapshot: Snapshot, query: QueueQuery) -> Queue:
    """`read.queue` with closures of the lane and answers to the audit that the snapshot does not know yet."""
    found = read.queue(snapshot, query)
    groups = tuple(replace(group, rows=tuple(unsealed(snapshot, row) for row in group.rows)) for group in found.groups)
    return lowered(replace(found, groups=groups), standing_closures())


def pulls(snapshot: Snapshot, uris: Sequence[str]) -> tuple[QueueRow, ...]:
    """`read.pulls` likewise."""
    closures = standing_closures()
    return tuple(lowered_row(unsealed(snapshot, row), closures) for row in read.pulls(snapshot, uris))


def pull(snapshot: Snapshot, uri: str) -> QueueRow | None:
    """`read.pull` likewise."""
    row = read.pull(snapshot, uri)
    return lowered_row(unsealed(snapshot, row), standing_closures()) if row else None
