"""A site with a public address at which people of the real data server sign in, through the site's own addresses."""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html import unescape
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from pytest_django import Settings

from tests.ingest.peer import Peer, Request, response
from tests.peers.consent import Visit
from tests.peers.network import Account, RealNetwork

_numbers = count(1)
LINK = re.compile(r'<a class="button primary" href="([^"]+)">Continue to')


@dataclass
class Site:
    """The site as a browser and the data server reach it: by one public name, over https."""

    network: RealNetwork
    host: str
    asked: list[str] = field(default_factory=list)  # paths that the data server fetched from it

    @property
    def origin(self) -> str:
        """What PUBLIC_ORIGIN says."""
        return f"https://{self.host}"

    def browser(self, **how: Any) -> Client:
        """A browser of its own."""
        return Client(headers={"host": self.host}, **how)

    def answer(self, request: Request) -> bytes:
        """The data server asks for one of the site's documents."""
        self.asked.append(request.path)
        told = self.browser().get(request.path)
        return (
            response(told.content, Content_Type=told["Content-Type"])
            if told.status_code == 200
            else response(status=404)
        )

    def leave(self, browser: Client, person: Account, **fields: str) -> str:
        """Type the handle; returns the address that the page's link leads to."""
        page = browser.post("/oauth/start", {"handle": person.handle, **fields})
        found = LINK.search(page.content.decode())
        assert found, page.content.decode()
        return unescape(found[1])

    def visit(self, address: str, person: Account) -> Visit:
        """Open the link and give the password there."""
        visit = Visit(self.network, address)
        visit.sign_in(person.handle)
        return visit

    def sign_in(self, browser: Client, person: Account, **fields: str) -> Any:
        """The whole way; returns the answer to the callback."""
        address = self.leave(browser, person, **fields)
        return browser.get("/oauth/callback", self.visit(address, person).consent())


@pytest.fixture
def oauth_site(real_network: RealNetwork, settings: Settings, tmp_path: Path) -> Iterator[Site]:
    """A site under a name that no server has heard of, since servers remember a site's documents for ten minutes."""
    site = Site(real_network, f"web{next(_numbers)}.sunstead.org")
    settings.PUBLIC_ORIGIN = site.origin
    settings.ALLOWED_HOSTS = [site.host, "127.0.0.1", "localhost", "testserver"]
    settings.STAND_IN_ORIGIN = real_network.origin
    settings.OAUTH_CLIENT_KEYS = tmp_path / "keys" / "oauth_client.json"
    settings.OAUTH_KEY = "5e" * 32
    settings.PUBLIC_READ = False
    cache.clear()
    with Peer(site.answer) as peer:
        real_network.lead(site.host, peer.port)
        yield site
    cache.clear()


@pytest.fixture(scope="session")
def join(real_network: RealNetwork) -> Callable[[str], Account]:
    """`join("ana")`: a new account at the data server, whose handle begins like this."""
    return lambda name: real_network.join(f"{name}{time.time_ns() % 1_000_000_000}")
