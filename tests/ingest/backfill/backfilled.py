"""A recorded network read by backfill, and what of a store must then equal one that was filled by the stream."""

import json
import sys
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from ingest.backfill import runs, turn
from ingest.backfill.account import Sources
from ingest.clock import from_microseconds
from ingest.http.fetcher import Fetcher
from ingest.records.derive import derive
from ingest.records.registry import REGISTRY
from ingest.store.database import Store
from tests.ingest.stream.frames import SOURCE
from tests.pipeline import PLC, At

HOST = "https://relay.example.test"
FIRST_WAIT = 0.01

# The records that stand, without what only a witness of the stream can know: when each was seen, what was there before
# and was replaced or deleted, in which order all came.
STANDING = {
    "repositories": """
        select r.repo_key, c.did as owner, r.rkey, r.name, r.knot, r.spindle, r.written_at
        from repositories r left join contributors c on c.contributor_id = r.owner_id where r.deleted_at is null""",
    "repository_aliases": "select alias, repo_key from repository_aliases join repositories using (repository_id)",
    "pull_requests": """
        select p.pull_uri, r.repo_key, c.did as author, p.title, p.body, p.target_branch, p.source_branch,
          p.record_form, p.record_cid, p.round, p.round_count, p.patch_ref, p.opened_at
        from pull_requests p join repositories r using (repository_id)
        join contributors c on c.contributor_id = author_id
        where p.deleted_at is null""",
    "pull_rounds": """
        select r.pull_uri, r.round, r.patch_ref, r.created_at
        from pull_rounds r join pull_requests p using (pull_uri, patch_ref, round) where p.deleted_at is null""",
    "statuses": """
        select s.status_uri, s.pull_uri, c.did as actor, s.status, s.back_written, s.written_at
        from statuses s join contributors c on c.contributor_id = s.actor_id where s.deleted_at is null""",
    "vouches": """
        select a.did as voucher, b.did as subject, v.kind, v.reason, v.evidences, v.record_cid, v.written_at
        from vouches v join contributors a on a.contributor_id = voucher_id
        join contributors b on b.contributor_id = subject_id where v.superseded_at is null""",
    "records": """
        select did, collection, rkey, newest.cid as cid, newest.body as body from (
          select did, collection, rkey,
            arg_max({'operation': operation, 'cid': cid, 'body': body}, (rev, event_seq)) as newest
          from events where kind = 'commit' and collection in (select unnest($collections))
          group by did, collection, rkey
        ) where newest.operation <> 'delete'""",
}


def standing(store: Store) -> dict[str, list[dict[str, Any]]]:
    """Every table of STANDING, its rows in an order of their own."""
    with store.read() as rows:
        found = {
            name: rows.rows(sql, {"collections": list(REGISTRY.kinds)} if "$" in sql else ())
            for name, sql in STANDING.items()
        }
    for record in found["records"]:
        record["body"] = json.loads(record["body"])  # a server may write the same value with other spaces
    return {name: sorted(table, key=repr) for name, table in found.items()}


def sources(origin: str, staging: Path, now: datetime, **changes: Any) -> Sources:
    """The loopback network as a backfill sees it."""
    found = {"hosts": (HOST,), "collections": tuple(REGISTRY.kinds), **changes}
    return Sources(fetcher=Fetcher(origin), plc_url=PLC, staging_dir=staging, clock=At(now), **found)


def run_backfill(
    store: Store, asked: Sources, reason: str = "by_hand", first_wait: float = FIRST_WAIT, **scope: Any
) -> str:
    """A whole run, and the tables it leads to; its name."""
    run_id = runs.begin(store, reason, **scope)
    finish(store, asked, first_wait)
    return run_id


def finish(
    store: Store, asked: Sources, first_wait: float = FIRST_WAIT, on_commit: Callable[[], None] = lambda: None
) -> None:
    """Whatever runs are left."""
    try:
        while turn.take_turn(store, asked, threading.Event(), on_commit, first_wait):
            pass
    finally:
        asked.fetcher.close()
    while derive(store):
        pass


def main(folder: str, origin: str, now_us: str) -> None:
    """Go on with the runs of a store, or begin the first: what tests kill."""
    store = Store.open(Path(folder) / "trust.duckdb")
    store.bind(SOURCE)
    runs.begin_first(store, SOURCE)
    finish(store, sources(origin, Path(folder) / "staging", from_microseconds(int(now_us))))
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
