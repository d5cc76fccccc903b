"""Ingest past one reader, as docs/scale.md designs it: a simulation, and no part of the product.

`python -m tests.ingest.stream.sharded FOLDER SHARD URL` is one reader of SHARDS. It keeps the frames of its DIDs and
writes them window by window of the stream's own time, so that a repeat writes the same bytes under the same name. Its
files are its only state: it goes on where the newest of them ends. `load_ready` is the worker.
"""

import sys
import zlib
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from websockets.sync.client import connect

from ingest.files import put_in_place
from ingest.store.database import Store
from ingest.stream.batch import SCHEMA, Batch, Events, read_batch
from ingest.stream.frames import Unread, address, encode, read_frames
from ingest.stream.load import store_batch
from tests.ingest.stream.frames import SOURCE

SHARDS = 4
WINDOW_US = 7 * 86_400_000_000  # a recorded week; ten seconds of a live stream
GRACE_US = 5_000_000  # frames come that much out of order: a window is closed only then
Window = tuple[int, list[bytes]]  # its first microsecond, and its frames in the order of time


class Windows:
    """One shard of a stream, cut into windows; everything before `begin_us` was written."""

    def __init__(self, shard: int, begin_us: int) -> None:
        self._shard, self._closed_us, self._newest_us = shard, begin_us, begin_us
        self._open: dict[int, list[tuple[int, bytes]]] = {}

    def add(self, raw: bytes) -> Iterator[Window]:
        """Take the next frame of the whole stream; yield the windows that it closes, also without frames of the shard.

        A frame without a DID goes to the first shard, one without a time to the time of the frame before.
        """
        frame = read_frames([raw])[0]
        time_us = frame.time_us or self._newest_us
        shard = 0 if isinstance(frame, Unread) else shard_of(frame.did)
        frames = self._open.setdefault(max(time_us, self._closed_us) // WINDOW_US * WINDOW_US, [])
        if shard == self._shard:
            frames.append((time_us, raw))
        self._newest_us = max(self._newest_us, time_us)
        for begin in sorted(self._open):
            if begin + WINDOW_US + GRACE_US <= self._newest_us:
                self._closed_us = begin + WINDOW_US
                yield begin, [text for _, text in sorted(self._open.pop(begin), key=lambda timed: timed[0])]


def shard_of(did: str) -> int:
    return zlib.crc32(did.encode()) % SHARDS


def write(folder: Path, shard: int, window: Window) -> None:
    """Write one window, under a name that tells its shard and both cursors: as columns where all are commits."""
    begin, raws = window
    batch = read_batch(raws)
    table = pa.table({"raw": pa.array(raws, pa.binary())}) if batch.commits is None else batch.commits.table
    path = _of_shard(folder, shard) / f"{begin:017}-{begin + WINDOW_US:017}.parquet"
    path.parent.mkdir(exist_ok=True)
    draft = path.with_suffix(".part")
    pq.write_table(table, draft)
    put_in_place(draft, path)


def written(folder: Path, shard: int) -> list[Path]:
    """The files of a shard, the oldest first."""
    return sorted(_of_shard(folder, shard).glob("*.parquet"))


def cursor_of(paths: Sequence[Path]) -> int:
    """The time from which a reader with these files goes on."""
    return int(paths[-1].stem.partition("-")[2]) if paths else 0


def _of_shard(folder: Path, shard: int) -> Path:
    return folder / f"shard={shard}"


def load_ready(store: Store, folder: Path) -> int:
    """Load every window that all shards have written and the store has not passed; return how many."""
    paths = [written(folder, shard) for shard in range(SHARDS)]
    until = min(map(cursor_of, paths))
    with store.read() as rows:
        since = rows.value("select cursor_us from ingest_state where source = ?", [SOURCE])
    ends = sorted({end for files in paths for path in files if since < (end := cursor_of([path])) <= until})
    for end in ends:
        store_batch(store, SOURCE, merged([path for files in paths for path in files if cursor_of([path]) == end]))
    return len(ends)


def merged(paths: Sequence[Path]) -> Batch:
    """One window of all shards in the order of time; of equal times the lower shard's comes first."""
    tables = [table for table in map(pq.read_table, paths) if len(table)]
    if tables and all("raw" not in table.column_names for table in tables):
        ordered = pa.concat_tables([table.cast(SCHEMA) for table in tables]).sort_by("seen_at")
        return Batch((), Events(ordered.combine_chunks()))
    timed = [pair for table in tables for pair in _timed(table)]
    return Batch([raw for _, raw in sorted(timed, key=lambda pair: pair[0])])


def _timed(table: pa.Table) -> list[tuple[int, bytes]]:
    if "raw" not in table.column_names:
        return [(frame.time_us, encode(frame)) for frame in Events(table.cast(SCHEMA)).frames()]
    raws = table["raw"].to_pylist()
    times = accumulate((frame.time_us for frame in read_frames(raws)), lambda before, time_us: time_us or before)
    return list(zip(times, raws, strict=True))


def read(folder: Path, shard: int, url: str) -> None:
    """Read the stream to its end from where the newest file ends."""
    cursor_us = cursor_of(written(folder, shard))
    windows = Windows(shard, cursor_us)
    with connect(address(url, (), cursor_us), max_size=None, compression=None) as socket:
        for message in socket:
            for window in windows.add(message.encode() if isinstance(message, str) else message):
                write(folder, shard, window)


if __name__ == "__main__":
    read(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
