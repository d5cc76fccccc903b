"""Who the people are that matter here: handle, data server and age, asked for and kept."""

from collections.abc import Sequence
from dataclasses import dataclass

from ingest.identity import Change, Identity, handle_is_verified, read_identity
from ingest.lookups import DAY, Due, Found, Kind, Note, Row, Wall, fetch
from ingest.net import Fetcher, FetchProblem
from ingest.store import Store
from ingest.transaction import Transaction

# People whose identity matters here, the ones that judgements rest on first: anybody can make vouches by the thousand.
# On whom an open pull request rests is asked about again each day: who stole an account writes its directory's log, and
# no server of theirs tells the stream of it.
DUE_IDENTITIES = """
with wanted as (
  select contributor_id as id, 0 as rank from seeds
  union all select contributor_id, 0 from maintainers
  union all select contributor_id, 0 from push_holders semi join watched_repositories using (repository_id)
    where held_until is null
  union all select author_id, 1 from pull_requests join watched_repositories using (repository_id)
  union all select voucher_id, 2 from vouches
  union all select subject_id, 2 from vouches
), offering as (
  select distinct author_id, repository_id
  from pull_requests semi join watched_repositories using (repository_id) where state = 'open'
), resting as (
  select author_id as id from offering
  union select unnest(t.path) from trust t join offering o
    on (o.repository_id, o.author_id) = (t.repository_id, t.contributor_id)
)
select c.did as subject, c.contributor_id
from contributors c
join (select id, min(rank) as rank from wanted group by id) w on w.id = c.contributor_id
left join fetches f on f.kind = 'identity' and f.subject = c.did
where (f.subject is null or f.due_clock <= $wall
    or f.due_clock is null and f.fetched_clock <= $wall - interval 1 day and c.contributor_id in (from resting))
  and c.account_status <> 'deleted'
order by w.rank, c.contributor_id
"""


@dataclass(frozen=True)
class _Person:
    """An identity with its proof; `doubt` says why the proof could not be had for now."""

    identity: Identity
    verified: bool
    doubt: FetchProblem | None = None


def fetch_identities(store: Store, fetcher: Fetcher, plc_url: str, wall: Wall) -> int:
    """Learn handle, data server and age of the people who matter here; returns how many were asked about."""

    def ask(row: Row) -> _Person:
        identity = read_identity(fetcher, plc_url, row["subject"])
        if identity.handle is None:
            return _Person(identity, verified=False)
        try:
            return _Person(identity, handle_is_verified(fetcher, identity.handle, identity.did))
        except FetchProblem as problem:
            if problem.closed:
                raise
            return _Person(identity, verified=False, doubt=problem)

    return fetch(store, fetcher, wall, Kind("identity", Due(DUE_IDENTITIES), ask, _write_people, _note))


def _note(person: _Person) -> Note:
    return Note(DAY, f"handle not proven: {person.doubt}") if person.doubt else Note()


def _write_people(txn: Transaction, found: Sequence[Found[_Person]]) -> None:
    people = {one.row["subject"]: one.answer for one in found if isinstance(one.answer, _Person)}
    current = txn.rows("select * from contributors where did in (select unnest(?))", [list(people)])
    changed = [news for row in current if (news := _with_news(row, people[row["did"]])) != row]
    txn.upsert("contributors", changed)
    if _write_changes(txn, [person.identity for person in people.values()]) or changed:
        txn.inputs_changed()


def _with_news(row: Row, person: _Person) -> Row:
    keeps_proof = person.doubt is not None and row["handle_verified"] and row["handle"] == person.identity.handle
    return {
        **row,
        "handle": person.identity.handle,
        "handle_verified": person.verified or keeps_proof,
        "pds": person.identity.pds,
        "did_created_at": person.identity.created_at,
    }


def _write_changes(txn: Transaction, identities: Sequence[Identity]) -> bool:
    """Make the signals of these people those that the directory tells now; whether that changed any.

    An operation counts from the moment that the directory gave it, which everybody could read then: of each key the
    newest row up to a moment holds for that moment. What was nullified since is gone, as the directory says.
    """
    wanted = {
        (one.did, change.kind, change.at): _signal(one.did, change) for one in identities for change in one.changes
    }
    dids = [one.did for one in identities]
    sql = "select * from signals where source = 'plc' and subject in (select unnest(?))"
    known = {(row["subject"], row["key"], row["known_from"]): row for row in txn.rows(sql, [dids])}
    if known == wanted:
        return False
    txn.execute("delete from signals where source = 'plc' and subject in (select unnest(?))", [dids])
    txn.append("signals", list(wanted.values()))
    return True


def _signal(did: str, change: Change) -> dict[str, object]:
    """One row of `signals`: a time for 'created_at' and 'tombstoned', a count for the others."""
    once = change.kind in ("created_at", "tombstoned")
    return {
        "subject": did,
        "source": "plc",
        "key": change.kind,
        "value": change.at.isoformat() if once else str(change.number),
        "observed_at": change.at,
        "known_from": change.at,
        "expires_at": None,
        "evidence_uri": None,
        "declared_by": None,
    }
