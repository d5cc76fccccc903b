"""What a score is computed from: seeds, labels and features, rebuilt by the statements of derived.sql."""

import re
from collections.abc import Collection, Mapping
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any

from ingest.transaction import Rows, Transaction
from scoring.verdict import Evidence

STATEMENTS: Mapping[str, str] = dict(
    re.findall(r"-- name: (\w+)\n(.*?;)\n", Path(__file__).with_name("derived.sql").read_text(), re.DOTALL)
)
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
  coalesce(t.denounced_by_seed, false) as denounced_by_seed, s.contributor_id is not null as is_seed
from features f semi join pairs using (contributor_id, repository_id)
left join trust t using (contributor_id, repository_id)
left join named_paths n using (contributor_id, repository_id)
left join seeds s using (contributor_id, repository_id)
"""
# A number for the names on a path: lists of them would take 54 MB for 20,000 people, a sum of digests 15.
DIGESTS = "sum(md5_number_lower(concat_ws(chr(31), p.place, c.did, c.handle_verified, c.handle))::hugeint)"
ALL_PRINTED = EVIDENCE.format(pairs="select contributor_id, repository_id from features", names=DIGESTS)
# A fingerprint changes with anything that a judgement of this person is made from; $basis are the rules of all.
CHANGED = f"""
with evidence as not materialized ({ALL_PRINTED}), printed as not materialized (
  select *, sha256($basis || struct_pack(*columns(* exclude (contributor_id, repository_id)))::varchar) as fingerprint
  from evidence
)
select p.contributor_id, p.repository_id, p.fingerprint
from printed p left join current_scores c using (contributor_id, repository_id)
where c.fingerprint is distinct from p.fingerprint
"""
OF_PAIRS = EVIDENCE.format(
    pairs="select unnest($people) as contributor_id, unnest($repositories) as repository_id",
    names="list({'did': c.did, 'handle': c.handle, 'handle_verified': c.handle_verified} order by p.place)",
)
Pair = tuple[int, int]  # contributor_id, repository_id
GROUP = 5_000  # pairs read or written at once: a pass over 20,000 people needs 110 MB of the 160 that a store may have
PLAIN = tuple(field.name for field in fields(Evidence) if field.name not in ("path", "path_merges"))


def rebuild(txn: Transaction, table: str, now: datetime, window_days: int) -> None:
    """Replace one of the derived tables ('seeds', 'marks', 'labels', 'features') by what follows from the others now.

    'outcomes' is a temporary table that the other three read: it ends with the transaction's connection.
    """
    statement = STATEMENTS[table]
    values = {"now": now, "window": window_days}
    if table != "outcomes":
        txn.execute(f"delete from {table}")
    txn.execute(statement, {name: value for name, value in values.items() if f"${name}" in statement})


def display_name(row: Mapping[str, Any]) -> str:
    """The handle where its own domain confirmed it, else the DID, cut in the middle."""
    if row["handle_verified"] and row["handle"]:
        return row["handle"]
    did = row["did"]
    return did if len(did) <= 20 else f"{did[:14]}…{did[-4:]}"


def changed_people(rows: Rows, basis: str) -> dict[Pair, str]:
    """The fingerprint of whoever was not judged from the same evidence on the same basis."""
    return {_pair(row): row["fingerprint"] for row in rows.rows(CHANGED, {"basis": basis})}


def read_evidence(rows: Rows, pairs: Collection[Pair]) -> dict[Pair, Evidence]:
    """Evidence of each of these who has features."""
    found: dict[Pair, Evidence] = {}
    wanted = list(pairs)
    for begin in range(0, len(wanted), GROUP):
        people, repositories = (list(numbers) for numbers in zip(*wanted[begin : begin + GROUP], strict=True))
        given = rows.rows(OF_PAIRS, {"people": people, "repositories": repositories})
        found.update((_pair(row), evidence(row)) for row in given)
    return found


def _pair(row: Mapping[str, Any]) -> Pair:
    return row["contributor_id"], row["repository_id"]


def evidence(row: Mapping[str, Any]) -> Evidence:
    """One row of EVIDENCE as the judge reads it."""
    path = tuple(display_name(person) for person in row["people"] or ())
    return Evidence(**{name: row[name] for name in PLAIN}, path=path, path_merges=tuple(row["path_merges"]))
