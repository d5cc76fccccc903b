"""The site that asks people at the real data server, as a client that may ask for every act."""

from collections.abc import Iterator

import pytest

from ingest.oauth.scopes import every_scope
from tests.ingest.oauth.site import OWN, Site, make_site
from tests.peers.network import RealNetwork


@pytest.fixture(scope="module")
def site(real_network: RealNetwork) -> Iterator[Site]:
    with make_site(real_network, every_scope(OWN)) as site:
        yield site
