"""Small recordings for the tests of the stand-ins."""

import json

from trustsite.standins.recording import BlobKey, Person, Recording, Repository, make_recording

ANA, MARA, GONE, WEB = "did:plc:ana", "did:plc:mara", "did:plc:gone", "did:web:quill.example.test%3A8080"
REPO = "did:plc:lantern"
PDS, KNOT = "https://pds.example.test", "knot.example.test"
FIRST_US = 1_790_000_000_000_000
PULL, VOUCH, POST = "sh.tangled.repo.pull", "sh.tangled.graph.vouch", "app.bsky.feed.post"


def commit(number: int, did: str, collection: str, rkey: str, text: str = "", operation: str = "create") -> bytes:
    """A frame one microsecond after the one before; a delete carries no record."""
    change: dict[str, object] = {"rev": f"rev{number}", "operation": operation, "collection": collection, "rkey": rkey}
    if operation != "delete":
        change |= {"record": {"$type": collection, "text": text}, "cid": f"cid{number}"}
    return json.dumps({"did": did, "time_us": FIRST_US + number, "kind": "commit", "commit": change}).encode()


def identity(number: int, did: str) -> bytes:
    """An identity event."""
    event = {"did": did, "time_us": FIRST_US + number, "kind": "identity", "identity": {"did": did, "seq": number}}
    return json.dumps(event).encode()


PEOPLE = (
    Person(ANA, "ana.example.test", PDS, "2024-01-01T00:00:00.000Z"),
    Person(MARA, "mara.example.test", PDS, "2024-02-01T00:00:00.000Z"),
    Person(GONE, "gone.example.test", PDS, "2024-03-01T00:00:00.000Z", tombstoned=True),
    Person(WEB, "ana.example.test", "https://quill.example.test:8080", ""),
)
REPOSITORIES = (Repository(REPO, "ana/lantern", ANA, KNOT, "spindle.example.test", (ANA, MARA, GONE)),)
BLOBS: dict[BlobKey, bytes] = {(MARA, "bafkreia"): b"\x1f\x8b patch"}


def small() -> Recording:
    """Eight frames of ana and mara, one of a stranger."""
    frames = [
        identity(0, "did:plc:stranger"),
        commit(1, MARA, PULL, "one", "first"),
        commit(2, ANA, VOUCH, MARA),
        commit(3, MARA, POST, "hello"),
        commit(4, MARA, PULL, "two", "second"),
        commit(5, MARA, PULL, "one", "changed", "update"),
        commit(6, MARA, PULL, "two", operation="delete"),
        commit(7, MARA, PULL, "three", "third"),
    ]
    return make_recording(frames, BLOBS, PEOPLE, REPOSITORIES)
