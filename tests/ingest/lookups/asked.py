"""A watched repository, somebody's pull request, and a network that says what a test tells it."""

import base64
import gzip
import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ingest.http.fetcher import Fetcher
from ingest.lookups.people import fetch_identities, fetch_push_holders
from ingest.lookups.rounds import fetch_patches, fetch_runs
from ingest.worker.status import due_lookups
from tests.ingest.peer import Answer, Peer, Request, response
from tests.stores import fresh_store
from tests.waiting import LONG_SECONDS

NOW = datetime(2026, 11, 20, 12)
PLC = "https://plc.directory"
REPOSITORY = "did:plc:" + "r" * 24
KNOT = "knot.example.test"
DIFF = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
PACKED = gzip.compress(DIFF.encode(), mtime=0)


def did(name: str) -> str:
    return "did:plc:" + name.ljust(24, "a")


def cid_of(data: bytes) -> str:
    return "b" + base64.b32encode(b"\x01\x55\x12\x20" + hashlib.sha256(data).digest()).decode().lower().rstrip("=")


class World:
    """A store with a watched repository of seed, a pull request of mallory, and a network that can be told to fail."""

    def __init__(self, folder: Path) -> None:
        self.now, self.folder, self.hold = NOW, folder / "diffs", threading.Event()
        self.faults: dict[str, int] = {}
        self.moved = False
        self.methods: dict[
            str, Callable[[Mapping[str, str]], object]
        ] = {}  # by the end of the path; bytes go out as such
        self.collaborators = [did("mara")]
        self.blobs = {cid_of(PACKED): PACKED}
        self.store = fresh_store(folder / "trust.duckdb")
        self.peer = Peer(self.answer).__enter__()
        self.fetcher = Fetcher(self.peer.origin)
        with self.store.write() as txn:
            self.people = txn.person_ids([did(name) for name in ("seed", "mara", "mallory", "stranger")])
            txn.append("maintainers", [{"contributor_id": self.people[did("seed")], "repository_id": 0}])
            for repository_id, key in ((1, REPOSITORY), (2, "did:plc:" + "u" * 24)):
                txn.execute(
                    "insert into repositories (repo_key, repository_id, owner_id, knot) values (?, ?, ?, ?)",
                    [key, repository_id, self.people[did("seed")], KNOT],
                )
            txn.execute("insert into watched_repositories values (1, 'off', ?)", [NOW])
        self.offer("at://a/1", 1, cid_of(PACKED))

    def close(self) -> None:
        self.hold.set()
        self.peer.__exit__()
        self.store.close()

    def offer(self, uri: str, repository_id: int, cid: str) -> None:
        """A pull request of mallory whose newest patch is the blob."""
        with self.store.write() as txn:
            txn.execute(
                "insert or replace into pull_requests (pull_uri, author_id, repository_id, title, body, record_form,"
                " round, round_count, patch_ref, opened_at, seen_at, changed_at, state)"
                " values (?, ?, ?, '', '', 'rounds', 0, 1, ?, ?, ?, ?, 'open')",
                [uri, self.people[did("mallory")], repository_id, f"blob:{cid}", NOW, NOW, NOW],
            )
            sql = (
                "insert into pull_rounds select ?, (select count(*) from pull_rounds where pull_uri = ?), ?, ?, ?, ?, ?"
            )
            txn.execute(sql, [uri, uri, f"blob:{cid}", None, None, NOW, True])

    def wall(self) -> datetime:
        return self.now

    def answer(self, request: Request) -> Answer:
        host, path = request.headers["host"], urlsplit(request.path).path
        if host in self.faults:
            return response(b"", self.faults[host])
        if host == "slow.example.test":
            self.hold.wait(2 * LONG_SECONDS)
        if path.endswith("/log/audit"):
            first = self.operation(path.split("/")[1])
            return body([first, *([self.move(first)] if self.moved else [])])
        if path == "/.well-known/atproto-did":
            return response(did(host.split(".")[0]).encode())
        if path.endswith("listCollaborators"):
            return body({"items": [{"subject": holder} for holder in self.collaborators]})
        for name, say in self.methods.items():
            if path.endswith(name):
                said = say({key: values[0] for key, values in parse_qs(urlsplit(request.path).query).items()})
                return said if isinstance(said, bytes) else body(said)
        blob = self.blobs.get(parse_qs(urlsplit(request.path).query)["cid"][0])
        return response(blob) if blob is not None else response(b"", 400)

    def operation(self, who: str) -> dict[str, Any]:
        handle = who.removeprefix("did:plc:").rstrip("a") + ("a" if "mara" in who else "") + ".example.test"
        services = {"atproto_pds": {"endpoint": "https://pds.example.test"}}
        made = {"type": "plc_operation", "alsoKnownAs": [f"at://{handle}"], "services": services}
        return {"operation": made, "createdAt": "2024-01-01T00:00:00Z", "nullified": False}

    def move(self, first: dict[str, Any]) -> dict[str, Any]:
        services = {"atproto_pds": {"endpoint": "https://elsewhere.example.test"}}
        return {**first, "operation": first["operation"] | {"services": services}, "createdAt": "2025-01-01T00:00:00Z"}

    def rows(self, sql: str, *params: object) -> list[tuple[Any, ...]]:
        with self.store.read() as rows:
            return [tuple(row.values()) for row in rows.rows(sql, params)]

    def due(self) -> int:
        with self.store.read() as rows:
            return due_lookups(rows, self.wall)

    def inputs(self) -> int:
        return self.rows("select position_seq from hops where name = 'inputs'")[0][0]

    def identities(self) -> int:
        return fetch_identities(self.store, self.fetcher, PLC, self.wall)

    def holders(self) -> int:
        return fetch_push_holders(self.store, self.fetcher, self.wall, self.wall)

    def patches(self, settled_since: datetime = datetime.max) -> int:
        return fetch_patches(self.store, self.fetcher, self.folder, 100_000, self.wall, settled_since)

    def runs(self) -> int:
        return fetch_runs(self.store, self.fetcher, self.folder, self.now, self.wall)

    def change(self, sql: str, *params: object) -> None:
        with self.store.write() as txn:
            txn.execute(sql, params)

    def outcome(self, kind: str) -> tuple[Any, ...]:
        return self.rows("select outcome, attempts, due_clock, reason from fetches where kind = ?", kind)[0]


def body(said: object) -> bytes:
    return response(json.dumps(said).encode())


def fetch(kind: str, subject: str) -> dict[str, object]:
    """A look-up that failed and is not due."""
    return {
        "kind": kind,
        "subject": subject,
        "outcome": "failed",
        "reason": "no",
        "attempts": 1,
        "due_clock": None,
        "fetched_clock": NOW,
    }


def log_record(world: World, rkey: str, cid: str, body: str) -> None:
    """Have the log say that mallory offered a pull request of that key."""
    names = "event_id, event_seq, source, kind, did, collection, rkey, operation, cid, seen_at, late, body"
    what = (did("mallory"), "sh.tangled.repo.pull", rkey, "create", cid)
    row = ("e", 1, "test", "commit", *what, NOW, False, body)
    values = ", ".join("?" * len(row))
    world.change(f"insert into events ({names}, loaded_clock) values ({values}, now())", *row)
