"""Opening a row of the queue, or closing it: only the rows that change are sent, not the list around them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from scoring.read import GroupKey, Queue, QueueRow
from triage.forms import QueueFilters, read_queue
from triage.rows import row_anchor


@dataclass(frozen=True, slots=True)
class Toggled:
    """A row that opens or closes, and the group in which it stands."""

    row: QueueRow
    group: GroupKey
    opens: bool


def toggled(target: str | None, before: Mapping[str, str], after: QueueFilters, found: Queue) -> tuple[Toggled, ...]:
    """The row with the id `target`, then the one that was open or opens beside it; () where the list has to be sent.

    `before` is the query of the page that asks. The list is sent where the filters differ, or where a row that is to
    change is not in view.
    """
    held = read_queue(before)
    if replace(held, opened="") != replace(after, opened=""):
        return ()
    standing = {row.uri: (row, group.key) for group in found.groups for row in group.rows}
    uris = [uri for uri in dict.fromkeys((after.opened, held.opened)) if uri]
    if target not in map(row_anchor, uris) or not all(uri in standing for uri in uris):
        return ()
    uris.sort(key=lambda uri: row_anchor(uri) != target)
    return tuple(Toggled(*standing[uri], opens=uri == after.opened) for uri in uris)
