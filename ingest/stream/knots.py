"""Follow the event streams of configured knots and spindles, one thread a host, through every failure.

Events become rows: pushes to watched repositories, and the look-ups that they make due. A host is believed only about
the repositories that lie on it. Everything is idempotent, so a stream may begin again anywhere.
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

FIRST_REACH = timedelta(days=7)  # how far back a stream begins that was never read: a mirror has older pushes
EVENT_AHEAD = timedelta(hours=1)  # an event from further in the future does not move the cursor
SETTLE = timedelta(seconds=15)  # CI that was asked about so recently is not asked about again at once
KEPT = 1_000  # pushes stored for one repository
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
    """Return the event in a frame, or None if it is not an event with a time."""
    try:
        envelope = decode_json(frame, Envelope)
        from_microseconds(envelope.created // 1_000)
    except (msgspec.MsgspecError, RecursionError, UnicodeError, OverflowError):
        return None
    return envelope if envelope.created > 0 else None


def begin(store: Store, host: str) -> int:
    """Return the cursor for a host's events, never none: without it old servers start now, new ones at 0."""
    now = store.wall()
    with store.read() as reader:
        stored_cursor = reader.value("select cursor_ns from event_streams where host = ?", [host])
    # Never ahead of now: otherwise the next events of a host with a slow clock would be skipped.
    return min(stored_cursor or to_microseconds(now - FIRST_REACH) * 1_000, to_microseconds(now) * 1_000)


def store_events(store: Store, host: str, events: Sequence[Envelope]) -> bool:
    """Store a host's events and the cursor in one transaction; return True if they made look-ups due."""
    wall = store.wall()
    latest = to_microseconds(wall + EVENT_AHEAD) * 1_000
    times = [event.created for event in events if event.created <= latest]
    with store.write() as txn:
        has_pushes = _store_pushes(txn, host, [event for event in events if event.nsid == REF_UPDATE], wall)
        has_pipelines = any(event.nsid in PIPELINE_EVENTS for event in events)
        if has_pipelines:
            txn.execute(DUE_RUNS_NOW, {"wall": wall, "before": wall - SETTLE, "host": host})
        stored_cursor = txn.value("select cursor_ns from event_streams where host = ?", [host]) or 0
        if times and max(times) > stored_cursor:
            row = {"host": host, "cursor_ns": max(times), "moved_clock": wall}
            txn.upsert("event_streams", [row])
    return has_pushes or has_pipelines


def _store_pushes(txn: Transaction, host: str, events: Sequence[Envelope], wall: datetime) -> bool:
    """Store the pushes to watched repositories on this host; if any is new, make their mirrors due."""
    if not events:
        return False
    repositories = txn.rows(WATCHED_HERE, [host])
    named_events = [(event, key) for event in events if (key := _find_repository(event.event, repositories))]
    rows = {
        tuple(row[name] for name in ("repository", "ref", "happened_at")): row for row in _push_rows(host, named_events)
    }
    if not txn.append_new("ref_updates", list(rows.values())):
        return False
    keys = sorted({key for _, key in named_events})
    txn.execute(FORGET, [keys, KEPT])
    txn.execute(
        "update fetches set due_clock = ? where kind = 'mirror' and subject in (select unnest(?))", [wall, keys]
    )
    return True


def _find_repository(event: Mapping[str, Any], repositories: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the key of the watched repository that a push names, or None for any other.

    Today `repo` is the repository's DID. Before, `repoDid` was; until early 2026 `repoDid` was its owner's DID, which
    identifies a repository only together with `repoName`.
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


def _push_rows(host: str, named_events: Sequence[tuple[Envelope, str]]) -> list[dict[str, object]]:
    return [
        {
            "knot": host,
            "repository": key,
            "ref": ref[:REF_LIMIT],
            "old_commit": _commit_or_none(envelope.event.get("oldSha")),
            "new_commit": _commit_or_none(envelope.event.get("newSha")),
            "committer": _did_or_none(envelope.event.get("committerDid")),
            "happened_at": from_microseconds(envelope.created // 1_000),
        }
        for envelope, key in named_events
        if isinstance(ref := envelope.event.get("ref"), str) and ref
    ]


def _commit_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and is_commit(value) else None


def _did_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and is_did(value) else None


log = logging.getLogger(__name__)

FLUSH_EVENTS, FLUSH_BYTES, FLUSH_SECONDS = 500, 8_000_000, 1.0
LARGEST_EVENT = 8_000_000  # bytes: a push names every file that it changed
DIAL_SECONDS, PONG_SECONDS, GOODBYE_SECONDS = 5.0, 60.0, 1.0
LONGEST_WAIT_SECONDS = 60.0
_DICE = SystemRandom()  # other code may seed the generator of the process
_URL = re.compile(
    r"(?P<scheme>wss?)://(?P<host>[a-z0-9.-]{1,253})(?::(?P<port>[1-9][0-9]{0,4}))?(?P<path>/[a-z0-9/._-]*)?"
)


class EventStream(threading.Thread):
    """Read one host's events until stopped; call `on_due` when they made look-ups due.

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
        self.unread = 0  # frames that are not events
        self.problem: str | None = None  # the reason why it is not listening now, in words

    def run(self) -> None:
        """Connect, read, reconnect; wait longer after each failure, up to a minute, with jitter."""
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
        """Return a new stream of this host, not started yet, in place of one that ended."""
        return EventStream(self._store, self._fetcher, self._given, self._on_due)

    def interrupt(self) -> None:
        """End without waiting for the thread; events that were not stored come again."""
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
        ) as connection:
            self.problem = None
            while not self._stopping.is_set():
                events = self._receive_batch(connection)
                if events and store_events(self._store, self.host, events):
                    self._on_due()

    def _dial(self) -> socket.socket:
        """Return a connection to a checked address. Raises OSError or FetchProblem."""
        name, port = self._address
        if name == "127.0.0.1":
            return socket.create_connection((name, port), DIAL_SECONDS)
        if not is_host(name):
            raise FetchProblem(f"{name} is not a host name")
        return socket.create_connection((self._fetcher.addresses(name)[0], port), DIAL_SECONDS)

    def _receive_batch(self, connection: ClientConnection) -> list[Envelope]:
        """Return the events of a second, bounded in number and bytes, also those that came before the peer closed."""
        events: list[Envelope] = []
        size, deadline = 0, time.monotonic() + FLUSH_SECONDS
        while len(events) < FLUSH_EVENTS and size < FLUSH_BYTES and (seconds_left := deadline - time.monotonic()) > 0:
            try:
                frame = connection.recv(timeout=seconds_left)
            except TimeoutError:
                break
            except WebSocketException:
                if events:  # the next call raises it again
                    break
                raise
            size += len(frame)
            event = read_envelope(frame)
            self.unread += event is None
            events += [event] if event else []
        return events
