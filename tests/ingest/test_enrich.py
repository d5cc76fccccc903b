"""The hops that ask the network: what is due, what is written, what comes back after a failure."""

import base64
import gzip
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ingest import enrich
from ingest.net import Fetcher, FetchProblem
from ingest.patches import load_patch
from ingest.store import Store
from tests.ingest.peer import Answer, Peer, Request, response

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
        self.collaborators = [did("mara")]
        self.blobs = {cid_of(PACKED): PACKED}
        self.store = Store.open(folder / "trust.duckdb")
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
                " round, round_count, patch_ref, opened_at, seen_at, changed_at, state, merge_verified)"
                " values (?, ?, ?, '', '', 'rounds', 0, 1, ?, ?, ?, ?, 'open', false)",
                [uri, self.people[did("mallory")], repository_id, f"blob:{cid}", NOW, NOW, NOW],
            )

    def wall(self) -> datetime:
        return self.now

    def answer(self, request: Request) -> Answer:
        host, path = request.headers["host"], urlsplit(request.path).path
        if host in self.faults:
            return response(b"", self.faults[host])
        if host == "slow.example.test":
            self.hold.wait(10)
        if path.endswith("/log/audit"):
            return body([self.operation(path.split("/")[1])])
        if path == "/.well-known/atproto-did":
            return response(did(host.split(".")[0]).encode())
        if path.endswith("listCollaborators"):
            return body({"items": [{"subject": holder} for holder in self.collaborators]})
        blob = self.blobs.get(parse_qs(urlsplit(request.path).query)["cid"][0])
        return response(blob) if blob is not None else response(b"", 400)

    def operation(self, who: str) -> dict[str, Any]:
        handle = who.removeprefix("did:plc:").rstrip("a") + ("a" if "mara" in who else "") + ".example.test"
        services = {"atproto_pds": {"endpoint": "https://pds.example.test"}}
        made = {"type": "plc_operation", "alsoKnownAs": [f"at://{handle}"], "services": services}
        return {"operation": made, "createdAt": "2024-01-01T00:00:00Z", "nullified": False}

    def rows(self, sql: str, *params: object) -> list[tuple[Any, ...]]:
        with self.store.read() as rows:
            return [tuple(row.values()) for row in rows.rows(sql, params)]

    def due(self) -> int:
        with self.store.read() as rows:
            return enrich.due(rows, self.wall)

    def inputs(self) -> int:
        return self.rows("select position_seq from hops where name = 'inputs'")[0][0]

    def identities(self) -> int:
        return enrich.fetch_identities(self.store, self.fetcher, PLC, self.wall)

    def holders(self) -> int:
        return enrich.fetch_push_holders(self.store, self.fetcher, self.wall)

    def patches(self) -> int:
        return enrich.fetch_patches(self.store, self.fetcher, self.folder, 100_000, self.wall)

    def outcome(self, kind: str) -> tuple[Any, ...]:
        return self.rows("select outcome, attempts, due_clock, reason from fetches where kind = ?", kind)[0]


def body(said: object) -> bytes:
    return response(json.dumps(said).encode())


def test_those_who_matter_get_their_identity_and_nobody_else(world: World) -> None:
    assert world.due() == 3  # seed, mallory, and the repository's push-holders
    assert world.identities() == 2
    seed, stranger = (
        world.rows("select handle, handle_verified, pds, did_created_at from contributors where did = ?", did(name))[0]
        for name in ("seed", "stranger")
    )
    assert seed == ("seed.example.test", True, "https://pds.example.test", datetime(2024, 1, 1))
    assert stranger == (None, False, None, None)
    assert world.identities() == 0
    assert world.inputs() == 1


def test_voucher_and_subject_get_their_identity_after_those_that_judgements_rest_on(world: World) -> None:
    with world.store.write() as txn:
        people = txn.person_ids([did("voucher"), did("subject")])
        txn.execute(
            "insert into vouches (voucher_id, subject_id, kind, evidences, written_at, seen_at, event_seq)"
            " values (?, ?, 'vouch', '[]', ?, ?, 1)",
            [*people.values(), NOW, NOW],
        )
    with world.store.read() as rows:
        order = [row["subject"] for row in rows.rows(enrich.DUE_IDENTITIES, [NOW])]
    assert order == [did("seed"), did("mallory"), did("voucher"), did("subject")]
    assert world.identities() == 4


def test_an_identity_event_opens_the_look_up_again(world: World) -> None:
    world.identities()
    with world.store.write() as txn:
        txn.execute("delete from fetches where subject = ?", [did("seed")])
    assert world.identities() == 1
    assert world.inputs() == 1  # nothing changed


def test_failures_come_back_later_each_time(world: World) -> None:
    world.faults["plc.directory"] = 500
    waits = []
    for attempt in range(1, 12):
        assert world.identities() == 2
        assert world.identities() == 0
        outcome, attempts, due, reason = world.outcome("identity")
        assert (outcome, attempts, reason) == ("failed", attempt, "plc.directory answered 500")
        waits.append((due - world.now).total_seconds() / 60)
        world.now = due
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 360, 360]
    del world.faults["plc.directory"]
    assert world.identities() == 2
    assert world.outcome("identity") == ("found", 0, None, None)


def test_the_absent_are_asked_again_after_a_day(world: World) -> None:
    world.faults["plc.directory"] = 404
    world.identities()
    assert world.outcome("identity")[:3] == ("absent", 1, NOW + timedelta(days=1))
    assert world.inputs() == 0


def test_a_wait_is_at_least_what_the_peer_asked_for_and_long_where_asking_is_vain() -> None:
    assert enrich.waiting_time(1, FetchProblem("", retry=True, after=3600)) == timedelta(hours=1)
    assert enrich.waiting_time(1, FetchProblem("")) == timedelta(hours=6)
    assert enrich.waiting_time(10_000, FetchProblem("", retry=True)) == timedelta(hours=6)


def test_a_handle_whose_host_is_in_trouble_stays_as_it_was_proven(world: World) -> None:
    world.identities()
    with world.store.write() as txn:
        txn.execute("delete from fetches")
    world.faults["seed.example.test"] = 500
    world.faults["mallory.example.test"] = 404
    world.identities()
    proven = dict(world.rows("select did, handle_verified from contributors where handle is not null"))
    assert proven == {did("seed"): True, did("mallory"): False}
    again = dict(world.rows("select subject, due_clock from fetches where kind = 'identity'"))
    assert again == {did("seed"): NOW + timedelta(days=1), did("mallory"): None}


def test_the_knot_names_collaborators_and_the_owner_stays_owner(world: World) -> None:
    world.collaborators = [did("mara"), did("newcomer"), did("seed")]
    assert world.holders() == 1
    assert holders_of(world) == {did("seed"): "owner", did("mara"): "collaborator", did("newcomer"): "collaborator"}
    assert world.inputs() == 1
    world.now += timedelta(days=1)
    world.collaborators = []
    assert world.holders() == 1
    assert holders_of(world) == {did("seed"): "owner"}
    assert world.inputs() == 2


def test_a_silent_knot_changes_nothing_and_with_nothing_known_only_the_owner_counts(world: World) -> None:
    world.faults[KNOT] = 503
    world.holders()
    assert holders_of(world) == {did("seed"): "owner"}
    world.now += timedelta(minutes=1)
    world.faults.clear()
    world.fetcher = Fetcher(world.peer.origin)  # a host that answered 503 is left alone for some seconds
    world.holders()
    world.now += timedelta(days=1)
    world.faults[KNOT] = 500
    world.holders()
    assert holders_of(world) == {did("seed"): "owner", did("mara"): "collaborator"}
    assert world.inputs() == 2


def test_a_knot_cannot_keep_a_former_owner(world: World) -> None:
    with world.store.write() as txn:
        number = world.people[did("mallory")]
        txn.append("push_holders", [{"repository_id": 1, "contributor_id": number, "role": "owner"}])
    world.faults[KNOT] = 500
    world.holders()
    assert holders_of(world) == {did("seed"): "owner"}


def test_a_patch_is_fetched_once_its_author_is_known(world: World) -> None:
    assert world.patches() == 0
    world.identities()
    assert world.patches() == 1
    found = world.rows("select patch_ref, sha256, bytes, files, added, removed, state from patches")
    sha256 = hashlib.sha256(DIFF.encode()).hexdigest()
    assert found == [(f"blob:{cid_of(PACKED)}", sha256, len(DIFF), 1, 1, 1, "read")]
    assert load_patch(world.folder, sha256) == DIFF
    assert world.patches() == 0
    assert world.inputs() == 2


def test_only_open_pull_requests_of_watched_repositories_have_their_patches_fetched(world: World) -> None:
    world.offer("at://a/elsewhere", 2, cid_of(PACKED))
    for uri in ("at://a/closed", "at://a/deleted", "at://a/compared"):
        world.offer(uri, 1, cid_of(PACKED))
    with world.store.write() as txn:
        txn.execute("update pull_requests set state = 'merged' where pull_uri = 'at://a/closed'")
        txn.execute("update pull_requests set deleted_at = seen_at where pull_uri = 'at://a/deleted'")
        txn.execute("update pull_requests set patch_ref = 'compare:a..b' where pull_uri = 'at://a/compared'")
    world.identities()
    assert world.patches() == 1
    assert world.rows("select pull_uri from patches") == [("at://a/1",)]


def test_swapped_bytes_are_never_kept(world: World) -> None:
    world.identities()
    world.blobs[cid_of(PACKED)] = gzip.compress(b"evil")
    assert world.patches() == 1
    outcome, attempts, due, reason = world.outcome("patch")
    assert (outcome, attempts, due) == ("failed", 1, NOW + timedelta(hours=6))
    assert "other bytes" in reason
    assert world.rows("select * from patches") == []
    assert not world.folder.exists()


def test_a_new_round_is_fetched_beside_the_old_one(world: World) -> None:
    world.identities()
    world.patches()
    newer = gzip.compress(DIFF.replace("+b", "+c").encode())
    world.blobs[cid_of(newer)] = newer
    world.offer("at://a/1", 1, cid_of(newer))
    assert world.patches() == 1
    assert len(set(world.rows("select patch_id from patches"))) == 2


def test_who_cites_anothers_blob_cannot_spoil_its_look_up(world: World) -> None:
    world.identities()
    with world.store.write() as txn:
        txn.upsert("fetches", [fetch("patch", f"at://mallory/9 blob:{cid_of(PACKED)}")])
    assert world.patches() == 1


@pytest.mark.parametrize(
    ("data", "state"),
    [
        (b"\x1f\x8b rubbish", "malformed"),
        (gzip.compress(b"\0" * 5_000_000), "oversized"),
        (b"+" * 200_000, "oversized"),
        (b"", "malformed"),
    ],
)
def test_a_hostile_patch_is_noted_and_not_asked_for_again(world: World, data: bytes, state: str) -> None:
    world.identities()
    world.blobs[cid_of(data)] = data
    world.offer("at://a/1", 1, cid_of(data))
    assert world.patches() == 1
    assert world.rows("select state, patch_id from patches") == [(state, None)]
    assert world.patches() == 0


def test_nothing_on_disk_is_named_by_a_stranger(world: World) -> None:
    world.identities()
    world.offer("at://a/1", 1, "../../../etc/passwd")
    assert world.patches() == 1
    assert world.outcome("patch")[0] == "failed"
    world.offer("at://../../x", 1, cid_of(PACKED))
    world.patches()
    files = [path for path in world.folder.rglob("*") if path.is_file()]
    assert [path.name for path in files] == [hashlib.sha256(DIFF.encode()).hexdigest() + ".patch.gz"]


def test_a_closed_fetcher_ends_the_hop_and_what_was_asked_stays_due(world: World) -> None:
    with world.store.write() as txn:
        number = txn.person_ids([did("slow")])[did("slow")]
        txn.append("maintainers", [{"contributor_id": number, "repository_id": 0}])
    threading.Timer(0.3, world.fetcher.close).start()
    began = time.monotonic()
    world.identities()
    assert time.monotonic() - began < 3
    world.fetcher = Fetcher(world.peer.origin)
    world.hold.set()
    assert world.due() == 3  # slow, the push-holders, and the patch of mallory, who is known by now
    assert world.identities() == 1
    assert world.rows("select subject from fetches where outcome <> 'found'") == []


def test_the_writer_is_free_while_the_network_is_slow(world: World) -> None:
    with world.store.write() as txn:
        number = txn.person_ids([did("slow")])[did("slow")]
        txn.append("maintainers", [{"contributor_id": number, "repository_id": 0}])
    hop = threading.Thread(target=world.identities)
    hop.start()
    time.sleep(0.2)
    with world.store.write() as txn:
        txn.execute("update contributors set account_status = 'deactivated' where did = ?", [did("slow")])
    assert hop.is_alive()
    world.hold.set()
    hop.join()
    kept = world.rows("select handle, account_status from contributors where did = ?", did("slow"))
    assert kept == [("slow.example.test", "deactivated")]


def test_many_people_are_asked_in_chunks(world: World, count: Callable[[int, int], int]) -> None:
    size = count(1_218, 5_000)
    with world.store.write() as txn:
        digits = str.maketrans("0123456789", "bcdefghijk")
        numbers = txn.person_ids([did(f"p{str(number).translate(digits)}") for number in range(size)])
        txn.append("maintainers", [{"contributor_id": each, "repository_id": 0} for each in numbers.values()])
    began = time.monotonic()
    assert world.identities() == size + 2
    assert world.due() == 2  # the push-holders and the patch
    assert time.monotonic() - began < 5 * size / 1_218


def holders_of(world: World) -> dict[str, str]:
    return dict(world.rows("select did, role from push_holders join contributors using (contributor_id)"))


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


@pytest.fixture(name="world")
def world_fixture(tmp_path: Path) -> Iterator[World]:
    """A small world that ends with the test."""
    made = World(tmp_path)
    yield made
    made.close()
