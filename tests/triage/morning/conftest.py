"""A maintainer's morning: the site on which it is played, and people who come to it in one of four ways."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Page
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from tests.triage.morning.modes import MODES, NEVER, Mode, complains
from tests.triage.windows import Windows

if TYPE_CHECKING:  # this is loaded before Django knows its models
    from tests.triage.worlds.acting_site import ActingSite

MAINTAINER, SECOND_ONE = ("did:plc:" + "2" * 24, "ana"), ("did:plc:" + "3" * 24, "ben")
Enter = Callable[..., Page]


@pytest.fixture(params=MODES, ids=str)
def mode(request: pytest.FixtureRequest) -> Mode:
    """Each of the four."""
    return request.param


@pytest.fixture
def site(
    live_server: LiveServer, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator["ActingSite"]:
    """One of them flagged and all others in the fast lane, behind a real server."""
    from tests.triage.morning.site import morning_site

    with morning_site(tmp_path, settings, monkeypatch) as acting:
        yield acting


@pytest.fixture
def enter(site: "ActingSite", live_server: LiveServer, windows: Windows) -> Iterator[Enter]:
    """`enter(mode, who, path)`: the queue, or another page, in somebody's own browser; fails where one complained."""
    with windows.lend(live_server.url, complains, NEVER) as opened:

        def entered(mode: Mode | None = None, who: tuple[str, str] = MAINTAINER, path: str = "/") -> Page:
            did, name = who
            cookie = site.maintainer(did, f"{name}.example").cookies["sessionid"].value
            page = opened(cookie=cookie, **(mode or Mode()).options())
            page.goto(path)
            return page

        yield entered
