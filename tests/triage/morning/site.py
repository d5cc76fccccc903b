"""A site with a morning's work: one flagged pull request and fourteen in the fast lane; made once and copied."""

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from pytest_django import Settings

from ingest.store.snapshots import publish
from scoring.handlers.settings import switch_shadow
from tests.ingest.stream.frames import ANA, BLOB, REPO, Frames, pull_uri
from tests.pipeline import Result, opened
from tests.scoring.offered import CLEAN, offer
from tests.scoring.pipeline.offered_world import MADE
from tests.scoring.small import settled, take
from tests.triage.worlds.acting_site import ActingSite, copied_site

CHORES = 14  # open pull requests of ana's beside mara's
FAST = "update current_decisions set lane = 'fast_lane', probability = .97, low = .9, cases = 40"
FLAGGED = "update current_decisions set lane = 'needs_human', probability = .2 where pull_uri = ?"


def told() -> Frames:
    """What the network said of them."""
    frames = settled("open")
    for number in range(CHORES):
        frames.pull(ANA, f"chore{number:02}", title=f"Chore {number:02}")
    return frames


@cache
def made() -> Path:
    """The folder of a store with fifteen open pull requests and patches that were read; nobody writes to it."""
    folder = Path(tempfile.mkdtemp(prefix="morning-"))
    with opened(folder) as result:
        take(result, told())
        offer(result, ref=f"blob:{BLOB}")
        for number in range(CHORES):
            diff = CLEAN.replace("a.py", f"chore{number:02}.py")
            offer(result, diff, pull_uri(ANA, f"chore{number:02}"), f"blob:chore{number}")
        switch_shadow(result.store, REPO, False, MADE)
        result.judge()
    return folder


@cache
def _shown() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="shown-"))
    shutil.copytree(made(), folder, dirs_exist_ok=True)
    with opened(folder) as result:
        show(result)
    return folder


@contextmanager
def morning_site(folder: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Generator[ActingSite]:
    """A copy of that site, published."""
    with copied_site(_shown(), None, folder, settings, monkeypatch, public=False) as acting:
        yield acting


def show(result: Result) -> None:
    """Put them in their lanes and publish."""
    with result.store.write() as txn:
        txn.execute(FAST)
        txn.execute(FLAGGED, [pull_uri(ANA, "chore00")])
    publish(result.store, result.folder / "snapshots")
