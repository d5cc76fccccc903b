"""Looks people up: who they are, who may push, and their public Bluesky profiles.

Identities (handle, data server, age) are asked for of the people who matter here, push rights of each watched
repository's knot. A profile is asked for once in seven days, only of people whose own profile record here says so
(`bluesky: true`), and of those only of authors of open pull requests in watched repositories, and of whoever somebody
looks at. Nobody else is ever looked up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote

import msgspec

from ingest.atproto.identity import Change, Identity, handle_is_verified, read_identity
from ingest.clock import DAY, parse_time
from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.lookups.engine import Due, Found, Kind, Note, Row, Wall, fetch
from ingest.lookups.forge import push_holders
from ingest.records.pull_state import Holder, follow_claims, write_holders
from ingest.store.database import Store
from ingest.store.transaction import Transaction

HOPS = 4  # of trust at most, as TRUST_HOPS: who lies beyond is on no path
# People whose identity matters here: who decides, who offers something to a watched repository and on whom that rests,
# then everybody whom deciders reach by vouches, at once, before trust is computed; the voucher pays. A vouch of anybody
# else is no reason to ask: anybody writes them by the thousand, and the hosts to be asked are the subjects' own.
# On whom an open pull request rests is asked about again each day: who stole an account writes its directory's log, and
# no server of theirs tells the stream of it.
DUE_IDENTITIES = f"""
with recursive standing as (
  select voucher_id, subject_id, seen_at, event_seq from vouches where kind = 'vouch' and superseded_at is null
), deciding as (
  select contributor_id as id from seeds
  union select contributor_id from maintainers
  union select contributor_id from seed_choices where choice = 'added'
  union select contributor_id from push_holders semi join watched_repositories using (repository_id)
    where held_until is null
  union select owner_id from repositories semi join watched_repositories using (repository_id)
    where owner_id is not null
), reached as (
  select id, 0 as hops from deciding
  union
  select v.subject_id, r.hops + 1 from reached r join standing v on v.voucher_id = r.id where r.hops < {HOPS}
), nearest as (
  select id, min(hops) as hops from reached group by id
), offering as (
  select distinct author_id, repository_id
  from pull_requests semi join watched_repositories using (repository_id) where state = 'open'
), resting as (
  select author_id as id from offering
  union select unnest(t.path) from trust t join offering o
    on (o.repository_id, o.author_id) = (t.repository_id, t.contributor_id)
), wanted as (
  select id, 0 as rank, id as payer, null::timestamp as since from deciding
  union all select id, 1, id, null from resting
  union all select author_id, 1, author_id, max(seen_at)
    from pull_requests semi join watched_repositories using (repository_id) group by author_id
  union all select v.subject_id, 2, arg_min(v.voucher_id, (n.hops, v.event_seq)), max(v.seen_at)
    from standing v join nearest n on n.id = v.voucher_id where n.hops < {HOPS} group by v.subject_id
)
select c.did as subject, c.contributor_id, p.did as payer, w.rank, w.since, coalesce(f.attempts, 0) as attempts
from contributors c
join (
  select id, min(rank) as rank, arg_min(payer, rank) as payer, max(since) as since from wanted group by id
) w on w.id = c.contributor_id
join contributors p on p.contributor_id = w.payer
left join fetches f on f.kind = 'identity' and f.subject = c.did
where (f.subject is null or f.due_clock <= $wall
    or f.due_clock is null and f.fetched_clock <= $wall - interval 1 day and c.contributor_id in (from resting))
  and c.account_status <> 'deleted'
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
    if person.doubt is None:
        return Note()
    reason = f"handle not proven: {person.doubt}"
    return Note(doubt=reason, unfinished=True) if person.doubt.busy else Note(DAY, reason)


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

    kind = Kind(
        "push_holders",
        Due(DUE_PUSH_HOLDERS),
        lambda row: push_holders(fetcher, row["knot"], row["did"]),
        lambda txn, found: _write_holders(txn, found, present()),
        lambda _: Note(DAY),
    )
    return fetch(store, fetcher, wall, kind)


def _write_holders(txn: Transaction, found: Sequence[Found[list[Holder]]], now: datetime) -> None:
    changed = [
        write_holders(txn, one.row["repository_id"], one.row["owner_id"], one.answer, now)
        for one in found
        if not isinstance(one.answer, FetchProblem)  # a silent knot takes no right away and gives none
    ]
    if follow_claims(txn) or any(changed):
        txn.inputs_changed()


WEEK = timedelta(days=7)
PROFILE_LIMIT = 200_000  # bytes
MOST = 2**53  # a count beyond this is no count

DECLARED = "select author_id, min(uri) as uri from profiles where bluesky and deleted_at is null group by author_id"
DUE_PROFILES = f"""
with declared as ({DECLARED}), offering as (
  select author_id, max(seen_at) as since from pull_requests join watched_repositories using (repository_id)
  where state = 'open' and deleted_at is null group by author_id
)
select c.did as subject, d.uri, c.did as payer, case when f.outcome = 'wanted' then 0 else 1 end as rank,
  coalesce(f.due_clock, o.since) as since, coalesce(f.attempts, 0) as attempts
from contributors c
join declared d on d.author_id = c.contributor_id
left join offering o on o.author_id = c.contributor_id
left join fetches f on f.kind = 'bluesky' and f.subject = c.did
where c.account_status <> 'deleted'
  and (f.outcome = 'wanted' or o.author_id is not null and (f.subject is null or f.due_clock <= $wall))
"""


class _Profile(msgspec.Struct):
    did: str
    followersCount: int = 0  # noqa: N815 - the wire's spelling
    followsCount: int = 0  # noqa: N815
    postsCount: int = 0  # noqa: N815
    createdAt: str = ""  # noqa: N815


@dataclass(frozen=True)
class PublicProfile:
    followers: int
    follows: int
    posts: int
    created_at: datetime | None


def want_profile(store: Store, did: str, wall: Wall) -> bool:
    """Have a person's profile asked for at the next chance, since somebody looks at them; whether that is needed.

    It is not where they declare none, or where it was asked for within seven days or is left alone after a failure.
    """
    now = wall()
    with store.write() as txn:
        declares = txn.value(
            f"select count(*) from contributors join ({DECLARED}) on author_id = contributor_id where did = ?",
            [did],
        )
        known = txn.row("select outcome, due_clock from fetches where kind = 'bluesky' and subject = ?", [did])
        if not declares or (
            known and (known["outcome"] == "wanted" or not known["due_clock"] or known["due_clock"] > now)
        ):
            return False
        row = {"kind": "bluesky", "subject": did, "outcome": "wanted", "reason": None, "attempts": 0}
        txn.upsert("fetches", [row | {"due_clock": now, "fetched_clock": now}])
    return True


def fetch_profiles(store: Store, fetcher: Fetcher, bluesky_api: str, now: datetime, wall: Wall) -> int:
    kind = Kind(
        "bluesky",
        Due(DUE_PROFILES),
        lambda row: public_profile(fetcher, bluesky_api, row["subject"]),
        lambda txn, found: _write_profiles(txn, found, now),
        lambda _: Note(again=WEEK),
    )
    return fetch(store, fetcher, wall, kind)


def public_profile(fetcher: Fetcher, bluesky_api: str, did: str) -> PublicProfile:
    """The public API's word on a DID. Raises FetchProblem, with status 404 where it has no profile there."""
    address = f"{bluesky_api}/xrpc/app.bsky.actor.getProfile?actor={quote(did, safe='')}"
    try:
        told = fetcher.get_json(address, _Profile, PROFILE_LIMIT)
    except FetchProblem as problem:
        if problem.status == 400:  # how it says that there is none
            raise FetchProblem("there is no such profile on Bluesky", status=404) from None
        raise
    counts = (told.followersCount, told.followsCount, told.postsCount)
    if told.did != did or not all(0 <= count < MOST for count in counts):
        raise FetchProblem("the profile that was sent is another one's, or makes no sense")
    return PublicProfile(*counts, parse_time(told.createdAt))


def _write_profiles(txn: Transaction, found: Sequence[Found[PublicProfile]], now: datetime) -> None:
    rows = [
        {
            "subject": one.row["subject"],
            "source": "bluesky",
            "key": key,
            "value": value,
            "observed_at": now,
            "known_from": now,
            "expires_at": now + WEEK,
            "evidence_uri": one.row["uri"],
            "declared_by": one.row["subject"],
        }
        for one in found
        if isinstance(one.answer, PublicProfile)
        for key, value in _values(one.answer).items()
    ]
    txn.upsert("signals", rows)
    if rows:
        txn.inputs_changed()


def _values(profile: PublicProfile) -> dict[str, str]:
    counts = {"followers": profile.followers, "follows": profile.follows, "posts": profile.posts}
    created = {"created_at": profile.created_at.isoformat()} if profile.created_at else {}
    return {key: str(value) for key, value in counts.items()} | created
