"""Real SIGKILLs of processes that act in somebody's name on the site of a test: see killed_child.py."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO

from django.conf import settings
from django.db import connection

from tests.conftest import with_environment
from tests.sources import PROJECT
from tests.waiting import wait_for

GIVEN = ("STAND_IN_ORIGIN", "OAUTH_KEY", "OAUTH_CLIENT_KEYS", "PUBLIC_ORIGIN", "ALLOWED_HOSTS")
OF_THE_STORE = ("SNAPSHOT_DIR", "DIFF_CORPUS_DIR")


@dataclass
class Forking:
    """What forks a process for each job."""

    told: IO[str]
    heard: IO[str]

    def run(self, *job: object, seconds: float | None = None, until: Callable[[], object] | None = None) -> bool:
        """Run a job to its end, or kill it after so long or once something happened; return whether it was killed."""
        self.told.write(f"{json.dumps(job)}\n")
        self.told.flush()
        worker = int(self.heard.readline())
        if until is not None:
            wait_for(until)
        elif seconds is not None:
            time.sleep(seconds)  # the moment of the kill, not a wait for anything
        if until is not None or seconds is not None:
            with suppress(ProcessLookupError):  # it had come to its end
                os.kill(worker, signal.SIGKILL)
        return int(self.heard.readline()) == signal.SIGKILL


@contextmanager
def forking() -> Generator[Forking]:
    """Processes that see the accounts, the store, the keys and the network of this test."""
    given = {name: str(getattr(settings, name)) for name in (*GIVEN, *OF_THE_STORE)}
    given |= {"DATABASE": str(connection.settings_dict["NAME"]), "ALLOWED_HOSTS": settings.ALLOWED_HOSTS}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.triage.worlds.killed_child", json.dumps(given)],
        cwd=PROJECT,
        env=with_environment({"DATA_ROOT": settings.ROOT}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Forking(process.stdin, process.stdout)
        process.stdin.close()
