"""A site on its first day: an empty store, a worker that works when told, and a network of ana, ben and cara.

Ana keeps two repositories (her list has two pages), ben may push to lantern and vouches for cara, who offers to it.
"""

import json
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from ingest.backfill.turn import take_turn
from ingest.clock import WallClock
from ingest.http.fetcher import Fetcher
from ingest.lookups.people import fetch_push_holders
from ingest.records.derive import derive
from ingest.records.registry import PULL, REPOSITORY, VOUCH
from ingest.store import snapshots
from ingest.store.database import Store
from ingest.store.snapshots import SnapshotReader, publish
from ingest.worker import runtime
from ingest.worker.runtime import huey
from ingest.worker.status import Status, encode, write_page
from scoring.config.policy import Policy
from scoring.pipeline.score import score
from tests.ingest.backfill.listed import CID, REV, entry
from tests.ingest.peer import Answer, Peer, Request, response
from tests.stores import fresh_store
from tests.waiting import wait_for
from triage import middleware
from triage.models import Maintainer, Person
from triage.services.notifying.deliveries import deliver
from trustsite.worker.handover import make_runtime

ANA, BEN, CARA = ("did:plc:" + name * 24 for name in "abc")
LANTERN, ATTIC = "did:plc:" + "l" * 24, "did:plc:" + "t" * 24
RECORD, ATTIC_RECORD = (f"at://{ANA}/{REPOSITORY}/{name}" for name in ("lantern", "attic"))
KNOT, PDS, MADE = "knot.example.test", "pds.example.test", "2026-01-01T00:00:00Z"
HANDLES = {"ana.example.test": ANA, "ben.example.test": BEN}


def _repository(name: str, did: str) -> dict[str, Any]:
    return entry(ANA, REPOSITORY, name, {"name": name, "knot": KNOT, "repoDid": did, "createdAt": MADE})


# What each account keeps, page by page.
KEPT: dict[tuple[str, str], list[list[dict[str, Any]]]] = {
    (ANA, REPOSITORY): [[_repository("lantern", LANTERN)], [_repository("attic", ATTIC)]],
    (BEN, VOUCH): [[entry(BEN, VOUCH, CARA, {"kind": "vouch", "createdAt": MADE})]],
    (CARA, PULL): [
        [
            entry(
                CARA,
                PULL,
                "3lantern22222",
                {"title": "Trim the wick", "target": {"repo": LANTERN, "branch": "main"}, "createdAt": MADE},
            )
        ]
    ],
}


@dataclass(slots=True)
class FirstSite:
    """A worker's store and the web over it; `faults` are statuses that a host answers instead of what it has."""

    store: Store
    folder: Path
    status: Path
    faults: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    _fetcher: Fetcher | None = None

    def beat(self) -> None:
        """Say that the worker is alive, for longer than the slowest machine takes for a test."""
        write_page(self.status, encode(Status(written_at=time.time() + 3_600, cursor_us=1)))

    def work(self) -> None:
        """What the worker does when it is woken: jobs, deliveries, who may push, one turn of the backfill."""
        made = self.take_over()
        fetch_push_holders(self.store, made.fetcher, self.store.wall, made.clock.now)
        take_turn(self.store, made.backfill, threading.Event(), first_wait=0.01)
        while derive(self.store):
            pass
        self.publish()

    def take_over(self) -> runtime.Runtime:
        """The first half of it: jobs and deliveries, of which no snapshot says anything yet."""
        assert self._fetcher is not None
        self.beat()
        made = make_runtime(self.store, self._fetcher, WallClock())
        runtime.start(made)
        try:
            while (task := huey.dequeue()) is not None:
                huey.execute(task)
        finally:
            runtime.stop()
        deliver(made, timezone.now())
        return made

    def judge(self) -> None:
        """Score, and show it."""
        score(self.store, WallClock(), Policy())
        self.publish()

    def publish(self) -> None:
        """Show the web what the store holds."""
        publish(self.store, self.folder / "snapshots")

    def value(self, sql: str) -> Any:
        """One value of the store."""
        with self.store.read() as rows:
            return rows.value(sql)

    def answer(self, request: Request) -> Answer:
        """What the network says."""
        host, parts = request.headers["host"], urlsplit(request.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.asked.append(f"{host}{parts.path}?{query.get('repo', query.get('did', ''))}")
        if host in self.faults:
            return response(b"", self.faults[host])
        method = parts.path.rsplit("/", 1)[-1]
        says: dict[str, Callable[[], object]] = {
            "audit": lambda: [_creation(parts.path.split("/")[1])],
            "com.atproto.sync.getLatestCommit": lambda: {"cid": CID, "rev": REV},
            "com.atproto.repo.describeRepo": lambda: {"did": query["repo"], "collections": _collections(query["repo"])},
            "com.atproto.repo.listRecords": lambda: _page(query),
            "sh.tangled.repo.listCollaborators": lambda: {
                "items": [{"subject": BEN}] if query["subject"] == LANTERN else []
            },
        }
        if method == "atproto-did":
            return response(HANDLES[host].encode()) if host in HANDLES else response(b"", 404)
        return response(json.dumps(says[method]()).encode()) if method in says else response(b"", 404)


def _creation(did: str) -> dict[str, Any]:
    services = {"atproto_pds": {"endpoint": f"https://{PDS}"}}
    handle = next((f"at://{handle}" for handle, owner in HANDLES.items() if owner == did), "at://cara.example.test")
    return {"operation": {"type": "plc_operation", "services": services, "alsoKnownAs": [handle]}, "createdAt": MADE}


def _collections(did: str) -> list[str]:
    return [collection for owner, collection in KEPT if owner == did]


def _page(query: dict[str, str]) -> dict[str, Any]:
    pages, number = KEPT.get((query["repo"], query["collection"]), [[]]), int(query.get("cursor", "0"))
    more = {"cursor": str(number + 1)} if number + 1 < len(pages) else {}
    return {"records": pages[number], **more}


def admin(did: str = "did:plc:" + "s" * 24) -> Client:
    """The browser of somebody who is admin of the whole site."""
    person, _ = Person.objects.get_or_create(did=did, defaults={"handle": "sam.example"})
    Maintainer.objects.get_or_create(person=person, repo_key="")
    client = Client()
    client.force_login(person)
    return client


@contextmanager
def first_site(folder: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Generator[FirstSite]:
    """An empty store, published; its worker is alive."""
    settings.SNAPSHOT_DIR, settings.STAGING_DIR = folder / "snapshots", folder / "staging"
    settings.STATUS_PATH = folder / "status.json"
    settings.STREAM_CLOCK, settings.PUBLIC_READ, settings.DEMO_MAINTAINER = False, False, None
    monkeypatch.setattr(snapshots, "LOOK_SECONDS", 0.0)
    store, reader = fresh_store(folder / "trust.duckdb"), SnapshotReader(folder / "snapshots")
    monkeypatch.setattr(middleware, "snapshot_reader", lambda: reader)
    site = FirstSite(store, folder, settings.STATUS_PATH)
    huey.flush()
    try:
        with Peer(site.answer) as peer:
            site._fetcher = Fetcher(peer.origin)
            site.beat()
            site.publish()
            yield site
            site._fetcher.close()
    finally:
        huey.flush()
        wait_for(lambda: not any(reader._pins.values()), what="the last request of a page that was closed")
        reader.close()
        store.close()
