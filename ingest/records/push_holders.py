"""Push rights over time: a status or a landing is worth what its author's rights were at that moment.

Three sources, each a row of its own. The owner: of the repository's record, or whom the operator named; ever, and
without a trace once the operator named another. The knot, asked daily: from the moment that it gives for a right,
never later than it was learned, until a complete listing no longer names the person; so a new right reaches back over
the day in which nobody had asked, and a right that ended may outlive itself by that day. The owner's own collaborator
records: from when one was seen, whatever it claims, until it was deleted; anybody else's name nobody.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ingest.store.transaction import Transaction

# Every right that records give, as the tables stand. Only the form in which an owner names somebody: an invitation and
# its acceptance are about the knot's own list, which the knot tells.
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
    """Somebody whom a knot lets push; `since` as the knot says, None where it does not."""

    did: str
    since: datetime | None


def follow_claims(txn: Transaction) -> bool:
    """Bring the rights of owners and of their collaborator records up to date; returns whether any changed."""
    txn.execute(CLAIMED)
    return bool(txn.rows(END_CLAIMS) + txn.rows(BEGIN_CLAIMS))


def write_holders(
    txn: Transaction, repository_id: int, owner_id: int | None, listed: Sequence[Holder], now: datetime
) -> bool:
    """Take a knot's complete answer on who may push besides the owner; returns whether anything changed.

    `owner_id`: whose repository it was when the knot was asked; if it is another's by now, the answer is void. `now`:
    the present. Only for an answer: a knot that is silent or fails ends nothing and gives nothing.
    """
    if txn.value("select owner_id from repositories where repository_id = ?", [repository_id]) != owner_id:
        return False
    known = txn.rows(BY_KNOT, [repository_id])
    listed = [holder for holder in listed if txn.tombstones.erased_at(holder.did) is None]
    people = txn.person_ids([holder.did for holder in listed])
    named = {people[holder.did]: min(holder.since or now, now) for holder in listed}
    named.pop(owner_id or 0, None)
    standing = {row["contributor_id"] for row in known if row["held_until"] is None}
    _end(txn, repository_id, sorted(standing - named.keys()), now)
    fresh = {person: since for person, since in named.items() if person not in standing}
    _begin(txn, repository_id, known, fresh)
    return standing != named.keys()


def _end(txn: Transaction, repository_id: int, people: Sequence[int], now: datetime) -> None:
    txn.execute(
        "update push_holders set held_until = greatest(held_from, ?) where repository_id = ? "
        "and learned_from = 'knot' and held_until is null and contributor_id in (select unnest(?::integer[]))",
        [now, repository_id, people],
    )


def _begin(
    txn: Transaction, repository_id: int, known: Sequence[Mapping[str, Any]], fresh: Mapping[int, datetime]
) -> None:
    """A right that is named again since the very moment of before had never ended; any other is a new one."""
    ended = {(row["contributor_id"], row["held_from"]) for row in known}
    again = [item for item in fresh.items() if item in ended]
    txn.execute(
        "update push_holders h set held_until = null "
        "from (select unnest(?::integer[]) as person, unnest(?::timestamp[]) as since) n "
        "where h.repository_id = ? and h.learned_from = 'knot' "
        "and (h.contributor_id, h.held_from) = (n.person, n.since)",
        [[person for person, _ in again], [since for _, since in again], repository_id],
    )
    row = {"repository_id": repository_id, "role": "collaborator", "learned_from": "knot", "held_until": None}
    news = [
        row | {"contributor_id": who, "held_from": since} for who, since in fresh.items() if (who, since) not in ended
    ]
    txn.append("push_holders", news)
