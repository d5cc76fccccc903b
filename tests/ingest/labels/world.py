"""A label server as the worker starts it, on labels that the service wrote, and readers of it."""

import asyncio
import http.client
import json
import subprocess
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from django.db import connection
from websockets.asyncio.client import ClientConnection

from ingest.atproto.record_proof import decode, decode_first
from ingest.labels.keys import read_key
from ingest.labels.process import LabelServer
from ingest.labels.server import QUERY, SUBSCRIBE, Config
from ingest.labels.signing import did_document, did_of
from scoring.queries.public_lanes import Outcome, PublicLane, PublicLaneName
from tests.ingest.stream.frames import MARA
from tests.trustsite.ports import free_port, is_taken
from tests.waiting import LONG_SECONDS, wait_for

ORIGIN = "https://triage.sunstead.org"
SOURCE = did_of(ORIGIN)
READER = Path(__file__).parents[2] / "peers" / "labels.mjs"
CID = "bafyreib2rxk3rh6kzwq3x4g5zq6yq5w6v7k2nf6yqg5y2l4q3v5c7d3e2a"


def now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def pull_uri(number: int, author: str = MARA) -> str:
    return f"at://{author}/sh.tangled.repo.pull/{number:06d}"


def lane(uri: str, name: PublicLaneName = "needs_human", **changes: Any) -> PublicLane:
    """A lane that may be told publicly."""
    fields: dict[str, Any] = {
        "uri": uri,
        "cid": CID,
        "round": 0,
        "patch_id": None,
        "repository": "did:plc:" + "r" * 24,
        "repo": "did:plc:" + "r" * 24,
        "author": MARA,
        "lane": name,
        "reasons": (),
        "certificate": None,
        "budget": 50,
        "shadow": False,
        "evaluator": "sunstead gate/1",
        "outcome": None,
        "since": datetime(2026, 11, 1),
    }
    return PublicLane(**fields | changes)


def settled(uri: str, name: PublicLaneName, since: datetime) -> PublicLane:
    return lane(uri, name, outcome=Outcome("merged", since), since=since)


@dataclass
class Labeler:
    """A running label server with its key."""

    server: LabelServer
    config: Config

    @property
    def key(self) -> Path:
        return Path(self.config.key)

    @property
    def document(self) -> str:
        """The DID document as the web process serves it."""
        return json.dumps(did_document(ORIGIN, read_key(self.key).public))

    @property
    def process_id(self) -> int:
        """The process of the server, once it answers."""
        wait_for(lambda: self.server.process_id and is_taken(self.config.port), what="a label server")
        process_id = self.server.process_id
        assert process_id is not None
        return process_id

    @property
    def sockets(self) -> int:
        """How many sockets the server has open."""
        count = 0
        for path in Path(f"/proc/{self.process_id}/fd").iterdir():
            with suppress(FileNotFoundError):  # it was closed meanwhile
                count += str(path.readlink()).startswith("socket:")
        return count

    def address(self, **parameters: object) -> str:
        return f"ws://127.0.0.1:{self.config.port}{SUBSCRIBE}?{urlencode(parameters)}"

    def get(self, target: str, **headers: str) -> tuple[int, dict[str, Any]]:
        """The status and JSON of an HTTP request."""
        peer = http.client.HTTPConnection("127.0.0.1", self.config.port, timeout=LONG_SECONDS)
        peer.request("GET", target, headers=headers)
        answer = peer.getresponse()
        body = answer.read()
        peer.close()
        return answer.status, json.loads(body) if body.startswith(b"{") else {}

    def query(self, *patterns: str, **parameters: object) -> dict[str, Any]:
        """The answer to a query."""
        status, answer = self.get(f"{QUERY}?{urlencode({'uriPatterns': patterns, **parameters}, doseq=True)}")
        assert status == 200, answer
        return answer


@contextmanager
def labeler(folder: Path, **changes: Any) -> Generator[Labeler]:
    """A label server on the accounts' database of the tests."""
    fields: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": free_port(),
        "database": str(connection.settings_dict["NAME"]),
        "key": str(folder / "keys" / "label"),
        "source": SOURCE,
    }
    config = Config(**fields | changes)
    server = LabelServer(config)
    server.start()
    try:
        running = Labeler(server, config)
        assert running.process_id
        yield running
    finally:
        server.stop()
        server.join(LONG_SECONDS)


class Reference:
    """The reference's own reader, in Node."""

    def __init__(self, modules: Path, running: Labeler, cursor: int | None, count: int) -> None:
        arguments = [running.document, f"ws://127.0.0.1:{running.config.port}", str(cursor or ""), str(count)]
        if cursor == 0:
            arguments[2] = "0"
        command = ["node", "--input-type=module", "--eval", READER.read_text(), "--", *arguments]
        self._node = subprocess.Popen(command, cwd=modules, stdout=subprocess.PIPE, text=True)
        self.lines: list[dict[str, Any]] = []
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self._node.stdout is not None
        for line in self._node.stdout:
            self.lines.append(json.loads(line))

    @property
    def labels(self) -> list[dict[str, Any]]:
        return [line for line in list(self.lines) if "seq" in line]

    def finish(self, seconds: float = LONG_SECONDS) -> Sequence[dict[str, Any]]:
        """All lines, once it has read as many messages as it should, or was refused."""
        try:
            assert self._node.wait(seconds) == 0
        finally:
            self._node.kill()
        self._reading.join(LONG_SECONDS)
        assert self._node.stdout is not None
        self._node.stdout.close()
        return self.lines


async def next_label(client: ClientConnection) -> dict[str, Any]:
    """The label in the next frame, and nothing else."""
    data = await client.recv()
    assert isinstance(data, bytes)
    header, end = decode_first(data)
    assert header == {"op": 1, "t": "#labels"}
    (label,) = decode(data[end:])["labels"]
    return label


def play(coroutine: Any) -> Any:
    return asyncio.run(coroutine)
