"""The site on which maintainers act, and two of them; a module whose site is another one names it as SITE."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.test import Client
from pytest_django import Settings

from tests.triage.access.oauth.conftest import join, oauth_site  # noqa: F401 - fixtures of who is signed in there

if TYPE_CHECKING:  # this is loaded before Django knows its models
    from tests.triage.worlds.acting_site import ActingSite


@pytest.fixture
def site(
    request: pytest.FixtureRequest, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator["ActingSite"]:
    """Three open pull requests, none of them acted on; else what the module's SITE makes."""
    from tests.triage.worlds.acting_site import acting_site

    with getattr(request.module, "SITE", acting_site)(tmp_path, settings, monkeypatch) as acting:
        yield acting


@pytest.fixture
def ana(site: "ActingSite") -> Client:
    """The browser of a maintainer."""
    from tests.triage.worlds.acting_site import ANA

    return site.maintainer(ANA, "ana.example")


@pytest.fixture
def ben(site: "ActingSite") -> Client:
    """The browser of another one."""
    from tests.triage.worlds.acting_site import BEN

    return site.maintainer(BEN, "ben.example")
