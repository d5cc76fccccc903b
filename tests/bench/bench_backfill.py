"""Backfill of 2,000 accounts with 100,000 records from loopback: `python -m tests.bench.bench_backfill`.

One line of JSON for a run that nobody disturbs and one for a run that is killed ten times. Goal: under 180 s.
`standin_cpu_s` is what the stand-in took of the machine meanwhile, `peak_mb` the most memory that the backfill held.
"""

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ingest.clock import to_microseconds, wall_now
from ingest.store.database import Store

ACCOUNTS, RECORDS, KILLS = 2_000, 100_000, 10


@contextmanager
def network(accounts: int) -> Generator[tuple[str, int]]:
    """The origin of the stand-in and its process."""
    command = [sys.executable, "-m", "tests.ingest.backfill.many_accounts", str(accounts)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}", process.pid
    finally:
        process.terminate()
        process.wait()


def backfill(folder: Path, origin: str) -> subprocess.Popen[bytes]:
    """One process that goes on until all is done."""
    arguments = [str(folder), origin, str(to_microseconds(wall_now()))]
    return subprocess.Popen([sys.executable, "-m", "tests.ingest.backfill.backfilled", *arguments])


def with_kills(folder: Path, origin: str, kills: int) -> int:
    """Run to the end through so many kills; how many processes it took."""
    moments, processes = random.Random(5), 1
    process = backfill(folder, origin)
    while kills:
        try:
            process.wait(moments.uniform(2, 4))
            return processes
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills, processes = kills - 1, processes + 1
            process = backfill(folder, origin)
    assert process.wait() == 0
    return processes


def cpu_seconds(pid: int) -> float:
    """Processor time that a process took so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def counts(folder: Path) -> dict[str, int]:
    """What came of it."""
    store = Store.open(folder / "trust.duckdb")
    try:
        with store.read() as rows:
            tables = ("events", "pull_requests", "statuses", "vouches")
            found = {table: rows.value(f"select count(*) from {table}") for table in tables}
            done = rows.value("select count(*) from backfill_accounts where state = 'done'")
            return found | {"accounts_done": done}
    finally:
        store.close()


def main() -> None:
    """Print the figures."""
    for kills in (0, KILLS):
        with tempfile.TemporaryDirectory() as name, network(ACCOUNTS) as (origin, pid):
            folder = Path(name)
            began = time.perf_counter()
            processes = with_kills(folder, origin, kills)
            took = time.perf_counter() - began
            found = counts(folder)
            assert (found["events"], found["accounts_done"]) == (RECORDS, ACCOUNTS), found
            figures = {
                "killed": processes - 1,
                "seconds": round(took, 1),
                "records_a_second": round(RECORDS / took),
                "standin_cpu_s": round(cpu_seconds(pid), 1),
                "peak_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024,
            }
            print(json.dumps(figures | found), flush=True)


if __name__ == "__main__":
    main()
