"""A whole site of real processes, web and worker, over a simulated network, whose worker can be killed."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO

import msgspec

from ingest.worker.status import encode, read_status, write_page
from tests.conftest import with_environment
from tests.ingest.stream.frames import ANA
from tests.pipeline import Later
from tests.sources import PROJECT
from tests.triage.morning.site import made, told
from tests.trustsite.ports import free_port
from tests.trustsite.runs import STOP_SECONDS
from tests.waiting import wait_for
from trustsite import drive
from trustsite.standins import StandIns
from trustsite.standins.recording import make_recording

EARLY, LATE = "Came early", "Came while it was away"
LATER_SQL = (
    "update triage_action set made_at = datetime(made_at, :by), effective_at = datetime(effective_at, :by)",
    "update triage_outboxentry set made_at = datetime(made_at, :by), due_at = datetime(due_at, :by)",
)


@dataclass(slots=True)
class RealSite:
    """A site on `address`, at which `link` signs in; `release` lets in what its network holds back."""

    root: Path
    address: str
    forking: subprocess.Popen[str]
    web: int = 0
    worker: int = 0
    link: str = ""
    release: Callable[[int | None], None] = lambda until: None

    def fork(self, *command: str) -> int:
        """Start `manage.py` with this command; returns its process number."""
        pipe(self.forking.stdin).write(" ".join(command) + "\n")
        pipe(self.forking.stdin).flush()
        said = self.said()
        while said and not said.isdigit():  # a worker that began before says that the site has no admin
            said = self.said()
        return int(said)

    def said(self) -> str:
        """The next line that a process printed."""
        return pipe(self.forking.stdout).readline().strip()

    def start_worker(self) -> None:
        """Start one; returns once its heart beats."""
        before = self.beat()
        self.worker = self.fork("worker")
        wait_for(lambda: self.beat() > before, what="a beat of the worker's heart")

    def kill_worker(self) -> None:
        """SIGKILL, and then half a minute without a beat."""
        os.kill(self.worker, signal.SIGKILL)
        wait_for(lambda: not is_there(self.worker), what="the end of the worker")
        self.pass_time(31)

    def beat(self) -> float:
        """When the worker last said how it is, in unix seconds; 0 where it never did."""
        status = read_status(self.root / "status.json")
        return status.written_at if status else 0.0

    def pass_time(self, seconds: int) -> None:
        """Have all that happened so far lie back so much longer: nobody waits for it. No worker may run."""
        status = read_status(self.root / "status.json")
        assert status is not None
        then = msgspec.structs.replace(status, written_at=status.written_at - seconds)
        write_page(self.root / "status.json", encode(then))
        with closing(sqlite3.connect(self.root / "web.sqlite3", timeout=30)) as web, web:
            for sql in LATER_SQL:
                web.execute(sql, {"by": f"-{seconds} seconds"})


def pipe(stream: IO[str] | None) -> IO[str]:
    """A stream that was asked for is there."""
    assert stream is not None
    return stream


def is_there(process: int) -> bool:
    """Whether a process of that number exists."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def frames() -> list[bytes]:
    """The newest that the store has, so that nothing is missing, then two pull requests of just now."""
    found = Later(datetime.now(UTC).replace(tzinfo=None) - timedelta(seconds=5))
    found.pull(ANA, "early", title=EARLY)
    found.pull(ANA, "late", title=LATE)
    return [*told()[-1:], *found]


@contextmanager
def started_site(
    root: Path, origin: str, said: IO[str] | None = None, undo_seconds: float = 10, **environment: str
) -> Generator[RealSite]:
    """A site below `root` whose network answers at `origin`; its processes end with the block.

    `said` gets what they write to stderr; what people do takes effect after `undo_seconds`.
    """
    drive.mark(root)
    bind = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "tests.triage.morning.processes", origin, str(undo_seconds)]
    given = {"DATA_ROOT": root, **drive.child_environment(root), "BIND": bind, **environment}
    with subprocess.Popen(
        command,
        cwd=PROJECT,
        env=with_environment(given),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=said,
        text=True,
    ) as forking:
        site = RealSite(root, f"http://{bind}", forking)
        try:
            yield site
        finally:
            for process in (site.worker, site.web):
                if process and is_there(process):
                    os.kill(process, signal.SIGKILL)
            pipe(forking.stdin).close()
            forking.wait(STOP_SECONDS)


@contextmanager
def real_site(root: Path) -> Generator[RealSite]:
    """The morning's site below `root`, with a worker that listens; one pull request more is held back."""
    (root / "duckdb").mkdir()
    shutil.copy(made() / "trust.duckdb", root / "duckdb")
    shutil.copytree(made() / "diffs", root / "diffs")
    with (
        StandIns(make_recording(frames(), {}, (), ()), hold_after=2) as peers,
        started_site(root, peers.origin, JETSTREAM_URLS=peers.jetstream_url) as site,
    ):
        site.release = peers.release
        site.fork("add_maintainer", "did:plc:" + "2" * 24)
        site.link = site.said()
        site.web = site.fork("web")
        site.start_worker()
        yield site
