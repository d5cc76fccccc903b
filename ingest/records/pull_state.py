"""The state of a pull request, decided by the people who may say that it was merged: rule 3 of docs/threat-model.md.

A status proves only that its author wrote it. It counts by its author's rights when it was seen: if a right ended,
earlier statuses stay valid, and a later right validates no earlier status. `merged` counts from people who may push to
the target repository; `closed` and `open` count from the pull request's author too. Of those that count, the one seen
last is the state, never the one that claims the latest time.

A merge is *verified* if the last status of the people who may push, without the author, says so, or if the patch has
landed on the target branch and was new there (`landings.proven`): merging by plain push writes no status at all. The
author cannot change what others decided: a merged pull request cannot be reopened or deleted by its author. A landing
outweighs a later `closed` of anybody, who then only tidies up; a later `open` of another push-holder reverses it. A
merge that is claimed only by somebody without the right, or by an author who may push, is *unverified*. The former is
*contradicted* if the last status of the people who may push is `closed`, or if the mirror, read after the claim, has
the target branch without the patch. A knot or mirror that cannot be reached proves nothing.

A maintainer of this site settles such a claim on its row. Their word counts as a push-holder's status, written when it
took effect here: that it was merged verifies the merge, that it was not contradicts the claims made before it. Nobody's
word about their own pull request counts.

The time of a merge is when the status or the landing was seen, whichever came first: its writer could otherwise date it
out of the window in which it may be reverted. For a back-written status the time is unknown. Statuses of a person who
was erased since count as nobody's (0). Settling is set-based and idempotent: it also repairs earlier results after a
knot lists its push-holders.

Push rights have three sources, each with its own rows. The owner: of the repository's record, or named by the operator;
without time limits, and removed once the operator names another. The knot, asked daily: from the time that it gives for
a right, never later than we learned of it, until a complete listing no longer names the person; so a new right reaches
back over the day since the last request, and an ended right may last a day too long. The owner's own collaborator
records: from the time one was seen, whatever it claims, until it was deleted; records of other people count for
nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from weakref import WeakKeyDictionary

from ingest.store.database import Store
from ingest.store.transaction import Rows, Transaction

# Every right that records give now. Only records in which an owner names somebody count: an invitation and its
# acceptance are about the knot's own list, which the knot reports.
CLAIMED = """
create or replace temp table claimed as
select repository_id, owner_id as contributor_id, 'owner' as role, 'owner' as learned_from,
  null::timestamp as held_from, null::timestamp as held_until
from repositories where owner_id is not null
union all
select distinct r.repository_id, p.contributor_id, 'collaborator', 'record', c.seen_at, c.deleted_at
from collaborators c
join repository_aliases a on a.alias = c.repository
join repositories r on r.repository_id = a.repository_id and r.owner_id = c.author_id
join contributors p on p.did = c.subject
where c.form = 'collaborator' and p.contributor_id <> r.owner_id
"""
END_CLAIMS = """
delete from push_holders h where learned_from <> 'knot' and contributor_id <> 0 and not exists (
  from claimed c where c.repository_id = h.repository_id and c.contributor_id = h.contributor_id
    and c.learned_from = h.learned_from and c.held_from is not distinct from h.held_from
    and c.held_until is not distinct from h.held_until)
returning 1
"""
BEGIN_CLAIMS = """
insert into push_holders
select * from claimed except select * from push_holders where learned_from <> 'knot'
returning 1
"""
BY_KNOT = (
    "select contributor_id, held_from, held_until from push_holders where repository_id = ? and learned_from = 'knot'"
)


@dataclass(frozen=True, slots=True)
class Holder:
    """A person whom a knot lets push; `since` from the knot, None if it gives no time."""

    did: str
    since: datetime | None


def follow_claims(txn: Transaction) -> bool:
    """Update the rights of owners and of their collaborator records; return True if any changed."""
    txn.execute(CLAIMED)
    return bool(txn.rows(END_CLAIMS) + txn.rows(BEGIN_CLAIMS))


def write_holders(
    txn: Transaction, repository_id: int, owner_id: int | None, listed: Sequence[Holder], now: datetime
) -> bool:
    """Store a knot's complete answer about who may push besides the owner; return True if anything changed.

    `owner_id`: the repository's owner when the knot was asked; if the owner has changed, the answer is void. `now`: the
    present. Call it only with an answer: a knot that is silent or fails changes no right.
    """
    if txn.value("select owner_id from repositories where repository_id = ?", [repository_id]) != owner_id:
        return False
    stored = txn.rows(BY_KNOT, [repository_id])
    listed = [holder for holder in listed if txn.tombstones.erased_at(holder.did) is None]
    people = txn.person_ids([holder.did for holder in listed])
    since_by_person = {people[holder.did]: min(holder.since or now, now) for holder in listed}
    since_by_person.pop(owner_id or 0, None)
    current = {row["contributor_id"] for row in stored if row["held_until"] is None}
    _end_rights(txn, repository_id, sorted(current - since_by_person.keys()), now)
    new_rights = {person: since for person, since in since_by_person.items() if person not in current}
    _begin_rights(txn, repository_id, stored, new_rights)
    return current != since_by_person.keys()


def _end_rights(txn: Transaction, repository_id: int, people: Sequence[int], now: datetime) -> None:
    txn.execute(
        "update push_holders set held_until = greatest(held_from, ?) where repository_id = ? "
        "and learned_from = 'knot' and held_until is null and contributor_id in (select unnest(?::integer[]))",
        [now, repository_id, people],
    )


def _begin_rights(
    txn: Transaction, repository_id: int, stored: Sequence[Mapping[str, Any]], new_rights: Mapping[int, datetime]
) -> None:
    """Resume a right that is listed again with its old start, as it never ended; any other is a new right."""
    ended = {(row["contributor_id"], row["held_from"]) for row in stored}
    resumed = [item for item in new_rights.items() if item in ended]
    txn.execute(
        "update push_holders h set held_until = null "
        "from (select unnest(?::integer[]) as person, unnest(?::timestamp[]) as since) n "
        "where h.repository_id = ? and h.learned_from = 'knot' "
        "and (h.contributor_id, h.held_from) = (n.person, n.since)",
        [[person for person, _ in resumed], [since for _, since in resumed], repository_id],
    )
    row = {"repository_id": repository_id, "role": "collaborator", "learned_from": "knot", "held_until": None}
    new_rows = [
        row | {"contributor_id": person_id, "held_from": since}
        for person_id, since in new_rights.items()
        if (person_id, since) not in ended
    ]
    txn.append("push_holders", new_rows)


# A person may hold a right from two sources at once: both rows lead to one result.
AUTHORITY = """
with judged as (
  select s.status_uri,
    case when h.contributor_id is not null and s.actor_id = p.author_id then 'author_push_holder'
         when h.contributor_id is not null then 'push_holder'
         when s.actor_id = p.author_id then 'author'
         else 'stranger' end as authority
  from statuses s join pull_requests p using (pull_uri)
  left join push_holders h on h.repository_id = p.repository_id and h.contributor_id = s.actor_id
    and coalesce(h.held_from <= s.seen_at, true) and coalesce(s.seen_at < h.held_until, true)
)
update statuses set authority = judged.authority from judged
where judged.status_uri = statuses.status_uri and judged.authority <> statuses.authority
"""

# Classes of people whose last status matters. `others` may push and are not the author; `pushers` may push; `anyone`
# counts for the state. A word is 16 times its place in the order of arrival, with its content in the lower bits, so the
# last of several is the highest: structs of four columns took four times as long to group (100,000 pull requests).
CLASSES = {
    "others": "authority = 'push_holder'",
    "pushers": "authority in ('push_holder', 'author_push_holder')",
    "own": "authority in ('author', 'author_push_holder')",
    "anyone": "authority in ('push_holder', 'author_push_holder') or authority = 'author' and status <> 'merged'",
}
LAST = ", ".join(
    f"max(word) filter ({which}) as {name}, max(seen_at) filter ({which}) as {name}_at"
    for name, which in CLASSES.items()
)
OPEN, CLOSED, MERGED = "% 4 = 0", "% 4 = 1", "% 4 = 2"
BACK_WRITTEN, NO_RIGHT = "% 8 >= 4", "% 16 >= 8"  # no right: a status of an author who may not push
LAST_EVENT = 2**62  # words on this site follow events that were seen at the same moment
STATES = f"""
with words as (
  select pull_uri, authority, status, seen_at, denies, row_number() over (order by seen_at, event_seq) * 16
    + case status when 'open' then 0 when 'closed' then 1 else 2 end
    + case when back_written then 4 else 0 end + case authority when 'author' then 8 else 0 end as word
  from (
    select pull_uri, authority, status, seen_at, event_seq, back_written, false as denies from statuses
    where deleted_at is null and status in ('open', 'closed', 'merged')
    union all
    select pull_uri, 'push_holder', case m.kind when 'confirm_merge' then 'merged' else 'open' end, m.known_from,
      {LAST_EVENT} + epoch_us(m.made_at), false, m.kind = 'deny_merge'
    from maintainer_actions m join pull_requests p using (pull_uri)
    where m.kind in ('confirm_merge', 'deny_merge') and m.actor_id <> p.author_id
  )
), told as (
  select pull_uri, {LAST}, max(seen_at) filter (authority = 'stranger' and status = 'merged') as foreign_at,
    max(seen_at) filter (denies) as denied_at
  from words group by pull_uri
), landed as (
  select pull_uri, min(landed_at) as landed_at from landings where proven group by pull_uri
), known as (
  select p.pull_uri, p.deleted_at, l.landed_at, t.* exclude (pull_uri),
    coalesce(others {MERGED}, false)
      or landed_at is not null and not coalesce(others {OPEN} and others_at > landed_at, false) as merged,
    greatest(foreign_at, case when own {MERGED} and own {NO_RIGHT} then own_at end) as claimed_at,
    coalesce(own {MERGED} and not own {NO_RIGHT}, false) as by_owner
  from pull_requests p left join told t using (pull_uri) left join landed l using (pull_uri)
), denied as (
  select k.pull_uri from known k join pull_requests p using (pull_uri)
  join mirrors m on m.repository_id = p.repository_id and m.state = 'fetched' and m.fetched_at > k.claimed_at
    and list_contains(json_keys(m.refs), p.target_branch)
  join patches c on c.pull_uri = p.pull_uri and c.patch_ref = p.patch_ref and c.patch_id is not null and c.proves
  where not exists (
    from landings l where l.pull_uri = k.pull_uri and l.proof in ('patch_id', 'series', 'squash'))
), standing as (
  select k.*, pushers {MERGED} as kept, case when kept then pushers else anyone end as word,
    case when kept then pushers_at else anyone_at end as word_at, k.pull_uri in (from denied) as denied
  from known k
), standings as (
  select *, not merged and deleted_at is not null and coalesce(word {OPEN} or word {NO_RIGHT}, true) as gone,
    case when others {MERGED} then others_at end as told_at
  from standing
), wanted as (
  select pull_uri,
    case when gone then 'abandoned' when merged or word {MERGED} then 'merged'
         when word {CLOSED} then 'closed' else 'open' end as state,
    case when gone then deleted_at when merged then least(landed_at, told_at) else word_at end as state_at,
    case when merged then least(landed_at, case when not others {BACK_WRITTEN} then told_at end)
         when not gone and word {MERGED} and not word {BACK_WRITTEN} then word_at end as merged_at,
    case when merged then 'verified'
         when by_owner then 'unverified'
         when claimed_at is null then null
         when denied or others {CLOSED} or denied_at >= claimed_at then 'contradicted'
         else 'unverified' end as merge_proof
  from standings
)
update pull_requests p
set state = w.state, state_at = w.state_at, merged_at = w.merged_at, merge_proof = w.merge_proof
from wanted w
where w.pull_uri = p.pull_uri and (w.state, w.merge_proof, w.state_at, w.merged_at)
  is distinct from (p.state, p.merge_proof, p.state_at, p.merged_at)
"""

INPUTS = "select position_seq from hops where name = 'inputs'"
# The position of the inputs when the states of a store were last settled.
SETTLED: WeakKeyDictionary[Store, int] = WeakKeyDictionary()


def settle(store: Store) -> None:
    """Update push-holders, the authority of every status and the state of every pull request."""
    with store.write() as txn:
        follow_claims(txn)
        txn.execute(AUTHORITY)
        txn.execute(STATES)
        position = txn.value(INPUTS)
    SETTLED[store] = position


def settle_changed(store: Store) -> None:
    """Settle if any input was written since this process last did; after reading mirrors call `settle` itself.

    Everything that settling reads is an input, except the time at which a mirror was read, which only its hop writes.
    Each event wakes several hops that want settled states, and 13,000 pull requests take .06 s.
    """
    with store.read() as rows:
        position = rows.value(INPUTS)
    if SETTLED.get(store) != position:
        settle(store)


# Without a host that lists accounts no run fills a gap: each time gaps are found, one run lists the known accounts.
OPEN_GAP = """
select min(from_us) from gaps where filled_clock is null and (? or found_clock > coalesce(
  (select max(began_clock) from backfills where reason in ('first_start', 'gap')), 'epoch'::timestamp))
"""

# Earlier offers may not be known yet: a whole run is under way, or a gap waits for its run.
INCOMPLETE = f"""
select exists (from backfills where state <> 'done' and reason in ('first_start', 'gap')) or ({OPEN_GAP}) is not null
"""


def is_incomplete(rows: Rows) -> bool:
    """Return True if a run will still list earlier records, so that "nobody offered this earlier" cannot be said yet.

    This is so also while no host answers: a merge is not proven while an earlier offer is possible. Statuses of
    push-holders count at that time.
    """
    return bool(rows.value(INCOMPLETE, [False]))
