"""Hold arriving events as columns of Arrow text, and as lists of Python strings where the log compares them.

Columns are built in parts of PART frames, each from decoding to Arrow before the next one: a part stays in the
processor's second-level cache (1 MB). Measured with 10,000 frames of 600 bytes, doing this work column by column over
the whole batch takes twice as long.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.records.fields import DID
from ingest.stream.frames import (
    COLLECTION,
    EARLIEST_US,
    KEY_CHARACTERS,
    KEY_LIMIT,
    LARGEST_FRAME,
    LATEST_US,
    NO_BYTES,
    OPERATIONS,
    REVISION_LIMIT,
    Commit,
    Frame,
    as_commit,
    decoded,
)

PART = 512
_TEXTS = ("kind", "did", "collection", "rkey", "operation", "rev", "cid")
# Nearly every DID is a hash of 24 letters: a column of these is checked at once, any other by the pattern.
_PLC, _PLC_LENGTH = np.frombuffer(b"did:plc:", np.uint8), 32
_DID_CHARACTERS = KEY_CHARACTERS.replace(b"~", b"%")
_FIELDS = [pa.field(name, pa.string()) for name in _TEXTS]
SCHEMA = pa.schema([*_FIELDS, pa.field("seen_at", pa.timestamp("us")), pa.field("body", pa.large_string())])


@dataclass(frozen=True)
class Events:
    """Events in order of arrival; every list, and `table`, has a row for each."""

    table: pa.Table  # kind, did, collection, rkey, operation, rev, cid, seen_at, body ('' if there is none)

    def __len__(self) -> int:
        return self.table.num_rows

    def _list(self, name: str) -> list:
        column = self.table[name]
        if name == "seen_at":
            return column.cast(pa.int64()).to_numpy().tolist()
        return column.to_numpy().tolist()  # seven times as fast as to_pylist, which makes an object of Arrow for each

    times_us = cached_property(lambda self: self._list("seen_at"))  # microseconds
    dids = cached_property(lambda self: self._list("did"))
    collections = cached_property(
        lambda self: self._list("collection")
    )  # "" if it is not a commit, like keys and operations
    rkeys = cached_property(lambda self: self._list("rkey"))
    operations = cached_property(lambda self: self._list("operation"))
    revs = cached_property(lambda self: self._list("rev"))
    cids = cached_property(lambda self: self._list("cid"))

    def body(self, place: int) -> str:
        """Return the record, or the identity or account object, as JSON text."""
        return self.table["body"][place].as_py()

    def bodies(self) -> Iterator[str]:
        """Yield all bodies as a few long texts."""
        for part in self.table["body"].chunks:
            yield b"".join(buffer for buffer in part.buffers()[2:] if buffer).decode()

    def sizes(self) -> list[int]:
        return pc.call_function("binary_length", [self.table["body"]]).to_numpy().tolist()

    def numbered(self) -> pa.Table:
        """Return the table with the column `place`, from 0."""
        return self.table.append_column("place", pa.array(np.arange(len(self))))

    def without(self, places: Collection[int]) -> "Events":
        """Return the events except those at these places."""
        if not places:
            return self
        return Events(self.table.filter(pa.array(np.isin(np.arange(len(self)), list(places), invert=True))))

    def frame(self, place: int) -> Frame:
        return Events(self.table.slice(place, 1).combine_chunks()).frames()[0]

    def frames(self) -> list[Frame]:
        """Return the commits as frames, for code that reads them one by one."""
        columns = (self.operations, self.collections, self.rkeys, self.revs, self.cids, self.table["body"].to_pylist())
        commits = [
            Commit(*columns_of_commit, msgspec.Raw(body.encode()) if body else NO_BYTES)
            for *columns_of_commit, body in zip(*columns, strict=True)
        ]
        numbered_commits = zip(self.dids, self.times_us, commits, strict=True)
        return [Frame(did, time_us, "commit", commit) for did, time_us, commit in numbered_commits]


@dataclass(frozen=True, slots=True)
class Batch:
    """Frames in order of arrival; only columns if all of them are readable commits, as in most batches."""

    raws: Sequence[bytes | str]
    commits: Events | None = None


def read_batch(raws: Sequence[bytes | str]) -> Batch:
    """Return the batch of these frames, without using a store."""
    parts = []
    for begin in range(0, len(raws), PART):
        part = read_commits(raws[begin : begin + PART])
        if part is None:
            return Batch(raws)
        parts.append(part)
    return Batch((), joined(parts)) if parts else Batch(raws)


def read_commits(raws: Sequence[bytes | str]) -> Events | None:
    """Return a part's frames as columns if all of them are readable commits, else None."""
    frames = decoded(raws)
    if not frames or not _are_times([frame.time_us for frame in frames]):
        return None
    commits = [as_commit(frame) for frame in frames]
    events = _build_part(frames, commits)
    return events if _is_sound(events, commits, raws) else None


def joined(parts: Sequence[Events]) -> Events:
    return Events(pa.concat_tables([part.table for part in parts]))


def events_of(frames: Sequence[Frame]) -> Events:
    parts = [frames[begin : begin + PART] for begin in range(0, len(frames) or 1, PART)]
    return joined([_build_part(part, [as_commit(frame) for frame in part]) for part in parts])


def _build_part(frames: Sequence[Frame], commits: Sequence[Commit]) -> Events:
    texts = ([frame.kind for frame in frames], [frame.did for frame in frames])
    texts += ([commit.collection for commit in commits], [commit.rkey for commit in commits])
    texts += ([commit.operation for commit in commits],)
    texts += ([commit.rev for commit in commits], [commit.cid for commit in commits])
    columns = [pa.array(items, pa.string()) for items in texts]
    columns.append(pa.array([frame.time_us for frame in frames], pa.int64()).view(pa.timestamp("us")))
    columns.append(_join_texts([commit.record for commit in commits]))
    return Events(pa.table(columns, schema=SCHEMA))


def _join_texts(raws: Sequence[msgspec.Raw]) -> pa.Array:
    """Return texts, already checked to be UTF-8, as one Arrow array by a single copy."""
    offsets = np.zeros(len(raws) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, map(memoryview, raws)), np.int64, len(raws)), out=offsets[1:])
    data = pa.py_buffer(b"".join(raws))
    return pa.Array.from_buffers(pa.large_string(), len(raws), [None, pa.py_buffer(offsets), data])


def _is_sound(events: Events, commits: Sequence[Commit], raws: Sequence[bytes | str]) -> bool:
    """Tell, column by column, if `frames.check` would accept each commit (times aside) and all bytes are UTF-8."""
    operations = [commit.operation for commit in commits]
    return (
        max(map(len, raws)) <= LARGEST_FRAME
        and all(isinstance(raw, str) or raw.isascii() or _is_utf8(raw) for raw in raws)
        and _are_dids(events)
        and all(map(COLLECTION.fullmatch, {commit.collection for commit in commits}))
        and _are_keys(events)
        and max(_text_sizes(events.table["rev"]).max(), _text_sizes(events.table["cid"]).max()) <= REVISION_LIMIT
        and set(operations) <= OPERATIONS
        and {operations[place] for place in np.flatnonzero(_text_sizes(events.table["body"]) == 0)} <= {"delete"}
    )


def _are_times(times_us: Sequence[int]) -> bool:
    return min(times_us) >= EARLIEST_US and max(times_us) <= LATEST_US


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _are_dids(events: Events) -> bool:
    column = events.table["did"]
    if (_text_sizes(column) == _PLC_LENGTH).all():
        text = bytes(_text(column))
        begins = np.frombuffer(text, np.uint8).reshape(-1, _PLC_LENGTH)[:, : len(_PLC)]
        if (begins == _PLC).all() and not text.translate(None, _DID_CHARACTERS):
            return True
    return all(map(DID.fullmatch, set(events.dids)))


def _are_keys(events: Events) -> bool:
    column = events.table["rkey"]
    sizes = _text_sizes(column)
    if sizes.min() == 0 or sizes.max() > KEY_LIMIT:
        return False
    return not bytes(_text(column)).translate(None, KEY_CHARACTERS)


def _text_sizes(column: pa.ChunkedArray) -> np.ndarray:
    """Return the bytes of each text of a column of one chunk, 0 for a missing one."""
    chunk = column.chunk(0)
    width = np.int64 if pa.types.is_large_string(chunk.type) else np.int32
    return np.diff(np.frombuffer(chunk.buffers()[1], width, len(chunk) + 1, chunk.offset * width().itemsize))


def _text(column: pa.ChunkedArray) -> pa.Buffer:
    """Return all texts of a column of one chunk, joined."""
    return column.chunk(0).buffers()[2]
