"""Follow-up mining over 10,000 commits: `python -m tests.bench.bench_followups [COMMITS]`. Goal: under 2 minutes.

One line of JSON. The history is made by `git fast-import` in a temporary folder: 200 files of 300 lines, every commit
changes 1 to 4 places in 1 to 3 files; 300 pull requests landed in it, told of by a push-holder. Timed is everything
after the clone: reading the commits into the tables, finding the landings, mining what became of them.
"""

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from ingest.git.followups import mine_followups
from ingest.git.history import read_diffs, read_history
from ingest.git.landings import find_landings
from ingest.git.mirror import Limits, fetch_mirrors
from ingest.git.process import Git
from ingest.http.fetcher import Fetcher
from ingest.store.database import Store
from tests.ingest.git.git_world import DAY_ONE, REPO_DID, Knot, Watching, Work

PULLS = 300
ROOM = Limits(mirror_bytes=1_000_000_000, mirrors_bytes=1_000_000_000)


def stream(commits: int) -> Iterator[bytes]:
    """A history for `git fast-import`, one commit every 20 minutes."""
    draw = random.Random(1)
    files = {
        f"src/module_{n % 20}/file_{n}.py": [f"start_{n}_{line} = {line}" for line in range(300)] for n in range(200)
    }
    names = list(files)
    began = int(DAY_ONE.timestamp()) - commits * 1200
    for number in range(commits):
        touched = names if number == 0 else draw.sample(names, draw.randrange(1, 4))
        for name in touched if number else ():
            for _ in range(draw.randrange(1, 5)):
                place = draw.randrange(len(files[name]))
                files[name][place : place + draw.randrange(0, 3)] = [f"value_{number}_{draw.random()} = {place}"]
        message = f"Change {number}".encode()
        moment = began + number * 1200
        yield b"commit refs/heads/main\ncommitter A <a@example.test> %d +0000\n" % moment
        yield b"data %d\n%s\n" % (len(message), message)
        for name in touched:
            data = "".join(f"{line}\n" for line in files[name]).encode()
            yield b"M 100644 inline %s\ndata %d\n%s\n" % (name.encode(), len(data), data)


def offer(world: Watching, work: Work, commits: int) -> None:
    """Pull requests whose commits are spread over the history, as a push-holder tells."""
    ids = work.git("rev-list", "--reverse", "main").split()
    chosen = ids[1 :: max(1, commits // PULLS)][:PULLS]
    git = Git(work.folder / ".git")
    pulls = []
    for commit, _ in read_diffs(git, chosen):
        patch = work.git("format-patch", "--stdout", "-1", commit).encode() + b"\n"
        pulls.append(world.offer(patch, after=timedelta(seconds=1)))
    with world.store.write() as txn:
        txn.execute("update pull_requests set state = 'merged', merge_proof = 'verified'")


def main() -> None:
    """Print the figures."""
    commits = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        work = Work(folder / "work")
        importer = subprocess.Popen(["git", "fast-import", "--quiet"], cwd=work.folder, stdin=subprocess.PIPE)
        with importer.stdin as pipe:  # ty: ignore[invalid-context-manager]
            pipe.writelines(stream(commits))
        importer.wait()
        store = Store.open(folder / "store" / "trust.duckdb")
        with Knot({REPO_DID: work.folder}) as knot:
            world = Watching(store, Fetcher(knot.origin), folder / "mirrors")
            offer(world, work, commits)
            figures: dict[str, object] = {"commits": commits, "pulls": PULLS}
            steps = {
                "clone_s": lambda: fetch_mirrors(store, world.fetcher, world.folder, ROOM, world.now, world.now),
                "history_s": lambda: read_history(store, world.fetcher, world.folder, world.now),
                "landings_s": lambda: find_landings(store, world.fetcher, world.folder, world.folder),
                "followups_s": lambda: mine_followups(store, world.fetcher, world.folder, world.now, 14),
            }
            for step, task in steps.items():
                started = time.perf_counter()
                figures[step.removesuffix("_s")] = task()
                figures[step] = round(time.perf_counter() - started, 2)
        store.close()
    figures["peak_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
