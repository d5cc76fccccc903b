"""A knot that merges for holders of push rights who prove themselves by a service token of their own data server.

It checks more than a real knot does: the audience, the method, the lifetime and the single use of a token, and its
signature by the key that the directory names.
"""

import base64
import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Self

from ingest.atproto.identity import resolve
from ingest.atproto.record_proof import read_key
from ingest.atproto.syntax import NAMESPACE
from ingest.http.fetcher import Fetcher
from ingest.lookups.forge import LIST_COLLABORATORS
from tests.ingest.peer import Answer, Peer, Request, response
from tests.peers.network import PLC_HOST, RealNetwork
from tests.waiting import LONG_SECONDS

MERGE, CHECK = f"{NAMESPACE}repo.merge", f"{NAMESPACE}repo.mergeCheck"
LONGEST = 60  # seconds that a token may live


class TokenProblem(Exception):
    """The token proves nothing to this knot."""


@dataclass
class Knot:
    """One knot of the real network, by its name; a context."""

    network: RealNetwork
    host: str = "knot.example.org"
    holders: set[str] = field(default_factory=set)  # DIDs that may push
    conflicts: list[str] = field(default_factory=list)  # files, found by the check
    moved: bool = False  # the branch moves between the check and the merge
    loses_answers: bool = False
    merged: list[dict[str, Any]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # why
    asked: int = 0  # checks of a merge
    answers: threading.Event = field(default_factory=threading.Event)  # cleared, it merges and keeps its answer back

    def __enter__(self) -> Self:
        self._used: set[str] = set()
        self.answers.set()
        self._fetcher = Fetcher(self.network.origin)
        self._peer = Peer(self._answer).__enter__()
        self.network.lead(self.host, self._peer.port)
        return self

    def __exit__(self, *_: object) -> None:
        self._peer.__exit__()
        self._fetcher.close()

    def _answer(self, request: Request) -> Answer:
        if request.path == f"/xrpc/{CHECK}":
            self.asked += 1
            conflicts = [{"filename": name} for name in self.conflicts]
            return _as_json({"is_conflicted": bool(conflicts), "conflicts": conflicts})
        if request.path.startswith(f"/xrpc/{LIST_COLLABORATORS}?"):
            return _as_json({"items": [{"subject": did} for did in sorted(self.holders)]})
        if request.path != f"/xrpc/{MERGE}":
            return response(b"", 404)
        try:
            did = self.check_token(request.headers.get("authorization", ""))
        except TokenProblem as problem:
            self.refused.append(str(problem))
            return _as_json({"error": "InvalidToken"}, 403)
        if did not in self.holders:
            self.refused.append("no push right")
            return _as_json({"error": "AccessControl"}, 403)
        if self.moved:
            return _as_json({"error": "MergeConflict"}, 409)
        self.merged.append({**json.loads(request.body), "by": did})
        self.answers.wait(LONG_SECONDS)
        return iter(()) if self.loses_answers else response(b"")

    def check_token(self, authorization: str) -> str:
        """The DID that a token proves. Raises TokenProblem."""
        kind, _, token = authorization.partition(" ")
        parts = token.split(".")
        if kind != "Bearer" or len(parts) != 3:
            raise TokenProblem("not a token")
        claims = json.loads(_decode(parts[1]))
        key = resolve(self._fetcher, f"https://{PLC_HOST}", claims["iss"]).signing_key
        if key is None or not read_key(key).signed(f"{parts[0]}.{parts[1]}".encode(), _decode(parts[2])):
            raise TokenProblem("not signed by its issuer")
        if claims["aud"] != f"did:web:{self.host}":
            raise TokenProblem("for another service")
        if claims.get("lxm") != MERGE:
            raise TokenProblem("for another method")
        if not time.time() < claims["exp"] <= time.time() + LONGEST:
            raise TokenProblem("expired, or lives too long")
        if claims["jti"] in self._used:
            raise TokenProblem("used before")
        self._used.add(claims["jti"])
        return claims["iss"]


def _decode(part: str) -> bytes:
    return base64.urlsafe_b64decode(f"{part}==")


def _as_json(document: object, status: int = 200) -> bytes:
    return response(json.dumps(document).encode(), status, Content_Type="application/json")
