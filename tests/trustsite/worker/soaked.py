"""A live site under mixed load: a stream at a steady rate, readers, publishes, a training; and what it used."""

import itertools
import json
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from trustsite.world.network import encode_tid, make_did

TICKS = 10  # a second
PEOPLE = 2_000
KINDS = ("feed.star", "graph.follow")  # of ten records eight are these, as on the network, and two are pull requests


class PacedStream:
    """A loopback Jetstream that tells `rate` new records a second to whoever listens, and counts them."""

    def __init__(self, rate: int, seed: int = 1) -> None:
        self._rate, self._draw = rate, random.Random(seed)
        self._dids = [make_did(seed, "soak", number) for number in range(PEOPLE)]
        self._numbers = itertools.count()
        self.person = self._dids[0]  # of whom the first pull request is
        self.told, self.newest_us, self.ended = 0, 0, threading.Event()

    @contextmanager
    def serving(self) -> Generator[str]:
        """The address at which it listens."""
        with serve(self._tell, "127.0.0.1", 0) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}/subscribe"
            self.ended.set()

    def _tell(self, connection: ServerConnection) -> None:
        due = time.monotonic()
        with suppress(ConnectionClosed):
            while not self.ended.is_set():
                for _ in range(self._rate // TICKS):
                    connection.send(self._frame())
                    self.told += 1
                due += 1 / TICKS
                self.ended.wait(max(0.0, due - time.monotonic()))

    def _frame(self) -> str:
        """One new record of just now."""
        number = next(self._numbers)
        self.newest_us = max(self.newest_us + 1, time.time_ns() // 1000)
        did, other = (self._draw.choice(self._dids) for _ in range(2)) if number else (self.person, self._dids[1])
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        if number % 10 and number % 10 < 9:
            kind = KINDS[number % 2]
            subject = other if kind == "graph.follow" else f"at://{other}/sh.tangled.repo/3kd{number % 997:010d}"
            record = {"$type": f"sh.tangled.{kind}", "subject": subject, "createdAt": created}
        else:
            kind = "repo.pull"
            record = {
                "$type": "sh.tangled.repo.pull",
                "title": f"Change number {number}",
                "target": {"repo": other, "branch": "main"},
                "rounds": [{"createdAt": created, "patchBlob": _blob(number)}],
                "createdAt": created,
            }
        commit = {
            "rev": encode_tid(self.newest_us),
            "operation": "create",
            "collection": f"sh.tangled.{kind}",
            "rkey": encode_tid(self.newest_us),
            "record": record,
            "cid": f"bafyrei{number:052d}",
        }
        return json.dumps({"did": did, "time_us": self.newest_us, "kind": "commit", "commit": commit})


def _blob(number: int) -> dict[str, object]:
    return {"$type": "blob", "ref": {"$link": f"bafkrei{number:052d}"}, "mimeType": "text/x-diff", "size": 600}


@dataclass
class Readers:
    """Threads that ask the site at a steady rate; `faults` holds what was no good answer."""

    site: str
    paths: Sequence[str]
    rate: int
    faults: list[str] = field(default_factory=list)
    took: list[float] = field(default_factory=list)

    @contextmanager
    def asking(self, threads: int = 8) -> Generator[None]:
        """Ask until the block ends."""
        stop = threading.Event()
        crowd = [threading.Thread(target=self._ask, args=(stop, threads, number)) for number in range(threads)]
        for one in crowd:
            one.start()
        try:
            yield
        finally:
            stop.set()
            for one in crowd:
                one.join()

    def _ask(self, stop: threading.Event, threads: int, number: int) -> None:
        draw, due = random.Random(number), time.monotonic()
        while not stop.is_set():
            path = draw.choice(self.paths)
            began = time.perf_counter()
            try:
                with urllib.request.urlopen(f"{self.site}{path}", timeout=60) as answer:  # noqa: S310
                    answer.read()
            except (urllib.error.URLError, OSError) as problem:
                self.faults.append(f"{path}: {problem}")
            self.took.append(time.perf_counter() - began)
            due = max(due + threads / self.rate, time.monotonic() - 1)  # who is late does not storm afterwards
            stop.wait(max(0.0, due - time.monotonic()))


def resident_mb(process: int) -> float:
    """The memory that a process holds now, in megabytes; from /proc."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith("VmRSS:"))


def growth_of_last_half(held: Sequence[float]) -> float:
    """By what share memory grew from the third to the fourth quarter, by their medians."""
    half = held[len(held) // 2 :]
    first, last = (sorted(part)[len(part) // 2] for part in (half[: len(half) // 2], half[len(half) // 2 :]))
    return last / first - 1


def each_second(seconds: float) -> Iterator[int]:
    """0, 1, 2, ... one a second."""
    began = time.monotonic()
    for number in range(int(seconds)):
        yield number
        time.sleep(max(0.0, began + number + 1 - time.monotonic()))
