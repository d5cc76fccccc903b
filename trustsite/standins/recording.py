"""Recorded streams: read from a folder or made in memory, served by a stand-in, and written back.

The records of every repository on the stand-in PDS are the result of the frames released so far.
"""

import gzip
import hashlib
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pyarrow
import pyarrow.parquet

from ingest.stream.frames import EARLIEST_US, LATEST_US

FRAMES, BLOBS, PEOPLE, REPOSITORIES = "frames.ndjson.gz", "blobs.parquet", "plc.ndjson.gz", "repos.ndjson.gz"
AGAIN = "copy or download it again"
BARE_SUFFIXES = (".jsonl", ".ndjson")

BlobKey = tuple[str, str]
Row = TypeVar("Row")


class RecordingProblem(ValueError):
    """The folder cannot be served; the message is one sentence with the remedy."""


class Person(msgspec.Struct, frozen=True, rename={"created_at": "createdAt"}, omit_defaults=True):
    """The PLC directory's entry of one DID; `created_at` is ISO 8601 with a Z, empty for did:web."""

    did: str
    handle: str
    pds: str
    created_at: str
    tombstoned: bool = False


class Repository(msgspec.Struct, frozen=True):
    """A repository on its knot; `name` is "owner/name", `push` holds the DIDs that may push, including the owner."""

    repo: str
    name: str
    owner: str
    knot: str
    spindle: str
    push: tuple[str, ...]


class _Commit(msgspec.Struct):
    collection: str


class _Head(msgspec.Struct):
    did: str
    time_us: int
    commit: _Commit | None = None


@dataclass(frozen=True)
class Recording:
    """A stream in `time_us` order with everything the network would answer about it.

    `frames`, `times`, `collections` and `dids` are parallel lists. A line that is not a frame, or has a time that no
    reader accepts, stays in place: it has the time of the line before it and neither collection nor DID. `collections`
    is None for identity and account.
    """

    frames: list[bytes]
    times: list[int]
    collections: list[str | None]
    dids: list[str | None]
    blobs: Mapping[BlobKey, bytes]
    people: tuple[Person, ...]
    repositories: tuple[Repository, ...]
    fingerprint: str

    @property
    def last_time_us(self) -> int:
        """Return the time of the newest frame, unix microseconds; 0 if no frame has a time."""
        return self.times[-1] if self.times else 0


class ParquetBlobs(Mapping[BlobKey, bytes]):
    """Blobs by (did, cid), stored in Arrow's memory: 4,691 of them cost an index of 1 MB, not 4,691 objects."""

    def __init__(self, table: pyarrow.Table) -> None:
        self._data = table.column("data")
        keys = zip(table.column("did").to_pylist(), table.column("cid").to_pylist(), strict=True)
        self._rows: dict[BlobKey, int] = {key: row for row, key in enumerate(keys)}

    def __getitem__(self, key: BlobKey) -> bytes:
        return self._data[self._rows[key]].as_py()

    def __iter__(self) -> Iterator[BlobKey]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def make_recording(
    lines: Iterable[bytes],
    blobs: Mapping[BlobKey, bytes],
    people: Sequence[Person],
    repositories: Sequence[Repository],
) -> Recording:
    """Make a recording from lines in any order; the fingerprint covers the lines and the names of the blobs."""
    rows = _sorted_rows([list(lines)])
    digest = hashlib.sha256()
    for line, *_ in rows:
        digest.update(line + b"\n")
    for did, cid in sorted(blobs):
        digest.update(f"{did} {cid}\n".encode())
    return _build_recording(rows, blobs, people, repositories, digest.hexdigest()[:16])


def open_recording(folder: Path) -> Recording:
    """Open the recording in `folder`: frames.ndjson.gz with companions, or bare *.jsonl and *.ndjson frames.

    Raises RecordingProblem for a missing folder or file, no frames, a cut or damaged gzip file, a damaged Parquet file.
    """
    if not folder.is_dir():
        raise RecordingProblem(f"There is no folder {folder}: give the path of a folder that holds a recorded stream.")
    if (folder / FRAMES).is_file():
        return _open_complete(folder)
    bare = sorted(path for path in folder.iterdir() if path.suffix in BARE_SUFFIXES and path.is_file())
    lines = [_split_lines(path.read_bytes()) for path in bare]
    if not any(lines):
        raise RecordingProblem(
            f"{folder} holds no recorded frames: it needs {FRAMES}, or files that end in .jsonl or .ndjson "
            "with one Jetstream frame a line."
        )
    return _build_recording(_sorted_rows(lines), {}, (), (), _fingerprint(bare))


def write_recording(folder: Path, recording: Recording) -> None:
    """Write `recording` in the form that `open_recording` reads; equal recordings give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_lines(folder / FRAMES, recording.frames)
    _write_lines(folder / PEOPLE, [msgspec.json.encode(person) for person in recording.people])
    _write_lines(folder / REPOSITORIES, [msgspec.json.encode(repository) for repository in recording.repositories])
    keys = sorted(recording.blobs)
    columns = {
        "did": pyarrow.array([did for did, _ in keys], pyarrow.string()),
        "cid": pyarrow.array([cid for _, cid in keys], pyarrow.string()),
        "data": pyarrow.array([recording.blobs[key] for key in keys], pyarrow.binary()),
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / BLOBS)


_Row = tuple[bytes, int, str | None, str | None]


def _build_recording(
    rows: list[_Row],
    blobs: Mapping[BlobKey, bytes],
    people: Sequence[Person],
    repositories: Sequence[Repository],
    fingerprint: str,
) -> Recording:
    return Recording(
        frames=[row[0] for row in rows],
        times=[row[1] for row in rows],
        collections=[row[2] for row in rows],
        dids=[row[3] for row in rows],
        blobs=blobs,
        people=tuple(people),
        repositories=tuple(repositories),
        fingerprint=fingerprint,
    )


def _open_complete(folder: Path) -> Recording:
    paths = [folder / name for name in (FRAMES, BLOBS, PEOPLE, REPOSITORIES)]
    for path in paths:
        if not path.is_file():
            raise RecordingProblem(f"{path} is missing: copy the whole recording again, all of its four files.")
    lines = _split_lines(_gunzip(paths[0]))
    if not lines:
        raise RecordingProblem(f"{paths[0]} holds no frames: give the folder of a recording that has some.")
    return _build_recording(
        _sorted_rows([lines]),
        _read_blobs(paths[1]),
        _read_rows(paths[2], Person),
        _read_rows(paths[3], Repository),
        _fingerprint(paths),
    )


def _split_lines(text: bytes) -> list[bytes]:
    return [line for line in text.split(b"\n") if line.strip()]


def _gunzip(path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes())
    except EOFError:
        raise RecordingProblem(
            f"{path} ends too early (the gzip file is cut off): copy or download it again."
        ) from None
    except (gzip.BadGzipFile, zlib.error):
        raise RecordingProblem(f"{path} is damaged or no gzip file: {AGAIN}.") from None


def _read_blobs(path: Path) -> Mapping[BlobKey, bytes]:
    try:
        # read_table would import pyarrow.dataset first, which costs .7 s.
        with pyarrow.parquet.ParquetFile(path) as file:
            return ParquetBlobs(file.read(columns=["did", "cid", "data"]))
    except (pyarrow.ArrowException, OSError, KeyError):
        message = f"{path} is not a Parquet file with the columns did, cid and data: {AGAIN}."
        raise RecordingProblem(message) from None


def _read_rows(path: Path, kind: type[Row]) -> list[Row]:
    decoder = msgspec.json.Decoder(kind)
    rows = []
    for number, line in enumerate(_split_lines(_gunzip(path)), start=1):
        try:
            rows.append(decoder.decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
            raise RecordingProblem(
                f"{path}, line {number}, cannot be read ({problem}): copy or download it again."
            ) from None
    return rows


def _sorted_rows(files: list[list[bytes]]) -> list[_Row]:
    """Return rows of all files in time order; a stable sort leaves a line without a time behind its predecessor."""
    rows = [row for lines in files for row in _rows_of(lines)]
    rows.sort(key=lambda row: row[1])
    return rows


def _rows_of(lines: list[bytes]) -> list[_Row]:
    decoder = msgspec.json.Decoder(_Head)
    heads = [_decode_head(decoder, line) for line in lines]
    time_us = next((head.time_us for head in heads if head), 0)
    rows: list[_Row] = []
    for line, head in zip(lines, heads, strict=True):
        if head is None:
            rows.append((line, time_us, None, None))
            continue
        time_us = head.time_us
        rows.append((line, time_us, head.commit.collection if head.commit else None, head.did))
    return rows


def _decode_head(decoder: msgspec.json.Decoder[_Head], line: bytes) -> _Head | None:
    try:
        head = decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    # A reader's cursor never moves to a time that it refuses, so it would wait forever for such an end.
    return head if EARLIEST_US <= head.time_us <= LATEST_US else None


def _fingerprint(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _write_lines(path: Path, lines: Iterable[bytes]) -> None:
    # A time of 0 in the gzip header, so that equal lines give equal bytes on every day.
    path.write_bytes(gzip.compress(b"".join(line + b"\n" for line in lines), compresslevel=6, mtime=0))


RecordKey = tuple[str, str]  # DID, collection


class Shelf:
    """The last version of each record, computed from `recording` as far as `released()`; thread-safe."""

    def __init__(self, recording: Recording, released: Callable[[], int]) -> None:
        self._build_recording = recording
        self._released = released
        self._folded = 0
        self._records: dict[RecordKey, dict[str, tuple[str, Any]]] = {}
        self._revs: dict[str, str] = {}
        self._lock = threading.Lock()

    def record(self, did: str, collection: str, rkey: str) -> tuple[str, Any] | None:
        with self._lock:
            self._apply_released()
            return self._records.get((did, collection), {}).get(rkey)

    def records(self, did: str, collection: str) -> list[tuple[str, str, Any]]:
        with self._lock:
            self._apply_released()
            shelf = self._records.get((did, collection), {})
            return [(rkey, *shelf[rkey]) for rkey in sorted(shelf)]

    def everybodys(self, collection: str) -> list[tuple[str, str, Any]]:
        """Return DID, record key and value of each record in a collection, of all people."""
        with self._lock:
            self._apply_released()
            shelves = [(did, shelf) for (did, name), shelf in self._records.items() if name == collection]
            return [(did, rkey, value) for did, shelf in shelves for rkey, (_, value) in shelf.items()]

    def collections(self, did: str) -> list[str]:
        """Return the names of the collections in which a DID has records."""
        with self._lock:
            self._apply_released()
            return sorted(name for (owner, name), shelf in self._records.items() if owner == did and shelf)

    def keepers(self, collection: str) -> list[str]:
        """Return the DIDs that have records in a collection, in order."""
        with self._lock:
            self._apply_released()
            return sorted(owner for (owner, name), shelf in self._records.items() if name == collection and shelf)

    def rev(self, did: str) -> str | None:
        with self._lock:
            self._apply_released()
            return self._revs.get(did)

    def _apply_released(self) -> None:
        until = self._released()
        for index in range(self._folded, until):
            collection, did = self._build_recording.collections[index], self._build_recording.dids[index]
            if collection is not None and did is not None:
                self._apply_commit(did, collection, msgspec.json.decode(self._build_recording.frames[index])["commit"])
        self._folded = max(self._folded, until)

    def _apply_commit(self, did: str, collection: str, commit: dict[str, Any]) -> None:
        shelf = self._records.setdefault((did, collection), {})
        self._revs[did] = commit["rev"]
        if commit["operation"] == "delete":
            shelf.pop(commit["rkey"], None)
        else:
            shelf[commit["rkey"]] = (commit["cid"], commit["record"])
