"""From a loopback WebSocket into the log, and what a row costs as the log grows: `python -m tests.bench.bench_ingest`.

Goals: 300,000 events end to end (rows and cursor committed) at 50 % or more of what the same client merely receives in
the same run, below 500 MB; the cost of an event and of a publish as flat with 10^7 rows in the log as with 10^5.
`EVENTS` and `LOG_ROWS` (with commas between) in the environment make it smaller.
"""

import asyncio
import json
import os
import resource
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from unittest.mock import patch

from websockets.asyncio.client import connect

from ingest.clock import from_microseconds
from ingest.store.archive import COUNT, archive
from ingest.store.database import Store
from ingest.store.snapshots import Publisher, publish
from ingest.stream import jetstream
from ingest.stream.batch import Batch
from ingest.stream.jetstream import Listener, Subscription
from ingest.stream.load import Loaded, load
from ingest.stream.socket_process import Relay
from tests.bench.sender import FIRST_US, frames, sender

EVENTS = int(os.environ.get("EVENTS", "300000"))
LOG_ROWS = [int(size) for size in os.environ.get("LOG_ROWS", "100000,1000000,10000000").split(",")]
FILL_ROWS = 100_000  # what is beyond HOT_ROWS between two archivings stays in the file as free blocks, to be used again
HOT_ROWS, HOT_DAYS = 1_000_000, 30
OLD_ROWS = """
insert into events by name
select md5(i::varchar) as event_id, i as event_seq, 'bench' as source, 'commit' as kind,
  'did:plc:' || lpad((hash(i) % 20000)::varchar, 24, '2') as did, 'sh.tangled.' || ['feed.star', 'graph.follow',
    'repo.pull', 'repo.pull.status', 'feed.comment', 'graph.vouch', 'repo.issue'][1 + (hash(i + 7) % 7)::bigint]
    as collection,
  '3l' || lpad(i::varchar, 11, '2') as rkey, 'create' as operation,
  '3k' || translate(lpad(i::varchar, 11, '0'), '0189', 'abcd') as rev, 'bafyrei' || md5(i::varchar) as cid,
  make_timestamp($first_us - ($size - i) * 30000) as seen_at, false as late,
  '{"title":"' || repeat(md5(i::varchar), 12) || '"}' as body, localtimestamp as loaded_clock
from generate_series($begin, $end) g(i)
"""


def mere_receive(url: str, count: int) -> tuple[float, float]:
    """Seconds, of wall and of CPU, in which the client takes the frames off the socket and drops them."""

    async def receive() -> tuple[float, float]:
        async with connect(url, compression=None, max_size=None) as socket:
            began, taken = _clocks(), 0
            async for _ in socket:
                taken += 1
                if taken == count:
                    break
            return _since(began)

    return asyncio.run(receive())


ENTER = Relay.__aenter__


def end_to_end(url: str, count: int, folder: Path, publishing: bool) -> tuple[float, float]:
    """Seconds until the real listener has rows and cursor of all frames committed, also with publishing beside it.

    A publish compresses what was added since the last one: 3.4 µs of CPU an event, under the writer's mutex.
    """
    store = Store.open(folder / f"listen-{publishing}.duckdb")
    store.bind("bench")
    publisher = Publisher(store, folder / "snapshots", print)
    last, done = FIRST_US + (count - 1) * 1000, threading.Event()

    def on_loaded() -> None:
        if publishing:
            publisher.mark()
        with store.read() as rows:
            if rows.value("select cursor_us from ingest_state") >= last:
                done.set()

    listener = Listener(store, Subscription("bench", [url], []), on_loaded)
    publisher.start()
    connected: list[tuple[float, float]] = []

    async def enter(relay: Relay) -> Relay:
        await ENTER(relay)
        connected.append(_clocks())
        return relay

    with patch.object(Relay, "__aenter__", enter):
        listener.start()
        while not connected:
            time.sleep(0.001)
    began = connected[0]
    finished = done.wait(300)
    took = _since(began)
    listener.stop()
    publisher.stop()
    with store.read() as rows:
        if not finished or rows.value(COUNT) != count:
            raise SystemExit(f"{rows.value(COUNT)} of {count} events arrived: {listener.problem}")
    store.close()
    return took


def empty_loader(url: str, count: int, folder: Path) -> tuple[float, float]:
    """As `end_to_end` with a loader that drops what it is given: what the listener's own threads cost."""
    store = Store.open(folder / "empty.duckdb")
    taken, done = 0, threading.Event()

    def drop(_store: Store, _source: str, batch: Batch, *_: object) -> Loaded:
        nonlocal taken
        taken += len(batch.commits or batch.raws)
        if taken >= count:
            done.set()
        return Loaded(0, 0, 0, 0)

    store.bind("bench")
    listener = Listener(store, Subscription("bench", [url], []), lambda: None)
    with patch.object(jetstream, "store_batch", drop):
        began = _clocks()
        listener.start()
        if not done.wait(300):
            raise SystemExit(f"{taken} of {count} events arrived: {listener.problem}")
        took = _since(began)
        listener.stop()
    store.close()
    return took


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _since(began: tuple[float, float]) -> tuple[float, float]:
    return time.perf_counter() - began[0], time.process_time() - began[1]


def row_by_row(folder: Path, count: int) -> dict[str, float]:
    """Events a second by executemany and by one-row inserts, each with its cursor in the transaction of 1,000."""
    figures = {}
    columns = 14
    insert = f"insert into events values ({', '.join('?' * columns)})"
    for name in ("executemany", "one_row"):
        store = Store.open(folder / f"{name}.duckdb")
        store.bind("bench")
        rows = _tuples(count)
        began = time.perf_counter()
        for begin in range(0, count, 1000):
            with store.write() as txn:
                chunk = rows[begin : begin + 1000]
                if name == "executemany":
                    txn.cursor.executemany(insert, chunk)
                else:
                    for row in chunk:
                        txn.execute(insert, row)
                txn.execute("update ingest_state set cursor_us = ?", [begin])
        figures[name] = count / (time.perf_counter() - began)
        store.close()
    return figures


def _tuples(count: int) -> list[tuple[object, ...]]:
    rows = []
    for number, raw in enumerate(frames(count)):
        frame = json.loads(raw)
        commit, seen_at = frame["commit"], from_microseconds(frame["time_us"])
        named = [commit[name] for name in ("collection", "rkey", "operation", "rev", "cid")]
        body = json.dumps(commit["record"])
        rows.append((f"{number:032x}", number, "bench", "commit", frame["did"], *named, seen_at, False, body, seen_at))
    return rows


def grown(folder: Path, size: int, count: int) -> dict[str, object]:
    """Cost of an event and of a publish with `size` rows in the log, archived as the rule says."""
    store = Store.open(folder / "grown" / f"{size}.duckdb")
    store.bind("bench")
    for begin in range(1, size + 1, FILL_ROWS):
        _fill(store, begin, min(begin + FILL_ROWS - 1, size), size)
        archive(store, folder / "grown" / str(size), HOT_DAYS, HOT_ROWS, _now())
    batch = frames(count, FIRST_US + 1)
    chunks = [batch[begin : begin + 10_000] for begin in range(0, count, 10_000)]
    took = [_seconds(partial(load, store, "bench", chunk)) for chunk in chunks]
    again = _seconds(lambda: load(store, "bench", batch[-10_000:]))
    published = min(_seconds(lambda: publish(store, folder / "grown" / "snapshots")) for _ in range(3))
    size_mb = store.path.stat().st_size / 1e6
    with store.read() as rows:
        hot = rows.value("select count(*) from events")
        blocks = rows.row("pragma database_size") or {}
    store.close()
    return {
        "log_rows": size,
        "hot_rows": hot,
        "us_per_event": round(sorted(took)[len(took) // 2] / 10_000 * 1e6, 2),
        "us_per_repeated_event": round(again / 10_000 * 1e6, 2),
        "publish_s": round(published, 2),
        "file_mb": round(size_mb),
        "free_mb": round(blocks["free_blocks"] * blocks["block_size"] / 1e6),
    }


def _fill(store: Store, begin: int, end: int, size: int) -> None:
    with store.write() as txn:
        txn.execute(OLD_ROWS, {"begin": begin, "end": end, "size": size, "first_us": FIRST_US})
        txn.execute("update hops set position_seq = ? where name = 'derive'", [end])
    store.checkpoint()


def _now() -> datetime:
    return from_microseconds(FIRST_US) + timedelta(hours=1)


def _seconds(task: Callable[[], object]) -> float:
    began = time.perf_counter()
    task()
    return time.perf_counter() - began


def main() -> None:
    """Print the figures; the libraries are loaded before the first is taken."""
    folder = Path(os.environ["DATA_ROOT"]) / "bench_ingest"
    folder.mkdir(parents=True)
    _load_libraries(folder / "warm")
    with sender(EVENTS) as url:
        figures = received_and_stored(url, folder)
    print(json.dumps(figures), flush=True)
    print(json.dumps({f"{name}_per_s": round(speed) for name, speed in row_by_row(folder, 3000).items()}), flush=True)
    for size in LOG_ROWS:
        print(json.dumps(grown(folder, size, 100_000)), flush=True)


def _load_libraries(folder: Path) -> None:
    """The first batch of a process loads what later ones find loaded, for about a second."""
    store = Store.open(folder / "warm.duckdb")
    store.bind("bench")
    load(store, "bench", frames(10))
    store.close()


def _peak_mb() -> int:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def received_and_stored(url: str, folder: Path) -> dict[str, object]:
    """The same frames twice merely received, before and after they are stored; CPU time of this process."""
    began = mere_receive(url, EVENTS)
    idle, idle_cpu = empty_loader(url, EVENTS, folder)
    whole, whole_cpu = end_to_end(url, EVENTS, folder, publishing=False)
    stored_mb = _peak_mb()
    beside, beside_cpu = end_to_end(url, EVENTS, folder, publishing=True)
    bare, bare_cpu = ((first + last) / 2 for first, last in zip(began, mere_receive(url, EVENTS), strict=True))
    return {
        "events": EVENTS,
        "mere_receive_per_s": round(EVENTS / bare),
        "end_to_end_per_s": round(EVENTS / whole),
        "share": round(bare / whole, 3),
        "publishing_beside_per_s": round(EVENTS / beside),
        "publishing_beside_share": round(bare / beside, 3),
        "empty_loader_per_s": round(EVENTS / idle),
        "empty_loader_share": round(bare / idle, 3),
        "mere_receive_cpu_us": round(bare_cpu / EVENTS * 1e6, 2),
        "empty_loader_cpu_us": round(idle_cpu / EVENTS * 1e6, 2),
        "end_to_end_cpu_us": round(whole_cpu / EVENTS * 1e6, 2),
        "publishing_beside_cpu_us": round(beside_cpu / EVENTS * 1e6, 2),
        "peak_mb": stored_mb,
        "publishing_beside_peak_mb": _peak_mb(),
        "load_average": round(os.getloadavg()[0], 1),
    }


if __name__ == "__main__":
    main()
