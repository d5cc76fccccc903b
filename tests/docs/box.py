"""A fresh clone and a folder for its state, with a shell that somebody types the commands of the pages into.

What would come from a package index lies there already; every address outside leads nowhere.
"""

import hashlib
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from tests.conftest import with_environment
from tests.sources import PROJECT
from tests.trustsite.ports import free_port
from tests.waiting import LONG_SECONDS, wait_for
from trustsite.setup import PINS

NOWHERE = "https://nowhere.invalid"


class Box:
    """A clone of this project, a folder for its state, and a shell that its reader types into."""

    def __init__(self, folder: Path, stream: str) -> None:
        self.clone, self.root = folder / "clone", folder / "state"
        self.clone.mkdir()
        for path in PROJECT.iterdir():
            if path.name not in (".envrc", ".env", ".git", ".gitignore"):
                (self.clone / path.name).symlink_to(path)
        self.port = free_port()
        self._environment = with_environment(
            {
                "DATA_ROOT": None,
                "BIND": f"127.0.0.1:{self.port}",
                "JETSTREAM_URLS": stream,
                "BACKFILL_HOSTS": "",
                "BACKUP_DAYS": "30",
                "PATH": f"{self._programs(folder)}:{os.environ['PATH']}",
                **dict.fromkeys(("PLC_URL", "BLUESKY_API", "APPVIEW_URL"), NOWHERE),
            }
        )
        self._commit("the first")

    def keep_state_in(self, root: Path) -> None:
        """Set DATA_ROOT in .envrc, as the pages ask for."""
        envrc = self.clone / ".envrc"
        named, set_ = re.subn(r"(?m)^export DATA_ROOT=.*", f"export DATA_ROOT={root}", envrc.read_text())
        assert set_ == 1
        envrc.write_text(named)
        self.root = root
        self._install()

    def take_new_code(self) -> None:
        """What `git pull` would do: another commit."""
        (self.clone / "NEW").write_text("new")
        self._commit("another", "NEW")

    def _commit(self, message: str, *files: str) -> None:
        """Keep these files, else the Makefile, in the clone's own repository."""
        who = ("-c", "user.name=ana", "-c", "user.email=ana@example.com")
        for command in (["init", "-q"], ["add", *(files or ("Makefile",))], [*who, "commit", "-q", "-m", message]):
            subprocess.run(["git", *command], cwd=self.clone, env=self._environment, check=True)

    def _programs(self, folder: Path) -> Path:
        """A folder whose python3.11 is the running interpreter."""
        programs = folder / "bin"
        programs.mkdir()
        _interpreter(programs / "python3.11")
        return programs

    def _install(self) -> None:
        """What `make setup` leaves, so that it finds its pins in place."""
        venv = self.root / "venv"
        (venv / "bin").mkdir(parents=True)
        _interpreter(venv / "bin" / "python")
        digests = {name: hashlib.sha256(path.read_bytes() + sys.version.encode()) for name, path in PINS.items()}
        (venv / ".pins").write_text("".join(f"{name} {one.hexdigest()}\n" for name, one in digests.items()))

    def type(self, command: str) -> str:
        """Run one line as it stands, in a shell that has read .envrc where there is one; its stdout."""
        done = subprocess.run(self._shell(command), **self._here(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def running(self, command: str, healthy: int = 200) -> Generator[None]:
        """What runs until Ctrl-C, from when `/health` answers so (503: the web process alone) until the block ends."""
        process = subprocess.Popen(self._shell(f"exec {command}"), **self._here(), stderr=subprocess.PIPE, text=True)
        try:
            wait_for(lambda: process.poll() is not None or self.status("/health") == healthy, what="a site")
            assert process.poll() is None, process.communicate()[1]
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=LONG_SECONDS)

    def status(self, path: str) -> int:
        """The status of an answer of the web process itself; 0 while nobody listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=LONG_SECONDS) as answer:
                return answer.status
        except HTTPError as problem:
            return problem.code
        except OSError:
            return 0

    def _shell(self, command: str) -> list[str]:
        return ["sh", "-euc", f"if [ -f .envrc ]; then . ./.envrc; fi; {command}"]

    def _here(self) -> dict[str, Any]:
        return {"cwd": self.clone, "env": self._environment, "start_new_session": True}


def _interpreter(path: Path) -> None:
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    path.chmod(0o755)
