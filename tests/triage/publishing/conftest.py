"""The site that publishes into the real data server."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from pytest_django import Settings

from tests.peers.network import RealNetwork
from tests.triage.access.oauth.conftest import join, oauth_site  # noqa: F401 - fixtures
from tests.triage.acting.conftest import site  # noqa: F401 - a fixture

if TYPE_CHECKING:  # this is loaded before Django knows its models
    from tests.triage.worlds.acting_site import ActingSite
    from tests.triage.worlds.publishing_site import PublishingSite


@pytest.fixture
def publishing(
    site: "ActingSite",  # noqa: F811
    real_network: RealNetwork,
    join: object,  # noqa: F811
    settings: Settings,
    db: None,
) -> "Iterator[PublishingSite]":
    """It has its account, and the repository publishes nothing yet."""
    from tests.triage.worlds.publishing_site import PublishingSite

    settings.STAND_IN_ORIGIN, settings.OAUTH_KEY = real_network.origin, "5e" * 32
    made = PublishingSite(site, real_network, join("site"))  # ty: ignore[not-callable]
    yield made
    made.close()
