"""A data server and authorization server over TLS that signs people in, until a test twists one of its answers."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs

from ingest.http.fetcher import Fetcher
from ingest.oauth.client import make_site_client
from ingest.oauth.dpop import DpopSender
from ingest.oauth.flow import Begun, Grant, discover, push_request, redeem
from ingest.oauth.proofs import make_key
from tests.ingest.http.fetched import HOST, PUBLIC, fetcher_to, served
from tests.ingest.peer import Answer, Request, response

DID, OTHER = "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa", "did:plc:bbbbbbbbbbbbbbbbbbbbbbbb"
ORIGIN = f"https://{HOST}"
RESOURCE, SERVER = "/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server"
PUSH, TOKEN, REVOKE = "/push", "/token", "/revoke"
PLACES = [RESOURCE, SERVER, PUSH, TOKEN]  # in the order in which a sign-in asks them
PRIVATE = "intern.example.test"
IDENTITY = [
    {
        "operation": {
            "type": "plc_operation",
            "alsoKnownAs": [],
            "services": {"atproto_pds": {"endpoint": ORIGIN}},
        },
        "createdAt": "2026-01-01T00:00:00Z",
    }
]
METADATA: dict[str, Any] = {
    "issuer": ORIGIN,
    "authorization_endpoint": f"{ORIGIN}/authorize",
    "token_endpoint": f"{ORIGIN}{TOKEN}",
    "pushed_authorization_request_endpoint": f"{ORIGIN}{PUSH}",
    "revocation_endpoint": f"{ORIGIN}{REVOKE}",
    "scopes_supported": ["atproto"],
    "response_types_supported": ["code"],
    "grant_types_supported": ["authorization_code", "refresh_token"],
    "code_challenge_methods_supported": ["S256"],
    "token_endpoint_auth_methods_supported": ["none", "private_key_jwt"],
    "token_endpoint_auth_signing_alg_values_supported": ["ES256"],
    "dpop_signing_alg_values_supported": ["ES256"],
    "authorization_response_iss_parameter_supported": True,
    "require_pushed_authorization_requests": True,
    "client_id_metadata_document_supported": True,
}
DOCUMENTS: dict[str, tuple[int, dict[str, Any]]] = {
    RESOURCE: (200, {"resource": ORIGIN, "authorization_servers": [ORIGIN]}),
    SERVER: (200, METADATA),
    PUSH: (201, {"request_uri": "urn:ietf:params:oauth:request_uri:req-1", "expires_in": 299}),
    TOKEN: (
        200,
        {
            "access_token": "access",
            "refresh_token": "refresh",
            "token_type": "DPoP",
            "sub": DID,
            "scope": "atproto",
            "expires_in": 3600,
        },
    ),
    REVOKE: (200, {}),
}
Twist = Callable[[Request], Answer]


def as_json(document: object, status: int = 200, **headers: str) -> bytes:
    return response(json.dumps(document).encode(), status, Content_Type="application/json", **headers)


def changed(place: str, **fields: Any) -> Twist:
    """The place's honest answer with other fields; None takes one out."""
    status, document = DOCUMENTS[place]
    kept = {name: value for name, value in (document | fields).items() if value is not None}
    return lambda _: as_json(kept, status)


def dripping(_: Request) -> Iterator[bytes]:
    """Headers at once, and a byte whenever the peer would give up otherwise, for ever."""
    yield b"HTTP/1.1 200 Said\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
    while True:
        yield b" "
        time.sleep(0.05)


@dataclass
class HostileServer:
    """Answers as an honest server but for `twists`, by path; a context."""

    certificate: Path
    twists: dict[str, Twist] = field(default_factory=dict)
    timeout: float = 10.0

    def __enter__(self) -> Self:
        self.peer = served(self._answer, self.certificate).__enter__()
        self.fetcher: Fetcher = fetcher_to(
            self.peer.port,
            self.certificate,
            self.timeout,
            resolver=lambda host: ["10.0.0.7"] if host == PRIVATE else [PUBLIC],
        )
        self.sender = DpopSender(self.fetcher)
        self.client = make_site_client("https://triage.sunstead.org", "atproto", make_key())
        return self

    def __exit__(self, *_: object) -> None:
        self.fetcher.close()
        self.peer.__exit__()

    def _answer(self, request: Request) -> Answer:
        path = request.path.partition("?")[0]
        if path in self.twists:
            return self.twists[path](request)
        if path == f"/{DID}/log/audit":
            return as_json(IDENTITY)
        status, document = DOCUMENTS[path]
        return as_json(document, status)

    def forms(self, path: str) -> list[dict[str, list[str]]]:
        """The forms that were posted there."""
        return [parse_qs(request.body.decode()) for request in self.peer.requests if request.path == path]

    def begin(self) -> Begun:
        return push_request(self.sender, self.client, discover(self.fetcher, ORIGIN, DID), "atproto")

    def sign_in(self, **query: str) -> Grant:
        """The whole flow; `query` changes what comes back to the callback."""
        begun = self.begin()
        said = {"state": begun.state, "iss": ORIGIN, "code": "code-1", **query}
        return redeem(self.sender, ORIGIN, self.client, begun, said)
