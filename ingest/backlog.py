"""What waits for each step of the work, asked of the tables in one short read, for whoever watches over the worker."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import duckdb

from ingest import enrich, erase
from ingest.mirror import due_mirrors
from ingest.store import Store
from ingest.unopened import StoreProblem

# A log without events is told by its segments, and the other way round.
NEWEST_EVENT = """
select greatest(
  coalesce((select max(event_seq) from events), 0), coalesce((select max(last_seq) from event_segments), 0)
)
"""
UNDERIVED = "select count(*) from events where event_seq > (select position_seq from hops where name = 'derive')"
UNJUDGED = """
select greatest(i.position_seq - s.position_seq, 0) from hops i, hops s where i.name = 'inputs' and s.name = 'score'
"""
UNREAD_PULLS = """
select count(*) from pull_requests p
join watched_repositories using (repository_id)
join patches k on (k.pull_uri, k.patch_ref) = (p.pull_uri, p.patch_ref)
where p.state = 'open' and k.sha256 is not null and not exists (
  from content_reviews r where (r.pull_uri, r.patch_ref) = (p.pull_uri, p.patch_ref) and r.state <> 'running'
)
"""
LETTERS = "select (select count(*) from dead_letters) + (select count(*) from unread_events)"


@dataclass(frozen=True, slots=True)
class Backlog:
    """How far the log goes (`newest_event`, 0: it is empty), what it could not read, and what waits, by hop."""

    newest_event: int
    letters: int
    waiting: Mapping[str, int]


def read_backlog(store: Store, followed: timedelta) -> Backlog:
    """The backlog now; a merged pull request is looked up for as long as it is `followed`. Raises StoreProblem."""
    wall = store.wall
    with as_problems(), store.read() as rows:
        waiting = {
            "derive_events": rows.value(UNDERIVED),
            "ask_network": enrich.due(rows, wall, wall() - followed),
            "follow_mirrors": due_mirrors(rows, wall),
            "score_everyone": rows.value(UNJUDGED),
            "review_pulls": rows.value(UNREAD_PULLS),
            "erase_deleted": rows.value(f"select count(*) from ({erase.DUE})"),
        }
        return Backlog(rows.value(NEWEST_EVENT), rows.value(LETTERS), waiting)


@contextmanager
def as_problems() -> Generator[None]:
    """Whatever DuckDB raises in the block, as a StoreProblem."""
    try:
        yield
    except duckdb.Error as error:
        raise StoreProblem(f"the store cannot be asked just now: {error}") from error
