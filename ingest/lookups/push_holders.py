"""The people who can push to each watched repository, as its knot says."""

from collections.abc import Sequence
from datetime import datetime

from ingest.clock import DAY
from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.lookups.engine import Due, Found, Kind, Note, Row, Wall, fetch
from ingest.lookups.forge import push_holders
from ingest.records.push_holders import Holder, follow_claims, write_holders
from ingest.store.database import Store
from ingest.store.transaction import Transaction

DUE_PUSH_HOLDERS = """
select r.repo_key as subject, r.repository_id, r.owner_id, r.knot,
  coalesce((select min(alias) from repository_aliases a where a.repository_id = r.repository_id and alias like 'did:%'),
    r.repo_key) as did,
  r.repo_key as payer, 0 as rank, r.seen_at as since, coalesce(f.attempts, 0) as attempts
from repositories r
join watched_repositories using (repository_id)
left join fetches f on f.kind = 'push_holders' and f.subject = r.repo_key
where (f.subject is null or f.due_clock <= $wall) and r.knot is not null and r.deleted_at is null
"""


def fetch_push_holders(store: Store, fetcher: Fetcher, wall: Wall, present: Wall) -> int:
    """Learn who may push to each watched repository; returns how many were asked about.

    Knots tell nobody of a change, so each is asked daily. While one is silent, what was known stays. `present` is the
    clock of decisions, by which a right ends.
    """

    def ask(row: Row) -> list[Holder]:
        return push_holders(fetcher, row["knot"], row["did"])

    def write(txn: Transaction, found: Sequence[Found[list[Holder]]]) -> None:
        _write_holders(txn, found, present())

    kind = Kind("push_holders", Due(DUE_PUSH_HOLDERS), ask, write, lambda _: Note(DAY))
    return fetch(store, fetcher, wall, kind)


def _write_holders(txn: Transaction, found: Sequence[Found[list[Holder]]], now: datetime) -> None:
    changed = [
        write_holders(txn, one.row["repository_id"], one.row["owner_id"], one.answer, now)
        for one in found
        if not isinstance(one.answer, FetchProblem)  # a silent knot takes no right away and gives none
    ]
    if follow_claims(txn) or any(changed):
        txn.inputs_changed()
