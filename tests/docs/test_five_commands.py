"""Somebody follows "Your own box in five commands", and then the way up and back, word for word on a fresh folder.

What would come from a package index lies there already, and the stream is a stand-in on loopback that tells of one
repository; every other address leads nowhere.
"""

import hashlib
import json
import os
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
from tests.docs.pages import block_below, lines_of
from tests.ingest.stream import Frames
from tests.sources import PROJECT
from tests.trustsite.ports import free_port
from tests.waiting import LONG_SECONDS, wait_for
from trustsite.setup import PINS
from trustsite.standins.jetstream import Jetstream
from trustsite.standins.recording import make_recording

OPERATE, DEPLOY = "docs/operate.md", "docs/deploy.md"
OWNER = "did:plc:ewvi7nxzyoun6zhxrhs64oiz"  # whom the page names
NOWHERE = "https://nowhere.invalid"


class Box:
    """A clone of this project, a folder for its state, and a shell that its reader types into."""

    def __init__(self, folder: Path, stream: str) -> None:
        self.clone, self.root = folder / "clone", folder / "state"
        self.clone.mkdir()
        for path in PROJECT.iterdir():
            if path.name not in (".envrc", ".env"):
                (self.clone / path.name).symlink_to(path)
        self.port = free_port()
        self.token = ""
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
        self._install()

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
    def running(self, command: str) -> Generator[None]:
        """What runs until Ctrl-C, from when it is ready until the block ends."""
        process = subprocess.Popen(self._shell(f"exec {command}"), **self._here(), stderr=subprocess.PIPE, text=True)
        try:
            wait_for(lambda: process.poll() is not None or self.status("/health") == 200, what="a healthy site")
            assert process.poll() is None, process.communicate()[1]
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=LONG_SECONDS)

    def status(self, path: str) -> int:
        """The status of an answer of the site; 0 while nobody listens."""
        try:
            return self._ask(path)[0]
        except HTTPError as problem:
            return problem.code
        except OSError:
            return 0

    def told(self, path: str) -> dict[str, Any]:
        """The JSON of an answer of the site."""
        return json.loads(self._ask(path)[1])

    def _ask(self, path: str) -> tuple[int, bytes]:
        headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {self.token}"} if self.token else {})
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=headers)
        with urllib.request.urlopen(asked, timeout=LONG_SECONDS) as answer:  # noqa: S310
            return answer.status, answer.read()

    def _shell(self, command: str) -> list[str]:
        return ["sh", "-euc", f"if [ -f .envrc ]; then . ./.envrc; fi; {command}"]

    def _here(self) -> dict[str, Any]:
        return {"cwd": self.clone, "env": self._environment, "start_new_session": True}


def _interpreter(path: Path) -> None:
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    path.chmod(0o755)


def stream() -> Jetstream:
    """A stream on which one repository of the page's person will be told."""
    frames = Frames()
    frames.repository(OWNER)
    return Jetstream(make_recording([*frames], {}, (), ()), hold_after=0)


def test_the_five_commands_lead_to_a_site_with_a_repository_in_shadow_mode_and_a_way_back(tmp_path: Path) -> None:
    with stream() as jetstream:
        box = Box(tmp_path, jetstream.url)
        five = [line.command for line in lines_of(block_below(OPERATE, "Your own box in five commands"), OPERATE)]
        assert len(five) == 5
        box.type(five[0])
        named = (box.clone / ".envrc").read_text().replace("DATA_ROOT=/srv/sunstead", f"DATA_ROOT={box.root}")
        (box.clone / ".envrc").write_text(named)
        said = [box.type(command) for command in five[1:4]]
        assert "is marked" in said[1]
        link = said[2].strip()
        assert link.startswith(f"http://127.0.0.1:{box.port}/sign-in/")
        with box.running(five[4]):
            assert box.status(link.removeprefix(f"http://127.0.0.1:{box.port}")) == 200
            assert box.status("/queue") == 401
            wait_for(lambda: jetstream.connections, what="the worker on the stream")
            jetstream.release(None)
            play_the_first_repository(box)
        play_the_way_back(box)


def manage(box: Box, *arguments: str) -> str:
    return box.type(" ".join(['"$DATA_ROOT/venv/bin/python" manage.py', *arguments]))


def play_the_first_repository(box: Box) -> None:
    """As the section after it says, with the commands that need no network."""
    (token,) = (line for line in lines_of(block_below("docs/api.md", "Signing in"), "docs/api.md"))
    box.token = box.type(token.command).strip()
    assert box.told("/queue")["total"] == 0
    record = f"at://{OWNER}/sh.tangled.repo/lantern"
    wait_for(lambda: box.told("/metrics")["repositories"], what="the repository")
    manage(box, "add_maintainer", OWNER, "--repo", record)
    wait_for(lambda: box.told("/metrics")["watched"], what="a watched repository")
    assert "in shadow mode" in manage(box, "shadow_report")


def play_the_way_back(box: Box) -> None:
    """Upgrade and rollback, without the lines that take new code or start anything."""
    store, accounts = box.root / "duckdb" / "trust.duckdb", box.root / "web.sqlite3"
    before = store.read_bytes(), accounts.read_bytes()
    (up,) = (one.command for one in lines_of(block_below(DEPLOY, "Upgrade"), DEPLOY) if one.command.startswith("cp "))
    (back,) = (
        one.command for one in lines_of(block_below(DEPLOY, "Rollback"), DEPLOY) if one.command.startswith("mv ")
    )
    box.type(up)
    store.write_bytes(b"damaged")
    accounts.unlink()
    box.type(back)
    assert (store.read_bytes(), accounts.read_bytes()) == before
