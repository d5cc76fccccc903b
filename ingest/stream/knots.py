"""Follows event streams of knots and spindles in the operator's settings: a thread a host, surviving everything.

Events become rows: pushes to watched repositories, and the look-ups that they make due. A host speaks for the
repositories that lie on it and for no others. Everything is idempotent, so a stream may begin again anywhere.
"""

import logging
import re
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from random import SystemRandom
from typing import Any

import duckdb
import msgspec
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from ingest.atproto.syntax import is_did
from ingest.clock import from_microseconds, to_microseconds
from ingest.errors import FetchProblem, StoreProblem, plain
from ingest.http.fetcher import Fetcher
from ingest.http.sockets import is_host
from ingest.json_decoding import decode_json
from ingest.lookups.forge import PIPELINE_EVENTS, REF_UPDATE, is_commit
from ingest.store.database import Store
from ingest.store.transaction import Transaction

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


log = logging.getLogger(__name__)

FLUSH_EVENTS, FLUSH_BYTES, FLUSH_SECONDS = 500, 8_000_000, 1.0
LARGEST_EVENT = 8_000_000  # bytes: a push names every file that it changed
DIAL_SECONDS, PONG_SECONDS, GOODBYE_SECONDS = 5.0, 60.0, 1.0
LONGEST_WAIT_SECONDS = 60.0
_DICE = SystemRandom()  # the generator of the process is others' to seed
_URL = re.compile(
    r"(?P<scheme>wss?)://(?P<host>[a-z0-9.-]{1,253})(?::(?P<port>[1-9][0-9]{0,4}))?(?P<path>/[a-z0-9/._-]*)?"
)


class EventStream(threading.Thread):
    """Reads one host's events until stopped; `on_due` is called where they made look-ups due.

    `url` is wss://HOST (its path is /events unless given) and leads to public addresses only; ws:// is for loopback.
    Raises ValueError for any other.
    """

    def __init__(self, store: Store, fetcher: Fetcher, url: str, on_due: Callable[[], None]) -> None:
        parts = _URL.fullmatch(url.lower())
        if parts is None or (parts["scheme"] == "ws") != (parts["host"] == "127.0.0.1"):
            raise ValueError(f"{url!r} is not an event stream: name it as wss://HOST")
        super().__init__(name=f"events {parts['host']}", daemon=True)
        port = parts["port"]
        self.host = parts["host"] if port is None else f"{parts['host']}:{port}"
        self._address = (parts["host"], int(port or (443 if parts["scheme"] == "wss" else 80)))
        self._url = f"{parts['scheme']}://{self.host}{(parts['path'] or '').rstrip('/') or '/events'}"
        self._given, self._store, self._fetcher, self._on_due = url, store, fetcher, on_due
        self._stopping = threading.Event()
        self.unread = 0  # frames that were no event
        self.problem: str | None = None  # why it is not listening just now, in words

    def run(self) -> None:
        """Connect, read, reconnect; each failure waits longer, up to a minute, with jitter."""
        failures = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self._listen()
            except (OSError, WebSocketException, ValueError) as error:
                self.problem = f"{self.host} is not answering ({plain(error)})"
            except FetchProblem as problem:
                self.problem = str(problem)
            except StoreProblem as problem:
                self.problem = str(problem)
            except (duckdb.Error, sqlite3.Error) as error:
                self.problem = f"the store cannot be written ({plain(error)}): free space on the drive, then wait"
            failures = failures + 1 if time.monotonic() - began < LONGEST_WAIT_SECONDS else 1
            if not self._stopping.is_set():
                log.warning("reading events again soon: %s", self.problem)
            self._stopping.wait(min(LONGEST_WAIT_SECONDS, 0.5 * 2 ** min(failures, 10)) * _DICE.uniform(0.5, 1.0))

    def renewed(self) -> "EventStream":
        """A stream of the same host, not started yet, in place of one that ended."""
        return EventStream(self._store, self._fetcher, self._given, self._on_due)

    def interrupt(self) -> None:
        """End without waiting for the thread; what is in hand and not stored comes again."""
        self._stopping.set()

    def _listen(self) -> None:
        """Read until the peer ends. Raises OSError, WebSocketException, FetchProblem and the store's own errors."""
        cursor = begin(self._store, self.host)
        with connect(
            f"{self._url}?cursor={cursor}",
            sock=self._dial(),  # with a socket of its own no redirect is followed
            proxy=None,
            compression=None,
            max_size=LARGEST_EVENT,
            max_queue=4,
            open_timeout=DIAL_SECONDS,
            ping_timeout=PONG_SECONDS,
            close_timeout=GOODBYE_SECONDS,
        ) as opened:
            self.problem = None
            while not self._stopping.is_set():
                events = self._batch(opened)
                if events and store_events(self._store, self.host, events):
                    self._on_due()

    def _dial(self) -> socket.socket:
        """A connection to an address that was checked. Raises OSError or FetchProblem."""
        name, port = self._address
        if name == "127.0.0.1":
            return socket.create_connection((name, port), DIAL_SECONDS)
        if not is_host(name):
            raise FetchProblem(f"{name} is not a host name")
        return socket.create_connection((self._fetcher.addresses(name)[0], port), DIAL_SECONDS)

    def _batch(self, opened: ClientConnection) -> list[Envelope]:
        """Return what comes within a second, bounded in number and bytes; what came before the peer closed, too."""
        found: list[Envelope] = []
        size, ends = 0, time.monotonic() + FLUSH_SECONDS
        while len(found) < FLUSH_EVENTS and size < FLUSH_BYTES and (rest := ends - time.monotonic()) > 0:
            try:
                frame = opened.recv(timeout=rest)
            except TimeoutError:
                break
            except WebSocketException:
                if found:  # the next call raises it again
                    break
                raise
            size += len(frame)
            event = read_envelope(frame)
            self.unread += event is None
            found += [event] if event else []
        return found
