"""git children end with the worker that started them, however it ends, and the mirror goes on where it was."""

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from ingest.http.fetcher import Fetcher
from ingest.store.database import Store
from tests.conftest import Count
from tests.ingest.git.git_world import REPO_DID, Knot, Place, Work
from tests.ingest.peer import Request, Start
from tests.sources import PROJECT
from tests.waiting import wait_for

WORKER = """
import sys
from pathlib import Path
from ingest.git.process import Git
from ingest.lookups.forge import Remote
folder = Path(sys.argv[1])
for name in ("refs", "objects", "nothing"):
    (folder / name).mkdir(parents=True, exist_ok=True)
(folder / "HEAD").write_text("ref: refs/heads/none")
remote = Remote("knot.example.test", sys.argv[2] + "/repo", ())
Git(folder).ask(remote, "ls-remote", remote.url, limit=10_000, seconds=60, file_bytes=10_000)
"""
HOPS = """
import sys
from datetime import datetime
from pathlib import Path
from ingest.http.fetcher import Fetcher
from ingest.store.database import Store
from tests.ingest.git.git_world import Place
store = Store.open(Path(sys.argv[1]))
place = Place.__new__(Place)
place.store, place.fetcher, place.folder = store, Fetcher(sys.argv[2]), Path(sys.argv[3])
place.present = datetime.fromisoformat(sys.argv[4])
print("ready", flush=True)
place.land()
print("done", flush=True)
store.close()
"""


def drip(_: Request) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n\r\n001e# service=git-up"
    while True:
        time.sleep(0.1)
        yield b"0"


def children_of(group: Callable[[list[str]], bool]) -> list[int]:
    """The processes whose command line is such."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if group(words):
            found.append(int(place.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are looked up in /proc")
def test_no_git_process_outlives_a_worker_that_was_killed(tmp_path: Path, peer: Start) -> None:
    server = peer(drip)

    def at_work() -> list[int]:  # what has ended and nobody reaped has no command line
        return children_of(lambda words: server.origin + "/repo" in words)

    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path / "1.git"), server.origin], cwd=PROJECT)
    wait_for(lambda: server.requests and len(at_work()) >= 3)
    worker.kill()
    worker.wait()
    wait_for(lambda: not at_work())


def filled(work: Work) -> bytes:
    """A history of 40 commits, and a mail with a series of two that is squashed on top of it."""
    text = "".join(f"line {number}\n" for number in range(60))
    work.commit("First", {"a.txt": text})
    for number in range(40):
        work.commit(f"Step {number}", {f"b{number % 5}.txt": f"{number}\n" * 20})
    return work.offer("HEAD", [("One", {"a.txt": text + "x\n"}), ("Two", {"a.txt": "y\n" + text + "x\n"})])


TABLES = {
    "commits": "select * exclude (appeared_at, absent_at) from commits order by commit_id",
    "branch_commits": "select branch, commit_id from branch_commits order by all",
    "landings": "select pull_uri, commit_id, proof, proven from landings order by all",
}


def test_a_kill_while_a_mirror_is_read_leaves_a_whole_state_and_the_work_goes_on(tmp_path: Path, count: Count) -> None:
    work = Work(tmp_path / "work")
    mails = filled(work)
    with Knot({REPO_DID: work.folder}) as knot:
        path = tmp_path / "store" / "trust.duckdb"
        store = Store.open(path)
        place = Place(store, Fetcher(knot.origin), tmp_path / "mirrors")
        place.folder.mkdir()
        place.look()
        pull = place.offer(mails)
        place.look()
        work.am(mails)
        store.close()
        tries = count(2, 20)
        for number in range(tries + 1):
            place.present += timedelta(hours=1)
            command = [sys.executable, "-c", HOPS, str(path), knot.origin, str(place.folder), str(place.present)]
            worker = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
            if number < tries:
                time.sleep(random.Random(number).uniform(0.0, 0.8))
                worker.kill()
            else:
                assert worker.stdout.readline() == "done\n"
            worker.wait()
            worker.stdout.close()
        store = Store.open(path)
        place.store = store
        killed = {name: place.rows(sql) for name, sql in TABLES.items()}
        assert [(row["pull_uri"], row["proven"]) for row in killed["landings"]] == [(pull, True)] * 2
        assert len(killed["commits"]) == 43
        assert len(killed["branch_commits"]) == 43
        assert not list(place.folder.glob("*/apply-*"))
        assert not list(place.folder.glob("**/tmp_*"))
        store.close()
