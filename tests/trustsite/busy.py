"""A worker that ingests at full speed with a web process beside it, for the test of serving and for its benchmark."""

import json
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ingest.store.snapshots import current_number
from tests.standins.load import bulk
from tests.trustsite import runs
from tests.trustsite.ports import free_port
from tests.waiting import LONG_SECONDS, wait_for
from trustsite import drive
from trustsite.standins.recording import write_recording

PEOPLE = 4_000


def get(port: int, path: str) -> tuple[int, bytes]:
    """Status and body; HTTPError for 4xx and 5xx."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=LONG_SECONDS) as answer:
        return answer.status, answer.read()


def answers_at(port: int, path: str) -> bool:
    """Whether the path answers 200 by now."""
    try:
        return get(port, path)[0] == 200
    except OSError:
        return False


class OverTooSoon(Exception):
    """A site was at rest while it should have been busy."""


@contextmanager
def busy_site(folder: Path, pulls: int, people: int = PEOPLE) -> Generator[tuple[int, str]]:
    """The web process's port and the DID of the recording's first author, once that one is scored.

    A recording of `pulls` pull requests by `people`; OverTooSoon where it was worked off before the block ended.
    """
    recording, port = bulk(people, pulls), free_port()
    write_recording(folder / "bulk", recording)
    place = drive.replay_place(folder, folder / "bulk")
    did = json.loads(recording.frames[0])["did"]
    replaying = runs.start("replay", folder / "bulk", DATA_ROOT=folder)
    wait_for(lambda: current_number(place.root / "snapshots") > 0)
    drive.mark(place.root)  # so that a web process may serve what the replay publishes
    serving = runs.start("web", DATA_ROOT=place.root, BIND=f"127.0.0.1:{port}", PUBLIC_READ="1")
    try:
        wait_for(lambda: answers_at(port, f"/score/{did}"))
        yield port, did
        if replaying.poll() is not None:
            raise OverTooSoon("the replay was over before the last request: give it more pull requests")
    finally:
        for process in (serving, replaying):
            process.kill()
            runs.finish(process)
