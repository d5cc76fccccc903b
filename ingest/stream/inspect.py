"""Count the shapes of frames: collections, operations and the fields of records with their types. Pure.

Strangers choose all names that are counted: names are cut and their number is bounded; further ones are only summed.

It can also listen beside the worker for a while: it yields frames as they come and opens or writes no file.
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
DEPTH_LIMIT, ITEM_LIMIT = 6, 50  # only the first items of a longer list are read
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
    """Count the fields of frames. `known` gives a collection's top-level fields, or None if it is unknown."""

    def __init__(self, known_fields: Known) -> None:
        self._known = known_fields
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
        collection = self._collection(name[:NAME_LIMIT] if isinstance(name, str) else "(none)")
        if collection is None:
            self._left_out += 1
            return
        operation = commit.get("operation")
        collection.operations[operation if operation in ("create", "update", "delete") else "(others)"] += 1
        if "record" in commit:
            collection.records += 1
            _add_record(collection, commit["record"])

    def _collection(self, name: str) -> _Collection | None:
        if name not in self._collections and len(self._collections) >= COLLECTION_LIMIT:
            return None
        return self._collections.setdefault(name, _Collection())

    def report(self) -> dict[str, Any]:
        """Return all counts, ready for JSON; the commonest collection first, fields in the order of their names."""
        ordered = sorted(self._collections.items(), key=lambda item: (-item[1].operations.total(), item[0]))
        return {
            "frames": self._kinds.total() + self._unreadable,
            "unreadable": self._unreadable,
            "kinds": dict(self._kinds),
            "collections": {name: self._report_one(name, collection) for name, collection in ordered},
            "commits_of_further_collections": self._left_out,
        }

    def _report_one(self, name: str, collection: _Collection) -> dict[str, Any]:
        known_fields = self._known(name)
        top = {path for path in collection.fields if path and not re.search(r"\.|\[\]", path)}
        return {
            "registered": known_fields is not None,
            "operations": dict(collection.operations),
            "records": collection.records,
            "unknown_fields": sorted(top - known_fields - {"$type"})
            if known_fields is not None
            else sorted(top - {"$type"}),
            "fields": {
                path: {"seen": collection.seen[path], "types": dict(collection.fields[path])}
                for path in sorted(collection.fields)
            },
            "further_fields": collection.left_out,
        }


def _add_record(collection: _Collection, record: object) -> None:
    """Count a record's fields: each path once as seen, each of its types as often as it occurs."""
    paths = set()
    for path, kind in _walk_fields("", record, 0):
        if path not in collection.fields and len(collection.fields) >= FIELD_LIMIT:
            collection.left_out += 1
            continue
        collection.fields.setdefault(path, Counter())[kind] += 1
        paths.add(path)
    collection.seen.update(paths)


def _walk_fields(path: str, value: object, depth: int) -> Iterator[tuple[str, str]]:
    """Yield path and type of everything in a value; the record itself, "", only if it is not an object."""
    if path or not isinstance(value, dict):
        yield path or "(record)", _name_type(value)
    if depth >= DEPTH_LIMIT:
        return
    if isinstance(value, dict):
        for name, part in list(value.items())[:FIELD_LIMIT]:
            short = str(name)[:NAME_LIMIT].replace(".", "·").replace("[]", "[·]")
            yield from _walk_fields(f"{path}.{short}" if path else short, part, depth + 1)
    if isinstance(value, list):
        for part in value[:ITEM_LIMIT]:
            yield from _walk_fields(f"{path}[]", part, depth + 1)


def _name_type(value: object) -> str:
    """Return the type in a word; DIDs, at-uris and times are kinds of text, objects have their `$type`."""
    if isinstance(value, str):
        return next((name for name, pattern in SIGNS if pattern.fullmatch(value[:2000])), "text")
    if isinstance(value, dict):
        type_name = value.get("$type")
        return f"object {type_name[:NAME_LIMIT]}" if isinstance(type_name, str) else "object"
    names = {bool: "boolean", int: "integer", float: "number", list: "list", type(None): "null"}
    return names.get(type(value), "other")


class SampleProblem(Exception):
    """The stream cannot be listened to, or no longer; the message gives the reason."""


def listen(url: str, collections: Sequence[str], seconds: float, since_us: int | None = None) -> Iterator[bytes | str]:
    """Yield frames in v1 form for this long, from now or `since_us` on. Raises SampleProblem if the stream breaks."""
    try:
        address = frames.address(url, collections, since_us)
        with frames.StraightAndWaiting(
            address, compression=None, max_size=LARGEST_FRAME, close_timeout=1, ping_timeout=60
        ) as socket:
            for frame in _receive_frames(socket, time.monotonic() + seconds):
                yield from frames.read_v2([frame]).frames if frames.is_v2(url) else [frame]
    except ConnectionClosed as problem:
        raise SampleProblem(f"{url} ended the connection ({problem})") from problem
    except (OSError, ValueError, ImportError, WebSocketException) as problem:
        raise SampleProblem(f"{url} cannot be listened to ({problem})") from problem


def _receive_frames(socket: ClientConnection, deadline: float) -> Iterator[bytes]:
    while (seconds_left := deadline - time.monotonic()) > 0:
        try:
            frame = socket.recv(timeout=seconds_left, decode=False)
        except TimeoutError:
            return
        yield frame
