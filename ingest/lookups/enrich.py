"""Everything that is asked of the network: one kind a module (`ask_*`), by the engine in ingest/lookups/engine.py."""

from datetime import datetime

from ingest.lookups.attestations import DUE as DUE_ATTESTATIONS
from ingest.lookups.attestations import fetch_attestations
from ingest.lookups.ci_runs import DUE_RUNS, fetch_runs
from ingest.lookups.engine import Due, Wall
from ingest.lookups.identities import DUE_IDENTITIES, fetch_identities
from ingest.lookups.patches import compare_kept, due_patches, fetch_patches
from ingest.lookups.profiles import DUE_PROFILES, fetch_profiles
from ingest.lookups.push_holders import DUE_PUSH_HOLDERS, fetch_push_holders
from ingest.store.transaction import Rows

__all__ = [
    "compare_kept",
    "due",
    "fetch_attestations",
    "fetch_identities",
    "fetch_patches",
    "fetch_profiles",
    "fetch_push_holders",
    "fetch_runs",
]


def due(rows: Rows, wall: Wall, settled_since: datetime = datetime.max) -> int:
    """Return how many look-ups of all kinds are due now; of merged pull requests those that were settled since then."""
    kinds = [Due(DUE_IDENTITIES), Due(DUE_PUSH_HOLDERS), due_patches(settled_since), Due(DUE_RUNS), Due(DUE_PROFILES)]
    kinds.append(Due(DUE_ATTESTATIONS))
    return sum(kind.count(rows, wall()) for kind in kinds)
