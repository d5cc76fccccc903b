"""Which maintainer may speak with which contributor."""

from ingest.snapshot import Snapshot
from scoring import read
from triage.permissions import Role, Roles


def handled_from(roles: Roles, snapshot: Snapshot | None, did: str) -> str | None:
    """As maintainer of which repository somebody may speak with a contributor: one to which they offered something.

    "" for maintainers of the site, who may speak with everybody; None for whoever may not.
    """
    kept = roles.keys(Role.MAINTAINER)
    if "" in kept or not kept:
        return "" if kept else None
    offered = kept & read.offered_to(snapshot, did) if snapshot is not None else kept & set()
    return min(offered, default=None)
