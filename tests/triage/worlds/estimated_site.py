"""Two watched repositories in shadow mode, for a lane that is opened on an estimate; made once and copied.

Mara, who had a change merged before, offers thirty in `REPO` and two in `CABIN`, and seed, who may push, one of their
own in `REPO`.
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
from scoring.certificates.lane_counts import Offer
from scoring.config.policy import AuditRules
from tests.ingest.stream.frames import ANA, MARA, SEED, pull_uri
from tests.pipeline import UNAUDITED, Later, opened
from tests.scoring.offered import CLEAN, end_lookups, offer
from tests.scoring.small import DAY, MERGED_AT, again, feed, settled, take
from tests.triage.worlds.acting_site import ActingSite, copied_site

CABIN = "did:plc:" + "c" * 24
MANY = [pull_uri(MARA, f"many{number:02}") for number in range(30)]
ELSEWHERE = [pull_uri(MARA, f"cabin{number}") for number in range(2)]
OWN = pull_uri(SEED, "own")
OFFER = Offer(
    threshold=0.60, source="own", cases=40.0, let_through=20.0, bad=1.0, bad_low=0.02, bad_high=0.09, model="m7"
)
POLICY = replace(UNAUDITED, audit=AuditRules(share=0, per_day=0, first=0))  # no audit of a certified lane


@cache
def _made() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="estimated-"))
    with opened(folder, POLICY) as result:
        frames = settled()
        frames.vouch(SEED, MARA)
        frames.repository(ANA, "cabin", repoDid=CABIN)
        frames.vouch(ANA, MARA)
        take(result, frames)
        result.watch([CABIN], [ANA])
        later = Later(MERGED_AT + 20 * DAY)
        for uri in MANY:
            later.pull(MARA, uri.rpartition("/")[2], title="Mend the gate")
        for uri in ELSEWHERE:
            later.pull(MARA, uri.rpartition("/")[2], title="Sweep the stairs", target=CABIN)
        later.pull(SEED, "own", title="Oil the hinges")
        feed(result, later)
        for uri in (*MANY, *ELSEWHERE, OWN):
            offer(result, CLEAN.replace("a.py", f"{uri[-6:]}.py"), uri, f"blob:{uri[-6:]}")
        end_lookups(result)
        result.review()
        again(result)
        publish(result.store, folder / "snapshots")
    return folder


@contextmanager
def estimated_site(folder: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Generator[ActingSite]:
    """A copy of that site."""
    with copied_site(_made(), POLICY, folder, settings, monkeypatch) as site:
        yield site
