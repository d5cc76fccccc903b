"""A site with an open fast lane: mara offers two changes and ana one, all of them clean; made once and copied.

Both are vouched for by seed and had a change merged before; mara's `NEXT` and ana's `OTHER` touch the same file.
"""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from pytest_django import Settings

from ingest.store.snapshots import publish
from scoring.config.policy import AuditRules
from scoring.handlers.settings import switch_shadow
from tests.ingest.stream.frames import ANA, MARA, REPO, SEED, pull_uri
from tests.pipeline import OPEN_LANE, Later, opened
from tests.scoring.offered import CLEAN, end_lookups, offer
from tests.scoring.pipeline.offered_world import MADE
from tests.scoring.small import DAY, MERGED_AT, again, feed, settled, take
from tests.triage.worlds.acting_site import ActingSite, copied_site

NEXT, MORE, OTHER = pull_uri(MARA, "next"), pull_uri(MARA, "more"), pull_uri(ANA, "other")


AUDITED = replace(OPEN_LANE, audit=AuditRules())  # every fast-laned one is drawn


@cache
def _made(audited: bool) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="lane-"))
    with opened(folder) as result:
        frames = settled()
        frames.vouch(SEED, MARA)
        frames.vouch(SEED, ANA)
        frames.pull(ANA, "first")
        frames.status(SEED, pull_uri(ANA, "first"), "merged")
        take(result, frames)
        later = Later(MERGED_AT + 20 * DAY)
        later.pull(MARA, "next", title="Mend the gate")
        later.pull(MARA, "more", title="Paint the fence")
        later.pull(ANA, "other", title="<b>Sweep</b> the yard")
        feed(result, later)
        for uri, path in ((NEXT, "a.py"), (MORE, "b.py"), (OTHER, "a.py")):
            offer(result, CLEAN.replace("a.py", path), uri, f"blob:{uri[-5:]}")
        end_lookups(result)
        result.review()
        switch_shadow(result.store, REPO, False, MADE)
        result.policy = AUDITED if audited else OPEN_LANE
        again(result)
        publish(result.store, folder / "snapshots")
    return folder


@contextmanager
def lane_site(
    folder: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, audited: bool = False
) -> Generator[ActingSite]:
    """A copy of that site; `audited`: the audit draws every one of them."""
    policy = AUDITED if audited else OPEN_LANE
    with copied_site(_made(audited), policy, folder, settings, monkeypatch) as site:
        yield site


def lanes(site: ActingSite) -> dict[str, str]:
    """The lane in which the store has each open pull request."""
    return {row["pull_uri"]: row["lane"] for row in site.result.rows("select pull_uri, lane from current_decisions")}
