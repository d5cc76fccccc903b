"""Requests per second of `/score/{did}` with wrk on loopback: `python -m tests.bench.bench_api [PEOPLE [SECONDS]]`.

Goals at 1,000,000 scores, while a store takes in 500 records a second and is published every two seconds: a score that
was asked before reaches 80 % of the requests per second of an empty operation behind the same middleware, token check
and throttle, its p99 at most three times that one's; 400 scores a second that nobody asked before; `POST /score` with
100 people under 20 ms at the median. One line of JSON each, first without and then with the writer. Needs wrk.
`cpu_ms_per_request` is the CPU of the web process alone, in all its threads.
"""

import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import django

CONNECTIONS, THREADS = 8, 1
PEOPLE, SECONDS, ASKED = 1_000_000, 10, 40_000
UNITS = {"us": 0.001, "ms": 1.0, "s": 1000.0}
COLD = """
local lines, n = {}, 0
for line in io.lines("%s") do lines[#lines + 1] = line end
request = function() n = n + 1; return wrk.format("GET", "/score/" .. lines[(n - 1) %% #lines + 1]) end
"""


@dataclass(frozen=True, slots=True)
class Site:
    """A web process that serves at `address`, and a token that reads it."""

    address: str
    token: str
    process: int


def cpu_seconds(process: int) -> float:
    """The CPU that a process has taken so far, in all its threads."""
    told = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")


def wrk(site: Site, path: str, seconds: int, script: Path | None = None) -> dict[str, float]:
    """Requests per second, p50 and p99 in milliseconds of one address, by wrk; every answer has to be good."""
    command = ["wrk", f"-t{THREADS}", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency"]
    command += [
        "-H",
        f"Authorization: Bearer {site.token}",
        *(["-s", str(script)] if script else []),
        site.address + path,
    ]
    began = cpu_seconds(site.process)
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Non-2xx" not in said, said
    found = re.findall(r"(\d\d)%\s+([\d.]+)(us|ms|s)", said)
    percentile = {name: float(value) * UNITS[unit] for name, value, unit in found}
    rate, count = re.search(r"Requests/sec:\s+([\d.]+)", said), re.search(r"(\d+) requests in", said)
    assert rate is not None, said
    assert count is not None, said
    told = {"per_second": float(rate[1]), "p50_ms": percentile["50"], "p99_ms": percentile["99"]}
    return told | {"cpu_ms_per_request": (cpu_seconds(site.process) - began) * 1000 / int(count[1])}


@contextmanager
def beside(*module: str) -> Generator[int]:
    """A module as a process that ends with the block; its id."""
    child = subprocess.Popen([sys.executable, "-m", *module], stderr=subprocess.DEVNULL)
    try:
        yield child.pid
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(60)


def free_port() -> int:
    """A port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_served(port: int) -> None:
    """Return once somebody listens there."""
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError("The web process did not begin to listen within a minute.")


def many(site: Site, dids: list[str]) -> dict[str, float]:
    """The median milliseconds of `POST /score` for 100 of these people at a time."""
    took, before = [], cpu_seconds(site.process)
    headers = {"Authorization": f"Bearer {site.token}", "Content-Type": "application/json"}
    for first in range(0, len(dids), 100):
        body = json.dumps({"dids": dids[first : first + 100]}).encode()
        began = time.perf_counter()
        asked = urllib.request.Request(f"{site.address}/score", body, headers)  # noqa: S310
        with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310
            answer.read()
        took.append((time.perf_counter() - began) * 1000)
    spent = (cpu_seconds(site.process) - before) * 1000 / len(took)
    return {"p50_ms": statistics.median(took), "cpu_ms_per_request": spent}


def report(**figures: object) -> None:
    """One line."""
    told = {name: round(value, 2) if isinstance(value, float) else value for name, value in figures.items()}
    print(json.dumps(told), flush=True)


def measure(site: Site, dids: list[str], seconds: int, folder: Path, writing: bool) -> None:
    """Every figure once."""
    wrk(site, f"/empty/{dids[0]}", seconds)  # the first request imports what all others use
    # The empty operation before and after: the machine is not always the same.
    empty = [wrk(site, f"/empty/{dids[0]}", seconds)]
    held = wrk(site, f"/score/{dids[0]}", seconds)
    empty.append(wrk(site, f"/empty/{dids[0]}", seconds))
    for one in empty:
        report(what="an empty operation", writing=writing, **one)
    share = held["per_second"] / statistics.mean(one["per_second"] for one in empty)
    times = held["p99_ms"] / max(one["p99_ms"] for one in empty)
    report(what="a score asked before", writing=writing, **held, share_of_empty=share, p99_times_empty=times)
    script = folder / "cold.lua"
    (folder / "dids").write_text("\n".join(dids[ASKED // 4 :]))
    script.write_text(COLD % (folder / "dids"))
    report(what="scores not asked before", writing=writing, **wrk(site, "", seconds, script))
    report(what="100 people at once, not asked before", writing=writing, **many(site, dids[: ASKED // 8]))
    report(what="the same 100 again", writing=writing, **many(site, dids[: ASKED // 8]))


def main() -> None:
    """Fill, serve, measure."""
    given = [int(argument) for argument in sys.argv[1:]]
    people, seconds = (*given, *(PEOPLE, SECONDS)[len(given) :])
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trustsite.settings")
    os.environ.setdefault("API_REQUESTS_A_MINUTE", "100000000")
    django.setup()
    from django.conf import settings
    from django.core.management import call_command

    from ingest.store.snapshots import SnapshotReader
    from tests.bench.million_scores import fill
    from triage.access.tokens import create_token

    call_command("migrate", verbosity=0, interactive=False)
    token, port = create_token("bench", ["read"], datetime.now(UTC)), free_port()
    with tempfile.TemporaryDirectory(dir=settings.ROOT) as name:
        fill(Path(name), people, settings.SNAPSHOT_DIR)
        reader = SnapshotReader(settings.SNAPSHOT_DIR)
        with reader.pin() as snapshot:
            assert snapshot is not None
            dids = [row["did"] for row in snapshot.rows(f"select did from contributors using sample {ASKED} rows")]
        reader.close()
        random.Random(7).shuffle(dids)
        with beside("tests.bench.serve_api", f"127.0.0.1:{port}") as process:
            wait_until_served(port)
            for writing in (False, True):
                writer = beside("tests.bench.write_beside", name, str(settings.SNAPSHOT_DIR))
                with writer if writing else nullcontext():
                    measure(Site(f"http://127.0.0.1:{port}", token, process), dids, seconds, Path(name), writing)


if __name__ == "__main__":
    main()
