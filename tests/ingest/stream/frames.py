"""Frames as Jetstream sends them, written by the people of the small world, and the hops that take them in."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from ingest.clock import EPOCH
from ingest.records.derive import derive
from ingest.records.pull_state import settle
from ingest.store.database import Store
from ingest.store.digest import digest
from ingest.stream.load import Loaded, load

SOURCE = "test"
SEED, ANA, MARA, MALLORY, STRANGER = (
    f"did:plc:{name.ljust(24, 'a')}" for name in ("seed", "ana", "mara", "mallory", "stranger")
)
REPO = "did:plc:" + "r" * 24
REPOSITORY, PULL, STATUS, VOUCH = (
    "sh.tangled.repo",
    "sh.tangled.repo.pull",
    "sh.tangled.repo.pull.status",
    "sh.tangled.graph.vouch",
)
FIRST_US = 1_790_000_000_000_000  # 2026-09-21 14:13:20
CREATED = "2026-09-21T14:00:00Z"
BLOB = "bafkrei" + "a" * 52


def at(frame_number: int) -> datetime:
    """When the frame of that number, from 0, was seen."""
    return EPOCH + timedelta(microseconds=FIRST_US) + timedelta(seconds=frame_number)


def pull_uri(author: str, rkey: str) -> str:
    return f"at://{author}/{PULL}/{rkey}"


def pull_record(target: str = REPO, blobs: Sequence[str] = (BLOB,), **changes: object) -> dict[str, Any]:
    """A pull request in the form of rounds."""
    rounds = [{"createdAt": CREATED, "patchBlob": {"$type": "blob", "ref": {"$link": blob}}} for blob in blobs]
    record = {"title": "Mend the lamp", "body": "It was dark.", "createdAt": CREATED, "rounds": rounds}
    return record | {"target": {"repo": target, "branch": "main"}, "source": {"branch": "lamp"}} | changes


class Frames(list[bytes]):
    """Frames one second apart."""

    def add(self, did: str, kind: str, part: object) -> None:
        frame = {"did": did, "time_us": FIRST_US + len(self) * 1_000_000, "kind": kind, kind: part}
        self.append(json.dumps(frame).encode())

    def commit(self, did: str, collection: str, rkey: str, record: object, operation: str = "create") -> None:
        part: dict[str, object] = {
            "rev": f"rev{len(self)}",
            "operation": operation,
            "collection": collection,
            "rkey": rkey,
        }
        if operation != "delete":
            part |= {"record": record, "cid": f"bafyrei{len(self)}"}
        self.add(did, "commit", part)

    def delete(self, did: str, collection: str, rkey: str) -> None:
        self.commit(did, collection, rkey, None, "delete")

    def vouch(self, voucher: str, subject: str, operation: str = "create", **record: object) -> None:
        self.commit(voucher, VOUCH, subject, {"kind": "vouch", "createdAt": CREATED} | record, operation)

    def repository(self, owner: str, rkey: str = "lantern", operation: str = "create", **record: object) -> None:
        self.commit(owner, REPOSITORY, rkey, {"name": rkey, "knot": "knot.example.test"} | record, operation)

    def pull(self, author: str, rkey: str, operation: str = "create", **record: Any) -> None:
        self.commit(author, PULL, rkey, pull_record(**record), operation)

    def status(self, actor: str, pull: str, word: str, rkey: str = "", operation: str = "create") -> None:
        record = {"pull": pull, "status": f"{STATUS}.{word}", "createdAt": CREATED}
        self.commit(actor, STATUS, rkey or f"status{len(self)}", record, operation)

    def identity(self, did: str) -> None:
        self.add(did, "identity", {"did": did, "seq": len(self)})

    def account(self, did: str, **account: object) -> None:
        self.add(did, "account", {"did": did, "seq": len(self)} | account)


def take(store: Store, frames: Sequence[bytes | str]) -> Loaded:
    """Load frames, work off the log, settle."""
    loaded = load(store, SOURCE, frames)
    settled(store)
    return loaded


def settled(store: Store) -> None:
    """Work off the log and settle."""
    while derive(store):
        pass
    settle(store)


def rows(store: Store, sql: str, *params: object) -> list[tuple[Any, ...]]:
    with store.read() as found:
        return [tuple(row.values()) for row in found.rows(sql, params)]


def open_gaps(store: Store) -> list[tuple[int, int]]:
    """The spans of the stream that no backfill has filled, as time_us of their ends, oldest first."""
    found = rows(store, "select from_us, to_us from gaps where filled_clock is null order by from_us")
    return [(since, until) for since, until in found]


def digest_of(store: Store) -> dict[str, str]:
    with store.read() as found:
        return digest(found)


def letters(store: Store) -> list[str]:
    """The reasons of the dead letters, in order."""
    return [reason for (reason,) in rows(store, "select reason from dead_letters order by letter_seq")]
