"""The real site over a real store for tests of acting: web and worker in one process, with a clock that is set."""

import shutil
import tempfile
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from ingest.http.fetcher import Fetcher
from ingest.store import snapshots as snapshot
from ingest.store.database import StreamClock
from ingest.store.snapshots import SnapshotReader, publish
from scoring.config.policy import Policy
from scoring.pipeline.interventions import settle_approvals
from scoring.queries import read
from tests.ingest.stream.frames import REPO, SEED
from tests.pipeline import Later, Result, opened
from tests.scoring.pipeline.offered_world import MADE, learn, offered_world
from tests.scoring.small import OFFERED
from tests.waiting import wait_for
from triage import middleware
from triage.models import Action, Maintainer, Person
from triage.services.notifying.deliveries import deliver_due
from trustsite.worker.handover import make_runtime

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
ANA, BEN = "did:plc:" + "2" * 24, "did:plc:" + "3" * 24
HTMX = {"HX-Request": "true"}


@dataclass(slots=True)
class ActingSite:
    """A worker's store, its snapshots, and the web over them."""

    result: Result
    reader: SnapshotReader
    fetcher: Fetcher
    now: datetime = NOON
    people: dict[str, Person] = field(default_factory=dict)

    def after(self, seconds: float) -> None:
        """Let time pass, for the web and for what is due."""
        self.now += timedelta(seconds=seconds)

    def work(self) -> int:
        """What the worker does when it is woken: deliver, settle, judge, publish. Returns how much was delivered."""
        runtime = make_runtime(self.result.store, self.fetcher, StreamClock(self.result.store))
        delivered = deliver_due(runtime, self.now)
        settle_approvals(self.result.store, runtime.clock.now())
        self.result.judge()
        self.publish()
        return delivered

    def merge(self, uri: str) -> None:
        """Merge it on the forge, as its repository's owner does; the stream's clock stands meanwhile."""
        frames = Later(StreamClock(self.result.store).now())
        frames.status(SEED, uri, "merged", rkey=f"merged-{uri.rpartition('/')[2]}")
        learn(self.result, frames)
        self.publish()

    def run_ci(self, states: dict[str, str]) -> None:
        """Record how CI of the newest rounds went, and publish it."""
        with self.result.store.write() as txn:
            for uri, state in states.items():
                txn.execute(
                    "insert or replace into ci_runs by name select pull_uri, patch_ref, '' as commit_id, ? as state, "
                    "'[]' as workflows, ? as observed_at from pull_requests where pull_uri = ?",
                    [state, MADE, uri],
                )
            txn.inputs_changed()
        self.publish()

    def publish(self) -> None:
        """Show the web what the store holds."""
        publish(self.result.store, self.result.folder / "snapshots")

    def maintainer(self, did: str, handle: str, repo_key: str = REPO) -> Client:
        """The browser of somebody who maintains the repository and is signed in."""
        return maintainer(did, repo_key, handle=handle)

    def form(self, kind: str = "approve", uri: str = OFFERED, version: int = 0, **changes: Any) -> dict[str, Any]:
        """What the row's form sends for what the newest snapshot shows."""
        with self.reader.pin() as pinned:
            assert pinned is not None
            seen = read.subjects(pinned, [uri])[uri].seen
        told = {"record_cid": seen.record_cid, "round": seen.round, "patch_id": seen.patch_id, "version": version}
        return {"kind": kind, "uri": uri, **told, **changes}

    def approvals(self) -> list[str]:
        """The states of all approvals that took effect."""
        return [
            row["state"] for row in self.result.rows("select state from approvals order by approved_at, action_key")
        ]


def invited(did: str, handle: str = "") -> Person:
    """Somebody with an account whom the operator lets read, and nothing more."""
    person, _ = Person.objects.get_or_create(did=did, defaults={"handle": handle})
    Maintainer.objects.get_or_create(person=person, repo_key="", defaults={"role": Maintainer.Role.VIEWER})
    return person


def signed_in(person: Person) -> Client:
    """A browser of somebody who is signed in."""
    client = Client()
    client.force_login(person)
    return client


def maintainer(did: str, *keys: str, handle: str = "") -> Client:
    """A browser of somebody who is signed in and maintains these repositories; "" is the whole site."""
    person, _ = Person.objects.get_or_create(did=did, defaults={"handle": handle})
    for key in keys:
        Maintainer.objects.get_or_create(person=person, repo_key=key)
    return signed_in(person)


def approved(client: Client) -> list[str]:
    """The pull requests that `/approved.json` names."""
    answer = client.get("/approved.json")
    assert answer.status_code == 200
    return [one["pull_request"] for one in answer.json()["approved"]]


def last_key() -> str:
    """The key of the newest action, which undoes it."""
    return Action.objects.latest("pk").key


@contextmanager
def copied_site(
    made: Path,
    policy: Policy | None,
    folder: Path,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    public: bool = True,
) -> Generator[ActingSite]:
    """A copy in `folder` of a world that was filled and published in `made`: the web over it, with the site's clock.

    `public`: open to everybody who reads.
    """
    shutil.copytree(made, folder, dirs_exist_ok=True)
    snapshots = folder / "snapshots"
    with (
        opened(folder, policy) as result,
        closing(SnapshotReader(snapshots)) as reader,
        closing(Fetcher()) as fetcher,
    ):
        site = ActingSite(result, reader, fetcher)
        settings.SNAPSHOT_DIR, settings.DIFF_CORPUS_DIR = snapshots, folder / "diffs"
        settings.STREAM_CLOCK, settings.PUBLIC_READ = True, public or settings.PUBLIC_READ
        monkeypatch.setattr(snapshot, "LOOK_SECONDS", 0.0)  # a reader looks for a newer one twice a second
        monkeypatch.setattr(middleware, "snapshot_reader", lambda: reader)
        monkeypatch.setattr(timezone, "now", lambda: site.now)
        yield site
        wait_for(lambda: not any(reader._pins.values()))  # a page that a test left may still be asking for its pane


@cache
def _made(fast: bool) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="acting-"))
    with offered_world(folder) as result:
        if fast:
            with result.store.write() as txn:
                txn.execute("update current_decisions set lane = 'fast_lane', probability = .97, low = .9, cases = 40")
        publish(result.store, folder / "snapshots")
    return folder


@contextmanager
def acting_site(
    folder: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, fast: bool = False
) -> Generator[ActingSite]:
    """The world of open pull requests, published: made once and copied. `fast`: all of them in the fast lane."""
    with copied_site(_made(fast), None, folder, settings, monkeypatch, public=False) as site:
        yield site


fast_site = partial(acting_site, fast=True)
