"""Rights of maintainers to speak with contributors, and in their name."""

from collections.abc import Mapping

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


def spoken_for(roles: Roles, snapshot: Snapshot | None, did: str) -> Mapping[str, str]:
    """Return the watched repositories, name by key, about which somebody may speak in a contributor's name.

    Those that they maintain and to which the contributor offered something.
    """
    if snapshot is None:
        return {}
    offered = read.offered_to(snapshot, did)
    names = read.repository_names(snapshot)
    return {key: name for key, name in names.items() if key in offered and roles.role(key) >= Role.MAINTAINER}
