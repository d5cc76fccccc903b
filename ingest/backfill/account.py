"""List one account at its data server: its server, its newest commit, and its records page by page.

The steps can be repeated: pages that came stay staged, and a failed step continues at its cursor.

Pages are staged raw on the drive: bounded in all, named by hash, deleted after their commit. A page's name begins with
a hash of its account, so that an erasure finds the pages of one person.
"""

import hashlib
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import quote, urlsplit

import msgspec

from ingest.atproto.identity import Identity, resolve
from ingest.atproto.syntax import tid_time
from ingest.clock import Clock
from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.records.fields import CID
from ingest.stream.frames import RECORD_KEY


@dataclass(frozen=True, slots=True)
class Sources:
    """The way to the network: `hosts` are https origins that list the accounts with records of a collection."""

    fetcher: Fetcher
    plc_url: str
    hosts: tuple[str, ...]
    collections: tuple[str, ...]  # NSIDs to ask for
    staging_dir: Path
    clock: Clock


PAGE_ROWS = (100, 10, 1)  # a page over the limit is requested again with fewer records: a record has at most 1 MB
PAGE_BYTES = 8_000_000
ACCOUNT_BYTES, ACCOUNT_PAGES = 100_000_000, 1_000  # 100,000 records are more than any account on Tangled has
ACCOUNT_SECONDS = 900.0
CURSOR_LIMIT = 500
# Relays refuse a rev five minutes ahead; with one further ahead no later event of the stream would count.
REV_AHEAD = timedelta(minutes=10)

STAGING_BYTES = 1_000_000_000  # all listed accounts share it; one may take a tenth
FULL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Page:
    """One answer of a data server, unchanged."""

    collection: str
    path: Path
    size: int


class Staging:
    """The folder of one run. It ends with the run: a killed run asks again. Safe to share between threads."""

    def __init__(self, folder: Path, limit: int = STAGING_BYTES) -> None:
        self._folder, self._limit = folder, limit
        self._used = 0
        self._lock = threading.Lock()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    def keep(self, did: str, collection: str, number: int, data: bytes) -> Page:
        """Write the numbered page of an account. Raises FetchProblem, to try again, if the folder is full; OSError."""
        with self._lock:
            if self._used + len(data) > self._limit:
                raise FetchProblem("the staging folder is full for now", retry=True, after=FULL_SECONDS)
            self._used += len(data)
        path = self._folder / f"{name_hash(did)}-{name_hash(collection)}-{number}"
        path.write_bytes(data)
        return Page(collection, path, len(data))

    def drop(self, pages: Iterable[Page]) -> None:
        """Delete pages that were committed or are no longer needed."""
        for page in pages:
            page.path.unlink(missing_ok=True)
            with self._lock:
                self._used -= page.size

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def name_hash(text: str) -> str:
    """Return the hash of a DID or a collection for the name of a page."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class Entry(msgspec.Struct):
    """One record of a listRecords page, with its value unchanged."""

    uri: str = ""
    cid: str = ""
    value: msgspec.Raw = msgspec.Raw(b"")


class _Records(msgspec.Struct):
    records: list[Entry] | None = None
    cursor: str | None = None


class _Commit(msgspec.Struct):
    rev: str = ""


class _Status(msgspec.Struct):
    active: bool = True
    status: str | None = None


class _Description(msgspec.Struct):
    did: str = ""
    collections: list[str] | None = None


_decoder = msgspec.json.Decoder(_Records)


def read_page(data: bytes) -> _Records:
    """Read a page of listRecords. Raises FetchProblem if it is not one."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise FetchProblem("its data server sent a page that cannot be read") from None


def usable(did: str, collection: str, page: _Records) -> Iterator[tuple[str, Entry]]:
    """Yield the records of a page that belong to this account and collection, each with its key; skip others."""
    prefix = f"at://{did}/{collection}/"
    for entry in page.records or ():
        rkey = entry.uri.removeprefix(prefix)
        if entry.uri.startswith(prefix) and RECORD_KEY.fullmatch(rkey) and CID.fullmatch(entry.cid):
            yield rkey, entry


@dataclass(slots=True)
class Account:
    """The state of one account's listing; `pending` are the collections still to list, the last one first.

    `complete` are the collections with every record listed: other records in the log were deleted. `state` is
    'waiting', then 'done', 'absent' or 'failed' with the reason; for an account that is partly done the reason names
    the missing part.
    """

    did: str
    attempts: int = 0
    due_at: datetime | None = None
    page_limit: int | None = None  # None: ACCOUNT_PAGES
    seconds_limit: float | None = None  # None: ACCOUNT_SECONDS
    waits: int = 0
    problem: str | None = None  # reason of the newest failed try
    state: str = "waiting"
    reason: str | None = None
    identity: Identity | None = None
    rev: str = ""
    listed_at: datetime | None = None
    records: int = 0
    progress: int = 0  # successful steps
    seen_progress: int = 0  # successful steps before the newest failure
    pending: list[str] | None = None
    complete: set[str] = field(default_factory=set)
    pages: list[Page] = field(default_factory=list)
    keys: dict[str, set[int]] = field(default_factory=dict)  # hashes of the record keys listed
    _cursor: str = ""
    _cursors: set[int] = field(default_factory=set)
    _rows: int = 0  # place in PAGE_ROWS
    _seconds: float = 0.0

    @property
    def _most_pages(self) -> int:
        return ACCOUNT_PAGES if self.page_limit is None else self.page_limit

    @property
    def _longest(self) -> float:
        return ACCOUNT_SECONDS if self.seconds_limit is None else self.seconds_limit

    def directory(self, plc_url: str) -> str:
        """Return the host that knows where this account lives."""
        return urlsplit(plc_url).netloc if self.did.startswith("did:plc:") else self.did.removeprefix("did:web:")

    def host(self, plc_url: str) -> str:
        return urlsplit(self.identity.pds).netloc if self.identity and self.identity.pds else self.directory(plc_url)

    def advance(self, sources: Sources, staging: Staging, on_page: Callable[[], None] = lambda: None) -> None:
        """Ask the directory, or list pages to the end and call `on_page` after each. Raises FetchProblem, OSError."""
        if self.identity is None:
            self._resolve(sources)
            return
        began = time.monotonic()
        try:
            if self.pending is None:
                self._read_description(sources)
            while self.pending:
                self._list_page(sources, staging, self.pending[-1])
                on_page()
                if self._seconds + time.monotonic() - began > self._longest:
                    self._stop_listing(f"listing it took longer than {self._longest / 60:.0f} minutes")
        finally:
            self._seconds += time.monotonic() - began
        self.listed_at = sources.clock.now()
        self.state = "done"

    def end(self, state: str, reason: str) -> None:
        self.state, self.reason = state, reason

    def _resolve(self, sources: Sources) -> None:
        self.identity = resolve(sources.fetcher, sources.plc_url, self.did)
        self.progress += 1
        if self.identity.pds is None:
            self.end("absent", "its DID document names no data server")

    def _read_description(self, sources: Sources) -> None:
        """Read the newest commit before anything is listed, then which of the wanted collections the account has."""
        self.rev = self.rev or self._read_newest_rev(sources)
        wanted_collections = list(sources.collections)
        present = self._read_collections(sources)
        self.pending = [name for name in reversed(wanted_collections) if present is None or name in present]
        self.complete = set(wanted_collections) - set(self.pending)
        self.keys = {name: set() for name in wanted_collections}
        self.progress += 1

    def _read_newest_rev(self, sources: Sources) -> str:
        try:
            rev = sources.fetcher.get_json(self._url("sync.getLatestCommit", "did"), _Commit, 10_000).rev
        except FetchProblem as problem:
            if problem.status not in (400, 404):
                raise
            raise FetchProblem(self._explain_absence(sources), status=404) from None
        rev_time = tid_time(rev)
        if rev_time is None or rev_time > sources.clock.now() + REV_AHEAD:
            raise FetchProblem("its data server names a newest commit that cannot be")
        return rev

    def _explain_absence(self, sources: Sources) -> str:
        """Return the reason why the data server lacks the account. Raises FetchProblem if asking again may help."""
        try:
            status = sources.fetcher.get_json(self._url("sync.getRepoStatus", "did"), _Status, 10_000)
        except FetchProblem as problem:
            if problem.retry:
                raise
            status = _Status()
        reason = (
            status.status if status.status in ("deactivated", "takendown", "suspended", "deleted") else "not active"
        )
        return "its data server does not know it" if status.active else f"its data server says that it is {reason}"

    def _read_collections(self, sources: Sources) -> set[str] | None:
        """Return the collections in which it has records, or None if the server does not say."""
        try:
            description = sources.fetcher.get_json(self._url("repo.describeRepo", "repo"), _Description, PAGE_BYTES)
        except FetchProblem as problem:
            if problem.retry:
                raise
            return None
        return (
            set(description.collections)
            if description.did == self.did and description.collections is not None
            else None
        )

    def _list_page(self, sources: Sources, staging: Staging, collection: str) -> None:
        """Fetch the next page, stage it and move on to the next page or collection."""
        query = f"&collection={collection}&limit={PAGE_ROWS[self._rows]}"
        query += f"&cursor={quote(self._cursor, safe='')}" if self._cursor else ""
        try:
            data = sources.fetcher.get(self._url("repo.listRecords", "repo") + query, PAGE_BYTES)
        except FetchProblem as problem:
            if problem.retry or problem.closed:
                raise problem
            if problem.too_large and self._rows < len(PAGE_ROWS) - 1:
                self._rows += 1
            else:
                self._end_collection(collection, f"{collection} could not be listed: {problem}")
            return
        self._rows = max(self._rows - 1, 0)
        page = read_page(data)
        listed = [hash(rkey) for rkey, _ in usable(self.did, collection, page)]
        fresh = len(set(listed) - self.keys[collection])
        if fresh:
            self.pages.append(staging.keep(self.did, collection, len(self.pages), data))
        self.keys[collection].update(listed)
        self.records += fresh
        self.progress += 1
        self._follow(collection, page, fresh, len(listed))

    def _follow(self, collection: str, page: _Records, fresh: int, listed: int) -> None:
        if listed < len(page.records or ()):
            self._end_collection(collection, f"{collection} lists records that are not its own or have no usable name")
        elif not page.cursor:
            self.complete.add(collection)
            self._end_collection(collection)
        elif not fresh or hash(page.cursor) in self._cursors or len(page.cursor) > CURSOR_LIMIT:
            self._end_collection(collection, f"{collection} is listed without an end")
        elif len(self.pages) >= self._most_pages or sum(staged.size for staged in self.pages) > ACCOUNT_BYTES:
            self._stop_listing(
                f"it has more than {self._most_pages} pages or {ACCOUNT_BYTES // 1_000_000} MB of records"
            )
        else:
            self._cursors.add(hash(page.cursor))
            self._cursor = page.cursor

    def _end_collection(self, collection: str, why: str | None = None) -> None:
        if self.pending:
            self.pending.remove(collection)
        self._cursor, self._rows, self.reason = "", 0, self.reason or why
        self._cursors.clear()

    def _stop_listing(self, why: str) -> None:
        if self.pending:
            self.pending.clear()
            self.reason = why

    def _url(self, method: str, name: str) -> str:
        base = self.identity.pds if self.identity else ""
        return f"{base}/xrpc/com.atproto.{method}?{name}={quote(self.did, safe='')}"
