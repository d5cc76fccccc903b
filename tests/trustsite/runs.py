"""Starting, killing and comparing runs of `manage.py` as child processes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from ingest.store.digest import digest as digest_rows
from ingest.store.snapshots import SnapshotReader
from tests.conftest import with_environment
from tests.sources import PROJECT
from tests.trustsite.ports import free_port, is_taken
from tests.waiting import LONG_SECONDS, wait_for
from trustsite.drive import replay_place

STOP_SECONDS = LONG_SECONDS  # ten on a machine at rest: trustsite/worker/worker.py cuts off what takes longer


def start(*arguments: str | Path, **environment: str | Path | None) -> subprocess.Popen[str]:
    """`manage.py` with these arguments, its output kept apart."""
    command = [sys.executable, str(PROJECT / "manage.py"), *(str(argument) for argument in arguments)]
    return subprocess.Popen(
        command, env=with_environment(environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def start_deaf(*arguments: str | Path, **environment: str | Path | None) -> subprocess.Popen[str]:
    """The same with SIGINT ignored from before its start, as a shell without job control starts its background jobs."""
    deaf = ("sh", "-c", 'trap "" INT; exec "$0" "$@"', sys.executable, str(PROJECT / "manage.py"))
    command = [*deaf, *(str(argument) for argument in arguments)]
    return subprocess.Popen(
        command, env=with_environment(environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str], timeout: float = 300) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of a run that ends by itself."""
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out, err


def run(*arguments: str | Path, timeout: float = 300, **environment: str | Path | None) -> tuple[int, str, str]:
    """A whole run."""
    return finish(start(*arguments, **environment), timeout)


@contextmanager
def serving(*arguments: str | Path, port: int, **environment: str | Path | None) -> Generator[dict[str, str]]:
    """`said`: the line in which a run says that it serves, once it listens; `out`: its stdout, once the block ends.

    It is stopped as by Ctrl-C.
    """
    process, said, told = start(*arguments, **environment), "", dict[str, str]()
    try:
        assert process.stderr is not None
        for line in process.stderr:
            said += line
            if "Serving on" in line:
                break
        else:
            raise AssertionError(said)
        wait_for(lambda: is_taken(port))
        told["said"] = line
        yield told
    finally:
        process.send_signal(signal.SIGINT)
        told["out"], _ = process.communicate(timeout=STOP_SECONDS)


def replay(folder: Path, root: Path) -> dict[str, Any]:
    """The counts that a replay below `root` prints as its one line on stdout."""
    root.mkdir(exist_ok=True)
    status, out, err = run("replay", folder, DATA_ROOT=root)
    assert status == 0, err
    return json.loads(out)


def digest(folder: Path, root: Path) -> str:
    """The hashes of the store that a replay keeps."""
    status, out, err = run("digest", "--replay", folder, DATA_ROOT=root)
    assert status == 0, err
    return out


def digest_here(folder: Path, root: Path) -> str:
    """The same, worked out in this process."""
    with closing(SnapshotReader(replay_place(root, folder).root / "snapshots")) as reader, reader.pin() as snapshot:
        assert snapshot is not None, "nothing was published"
        return "".join(f"{value}  {table}\n" for table, value in digest_rows(snapshot).items())


def kill_after(process: subprocess.Popen[str], seconds: float) -> bool:
    """SIGKILL a run after some time; whether it was still running."""
    try:
        process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        return True
    return False


def killed_demo(root: Path) -> dict[str, Any]:
    """Start a demo below `root`, then a second one, kill the first in its midst, and leave a file in its folder.

    `second`: the exit status, stdout and stderr of the second; `goes_on`: whether the first then still had its store.
    """
    first = start("demo", DATA_ROOT=root, BIND=f"127.0.0.1:{free_port()}")
    store = root / "demo" / "duckdb" / "trust.duckdb"
    try:
        wait_for(store.exists)
        file = store.stat().st_ino
        second = run("demo", "--check", DATA_ROOT=root)
        goes_on = first.poll() is None and store.stat().st_ino == file
    finally:
        first.kill()
        first.communicate()
    (root / "demo" / "left").write_text("")
    return {"second": second, "goes_on": goes_on}
