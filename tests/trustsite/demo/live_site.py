"""The real worker and the real web on one folder, fed frame by frame: how fast a row is on its page."""

import subprocess
import sys
import time
import urllib.error
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ingest.store.snapshots import SnapshotReader
from tests.conftest import with_environment
from tests.sources import PROJECT
from tests.trustsite.busy import answers_at, get
from tests.trustsite.demo.live_worker import recording_with_news
from tests.trustsite.ports import free_port
from tests.waiting import LONG_SECONDS, wait_for
from trustsite import drive

NOT_REVIEWED = b"content was not reviewed yet"
LOG = "worker.log"  # beside what it keeps
DECIDED = "select count(*) from current_decisions where list_contains(?, pull_uri) and content_risk is not null"


@dataclass(frozen=True)
class LiveSite:
    """A worker that holds frames back and a web process beside it."""

    root: Path
    port: int
    frames: int
    uris: tuple[str, ...]
    worker: subprocess.Popen[bytes]

    def release(self, news: int) -> None:
        """Let the first `news` new pull requests out."""
        release(self.worker, self.frames - len(self.uris) + news)

    def shows(self, uri: str) -> bool:
        """Whether the page of this pull request is there, with what its review came to."""
        try:
            status, body = get(self.port, f"/pull/{uri}")
        except urllib.error.HTTPError:
            return False
        return status == 200 and NOT_REVIEWED not in body

    def seconds_until_shown(self, number: int) -> float:
        """Let the next pull request out; seconds until its row is on the page with its review."""
        began = time.monotonic()
        self.release(number + 1)
        while not self.shows(self.uris[number]):
            assert time.monotonic() - began < LONG_SECONDS
            time.sleep(0.1)  # a request takes 20 ms of a core that the worker needs
        return time.monotonic() - began


def release(worker: subprocess.Popen[bytes], frames: int) -> None:
    """Let so many frames of all out."""
    assert worker.stdin is not None
    worker.stdin.write(b"%d\n" % frames)
    worker.stdin.flush()


def decided(root: Path, uris: Sequence[str]) -> int:
    """How many of these the newest snapshot shows as decided with their review."""
    with SnapshotReader(root / "snapshots").pin() as snapshot:
        return snapshot.value(DECIDED, [list(uris)]) if snapshot else 0


def start_worker(root: Path, people: int, pulls: int, news: int, held: int) -> subprocess.Popen[bytes]:
    """The worker's process; it says one line once it has worked off what is not held."""
    arguments = [sys.executable, "-m", "tests.trustsite.demo.live_worker", *map(str, (people, pulls, news, held))]
    environment = with_environment({"DATA_ROOT": root})
    pipe = subprocess.PIPE
    with (root / LOG).open("ab") as log:
        return subprocess.Popen(arguments, cwd=PROJECT, env=environment, stdin=pipe, stdout=pipe, stderr=log)


def check_settled(root: Path, worker: subprocess.Popen[bytes]) -> None:
    """Assert that the worker has worked off what was let out, once it says so; what it logged tells why not."""
    assert worker.stdout is not None
    assert worker.stdout.readline() == b"settled\n", (root / LOG).read_text(errors="replace")[-4_000:]


@contextmanager
def live_site(root: Path, people: int, pulls: int, news: int) -> Generator[LiveSite]:
    """A site that has worked off everything but the news."""
    root.mkdir(exist_ok=True)
    drive.mark(root)
    recording, uris = recording_with_news(people, pulls, news)
    worker, port = start_worker(root, people, pulls, news, news), free_port()
    environment = with_environment({"DATA_ROOT": root, "BIND": f"127.0.0.1:{port}", "PUBLIC_READ": "1"})
    none = subprocess.DEVNULL
    command = [sys.executable, str(PROJECT / "manage.py"), "web"]
    web = subprocess.Popen(command, env=environment, stdout=none, stderr=none)
    try:
        check_settled(root, worker)
        wait_for(lambda: answers_at(port, "/metrics"))
        yield LiveSite(root, port, len(recording.frames), uris, worker)
    finally:
        for process in (web, worker):
            process.kill()
            process.communicate()
