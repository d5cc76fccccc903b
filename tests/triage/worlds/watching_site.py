"""A site in shadow mode with enough of a past to offer the fast lane; made once and copied.

Thirty-two people sent a first pull request that was merged, then a second; one of these was closed. Twenty sent a third
that would have been fast lane: eight were merged as sent, one after a change, one was closed, ten are open.
"""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from pytest_django import Settings

from ingest.records.pull_state import settle
from ingest.store.snapshots import publish
from scoring.pipeline.lane_history import record_shadow
from tests.ingest.stream.frames import REPO, SEED, Frames, pull_uri
from tests.pipeline import UNAUDITED, Later, Result, opened
from tests.scoring.offered import CLEAN, end_lookups, offer
from tests.scoring.small import DAY, MERGED_AT, again, feed, take
from tests.triage.worlds.acting_site import ActingSite, copied_site

PEOPLE = [f"did:plc:{f'person{number}'.ljust(24, 'a')}" for number in range(32)]
THIRD = [pull_uri(did, "third") for did in PEOPLE[:20]]
MERGED, CHANGED, CLOSED, OPEN = THIRD[:8], THIRD[8], THIRD[9], THIRD[10:]
NEWER = "bafkrei" + "n" * 52


def say(frames: Frames, uri: str, word: str) -> None:
    """Have seed, who may push, set a pull request's status, in a record of its own."""
    did, _, name = uri.removeprefix("at://").split("/")
    frames.status(SEED, uri, word, rkey=f"{name}{PEOPLE.index(did)}")


@cache
def _made() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="watching-"))
    with opened(folder, UNAUDITED) as result:
        frames = Frames()
        frames.repository(SEED, repoDid=REPO)
        for did in PEOPLE:
            frames.vouch(SEED, did)
            frames.pull(did, "first")
            say(frames, pull_uri(did, "first"), "merged")
        take(result, frames)
        later = Later(MERGED_AT + 20 * DAY)
        for did in PEOPLE:
            later.pull(did, "second")
            say(later, pull_uri(did, "second"), "closed" if did == PEOPLE[-1] else "merged")
        feed(result, later)
        _offer_thirds(result)
        _decide_thirds(result)
        publish(result.store, folder / "snapshots")
    return folder


def _offer_thirds(result: Result) -> None:
    offered = Later(MERGED_AT + 40 * DAY)
    for uri, did in zip(THIRD, PEOPLE, strict=False):
        offered.pull(did, "third", title=f"Mend gate {THIRD.index(uri)}")
    feed(result, offered)
    for number, uri in enumerate(THIRD):
        offer(result, CLEAN.replace("a.py", f"gate{number}.py"), uri, f"blob:{number}")
    end_lookups(result)
    result.review()
    again(result)
    record_shadow(result.store)


def _decide_thirds(result: Result) -> None:
    decided = Later(MERGED_AT + 42 * DAY)
    decided.pull(PEOPLE[8], "third", "update", title="Mend gate 8", blobs=[NEWER, NEWER])
    for uri in (*MERGED, CHANGED):
        say(decided, uri, "merged")
    say(decided, CLOSED, "closed")
    feed(result, decided)
    offer(result, CLEAN.replace("a.py", "gate8.py").replace("print(2)", "print(3)"), CHANGED, f"blob:{NEWER}")
    for number, uri in enumerate(THIRD):
        if uri != CHANGED:
            offer(result, CLEAN.replace("a.py", f"gate{number}.py"), uri, f"blob:{number}")
    quiet = Later(MERGED_AT + 60 * DAY)
    quiet.vouch(SEED, PEOPLE[0])
    feed(result, quiet)
    settle(result.store)
    end_lookups(result)
    again(result)
    record_shadow(result.store)


@contextmanager
def watching_site(folder: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Generator[ActingSite]:
    """A copy of that site."""
    with copied_site(_made(), UNAUDITED, folder, settings, monkeypatch) as site:
        yield site
