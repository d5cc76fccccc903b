"""Rebuilds the tables that judgements are made from: seeds, trust, marks, labels and features.

Each follows from the event log by set-based statements (derived.sql) or, for trust, by `scoring.trust`. Only rows that
differ are written.
"""

from collections.abc import Mapping
from datetime import datetime
from weakref import WeakKeyDictionary

from ingest.store.database import Store
from ingest.store.transaction import Keys, Rows, Transaction
from scoring.config.policy import Policy
from scoring.derived import STATEMENTS
from scoring.trust.incremental import TrustCache
from scoring.trust.table import read_graph

KEYS: Mapping[str, tuple[str, ...]] = {
    "seeds": ("repository_id", "contributor_id"),
    "marks": ("pull_uri",),
    "labels": ("pull_uri",),
    "features": ("contributor_id", "repository_id"),
}
# Results of the last pass over a store: a cache, since the rows of `trust` follow from the log with or without it.
TRUST_CACHES: WeakKeyDictionary[Store, TrustCache] = WeakKeyDictionary()


def rebuild_tables(store: Store, now: datetime, policy: Policy) -> list[Keys]:
    """Rebuild seeds, trust, marks, labels and features, each from the ones before.

    Returns the keys of changed rows of seeds, trust and features.
    """
    with store.write() as txn:
        seeds = _rebuild(txn, "seeds", now, policy.window_days)
    trust = _rebuild_trust(store, now, policy)
    with store.write() as txn:
        for table in ("outcomes", "counting"):  # temporary: the other statements read them
            txn.execute(STATEMENTS[table], _parameters(table, now, policy.window_days))
        for table in ("marks", "labels"):
            _rebuild(txn, table, now, policy.window_days)
        features = _rebuild(txn, "features", now, policy.window_days)
    return [seeds, trust, features]


def _rebuild_trust(store: Store, now: datetime, policy: Policy) -> Keys:
    """Bring `trust` up to date with the seeds and the vouches that stand; return the keys of changed rows."""
    cache = TRUST_CACHES.setdefault(store, TrustCache())
    with store.read() as rows:
        graph = read_graph(rows, now, policy)
        sets = _read_seed_sets(rows)
        stored = rows.rows("select distinct repository_id from trust")
    parts, replaced = cache.update(graph, sets, (now.date(), policy))
    replaced += [row["repository_id"] for row in stored if row["repository_id"] not in sets]
    try:
        with store.write() as txn:
            return txn.replace("trust", parts, ("repository_id", "contributor_id"), ("repository_id", replaced))
    except BaseException:
        cache.forget()
        raise


def _read_seed_sets(rows: Rows) -> dict[int, tuple[int, ...]]:
    """Read the seeds of each watched repository and of the site."""
    sets = rows.rows(
        "select repository_id, list(contributor_id order by contributor_id) as seeds from seeds group by 1"
    )
    return {row["repository_id"]: tuple(row["seeds"]) for row in sets}


def _rebuild(txn: Transaction, table: str, now: datetime, window_days: int) -> Keys:
    """Rebuild one table of KEYS as of now; return the keys of changed rows."""
    return txn.hold(table, STATEMENTS[table], _parameters(table, now, window_days), KEYS[table])


def _parameters(table: str, now: datetime, window_days: int) -> dict[str, object]:
    values = {"now": now, "window": window_days}
    return {name: value for name, value in values.items() if f"${name}" in STATEMENTS[table]}
