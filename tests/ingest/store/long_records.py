"""Records with long texts, and how tests look at what became of them."""

import json

from ingest.store.database import Store
from tests.ingest.stream.frames import FIRST_US, Frames

STRING = "sh.tangled.string"
ESCAPED = "\\u003c"  # `<` as Go's JSON writes it: a record of 1 MB makes 5.9 MB
LONGEST = "select max(strlen(body)) from events"
BODIES = "select body from events where operation <> 'delete' order by event_seq"


def angle_brackets(did: str, number: int, size: int = 990_000) -> bytes:
    """A frame whose record is `size` characters of `<`."""
    frame = {"did": did, "time_us": FIRST_US + number, "kind": "commit"}
    commit = {
        "rev": f"rev{number}",
        "operation": "create",
        "collection": STRING,
        "rkey": f"k{number}",
        "cid": f"c{number}",
    }
    head = json.dumps(frame | {"commit": commit})[:-2]
    return f'{head}, "record": {{"contents": "{ESCAPED * size}"}}}}}}'.encode()


def author(number: int) -> str:
    """The DID of one of many authors."""
    return f"did:plc:{number:024d}"


def files(store: Store) -> list[str]:
    """The names of the files of long texts beside a store."""
    return sorted(path.name for path in store.long_texts.folder.glob("??/*"))


def long_pull(frames: Frames, did: str, rkey: str, text: str, operation: str = "create") -> None:
    """A pull request with a text of any length."""
    frames.pull(did, rkey, operation, title="Long", note=text)
