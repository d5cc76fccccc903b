"""Events of knots and spindles as rows: pushes to watched repositories, and which look-ups they make due.

Envelope: facts/tangled.md §1.2. A host speaks for the repositories that lie on it and for no others. Everything is
idempotent, so a stream may begin again anywhere.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from ingest.clock import from_microseconds, to_microseconds
from ingest.decoding import decode_json
from ingest.dids import is_did
from ingest.forge import PIPELINE_EVENTS, REF_UPDATE, is_commit
from ingest.store import Store
from ingest.transaction import Transaction

FIRST_REACH = timedelta(days=7)  # how far back a stream begins that was never read: a mirror has what is older
EVENT_AHEAD = timedelta(hours=1)  # an event from further in the future does not move the cursor
SETTLE = timedelta(seconds=15)  # CI that was asked for so lately is not asked again at once
KEPT = 1_000  # pushes of one repository
REF_LIMIT = 300

WATCHED_HERE = """
select r.repository_id, r.repo_key, r.name, c.did as owner,
  (select list(alias) from repository_aliases a where a.repository_id = r.repository_id) as aliases
from repositories r join watched_repositories using (repository_id)
left join contributors c on c.contributor_id = r.owner_id
where lower(r.knot) = ? and r.deleted_at is null order by r.repository_id
"""
FORGET = """
delete from ref_updates where (knot, repository, ref, happened_at) in (
  select (knot, repository, ref, happened_at) from ref_updates where repository in (select unnest(?))
  qualify row_number() over (partition by repository order by happened_at desc, ref) > ?
)
"""
DUE_RUNS_NOW = """
update fetches set due_clock = $wall
where kind = 'ci' and due_clock > $wall and fetched_clock <= $before and subject in (
  select p.pull_uri || ' ' || p.patch_ref from pull_requests p
  join repositories r using (repository_id) semi join watched_repositories w using (repository_id)
  where lower(r.spindle) = $host and p.state = 'open'
)
"""


class Envelope(msgspec.Struct):
    """One event as a knot or spindle sends it; `created` is in unix nanoseconds."""

    nsid: str
    created: int
    event: dict[str, Any] = {}


def read_envelope(frame: str | bytes) -> Envelope | None:
    """The event in a frame; None where it is none that has a time."""
    try:
        found = decode_json(frame, Envelope)
        from_microseconds(found.created // 1_000)
    except (msgspec.MsgspecError, RecursionError, UnicodeError, OverflowError):
        return None
    return found if found.created > 0 else None


def begin(store: Store, host: str) -> int:
    """The cursor from which to read a host's events, always one: without it old servers start now, new ones at 0."""
    now = store.wall()
    with store.read() as rows:
        known = rows.value("select cursor_ns from event_streams where host = ?", [host])
    # Never ahead of now: what a host with a slow clock says next would be passed over.
    return min(known or to_microseconds(now - FIRST_REACH) * 1_000, to_microseconds(now) * 1_000)


def store_events(store: Store, host: str, events: Sequence[Envelope]) -> bool:
    """Keep what a host said and how far it was read, in one transaction; whether it made look-ups due."""
    wall = store.wall()
    latest = to_microseconds(wall + EVENT_AHEAD) * 1_000
    times = [event.created for event in events if event.created <= latest]
    with store.write() as txn:
        fresh = _store_pushes(txn, host, [event for event in events if event.nsid == REF_UPDATE], wall)
        told = any(event.nsid in PIPELINE_EVENTS for event in events)
        if told:
            txn.execute(DUE_RUNS_NOW, {"wall": wall, "before": wall - SETTLE, "host": host})
        known = txn.value("select cursor_ns from event_streams where host = ?", [host]) or 0
        if times and max(times) > known:
            row = {"host": host, "cursor_ns": max(times), "moved_clock": wall}
            txn.upsert("event_streams", [row])
    return fresh or told


def _store_pushes(txn: Transaction, host: str, events: Sequence[Envelope], wall: datetime) -> bool:
    """The pushes to watched repositories on this host; where any is new their mirrors are due."""
    if not events:
        return False
    repositories = txn.rows(WATCHED_HERE, [host])
    named = [(event, key) for event in events if (key := _repository(event.event, repositories))]
    rows = {tuple(row[name] for name in ("repository", "ref", "happened_at")): row for row in _rows(host, named)}
    if not txn.append_new("ref_updates", list(rows.values())):
        return False
    keys = sorted({key for _, key in named})
    txn.execute(FORGET, [keys, KEPT])
    txn.execute(
        "update fetches set due_clock = ? where kind = 'mirror' and subject in (select unnest(?))", [wall, keys]
    )
    return True


def _repository(event: Mapping[str, Any], repositories: Sequence[Mapping[str, Any]]) -> str | None:
    """The key of the watched repository that a push names; None for any other.

    Today `repo` is the repository's DID. Before, `repoDid` was; until early 2026 `repoDid` was its owner's DID, which
    only together with `repoName` names one.
    """
    own = event.get("repo") or event.get("repoDid")
    owner, name = event.get("ownerDid") or event.get("repoDid"), event.get("repoName")
    for row in repositories:
        if own and own in (row["repo_key"], *(row["aliases"] or ())):
            return row["repo_key"]
    if "repo" in event:
        return None
    return next(
        (row["repo_key"] for row in repositories if name and (owner, name) == (row["owner"], row["name"])), None
    )


def _rows(host: str, named: Sequence[tuple[Envelope, str]]) -> list[dict[str, object]]:
    return [
        {
            "knot": host,
            "repository": key,
            "ref": ref[:REF_LIMIT],
            "old_commit": _commit(envelope.event.get("oldSha")),
            "new_commit": _commit(envelope.event.get("newSha")),
            "committer": _did(envelope.event.get("committerDid")),
            "happened_at": from_microseconds(envelope.created // 1_000),
        }
        for envelope, key in named
        if isinstance(ref := envelope.event.get("ref"), str) and ref
    ]


def _commit(value: object) -> str | None:
    return value if isinstance(value, str) and is_commit(value) else None


def _did(value: object) -> str | None:
    return value if isinstance(value, str) and is_did(value) else None
