"""The process that reads a socket: what it hands on, how it ends, and that it never outlives who started it."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from websockets.sync.server import ServerConnection, serve

from ingest.store.database import Store
from ingest.stream.batch import Events, joined, read_batch
from ingest.stream.jetstream import Chunk
from ingest.stream.socket_process import CHUNK_FRAMES, FrameTooLarge, Relay
from tests.ingest.stream.frames import MARA, PULL, Frames
from tests.ingest.stream.listening import Start, assert_whole, peer, wait_for_frame, written
from tests.sources import PROJECT
from tests.waiting import wait_for

LIMIT = 1_000_000
HOLDS_A_RELAY = """
import asyncio, sys
from ingest.stream.batch import Events, joined, read_batch
from ingest.stream.jetstream import Chunk
from ingest.stream.socket_process import Relay

async def hold() -> None:
    async with Relay(sys.argv[1], 1000) as relay:
        print(relay._process.pid, flush=True)
        await asyncio.sleep(60)

asyncio.run(hold())
"""


def is_running(pid: int) -> bool:
    """Whether the process is there and not merely waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def received(say: Callable[[ServerConnection], None], limit: int = LIMIT, reads: bool = False) -> list[Chunk]:
    """The chunks of a connection to a server that says this and closes it."""

    async def take(url: str) -> list[Chunk]:
        async with Relay(url, limit, reads) as relay:
            return [chunk async for chunk in relay]

    with serve(say, "127.0.0.1", 0, compression=None) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return asyncio.run(take(f"ws://127.0.0.1:{server.socket.getsockname()[1]}/subscribe"))


def test_frames_come_whole_and_in_order_whatever_they_hold() -> None:
    said = [f"frame {number} ".encode() * (number % 50 + 1) for number in range(3000)]
    said += ["木🏮\x00\n".encode(), b"", b"x" * 900_000, b"last"]

    def say(connection: ServerConnection) -> None:
        for frame in said:
            connection.send(frame, text=True)

    chunks = received(say)
    assert [frame for chunk in chunks if isinstance(chunk, list) for frame in chunk] == said
    assert max(map(len, chunks)) <= CHUNK_FRAMES


def test_commits_come_as_the_columns_that_reading_them_here_would_give() -> None:
    frames = Frames()
    for number in range(700):
        frames.commit(MARA, PULL, f"pull{number}", {"title": "木🏮", "body": "x" * number})
        frames.delete(MARA, PULL, f"pull{number}")

    def say(connection: ServerConnection) -> None:
        for frame in frames:
            connection.send(frame, text=True)

    chunks = received(say, reads=True)
    told = joined([chunk for chunk in chunks if isinstance(chunk, Events)])
    here = read_batch(frames).commits
    assert here is not None
    assert told.table.equals(here.table)
    assert len(chunks) >= 3


def test_a_chunk_with_a_frame_that_is_no_commit_comes_as_it_is() -> None:
    def say(connection: ServerConnection) -> None:
        connection.send(written(2)[0].decode())

    assert received(say, reads=True) == [[written(2)[0]]]


def test_a_frame_that_is_no_text_is_handed_on_as_it_is() -> None:
    assert received(lambda connection: connection.send(b"\xff\xfe", text=True)) == [[b"\xff\xfe"]]


def test_a_frame_beyond_the_limit_is_told_apart_from_a_connection_that_broke() -> None:
    with pytest.raises(FrameTooLarge):
        received(lambda connection: connection.send("x" * 2000), limit=1000)


def test_a_connection_that_breaks_says_so() -> None:
    with pytest.raises(ConnectionResetError, match="no close frame"):
        received(lambda connection: connection.socket.shutdown(socket.SHUT_RDWR))


@pytest.mark.parametrize(
    ("url", "why"),
    [("http://127.0.0.1/subscribe", "isn't a valid URI"), ("ws://127.0.0.1:1/subscribe", "nothing listens there")],
)
def test_an_address_where_nobody_answers_is_told_in_words(url: str, why: str) -> None:
    async def ask() -> None:
        async with Relay(url, LIMIT):
            raise AssertionError("it was connected")

    with pytest.raises(OSError, match=why):
        asyncio.run(ask())


def test_leaving_ends_the_process() -> None:
    async def visit(url: str) -> int:
        async with Relay(url, LIMIT) as relay:
            pid = relay._process.pid
            assert is_running(pid)
        return pid

    with peer(written(10)) as server:
        assert not is_running(asyncio.run(visit(server.url)))


def test_the_process_ends_with_a_worker_that_is_killed() -> None:
    with peer(written(10), hold_after=0) as server:
        command = [sys.executable, "-c", HOLDS_A_RELAY, server.url]
        holder = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert holder.stdout is not None
        pid = int(holder.stdout.readline())
        assert is_running(pid)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
        wait_for(lambda: not is_running(pid))


def test_a_process_that_is_killed_costs_a_connection_and_no_frame(
    store: Store, listen: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids: list[int] = []
    enter = Relay.__aenter__

    async def note(relay: Relay) -> Relay:
        await enter(relay)
        pids.append(relay._process.pid)
        return relay

    monkeypatch.setattr(Relay, "__aenter__", note)
    frames = written()
    with peer(frames, hold_after=100) as server:
        listener = listen(server.url)
        wait_for_frame(store, 99)
        os.kill(pids[0], signal.SIGKILL)
        wait_for(lambda: len(pids) > 1)
        server.release(None)
        wait_for_frame(store, 299)
        wait_for(lambda: listener.problem is None)
    assert_whole(store, frames)


LISTS_AND_PANDAS = """
import sys
import pyarrow as pa
from ingest.stream.socket_process import leave_pandas_out
leave_pandas_out()
pa.Table.from_pylist([{"did": "did:plc:ana", "weight": 1.0}])
assert "pandas" not in sys.modules
import pandas
assert pandas.Series([1, 2]).sum() == 3
"""


def test_lists_load_no_pandas_and_who_imports_it_gets_it() -> None:
    done = subprocess.run([sys.executable, "-c", LISTS_AND_PANDAS], cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
