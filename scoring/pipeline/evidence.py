"""Rebuilds the tables that judgements are made from, finds people whose evidence changed, and reads that evidence.

Seeds, trust, marks, labels and features follow from the event log by set-based statements (derived.sql) or, for trust,
by `scoring.trust`. Only rows that differ are written, and only people whose evidence may have changed are read again:
of 20,000 a vouch or a pull request touches a few. The changed keys are held in memory beside the store. A process that
begins, other rules, an erasure, a pass that failed, and a change that touches more people than are worth telling apart
have everybody read. Changes are noted once they are committed, so nobody is missed: at worst somebody is read in vain.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ingest.store.database import Store
from ingest.store.transaction import Keys, Rows, Transaction
from scoring.config.policy import Policy
from scoring.formatting import display_name
from scoring.trust.incremental import SeedSet, TrustCache
from scoring.trust.table import STATEMENTS, read_graph
from scoring.types import Evidence, Pair

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
    sets, trust = _rebuild_trust(store, now, policy)
    with store.write() as txn:
        for table in ("outcomes", "counting"):  # temporary: the other statements read them
            txn.execute(STATEMENTS[table], _parameters(table, now, policy.window_days))
        for table in ("marks", "labels"):
            _rebuild(txn, table, now, policy.window_days)
        late = _find_late(sets, _read_seed_sets(txn))
        features = _rebuild(txn, "features", now, policy.window_days, late)
    return [seeds, trust, features]


def _rebuild_trust(store: Store, now: datetime, policy: Policy) -> tuple[Mapping[int, SeedSet], Keys]:
    """Bring `trust` up to date with the seeds and the vouches that stand; return the sets and the keys of changed rows.

    Records arrive meanwhile. The sets are read before the graph, so that it knows everybody in them.
    """
    cache = TRUST_CACHES.setdefault(store, TrustCache())
    with store.read() as rows:
        sets = _read_seed_sets(rows)
        stored = rows.rows("select distinct repository_id from trust")
        graph = read_graph(rows, now, policy)
    try:
        parts, replaced = cache.update(graph, sets, (now.date(), policy))
        replaced += [row["repository_id"] for row in stored if row["repository_id"] not in sets]
        with store.write() as txn:
            return sets, txn.replace("trust", parts, ("repository_id", "contributor_id"), ("repository_id", replaced))
    except BaseException:
        cache.forget()
        raise


def _find_late(before: Mapping[int, SeedSet], after: Mapping[int, SeedSet]) -> list[Pair]:
    """Return who offered something first while trust was computed: they have none yet, so the next pass judges them."""
    nobody = SeedSet((), ())
    return [
        (person, number)
        for number, seed_set in after.items()
        for person in {*(seed_set.people or ())} - {*(before.get(number, nobody).people or ())}
    ]


SEED_SETS = """
select s.repository_id, list(s.contributor_id order by s.contributor_id) as seeds, any_value(o.people) as people
from seeds s left join (
  select repository_id, list(distinct author_id order by author_id) as people
  from pull_requests semi join contributors on contributor_id = author_id group by 1
) o using (repository_id) where s.repository_id = 0 or o.people is not null group by s.repository_id
"""


def _read_seed_sets(rows: Rows) -> dict[int, SeedSet]:
    """Read the seeds of the site, and of each repository where somebody offered something, with who did."""
    return {
        row["repository_id"]: SeedSet(tuple(row["seeds"]), tuple(row["people"]) if row["repository_id"] else None)
        for row in rows.rows(SEED_SETS)
    }


def _rebuild(txn: Transaction, table: str, now: datetime, window_days: int, late: Sequence[Pair] = ()) -> Keys:
    """Rebuild one table of KEYS as of now, without the `late` pairs; return the keys of changed rows."""
    return txn.hold(table, STATEMENTS[table], _parameters(table, now, window_days, late), KEYS[table])


def _parameters(table: str, now: datetime, window_days: int, late: Sequence[Pair] = ()) -> dict[str, object]:
    values = {
        "now": now,
        "window": window_days,
        "late_people": [person for person, _ in late],
        "late_repositories": [repository for _, repository in late],
    }
    return {name: value for name, value in values.items() if f"${name}" in STATEMENTS[table]}


# Evidence on these pairs; `names` is an aggregate over the people of a trust path, each at its `place`.
EVIDENCE = """
with pairs as not materialized ({pairs}), path_people as not materialized (
  select contributor_id, repository_id, unnest(path) as person, generate_subscripts(path, 1) as place
  from trust semi join pairs using (contributor_id, repository_id)
), named_paths as not materialized (
  select p.contributor_id, p.repository_id, {names} as people
  from path_people p join contributors c on c.contributor_id = p.person group by all
)
select f.*, t.distance, n.people, coalesce(t.path_merges, []) as path_merges,
  t.dominator is not null or t.distance is null as one_account,
  coalesce(t.denounced_by_seed, false) as denounced_by_seed, s.contributor_id is not null as is_seed, x.budget
from features f semi join pairs using (contributor_id, repository_id)
left join trust t using (contributor_id, repository_id)
left join named_paths n using (contributor_id, repository_id)
left join seeds s using (contributor_id, repository_id)
left join repository_settings x on x.repository_id = f.repository_id
"""
# A number for the names on a path: lists of them would take 54 MB for 20,000 people, a sum of digests 15.
DIGESTS = "sum(md5_number_lower(concat_ws(chr(31), p.place, c.did, c.handle_verified, c.handle))::hugeint)"
# A fingerprint changes with everything that a judgement of this person is made from; $basis are the rules for all.
STALE = f"""
with evidence as not materialized ({EVIDENCE.format(pairs="{pairs}", names=DIGESTS)}), printed as not materialized (
  select *, sha256($basis || struct_pack(*columns(* exclude (contributor_id, repository_id)))::varchar) as fingerprint
  from evidence
)
select p.contributor_id, p.repository_id, p.fingerprint
from printed p left join current_scores c using (contributor_id, repository_id)
where c.fingerprint is distinct from p.fingerprint
"""
ALL_PAIRS = "select contributor_id, repository_id from features"
GIVEN_PAIRS = "select unnest($people) as contributor_id, unnest($repositories) as repository_id"
EVIDENCE_ON_PAIRS = EVIDENCE.format(
    pairs=GIVEN_PAIRS,
    names="list({'did': c.did, 'handle': c.handle, 'handle_verified': c.handle_verified} order by p.place)",
)
GROUP = 5_000  # pairs read or written at once: a pass over 20,000 people needs 110 MB of the 160 that a store may have
PLAIN = tuple(field.name for field in fields(Evidence) if field.name not in ("path", "path_merges"))
MOST_CHANGED = 5_000  # beyond that many pairs the statement over everybody costs less than one that names them
NAME_HASHES = "select contributor_id, hash(did, handle_verified, handle) as shown from contributors"
PAIRS_WITH_PATHS_OVER = """
select contributor_id, repository_id from trust where list_has_any(path, $people::integer[])
"""
Hashes = NDArray[np.uint64]


def find_stale_people(rows: Rows, basis: str, among: Collection[Pair] | None = None) -> dict[Pair, str]:
    """Return the fingerprints of people who were not judged from this evidence on this basis; None: among everybody."""
    if among is None:
        stale = rows.rows(STALE.format(pairs=ALL_PAIRS), {"basis": basis})
    elif among:
        stale = rows.rows(STALE.format(pairs=GIVEN_PAIRS), {"basis": basis, **_as_lists(among)})
    else:
        stale = []
    return {_pair(row): row["fingerprint"] for row in stale}


def read_evidence(rows: Rows, pairs: Collection[Pair]) -> dict[Pair, Evidence]:
    """Read the evidence on these pairs; a pair without features is left out."""
    evidence: dict[Pair, Evidence] = {}
    wanted = list(pairs)
    for begin in range(0, len(wanted), GROUP):
        group = rows.rows(EVIDENCE_ON_PAIRS, _as_lists(wanted[begin : begin + GROUP]))
        evidence.update((_pair(row), _evidence(row)) for row in group)
    return evidence


def _as_lists(pairs: Collection[Pair]) -> dict[str, list[int]]:
    people, repositories = (list(numbers) for numbers in zip(*pairs, strict=True))
    return {"people": people, "repositories": repositories}


def _pair(row: Mapping[str, Any]) -> Pair:
    return row["contributor_id"], row["repository_id"]


def _evidence(row: Mapping[str, Any]) -> Evidence:
    path = tuple(display_name(person) for person in row["people"] or ())
    return Evidence(**{name: row[name] for name in PLAIN}, path=path, path_merges=tuple(row["path_merges"]))


class ChangedPeople:
    """The pairs whose evidence may differ from what the last pass judged. Not for two threads.

    `pairs` is None where that may be everybody.
    """

    def __init__(self) -> None:
        self.pairs: set[Pair] | None = None
        self._basis = ""
        self._judged_names = np.zeros(0, dtype=np.uint64)
        self._read_names = self._judged_names

    def add(self, changed: Keys) -> None:
        """Add the pairs of rows that changed, by their `contributor_id` and `repository_id`."""
        people, repositories = changed["contributor_id"], changed["repository_id"]
        if self.pairs is not None and len(people) + len(self.pairs) <= MOST_CHANGED:
            self.pairs.update(zip(people.tolist(), repositories.tolist(), strict=True))
        else:
            self.pairs = None

    def to_read(self, rows: Rows, basis: str) -> Collection[Pair] | None:
        """Return the pairs to read when judging on this basis, None for everybody.

        A new name of a person changes every pair with a path over that person. An erasure strikes names from stored
        rows, so after one everybody is read.
        """
        self._read_names = _name_hashes(rows)
        if basis != self._basis:
            self._basis, self.pairs = basis, None
        if self.pairs is None:
            return None
        size = max(len(self._judged_names), len(self._read_names))
        before, after = (np.pad(part, (0, size - len(part))) for part in (self._judged_names, self._read_names))
        if ((after == 0) & (before != 0)).any():
            self.pairs = None
            return None
        renamed = np.flatnonzero(before != after)
        if len(renamed):
            self.add(rows.columns(PAIRS_WITH_PATHS_OVER, {"people": renamed.tolist()}))
        return self.pairs

    def clear(self) -> None:
        """Forget the changes: all that `to_read` returned were judged and written."""
        self._judged_names, self.pairs = self._read_names, set()

    def forget(self) -> None:
        """Have everybody read next time: the last judgements were not written."""
        self.pairs = None


def _name_hashes(rows: Rows) -> Hashes:
    """Return a hash of each person's shown name, by contributor_id; 0 for a number that nobody has."""
    names = rows.columns(NAME_HASHES)
    hashes = np.zeros(int(names["contributor_id"].max(initial=0)) + 1, dtype=np.uint64)
    hashes[names["contributor_id"]] = names["shown"]
    return hashes
