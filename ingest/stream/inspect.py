"""Counts the shapes of frames: collections, operations and the fields of records with their types. Pure.

Everything counted is named by strangers: names are cut and their number is bounded, what is beyond is only summed.

It can listen beside the worker for a while: frames as they come, with nothing opened or written.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection

from ingest.stream import frames
from ingest.stream.frames import LARGEST_FRAME

COLLECTION_LIMIT, FIELD_LIMIT, NAME_LIMIT = 200, 300, 100
DEPTH_LIMIT, ITEM_LIMIT = 6, 50  # of a longer list the first items are read
SIGNS = (
    ("did", re.compile(r"did:[a-z]+:\S+")),
    ("at-uri", re.compile(r"at://\S+")),
    ("time", re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d\S*")),
)
Known = Callable[[str], frozenset[str] | None]


@dataclass(slots=True)
class _Collection:
    operations: Counter[str] = field(default_factory=Counter)
    records: int = 0
    fields: dict[str, Counter[str]] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)  # records that carry the field
    left_out: int = 0


class Sample:
    """Counts what frames carry. `known` gives the top-level fields of a collection, None for one it does not know."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._kinds: Counter[str] = Counter()
        self._collections: dict[str, _Collection] = {}
        self._unreadable = 0
        self._left_out = 0

    def add(self, raw: bytes | str) -> None:
        try:
            frame = msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError, UnicodeError, ValueError):
            frame = None
        kind = frame.get("kind") if isinstance(frame, dict) else None
        commit = frame.get("commit") if isinstance(frame, dict) else None
        if kind == "commit" and isinstance(commit, dict):
            self._add_commit(commit)
        elif not isinstance(kind, str) or kind == "commit":
            self._unreadable += 1
            return
        self._kinds[kind if kind in ("commit", "identity", "account") else "(others)"] += 1

    def _add_commit(self, commit: Mapping[str, Any]) -> None:
        name = commit.get("collection")
        found = self._collection(name[:NAME_LIMIT] if isinstance(name, str) else "(none)")
        if found is None:
            self._left_out += 1
            return
        operation = commit.get("operation")
        found.operations[operation if operation in ("create", "update", "delete") else "(others)"] += 1
        if "record" in commit:
            found.records += 1
            _add_record(found, commit["record"])

    def _collection(self, name: str) -> _Collection | None:
        if name not in self._collections and len(self._collections) >= COLLECTION_LIMIT:
            return None
        return self._collections.setdefault(name, _Collection())

    def report(self) -> dict[str, Any]:
        """Everything counted, ready for JSON; the commonest collection first, fields in the order of their names."""
        ordered = sorted(self._collections.items(), key=lambda item: (-item[1].operations.total(), item[0]))
        return {
            "frames": self._kinds.total() + self._unreadable,
            "unreadable": self._unreadable,
            "kinds": dict(self._kinds),
            "collections": {name: self._report_one(name, found) for name, found in ordered},
            "commits_of_further_collections": self._left_out,
        }

    def _report_one(self, name: str, found: _Collection) -> dict[str, Any]:
        known = self._known(name)
        top = {path for path in found.fields if path and not re.search(r"\.|\[\]", path)}
        return {
            "registered": known is not None,
            "operations": dict(found.operations),
            "records": found.records,
            "unknown_fields": sorted(top - known - {"$type"}) if known is not None else sorted(top - {"$type"}),
            "fields": {
                path: {"seen": found.seen[path], "types": dict(found.fields[path])} for path in sorted(found.fields)
            },
            "further_fields": found.left_out,
        }


def _add_record(found: _Collection, record: object) -> None:
    """Count a record's fields: each path once as seen, each of its types as often as it has it."""
    paths = set()
    for path, kind in _walk("", record, 0):
        if path not in found.fields and len(found.fields) >= FIELD_LIMIT:
            found.left_out += 1
            continue
        found.fields.setdefault(path, Counter())[kind] += 1
        paths.add(path)
    found.seen.update(paths)


def _walk(path: str, value: object, depth: int) -> Iterator[tuple[str, str]]:
    """Path and type of everything in a value; "" is the record itself and is told only where it is no object."""
    if path or not isinstance(value, dict):
        yield path or "(record)", _type(value)
    if depth >= DEPTH_LIMIT:
        return
    if isinstance(value, dict):
        for name, part in list(value.items())[:FIELD_LIMIT]:
            short = str(name)[:NAME_LIMIT].replace(".", "·").replace("[]", "[·]")
            yield from _walk(f"{path}.{short}" if path else short, part, depth + 1)
    if isinstance(value, list):
        for part in value[:ITEM_LIMIT]:
            yield from _walk(f"{path}[]", part, depth + 1)


def _type(value: object) -> str:
    """The type in a word; texts that are DIDs, at-uris or times are told apart, objects by their `$type`."""
    if isinstance(value, str):
        return next((name for name, form in SIGNS if form.fullmatch(value[:2000])), "text")
    if isinstance(value, dict):
        told = value.get("$type")
        return f"object {told[:NAME_LIMIT]}" if isinstance(told, str) else "object"
    names = {bool: "boolean", int: "integer", float: "number", list: "list", type(None): "null"}
    return names.get(type(value), "other")


class SampleProblem(Exception):
    """The stream cannot be listened to, or not any longer; the message says why."""


def listen(url: str, collections: Sequence[str], seconds: float, since_us: int | None = None) -> Iterator[bytes | str]:
    """Frames as v1 has them for so long, from now or from `since_us` on. Raises SampleProblem when it breaks."""
    try:
        address = frames.address(url, collections, since_us)
        with frames.StraightAndWaiting(
            address, compression=None, max_size=LARGEST_FRAME, close_timeout=1, ping_timeout=60
        ) as socket:
            for frame in _frames(socket, time.monotonic() + seconds):
                yield from frames.read_v2([frame]).frames if frames.is_v2(url) else [frame]
    except ConnectionClosed as problem:
        raise SampleProblem(f"{url} ended the connection ({problem})") from problem
    except (OSError, ValueError, ImportError, WebSocketException) as problem:
        raise SampleProblem(f"{url} cannot be listened to ({problem})") from problem


def _frames(socket: ClientConnection, ends: float) -> Iterator[bytes]:
    while (left := ends - time.monotonic()) > 0:
        try:
            frame = socket.recv(timeout=left, decode=False)
        except TimeoutError:
            return
        yield frame
