"""A site that signs people in at the real data server: its two documents on loopback, and its side of the flow."""

import json
from dataclasses import dataclass, field
from html import escape
from itertools import count
from typing import Self
from urllib.parse import parse_qsl, urlsplit

from ingest.http.fetcher import Fetcher
from ingest.oauth.client import (
    CALLBACK_PATH,
    JWKS_PATH,
    METADATA_PATH,
    Client,
    client_metadata,
    key_set,
    make_site_client,
)
from ingest.oauth.dpop import DpopSender
from ingest.oauth.flow import Begun, Grant, discover, push_request, redeem
from ingest.oauth.proofs import make_key
from tests.ingest.peer import Peer, Request, response
from tests.peers.consent import Visit
from tests.peers.network import Account, RealNetwork

PLC = "https://plc.directory"
OWN = "org.sunstead"
_numbers = count(1)


@dataclass
class Site:
    """A client of the real server; each has a name of its own, as servers remember documents for ten minutes."""

    network: RealNetwork
    client: Client
    sender: DpopSender = field(init=False)
    leads_to: str = ""  # the link on its page for a browser
    callbacks: list[dict[str, str]] = field(default_factory=list)  # queries with which a browser came back

    def __post_init__(self) -> None:
        self.sender = DpopSender(Fetcher(self.network.origin))

    def __enter__(self) -> Self:
        self._peer = Peer(self._answer).__enter__()
        self.network.lead(urlsplit(self.client.client_id).netloc, self._peer.port)
        return self

    def __exit__(self, *_: object) -> None:
        self._peer.__exit__()
        self.sender.fetcher.close()

    def _answer(self, request: Request) -> bytes:
        path, _, query = request.path.partition("?")
        if path == CALLBACK_PATH:
            self.callbacks.append(dict(parse_qsl(query)))
            return response(b"Welcome back", Content_Type="text/html")
        if path == "/":
            return response(f'<a href="{escape(self.leads_to)}">Leave</a>'.encode(), Content_Type="text/html")
        if self.client.key is None:
            return response(b"", 404)
        documents = {
            METADATA_PATH: client_metadata(
                self.client.client_id.removesuffix(METADATA_PATH), self.client.scope, "Sunstead"
            ),
            JWKS_PATH: key_set([self.client.key]),
        }
        if path not in documents:
            return response(b"", 404)
        return response(json.dumps(documents[path]).encode(), Content_Type="application/json")

    def begin(self, person: Account, scope: str = "atproto") -> Begun:
        """Ask the person's server."""
        return push_request(self.sender, self.client, discover(self.sender.fetcher, PLC, person.did), scope)

    def visit(self, begun: Begun, person: Account) -> Visit:
        """The person opens the address and gives the password."""
        visit = Visit(self.network, begun.address)
        visit.sign_in(person.handle)
        return visit

    def redeem(self, begun: Begun, query: dict[str, str]) -> Grant:
        """The callback."""
        return redeem(self.sender, PLC, self.client, begun, query)

    def sign_in(self, person: Account, scope: str = "atproto") -> Grant:
        """The whole flow, with everything granted."""
        begun = self.begin(person, scope)
        return self.redeem(begun, self.visit(begun, person).consent())


def make_site(network: RealNetwork, scope: str) -> Site:
    """A confidential client with a new key; use it as a context."""
    return Site(network, make_site_client(f"https://site{next(_numbers)}.sunstead.org", scope, make_key()))
