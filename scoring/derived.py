"""Rebuilds the basis of a score, that is seeds, labels and features, by the statements of derived.sql."""

import re
from collections.abc import Collection, Mapping
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any

from ingest.store.transaction import Keys, Rows, Transaction
from scoring.types import Evidence, Pair

STATEMENTS: Mapping[str, str] = dict(
    re.findall(r"-- name: (\w+)\n(.*?;)\n", Path(__file__).with_name("derived.sql").read_text(), re.DOTALL)
)
KEYS: Mapping[str, tuple[str, ...]] = {
    "seeds": ("repository_id", "contributor_id"),
    "marks": ("pull_uri",),
    "labels": ("pull_uri",),
    "features": ("contributor_id", "repository_id"),
}
# Of these pairs; `names` is the aggregate over the people of a path, each at its `place`.
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
# A fingerprint changes with anything that a judgement of this person is made from; $basis are the rules of all.
CHANGED = f"""
with evidence as not materialized ({EVIDENCE.format(pairs="{pairs}", names=DIGESTS)}), printed as not materialized (
  select *, sha256($basis || struct_pack(*columns(* exclude (contributor_id, repository_id)))::varchar) as fingerprint
  from evidence
)
select p.contributor_id, p.repository_id, p.fingerprint
from printed p left join current_scores c using (contributor_id, repository_id)
where c.fingerprint is distinct from p.fingerprint
"""
EVERYBODY = "select contributor_id, repository_id from features"
GIVEN = "select unnest($people) as contributor_id, unnest($repositories) as repository_id"
OF_PAIRS = EVIDENCE.format(
    pairs=GIVEN,
    names="list({'did': c.did, 'handle': c.handle, 'handle_verified': c.handle_verified} order by p.place)",
)
TEMPORARY = ("outcomes", "counting")
GROUP = 5_000  # pairs read or written at once: a pass over 20,000 people needs 110 MB of the 160 that a store may have
PLAIN = tuple(field.name for field in fields(Evidence) if field.name not in ("path", "path_merges"))


def rebuild(txn: Transaction, table: str, now: datetime, window_days: int) -> Keys:
    """Make one of the derived tables ('seeds', 'marks', 'labels', 'features') what follows from the others now.

    Returns the keys of the rows that changed. Before those, `find_outcomes` in the same transaction.
    """
    return txn.hold(table, STATEMENTS[table], _values(table, now, window_days), KEYS[table])


def find_outcomes(txn: Transaction, now: datetime, window_days: int) -> None:
    """Make the temporary tables `outcomes` and `counting`, which the others read: they end with the connection."""
    for table in TEMPORARY:
        txn.execute(STATEMENTS[table], _values(table, now, window_days))


def _values(table: str, now: datetime, window_days: int) -> dict[str, object]:
    values = {"now": now, "window": window_days}
    return {name: value for name, value in values.items() if f"${name}" in STATEMENTS[table]}


def display_name(row: Mapping[str, Any]) -> str:
    """The handle where its own domain confirmed it, else the DID, cut in the middle."""
    if row["handle_verified"] and row["handle"]:
        return row["handle"]
    did = row["did"]
    return did if len(did) <= 20 else f"{did[:14]}…{did[-4:]}"


def changed_people(rows: Rows, basis: str, among: Collection[Pair] | None = None) -> dict[Pair, str]:
    """The fingerprint of whoever was not judged from the same evidence on the same basis; None: among everybody."""
    if among is None:
        found = rows.rows(CHANGED.format(pairs=EVERYBODY), {"basis": basis})
    elif among:
        found = rows.rows(CHANGED.format(pairs=GIVEN), {"basis": basis, **_as_lists(among)})
    else:
        found = []
    return {_pair(row): row["fingerprint"] for row in found}


def read_evidence(rows: Rows, pairs: Collection[Pair]) -> dict[Pair, Evidence]:
    """Evidence of each of these who has features."""
    found: dict[Pair, Evidence] = {}
    wanted = list(pairs)
    for begin in range(0, len(wanted), GROUP):
        given = rows.rows(OF_PAIRS, _as_lists(wanted[begin : begin + GROUP]))
        found.update((_pair(row), evidence(row)) for row in given)
    return found


def _as_lists(pairs: Collection[Pair]) -> dict[str, list[int]]:
    people, repositories = (list(numbers) for numbers in zip(*pairs, strict=True))
    return {"people": people, "repositories": repositories}


def _pair(row: Mapping[str, Any]) -> Pair:
    return row["contributor_id"], row["repository_id"]


def evidence(row: Mapping[str, Any]) -> Evidence:
    """One row of EVIDENCE as the judge reads it."""
    path = tuple(display_name(person) for person in row["people"] or ())
    return Evidence(**{name: row[name] for name in PLAIN}, path=path, path_merges=tuple(row["path_merges"]))
