"""Bounds on the stored reviews: so many rows of each pull request, so many bytes of each list in a row.

Paths and titles are the author's, and each new round or title is read anew: without a bound one author fills the store
with rows that DuckDB cannot scan within its memory.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from ingest.long_texts import COLUMN_BYTES, fitting
from ingest.transaction import Transaction

KEPT = 5  # reviews of one pull request, the newest: the round that stands, the one approved before it, and their titles
LISTS = ("flags", "findings", "left_out")  # JSON, the strongest first
NEWEST = "coalesce(reviewed_clock, begun_clock) desc, round desc, patch_ref, said, rules"
SUPERSEDED = f"""
delete from content_reviews where rowid in (
  select rowid from content_reviews where $pulls is null or list_contains($pulls, pull_uri)
  qualify row_number() over (partition by pull_uri order by {NEWEST}) > {KEPT}
)
"""
UNREAD_ROUNDS = """
delete from touched_files where ($pulls is null or list_contains($pulls, pull_uri))
  and pull_uri in (select pull_uri from content_reviews)
  and (pull_uri, patch_ref) not in (select (pull_uri, patch_ref) from content_reviews)
"""
LONG_REVIEWS = f"""
select rowid as place, {", ".join(LISTS)} from content_reviews
where {" or ".join(f"strlen({name}) > {COLUMN_BYTES}" for name in LISTS)}
"""
LONG_PATHS = f"select rowid as place, paths from touched_files where strlen(paths::varchar) > {COLUMN_BYTES}"


def drop_superseded(txn: Transaction, pulls: Sequence[str] | None = None) -> None:
    """Keep the newest reviews of these pull requests, of all without any named, and the files of their rounds."""
    for statement in (SUPERSEDED, UNREAD_ROUNDS):
        txn.execute(statement, {"pulls": None if pulls is None else list(pulls)})


def bound_old_reviews(txn: Transaction) -> None:
    """Bring the rows of a version without bounds down to today's; a list of files that is cut says that it is."""
    drop_superseded(txn)
    for row in txn.rows(LONG_REVIEWS):
        lists = [_fitting_json(row[name]) for name in LISTS]
        txn.execute(
            f"update content_reviews set {', '.join(f'{name} = ?' for name in LISTS)} where rowid = ?",
            [*lists, row["place"]],
        )
    for row in txn.rows(LONG_PATHS):
        txn.execute(
            "update touched_files set paths = ?, whole = false where rowid = ?", [fitting(row["paths"]), row["place"]]
        )


def _fitting_json(text: str) -> str:
    if len(text.encode()) <= COLUMN_BYTES:
        return text
    items: list[Any] = msgspec.json.decode(text)
    return msgspec.json.encode(fitting(items)).decode()
