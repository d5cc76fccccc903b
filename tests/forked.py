"""Child processes that are forked from one which has loaded what they need: that spares each .4 s of CPU or more.

A child has its own arguments, environment, folder and pipes from before its program runs, ends as Python ends, and is
a child of this process. `make prove` starts every one anew.
"""

import ctypes
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from tests.sources import PROJECT

# Nothing of it reads the settings, which differ from child to child.
LOADED = (
    "django.core.handlers.wsgi",
    "django.core.management",
    "django.db.backends.sqlite3.base",
    "django.db.models",
    "django.template.backends.django",
    "environs",
    "huey",
    "ingest.records.derive",
    "ingest.store.database",
    "ingest.stream.socket_process",
    "numpy",
    "pydantic",
    "scoring.pipeline.score",
    "scoring.queries.read",
)
NURSERY = """
import atexit, gc, importlib, json, os, random, runpy, socket, sys
import django.conf

def next_child():
    while True:
        said, pipes, _, _ = socket.recv_fds(door, 200_000, 3)
        if not said:
            sys.exit()
        told, tell = os.pipe()
        between = os.fork()
        if not between:
            if child := os.fork():
                os.write(tell, str(child).encode())
                os._exit(0)  # which makes it a child of the process that asked
            for number, pipe in enumerate(pipes):
                os.dup2(pipe, number)
            door.close()
            for pipe in (told, tell, *pipes):
                os.close(pipe)
            return json.loads(said)
        for pipe in (tell, *pipes):
            os.close(pipe)
        os.waitpid(between, 0)
        door.send(os.read(told, 20))
        os.close(told)

for name in sys.argv[2:]:
    importlib.import_module(name)
assert not django.conf.settings.configured
door = socket.socket(fileno=int(sys.argv[1]))
sys.argv, folder, environment, leads_a_session = next_child()
if leads_a_session:
    os.setsid()
os.chdir(folder)
os.environ.clear()
os.environ.update(environment)
random.seed()
atexit.register(gc.unfreeze)  # of what the program froze: DuckDB's binding tells of what was never collected
option = sys.argv.pop(0) if sys.argv[0].startswith("-") else ""
if option == "-c":
    program, sys.argv[0] = sys.argv[0], "-c"
    exec(program, {"__name__": "__main__"})
elif option == "-m":
    sys.modules.pop(sys.argv[0], None)
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
else:
    sys.path[0] = os.path.dirname(sys.argv[0])
    runpy.run_path(sys.argv[0], run_name="__main__")
"""
SUBREAPER = 36  # prctl's: orphans below this process become its children
LOCK = Lock()


@cache
def nursery() -> socket.socket:
    """The door of the process that forks; it ends with this one, which alone holds the other side."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command, none = [sys.executable, "-c", NURSERY, str(theirs.fileno()), *LOADED], subprocess.DEVNULL
        subprocess.Popen(command, cwd=PROJECT, stdin=none, stdout=none, pass_fds=[theirs.fileno()])
    return ours


class ForkedProcess(subprocess.Popen):
    """`subprocess.Popen` of a Python program: what follows `sys.executable` is a file, or begins with -c or -m."""

    def _execute_child(
        self,
        args: list[str],
        executable: Any,
        preexec_fn: Any,
        close_fds: Any,
        pass_fds: Any,
        cwd: Any,
        env: Any,
        startupinfo: Any,
        creationflags: Any,
        shell: Any,
        *pipes_and_rest: Any,
    ) -> None:
        pipes, (*_, leads_a_session, _) = pipes_and_rest[:6], pipes_and_rest[6:]
        given = [own if pipe == -1 else pipe for own, pipe in enumerate((pipes[0], pipes[3], pipes[5]))]
        told = [args[1:], str(cwd or Path.cwd()), dict(os.environ if env is None else env), leads_a_session]
        try:
            with LOCK:
                door, libc = nursery(), ctypes.CDLL(None)
                libc.prctl(SUBREAPER, 1, 0, 0, 0)
                try:
                    socket.send_fds(door, [json.dumps(told).encode()], given)
                    self.pid = int(door.recv(20))
                finally:
                    libc.prctl(SUBREAPER, 0, 0, 0, 0)
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes)  # ty: ignore[missing-attribute]


PythonProcess: type[subprocess.Popen] = subprocess.Popen if os.environ.get("PROVE") == "1" else ForkedProcess


def run_python(
    *arguments: str, timeout: float | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A whole run of a Python program in the project's folder."""
    command, pipe = [sys.executable, *arguments], subprocess.PIPE
    with PythonProcess(command, cwd=PROJECT, env=env, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)
