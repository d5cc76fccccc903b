"""The hops that ask the network: the tables say what is due, answers and outcomes go back in one transaction a chunk.

Asking happens outside any transaction, in a few threads. A look-up that failed comes back after 1 minute, then twice as
long each time up to 6 hours; what is absent is asked again after a day.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from ingest.forge import blob, push_holders
from ingest.identity import Identity, handle_is_verified, resolve
from ingest.net import Fetcher, FetchProblem
from ingest.patches import Patch, read_patch, store_patch
from ingest.store import Rows, Store, Transaction

THREADS = 8
CHUNK = 500  # subjects a transaction: the writer's mutex is held for some 50 ms
SPAN_SECONDS = 30.0  # no further look-up begins after this long, so that one hop cannot starve the others
FIRST_WAIT, LONGEST_WAIT = timedelta(minutes=1), timedelta(hours=6)
DAY = timedelta(days=1)

Wall = Callable[[], datetime]
Row = Mapping[str, Any]
Answer = TypeVar("Answer")

# People whose identity matters here, the ones that judgements rest on first: anybody can make vouches by the thousand.
DUE_IDENTITIES = """
with wanted as (
  select contributor_id as id, 0 as rank from seeds
  union all select contributor_id, 0 from maintainers
  union all select contributor_id, 0 from push_holders
  union all select author_id, 1 from pull_requests join watched_repositories using (repository_id)
  union all select voucher_id, 2 from vouches
  union all select subject_id, 2 from vouches
)
select c.did as subject, c.contributor_id
from contributors c
join (select id, min(rank) as rank from wanted group by id) w on w.id = c.contributor_id
left join fetches f on f.kind = 'identity' and f.subject = c.did
where (f.subject is null or f.due_clock <= ?) and c.account_status <> 'deleted'
order by w.rank, c.contributor_id
"""
DUE_PUSH_HOLDERS = """
select r.repo_key as subject, r.repository_id, r.owner_id, r.knot,
  coalesce((select min(alias) from repository_aliases a where a.repository_id = r.repository_id and alias like 'did:%'),
    r.repo_key) as did
from repositories r
join watched_repositories using (repository_id)
left join fetches f on f.kind = 'push_holders' and f.subject = r.repo_key
where (f.subject is null or f.due_clock <= ?) and r.knot is not null and r.deleted_at is null
order by r.repository_id
"""
# The subject names the pull request too: else a stranger who cites another's blob could spoil its look-up.
# Older records carry the patch in their own text, which the log has; the look-up is then only a reading.
DUE_PATCHES = """
select p.pull_uri || ' ' || p.patch_ref as subject, p.pull_uri, p.patch_ref, c.did, c.pds,
  case when p.patch_ref like 'inline:%' then (
    select max_by(e.body, e.event_seq) from events e
    where e.did = c.did and e.cid = p.record_cid
      and 'at://' || e.did || '/' || e.collection || '/' || e.rkey = p.pull_uri
  ) end as record
from pull_requests p
join watched_repositories using (repository_id)
join contributors c on c.contributor_id = p.author_id
left join patches k on k.pull_uri = p.pull_uri and k.patch_ref = p.patch_ref
left join fetches f on f.kind = 'patch' and f.subject = p.pull_uri || ' ' || p.patch_ref
where (f.subject is null or f.due_clock <= ?) and k.pull_uri is null
  and p.state = 'open' and p.deleted_at is null
  and (p.patch_ref like 'blob:%' and c.pds is not null or p.patch_ref like 'inline:%')
order by p.opened_at desc, p.pull_uri
"""


def _inline_patch(row: Row) -> bytes:
    """The patch inside a pull request's record; FetchProblem where the log no longer has it."""
    try:
        patch = msgspec.json.decode(row["record"] or "{}", type=dict[str, Any]).get("patch")
    except msgspec.MsgspecError:
        patch = None
    if not isinstance(patch, str):
        raise FetchProblem("the record that carried the patch is not in the log any more")
    return patch.encode(errors="replace")


@dataclass(frozen=True)
class _Found(Generic[Answer]):
    """One subject that was asked about: the row that was due and what came of it."""

    row: Row
    answer: Answer | FetchProblem


@dataclass(frozen=True)
class _Person:
    """An identity with its proof; `doubt` says why the proof could not be had for now."""

    identity: Identity
    verified: bool
    doubt: FetchProblem | None = None


@dataclass(frozen=True)
class _Kind(Generic[Answer]):
    """One kind of look-up: which rows are due, how one is asked, how the answers are written."""

    name: str
    due: str
    ask: Callable[[Row], Answer]
    write: Callable[[Transaction, Sequence[_Found[Answer]]], None]
    again: Callable[[Answer], timedelta | None]  # when an answer is to be asked for again


def due(rows: Rows, wall: Wall) -> int:
    """How many look-ups of all kinds are due now."""
    return sum(
        rows.value(f"select count(*) from ({sql})", [wall()]) for sql in (DUE_IDENTITIES, DUE_PUSH_HOLDERS, DUE_PATCHES)
    )


def fetch_identities(store: Store, fetcher: Fetcher, plc_url: str, wall: Wall) -> int:
    """Learn handle, data server and age of the people who matter here; returns how many were asked about."""

    def ask(row: Row) -> _Person:
        identity = resolve(fetcher, plc_url, row["subject"])
        if identity.handle is None:
            return _Person(identity, verified=False)
        try:
            return _Person(identity, handle_is_verified(fetcher, identity.handle, identity.did))
        except FetchProblem as problem:
            if problem.closed:
                raise
            return _Person(identity, verified=False, doubt=problem)

    kind = _Kind("identity", DUE_IDENTITIES, ask, _write_people, lambda person: DAY if person.doubt else None)
    return _fetch(store, fetcher, wall, kind)


def fetch_push_holders(store: Store, fetcher: Fetcher, wall: Wall) -> int:
    """Learn who may push to each watched repository; returns how many were asked about.

    Knots tell nobody of a change, so each is asked daily. While one is silent, what was known stays.
    """

    def ask(row: Row) -> list[str]:
        return push_holders(fetcher, row["knot"], row["did"])

    return _fetch(store, fetcher, wall, _Kind("push_holders", DUE_PUSH_HOLDERS, ask, _write_holders, lambda _: DAY))


def fetch_patches(store: Store, fetcher: Fetcher, folder: Path, limit: int, wall: Wall) -> int:
    """Fetch, or read from the record, and keep the newest patch of open pull requests; returns how many were due."""

    def ask(row: Row) -> Row:
        if row["patch_ref"].startswith("inline:"):
            return _patch_row(row, read_patch(_inline_patch(row), limit), folder)
        try:
            data = blob(fetcher, row["pds"], row["did"], row["patch_ref"].removeprefix("blob:"), limit)
        except FetchProblem as problem:
            if not problem.too_large:
                raise
            return _patch_row(row, Patch("", "oversized", None, 0, 0, 0), folder)
        return _patch_row(row, read_patch(data, limit), folder)

    return _fetch(store, fetcher, wall, _Kind("patch", DUE_PATCHES, ask, _write_patches, lambda _: None))


def _fetch(store: Store, fetcher: Fetcher, wall: Wall, kind: _Kind[Any]) -> int:
    """Ask about everything that was due when this began, chunk by chunk, until it is done or the span is over."""
    began, ends, asked = wall(), time.monotonic() + SPAN_SECONDS, 0
    while True:
        with store.read() as rows:
            chunk = rows.rows(f"{kind.due} limit {CHUNK}", [began])
        found = _ask_all(fetcher, chunk, kind.ask, ends)
        if not found:
            return asked
        with store.write() as txn:
            kind.write(txn, found)
            _write_outcomes(txn, kind, found, wall())
        asked += len(found)


def _ask_all(fetcher: Fetcher, chunk: Sequence[Row], ask: Callable[[Row], Answer], ends: float) -> list[_Found[Answer]]:
    """Ask in a few threads; what was not begun before `ends` or was cut by close() is left out and stays due."""

    def one(row: Row) -> _Found[Answer] | None:
        if fetcher.closed or time.monotonic() > ends:
            return None
        try:
            return _Found(row, ask(row))
        except FetchProblem as problem:
            return None if problem.closed else _Found(row, problem)

    if not chunk:
        return []
    with ThreadPoolExecutor(min(THREADS, len(chunk)), thread_name_prefix="fetch") as pool:
        return [found for found in pool.map(one, chunk) if found is not None]


def _write_outcomes(txn: Transaction, kind: _Kind[Any], found: Sequence[_Found[Any]], now: datetime) -> None:
    subjects = [one.row["subject"] for one in found]
    known = txn.rows(
        "select subject, attempts from fetches where kind = ? and subject in (select unnest(?))", [kind.name, subjects]
    )
    attempts = {row["subject"]: row["attempts"] for row in known}
    rows = [_outcome(one, attempts.get(one.row["subject"], 0), now, kind.again) for one in found]
    txn.upsert("fetches", [{"kind": kind.name, "fetched_clock": now, **row} for row in rows])


def _outcome(
    one: _Found[Any], attempts: int, now: datetime, again: Callable[[Any], timedelta | None]
) -> dict[str, object]:
    """What `fetches` says about one subject; `attempts` counts the look-ups in a row that found nothing."""
    answer, subject = one.answer, one.row["subject"]
    if not isinstance(answer, FetchProblem):
        wait, doubt = again(answer), answer.doubt if isinstance(answer, _Person) else None
        reason = f"handle not proven: {doubt}" if doubt else None
        return {
            "subject": subject,
            "outcome": "found",
            "reason": reason,
            "attempts": 0,
            "due_clock": now + wait if wait else None,
        }
    outcome, wait = ("absent", DAY) if answer.absent else ("failed", waiting_time(attempts + 1, answer))
    return {
        "subject": subject,
        "outcome": outcome,
        "reason": str(answer),
        "attempts": attempts + 1,
        "due_clock": now + wait,
    }


def waiting_time(attempts: int, problem: FetchProblem) -> timedelta:
    """How long to leave a subject alone after so many failures in a row: 1 minute doubled, 6 hours at most."""
    if not problem.retry:
        return LONGEST_WAIT
    doubled = min(FIRST_WAIT * 2 ** min(attempts - 1, 20), LONGEST_WAIT)
    return max(doubled, timedelta(seconds=problem.after or 0))


def _write_people(txn: Transaction, found: Sequence[_Found[_Person]]) -> None:
    people = {one.row["subject"]: one.answer for one in found if isinstance(one.answer, _Person)}
    current = txn.rows("select * from contributors where did in (select unnest(?))", [list(people)])
    changed = []
    for row in current:
        person = people[row["did"]]
        keeps_proof = person.doubt is not None and row["handle_verified"] and row["handle"] == person.identity.handle
        news = {
            "handle": person.identity.handle,
            "handle_verified": person.verified or keeps_proof,
            "pds": person.identity.pds,
            "did_created_at": person.identity.created_at,
        }
        if any(row[name] != value for name, value in news.items()):
            changed.append({**row, **news})
    txn.upsert("contributors", changed)
    if changed:
        txn.inputs_changed()


def _write_holders(txn: Transaction, found: Sequence[_Found[list[str]]]) -> None:
    for one in found:
        number, owner = one.row["repository_id"], one.row["owner_id"]
        query = "select contributor_id, role from push_holders where repository_id = ?"
        known = {row["contributor_id"]: row["role"] for row in txn.rows(query, [number])}
        if isinstance(one.answer, FetchProblem):  # a silent knot takes no right away and gives none
            wanted = dict(known)
        else:
            wanted = dict.fromkeys(txn.person_ids(one.answer).values(), "collaborator")
        if owner is not None:
            wanted = {person: role for person, role in wanted.items() if role != "owner"} | {owner: "owner"}
        if wanted != known:
            txn.execute("delete from push_holders where repository_id = ?", [number])
            txn.append("push_holders", [_holder_row(number, person, role) for person, role in sorted(wanted.items())])
            txn.inputs_changed()


def _holder_row(repository_id: int, contributor_id: int, role: str) -> dict[str, object]:
    return {"repository_id": repository_id, "contributor_id": contributor_id, "role": role}


def _patch_row(row: Row, patch: Patch, folder: Path) -> dict[str, object]:
    """Keep the text of a patch and say so as a row of `patches`."""
    return {
        "pull_uri": row["pull_uri"],
        "patch_ref": row["patch_ref"],
        "patch_id": patch.patch_id,
        "sha256": store_patch(folder, patch.text),
        "bytes": len(patch.text.encode()),
        "files": patch.files,
        "added": patch.added,
        "removed": patch.removed,
        "state": patch.state,
    }


def _write_patches(txn: Transaction, found: Sequence[_Found[Row]]) -> None:
    rows = [one.answer for one in found if not isinstance(one.answer, FetchProblem)]
    txn.upsert("patches", rows)
    if rows:
        txn.inputs_changed()
