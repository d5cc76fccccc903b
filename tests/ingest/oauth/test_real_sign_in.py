"""Sign-in at a real data server: the whole flow, and every way in which it ends without a session."""

import time

import pytest

from tests.ingest.oauth.site import make_site
from tests.peers.network import Account, RealNetwork


@pytest.fixture(scope="module")
def ana(real_network: RealNetwork) -> Account:
    return real_network.join(f"ana{time.time_ns() % 1_000_000_000}")


def test_a_person_signs_in_by_handle_at_a_confidential_client(real_network: RealNetwork, ana: Account) -> None:
    with make_site(real_network, "atproto") as site:
        grant = site.sign_in(ana)
    assert (grant.did, grant.handle, grant.pds) == (ana.did, ana.handle, "https://pds.example.test")
    assert (grant.issuer, grant.scope, grant.kid) == ("https://pds.example.test", "atproto", site.client.kid)
    assert grant.access_token
    assert grant.refresh_token
