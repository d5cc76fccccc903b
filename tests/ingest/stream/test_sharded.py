"""Four readers into one folder, and one worker that derives from it: the tables of one reader, whoever is killed."""

import json
import random
import subprocess
import sys
from bisect import bisect_left
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ingest.store.digest import digest
from tests.conftest import count, simulated_network
from tests.ingest.stream.frames import ANA, FIRST_US, MARA, STRANGER, Frames
from tests.ingest.stream.sharded import (
    GRACE_US,
    SHARDS,
    WINDOW_US,
    Window,
    Windows,
    load_ready,
    shard_of,
    write,
    written,
)
from tests.pipeline import Result, opened
from tests.sources import PROJECT
from tests.waiting import wait_for
from trustsite.standins.jetstream import Jetstream
from trustsite.standins.recording import make_recording

AHEAD = 20  # windows that a reader has still to write when it is killed
UNREADABLE = b'{"did": "did:plc:'


class Readers:
    """A process for each shard; one that is killed is started again."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder, self._url = folder, url
        self._running = [self._start(shard) for shard in range(SHARDS)]

    def _start(self, shard: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.ingest.stream.sharded", str(self._folder), str(shard), self._url]
        return subprocess.Popen(command, cwd=PROJECT)

    def kill(self, shard: int, files: int) -> None:
        """Kill it once it has written so many files."""
        wait_for(lambda: len(written(self._folder, shard)) >= files, what="a reader")
        assert self._running[shard].poll() is None
        self._running[shard].kill()
        self._running[shard].wait()
        self._running[shard] = self._start(shard)

    def end(self) -> None:
        for reader in self._running:
            reader.kill()
            reader.wait()


@contextmanager
def reading(folder: Path, url: str) -> Generator[Readers]:
    readers = Readers(folder, url)
    try:
        yield readers
    finally:
        readers.end()


def tables(result: Result) -> dict[str, str]:
    """Derive, judge as of the newest frame, and return the digest of every table."""
    world = simulated_network()
    result.take(())
    result.watch(world.watched.values(), world.groups["maintainers"])
    assert result.judge() > 40
    with result.store.read() as rows:
        return digest(rows)


def test_four_readers_with_kills_end_with_the_tables_of_one_reader(tmp_path: Path) -> None:
    recorded = simulated_network().recording
    frames = [*recorded.frames[:300], UNREADABLE, *recorded.frames[300:]]
    last = frame_of(STRANGER, recorded.last_time_us + 2 * WINDOW_US)  # closes the windows of all others
    recording = make_recording([*frames, last], {}, recorded.people, recorded.repositories)
    begins = sorted({time_us // WINDOW_US for time_us in recording.times[:-1]})
    drawn, interrupted = random.Random(26), 0
    kills = sorted((drawn.randrange(len(begins) - AHEAD), drawn.randrange(SHARDS)) for _ in range(count(3, 20)))
    folder = tmp_path / "shards"
    folder.mkdir()
    with (
        opened(tmp_path / "four") as four,
        Jetstream(recording, hold_after=0) as jetstream,
        reading(folder, jetstream.url) as readers,
    ):
        for files, shard in kills:
            jetstream.release(bisect_left(recording.times, (begins[files + AHEAD] + 1) * WINDOW_US))
            readers.kill(shard, files)
            interrupted += len(written(folder, shard)) < files + AHEAD
            load_ready(four.store, folder)
        assert interrupted
        jetstream.release(None)
        wait_for(lambda: all(len(written(folder, shard)) == len(begins) for shard in range(SHARDS)), what="all readers")
        load_ready(four.store, folder)
        found = tables(four)
    with opened(tmp_path / "one") as one:
        one.take(recording.frames[:-1])
        assert tables(one) == found


def test_a_reader_that_begins_again_after_any_window_writes_the_same_ones() -> None:
    """Frames come up to GRACE_US late, also over the end of a window; asked again, a server may send them in order."""
    for seed in range(count(100, 3_000)):
        drawn = random.Random(seed)
        begin = FIRST_US // WINDOW_US * WINDOW_US
        timed = [
            (
                begin + drawn.randint(1, 5) * WINDOW_US + drawn.choice([-1_000_000, 0, 1_000_000]),
                drawn.choice([ANA, MARA]),
            )
            for _ in range(drawn.randint(6, 20))
        ]
        late = sorted((time_us + drawn.randrange(GRACE_US), time_us, did) for time_us, did in sorted(timed))
        arrivals = [(time_us, frame_of(did, time_us)) for _, time_us, did in late]
        arrivals.append((begin + 8 * WINDOW_US, frame_of(STRANGER, begin + 8 * WINDOW_US)))  # closes all windows
        whole = windows_of(shard_of(ANA), 0, arrivals)
        assert len(whole) > 1
        for place, (window, _) in enumerate(whole):
            left = [one for one in arrivals if one[0] >= window]
            for again in (left, sorted(left, key=lambda one: one[0])):
                assert windows_of(shard_of(ANA), window, again) == whole[place:], seed


def test_no_window_is_loaded_that_a_shard_lacks_and_half_a_file_is_none(tmp_path: Path) -> None:
    frames, last_us = Frames(), FIRST_US + 2 * WINDOW_US
    frames.vouch(ANA, MARA)
    arrivals = [(FIRST_US, frames[0]), (last_us, frame_of(STRANGER, last_us))]
    windows = [windows_of(shard, 0, arrivals) for shard in range(SHARDS)]
    with opened(tmp_path / "store") as four:
        for shard, (window,) in enumerate(windows):
            write(tmp_path, shard, window)
            path = written(tmp_path, shard)[0]
            assert load_ready(four.store, tmp_path) == (shard == SHARDS - 1)
            whole = path.read_bytes()
            if shard == 0:
                path.unlink()
                path.with_suffix(".part").write_bytes(b"half")
                assert not written(tmp_path, shard)
                write(tmp_path, shard, window)
            assert path.read_bytes() == whole
        assert four.value("select count(*) from events") == 1
        load_ready(four.store, tmp_path)
        assert four.value("select count(*) from events") == 1


def frame_of(did: str, time_us: int) -> bytes:
    return json.dumps({"did": did, "time_us": time_us, "kind": "identity", "identity": {"did": did}}).encode()


def windows_of(shard: int, begin_us: int, frames: Sequence[tuple[int, bytes]]) -> list[Window]:
    windows = Windows(shard, begin_us)
    return [window for _, raw in frames for window in windows.add(raw)]
