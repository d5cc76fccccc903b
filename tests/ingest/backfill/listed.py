"""A data server that lists whatever a test says, and what a backfill from it comes to."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from ingest.clock import to_microseconds
from tests.ingest.peer import Request, response
from tests.ingest.stream.frames import (
    MALLORY,
    PULL,
    VOUCH,
)
from trustsite.world.network import encode_tid

NOW = datetime(2026, 11, 20, 12)
BORN = datetime(2026, 1, 1)
REV = encode_tid(to_microseconds(NOW - timedelta(hours=1)))
CID = "bafyrei" + "a" * 52
Query = Mapping[str, str]
Body = dict[str, Any] | bytes


def key(moment: datetime, clock: int = 0) -> str:
    return encode_tid(to_microseconds(moment), clock)


def entry(did: str, collection: str, rkey: str, value: object = None) -> dict[str, Any]:
    return {"uri": f"at://{did}/{collection}/{rkey}", "cid": CID, "value": {} if value is None else value}


def network(listing: Callable[[Query], Body], **others: Callable[[Query], Body]) -> Callable[[Request], bytes]:
    """One data server of well-behaved accounts but for what is given: a body, or the bytes of a whole response."""
    methods: dict[str, Callable[[Query], Body]] = {
        "listReposByCollection": lambda _: {"repos": [{"did": MALLORY}]},
        "getLatestCommit": lambda _: {"cid": CID, "rev": REV},
        "describeRepo": lambda query: {"did": query["repo"], "collections": [PULL, VOUCH, "com.example.other"]},
        "listRecords": listing,
        "audit": lambda _: response(json.dumps([creation()]).encode()),
        **others,
    }

    def answer(request: Request) -> bytes:
        parts = urlsplit(request.path)
        name = parts.path.rsplit("/", 1)[-1].rsplit(".", 1)[-1]
        query = {one: values[0] for one, values in parse_qs(parts.query).items()}
        body = methods[name](query | {"path": unquote(parts.path)}) if name in methods else response(status=404)
        return body if isinstance(body, bytes) else response(json.dumps(body).encode())

    return answer


def creation(host: str = "pds.example.test") -> dict[str, Any]:
    services = {"atproto_pds": {"endpoint": f"https://{host}"}}
    operation = {"type": "plc_operation", "services": services, "alsoKnownAs": []}
    return {"operation": operation, "createdAt": BORN.isoformat() + "Z"}


def nothing(_: Query) -> Body:
    return {"records": []}


def reasons(summary: dict[str, Any]) -> list[str]:
    return [row["reason"] for row in summary["not_had"]]
