"""Who may say that a pull request was merged, and so in which state it is: the authority rule of DESIGN.md §1.3.

A status proves only that its author wrote it. `merged` counts from people who may push to the target repository, and is
*verified* only where that person is not the pull request's author; `closed` and `open` count from the author too. Of
those that count the one seen last stands (never the one that claims the latest time), and a merge happened when it was
seen: its writer could date it out of the window in which it may be reverted. What a push-holder settled is
beyond the author's reach: it cannot be reopened once merged, nor deleted out of the record. Set-based and idempotent:
it also repairs what was judged before a knot told who may push.
"""

from ingest.store import Store

AUTHORITY = """
with holders as (
  select repository_id, contributor_id from push_holders
  union select repository_id, owner_id from repositories where owner_id is not null
), judged as (
  select s.status_uri,
    case when h.contributor_id is not null and s.actor_id = p.author_id then 'author_push_holder'
         when h.contributor_id is not null then 'push_holder'
         when s.actor_id = p.author_id then 'author'
         else 'stranger' end as authority
  from statuses s join pull_requests p using (pull_uri)
  left join holders h on h.repository_id = p.repository_id and h.contributor_id = s.actor_id
)
update statuses set authority = judged.authority from judged
where judged.status_uri = statuses.status_uri and judged.authority <> statuses.authority
"""

STATES = """
with counting as (
  select *, authority in ('push_holder', 'author_push_holder') as may_push from statuses
  where deleted_at is null and (
    authority in ('push_holder', 'author_push_holder') and status in ('open', 'closed', 'merged')
    or authority = 'author' and status in ('open', 'closed'))
), last_push as (
  select pull_uri, arg_max(status, (seen_at, event_seq)) as status from counting where may_push group by pull_uri
), standing as (
  select c.* from counting c left join last_push l using (pull_uri)
  where c.may_push or l.status is distinct from 'merged'
  qualify row_number() over (partition by c.pull_uri order by c.seen_at desc, c.event_seq desc) = 1
), standings as (
  select p.pull_uri, p.deleted_at, s.status, s.seen_at, s.back_written,
    p.deleted_at is not null and (s.status is null or s.status = 'open' or s.authority = 'author') as gone
  from pull_requests p left join standing s using (pull_uri)
), wanted as (
  select pull_uri,
    case when gone then 'abandoned' else coalesce(status, 'open') end as state,
    case when gone then deleted_at else seen_at end as state_at,
    case when status = 'merged' and not back_written then seen_at end as merged_at,
    coalesce(status = 'merged' and exists (
      from statuses v where v.pull_uri = standings.pull_uri and v.status = 'merged'
        and v.authority = 'push_holder' and v.deleted_at is null), false) as merge_verified
  from standings
)
update pull_requests p
set state = w.state, state_at = w.state_at, merged_at = w.merged_at, merge_verified = w.merge_verified
from wanted w
where w.pull_uri = p.pull_uri and (w.state, w.merge_verified, w.state_at, w.merged_at)
  is distinct from (p.state, p.merge_verified, p.state_at, p.merged_at)
"""


def settle(store: Store) -> None:
    """Bring the authority of every status and the state of every pull request up to date."""
    with store.write() as txn:
        txn.execute(AUTHORITY)
        txn.execute(STATES)
