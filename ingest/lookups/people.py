"""Look up people: their identities, who may push, and their public Bluesky profiles.

Identities (handle, data server, age) are fetched for the people who matter here, push rights from each watched
repository's knot. A profile is fetched once in seven days, and only for people whose own profile record here allows it
(`bluesky: true`): authors of open pull requests in watched repositories, and people whose page somebody opens. Nobody
else is ever looked up.
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
from ingest.lookups.declared.facts import CLAIMED, DOCUMENT
from ingest.lookups.declared.people import DECLARING, FOOTPRINT, WITH_SERVER
from ingest.lookups.declared.people import KIND as DECLARED_KIND
from ingest.lookups.engine import Due, Found, Kind, Note, Row, Wall, fetch
from ingest.lookups.forge import push_holders
from ingest.records.pull_state import Holder, follow_claims, write_holders
from ingest.store.database import Store
from ingest.store.transaction import Transaction

HOPS = 4  # trust hops at most, as TRUST_HOPS: people farther away are on no path
# People whose identity matters here: deciders, authors of pull requests to a watched repository and the people on their
# trust paths, then everybody whom deciders reach by vouches, at once, before trust is computed; the voucher pays. A
# vouch by anybody else is no reason to ask: vouches can be written by the thousand, and the hosts belong to the
# subjects. People on the path of an open pull request are asked about again each day: a thief of an account can write
# to its log in the directory, and no server tells the stream about that. Peers, at most twenty, are named where their
# word is shown.
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
  union all select distinct author_id, 1, author_id, null::timestamp from peer_assessments
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
    """An identity with the result of its handle's proof; `doubt` says why the proof could not be fetched now."""

    identity: Identity
    verified: bool
    doubt: FetchProblem | None = None


def fetch_identities(store: Store, fetcher: Fetcher, plc_url: str, wall: Wall) -> int:
    """Fetch handle, data server and age of the people who matter here; return how many were asked about."""

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


def _write_people(txn: Transaction, results: Sequence[Found[_Person]]) -> None:
    people = {result.row["subject"]: result.answer for result in results if isinstance(result.answer, _Person)}
    current = txn.rows("select * from contributors where did in (select unnest(?))", [list(people)])
    changed = [updated for row in current if (updated := _updated_row(row, people[row["did"]])) != row]
    txn.upsert("contributors", changed)
    _write_links(txn, [person.identity for person in people.values()])
    if _write_changes(txn, [person.identity for person in people.values()]) or changed:
        txn.inputs_changed()


def _updated_row(row: Row, person: _Person) -> Row:
    keeps_proof = person.doubt is not None and row["handle_verified"] and row["handle"] == person.identity.handle
    return {
        **row,
        "handle": person.identity.handle,
        "handle_verified": person.verified or keeps_proof,
        "pds": person.identity.pds,
        "did_created_at": person.identity.created_at,
    }


def _write_changes(txn: Transaction, identities: Sequence[Identity]) -> bool:
    """Replace the signals of these people by the directory's present list; return True if that changed any.

    An operation counts from the time that the directory gave it, when everybody could read it: for each key, the newest
    row up to a time holds at that time. Operations that the directory nullified since are gone.
    """
    new_signals = {
        (identity.did, change.kind, change.at): _signal_row(identity.did, change)
        for identity in identities
        for change in identity.changes
    }
    dids = [identity.did for identity in identities]
    sql = "select * from signals where source = 'plc' and subject in (select unnest(?))"
    stored = {(row["subject"], row["key"], row["known_from"]): row for row in txn.rows(sql, [dids])}
    if stored == new_signals:
        return False
    txn.execute("delete from signals where source = 'plc' and subject in (select unnest(?))", [dids])
    txn.append("signals", list(new_signals.values()))
    return True


def _signal_row(did: str, change: Change) -> dict[str, object]:
    """Return one row of `signals`: a time for 'created_at' and 'tombstoned', a count for the other keys."""
    is_time = change.kind in ("created_at", "tombstoned")
    return {
        "subject": did,
        "source": "plc",
        "key": change.kind,
        "value": change.at.isoformat() if is_time else str(change.number),
        "observed_at": change.at,
        "known_from": change.at,
        "expires_at": None,
        "evidence_uri": None,
        "declared_by": None,
    }


def _write_links(txn: Transaction, identities: Sequence[Identity]) -> None:
    """Store the other addresses in these people's documents, for ingest/lookups/declared to look at."""
    links = {(identity.did, link) for identity in identities for link in identity.links}
    dids = [identity.did for identity in identities]
    of_these = "from signals where source = ? and list_contains(?, subject)"
    stored = txn.rows(f"select subject, key {of_these}", [DOCUMENT, dids])
    if {(row["subject"], row["key"]) for row in stored} == links:
        return
    txn.execute(f"delete {of_these}", [DOCUMENT, dids])
    now = txn.wall()
    shared = {"source": DOCUMENT, "value": CLAIMED, "observed_at": now, "known_from": now, "expires_at": None}
    txn.append(
        "signals",
        [
            {"subject": did, "key": link, "evidence_uri": None, "declared_by": did, **shared}
            for did, link in sorted(links)
        ],
    )


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
    """Fetch the people who may push to each watched repository; return how many repositories were asked about.

    Knots announce no change, so each is asked daily. While a knot does not answer, the known rights stay. `present` is
    the clock of decisions, by which a right ends.
    """

    kind = Kind(
        "push_holders",
        Due(DUE_PUSH_HOLDERS),
        lambda row: push_holders(fetcher, row["knot"], row["did"]),
        lambda txn, results: _write_holders(txn, results, present()),
        lambda _: Note(DAY),
    )
    return fetch(store, fetcher, wall, kind)


def _write_holders(txn: Transaction, results: Sequence[Found[list[Holder]]], now: datetime) -> None:
    changed = [
        write_holders(txn, result.row["repository_id"], result.row["owner_id"], result.answer, now)
        for result in results
        if not isinstance(result.answer, FetchProblem)  # a silent knot neither gives nor removes a right
    ]
    if follow_claims(txn) or any(changed):
        txn.inputs_changed()


WEEK = timedelta(days=7)
PROFILE_LIMIT = 200_000  # bytes
MOST = 2**53  # larger counts are refused

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


# What is asked about a person whose page somebody opens, by kind of look-up: of whom there is anything to ask.
WANTED = {"bluesky": f"select author_id from ({DECLARED})", DECLARED_KIND: DECLARING, FOOTPRINT: WITH_SERVER}


def want_person(store: Store, did: str, wall: Wall) -> bool:
    """Mark what a person declares as wanted because somebody opened their page; return True if anything is fetched.

    Nothing is if they declare nothing, if it was fetched within seven days, or if it waits after a failure.
    """
    now = wall()
    with store.write() as txn:
        known = "select count(*) from contributors where did = ? and contributor_id in ({})"
        kinds = [kind for kind, people in WANTED.items() if txn.value(known.format(people), [did])]
        waiting = txn.rows(
            "select kind from fetches where subject = ? and list_contains(?, kind) "
            "and (outcome = 'wanted' or due_clock is null or due_clock > ?)",
            [did, kinds, now],
        )
        wanted = [kind for kind in kinds if kind not in {row["kind"] for row in waiting}]
        row = {"subject": did, "outcome": "wanted", "reason": None, "attempts": 0, "due_clock": now}
        txn.upsert("fetches", [row | {"kind": kind, "fetched_clock": now} for kind in wanted])
    return bool(wanted)


def fetch_profiles(store: Store, fetcher: Fetcher, bluesky_api: str, now: datetime, wall: Wall) -> int:
    kind = Kind(
        "bluesky",
        Due(DUE_PROFILES),
        lambda row: public_profile(fetcher, bluesky_api, row["subject"]),
        lambda txn, results: _write_profiles(txn, results, now),
        lambda _: Note(again=WEEK),
    )
    return fetch(store, fetcher, wall, kind)


def public_profile(fetcher: Fetcher, bluesky_api: str, did: str) -> PublicProfile:
    """Return the profile of a DID from the public API. Raises FetchProblem, with status 404 if there is no profile."""
    address = f"{bluesky_api}/xrpc/app.bsky.actor.getProfile?actor={quote(did, safe='')}"
    try:
        profile = fetcher.get_json(address, _Profile, PROFILE_LIMIT)
    except FetchProblem as problem:
        if problem.status == 400:  # its answer for a missing profile
            raise FetchProblem("there is no such profile on Bluesky", status=404) from None
        raise
    counts = (profile.followersCount, profile.followsCount, profile.postsCount)
    if profile.did != did or not all(0 <= count < MOST for count in counts):
        raise FetchProblem("the profile that was sent is another one's, or makes no sense")
    return PublicProfile(*counts, parse_time(profile.createdAt))


def _write_profiles(txn: Transaction, results: Sequence[Found[PublicProfile]], now: datetime) -> None:
    rows = [
        {
            "subject": result.row["subject"],
            "source": "bluesky",
            "key": key,
            "value": value,
            "observed_at": now,
            "known_from": now,
            "expires_at": now + WEEK,
            "evidence_uri": result.row["uri"],
            "declared_by": result.row["subject"],
        }
        for result in results
        if isinstance(result.answer, PublicProfile)
        for key, value in _signal_values(result.answer).items()
    ]
    txn.upsert("signals", rows)
    if rows:
        txn.inputs_changed()


def _signal_values(profile: PublicProfile) -> dict[str, str]:
    counts = {"followers": profile.followers, "follows": profile.follows, "posts": profile.posts}
    created = {"created_at": profile.created_at.isoformat()} if profile.created_at else {}
    return {key: str(value) for key, value in counts.items()} | created
