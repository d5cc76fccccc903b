"""Whom a run that a maintainer set off lists next: who may push to what is watched, whom they vouch for, who offers."""

from ingest.backfill import runs
from ingest.backfill.runs import Run
from ingest.derive import derive
from ingest.store import Store

HOPS = 3  # whom the last of these vouches for is reached too, without being asked themselves
ACCOUNTS = 2_000  # of one run: a crowd of fakes fills no more; the whole run reads everybody else
# People by how far they are from those who judge; who only offers comes after them, the newest offer first.
NEXT = """
with recursive circle as (
  select contributor_id, 0 as hops from (
    select contributor_id from maintainers where repository_id = 0
    union select m.contributor_id from maintainers m semi join watched_repositories using (repository_id)
    union select h.contributor_id from push_holders h semi join watched_repositories using (repository_id)
      where h.held_until is null
    union select r.owner_id from repositories r semi join watched_repositories using (repository_id)
  ) where contributor_id > 0
  union
  select v.subject_id, c.hops + 1 from circle c join vouches v on v.voucher_id = c.contributor_id
  where v.kind = 'vouch' and v.superseded_at is null and c.hops < $hops
), wanted as (
  select contributor_id, hops, null::timestamp as offered_at from circle
  union all
  select p.author_id, $hops + 1, max(p.seen_at) from pull_requests p
  semi join watched_repositories using (repository_id) where p.deleted_at is null group by p.author_id
)
select c.did from wanted join contributors c using (contributor_id)
where c.did not in (select did from backfill_accounts where run_id = $run)
group by c.did order by min(hops), max(offered_at) desc, c.did limit $room
"""


def widen(store: Store, run: Run) -> int:
    """Enter into the run whom its answers lead to, within its bounds; returns how many."""
    while derive(store):
        pass
    with store.read() as rows:
        held = rows.value("select count(*) from backfill_accounts where run_id = ?", [run.run_id])
        room = max(ACCOUNTS - held, 0)
        found = [row["did"] for row in rows.rows(NEXT, {"hops": HOPS, "run": run.run_id, "room": room})]
    wanted = store.tombstones.without(found)
    runs.add_accounts(store, run, wanted)
    return len(wanted)
