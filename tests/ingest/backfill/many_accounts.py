"""A cheap stand-in for many accounts on 40 data servers: `python -m tests.ingest.backfill.many_accounts ACCOUNTS`.

Prints its port and answers until its stdin ends. Answers are made once from templates and kept as bytes, so that it
takes a fraction of the time of who asks.
"""

import asyncio
import json
import sys
from functools import cache
from urllib.parse import parse_qs, unquote, urlsplit

from trustsite.world.network import encode_tid, iso, make_did, pseudo_cid

REPOSITORY, PULL = "sh.tangled.repo", "sh.tangled.repo.pull"
STATUS, VOUCH = "sh.tangled.repo.pull.status", "sh.tangled.graph.vouch"
EACH = {REPOSITORY: 2, PULL: 18, STATUS: 15, VOUCH: 15}  # 50 records an account
HOSTS, PAGE = 40, 1_000
FIRST_US = 1_760_000_000_000_000
BODY = "It mends what was broken, and says how. " * 10


class Network:
    """Answers by host, path and query."""

    def __init__(self, accounts: int) -> None:
        self.dids = [make_did("many", number) for number in range(accounts)]
        self.numbers = {did: number for number, did in enumerate(self.dids)}

    @cache  # noqa: B019 - lives as long as the process
    def answer(self, target: str) -> bytes:
        """The whole response to a GET of `target`."""
        parts = urlsplit(target)
        path, query = unquote(parts.path), {name: one[0] for name, one in parse_qs(parts.query).items()}
        body = self._body(path, query)
        head = f"HTTP/1.1 {200 if body else 404} -\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body

    def _body(self, path: str, query: dict[str, str]) -> bytes:
        if path.startswith("/did:"):
            return self._log(path.split("/")[1])
        method = path.removeprefix("/xrpc/com.atproto.")
        if method == "sync.listReposByCollection":
            start = int(query.get("cursor", 0))
            page = [{"did": did} for did in self.dids[start : start + PAGE]]
            more = {"cursor": str(start + PAGE)} if start + PAGE < len(self.dids) else {}
            return json.dumps({"repos": page} | more).encode()
        did = query.get("did") or query.get("repo", "")
        if did not in self.numbers:
            return b""
        if method == "sync.getLatestCommit":
            return json.dumps({"cid": pseudo_cid(did.encode()), "rev": encode_tid(FIRST_US + 10**13)}).encode()
        if method == "repo.describeRepo":
            return json.dumps({"handle": "x.example", "did": did, "collections": list(EACH)}).encode()
        return self._records(self.numbers[did], did, query["collection"])

    def _log(self, did: str) -> bytes:
        number = self.numbers.get(did)
        if number is None:
            return b""
        service = {"atproto_pds": {"type": "x", "endpoint": f"https://pds{number % HOSTS}.example.test"}}
        operation = {"type": "plc_operation", "services": service, "alsoKnownAs": [f"at://p{number}.example.test"]}
        return json.dumps([{"did": did, "operation": operation, "createdAt": iso(FIRST_US - 10**12)}]).encode()

    def _records(self, number: int, did: str, collection: str) -> bytes:
        rows = [self._record(number, did, collection, place) for place in range(EACH.get(collection, 0))]
        return b'{"records":[' + b",".join(rows) + b"]}"

    def _record(self, number: int, did: str, collection: str, place: int) -> bytes:
        time_us = FIRST_US + number * 1_000_003 + place * 60_000_000
        rkey, created = encode_tid(time_us, len(collection)), iso(time_us)
        owner = self.dids[(number * 7 + place) % len(self.dids)]
        target = f"at://{owner}/{REPOSITORY}/{encode_tid(FIRST_US, 1)}"
        value: dict[str, object] = {"$type": collection, "createdAt": created}
        if collection == REPOSITORY:
            value |= {"name": f"project{place}", "knot": "knot.example.test"}
        elif collection == PULL:
            blob = {"$type": "blob", "ref": {"$link": "bafkrei" + "a" * 52}, "mimeType": "application/gzip", "size": 9}
            value |= {"title": f"Change {place}", "body": BODY, "target": {"repo": target, "branch": "main"}}
            value |= {"rounds": [{"createdAt": created, "patchBlob": blob}]}
        elif collection == STATUS:
            pull = f"at://{owner}/{PULL}/{rkey}"
            value |= {"pull": pull, "status": f"{STATUS}.merged"}
        else:
            rkey = self.dids[(number + place + 1) % len(self.dids)]
            value |= {"kind": "vouch", "reason": "careful work"}
        cid = pseudo_cid(f"{did}{collection}{place}".encode())
        return json.dumps({"uri": f"at://{did}/{collection}/{rkey}", "cid": cid, "value": value}).encode()


class Answering(asyncio.Protocol):
    """HTTP/1.1 with kept connections; requests without bodies only."""

    def __init__(self, network: Network) -> None:
        self.network, self.buffer = network, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while b"\r\n\r\n" in self.buffer:
            head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
            self.transport.write(self.network.answer(head.split(b" ", 2)[1].decode()))


async def serve(accounts: int) -> None:
    """Answer until stdin ends."""
    loop, network = asyncio.get_running_loop(), Network(accounts)
    server = await loop.create_server(lambda: Answering(network), "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
