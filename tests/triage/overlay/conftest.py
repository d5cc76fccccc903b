"""One Chromium with the extension for each file, the forge that it visits, and a real site that it asks."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.core.signals import request_started
from django.test import Client
from django.utils import timezone
from playwright.sync_api import expect, sync_playwright
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from tests.triage.overlay import world
from tests.triage.overlay.browser import Overlay, running
from tests.triage.overlay.forge import Forge
from tests.waiting import PATIENT_MS

if TYPE_CHECKING:
    from triage.models import Person

Asked = list[str]
Connect = Callable[..., str]


@pytest.fixture(scope="module")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forge]:
    """The forge, with the pages of the small world."""
    with Forge(tmp_path_factory.mktemp("forge")) as made:
        yield made


@pytest.fixture(scope="module")
def overlay(chromium: str, forge: Forge, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Overlay]:
    """The browser with the extension."""
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        expect.set_options(timeout=PATIENT_MS)
        with running(playwright, chromium, tmp_path_factory.mktemp("profile") / "browser", forge) as made:
            yield made


@pytest.fixture(scope="session")
def world_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The world behind the overlay, published."""
    folder = tmp_path_factory.mktemp("overlay")
    world.build(folder)
    return folder


@pytest.fixture
def shown_world(world_folder: Path, settings: Settings) -> Path:
    """The site shows that world, to readers only."""
    settings.PUBLIC_READ = False
    settings.DEMO_MAINTAINER = None
    settings.STREAM_CLOCK = True
    settings.SNAPSHOT_DIR = world_folder / "snapshots"
    return world_folder


@pytest.fixture
def seed(shown_world: Path, transactional_db: None) -> "Person":
    """Who maintains lantern."""
    from triage.models import Maintainer, Person  # a conftest is read before Django is ready

    person, _ = Person.objects.get_or_create(did=world.SEED, defaults={"handle": world.OWNER})
    Maintainer.objects.get_or_create(person=person, repo_key="")
    return person


@pytest.fixture
def asked(live_server: LiveServer) -> Iterator[Asked]:
    """What the site is asked while a test runs: method and path of each request."""
    told: Asked = []

    def note(environ: dict[str, str], **_: object) -> None:
        told.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}")

    request_started.connect(note)
    yield told
    request_started.disconnect(note)


@pytest.fixture
def connected(overlay: Overlay, seed: "Person", live_server: LiveServer) -> Connect:
    """`connected(repo_key, pages)`: the extension is set up with a token of seed's; returns its secret."""
    from triage.access.tokens import create_token

    def connect(repo_key: str = "", pages: list[str] | None = None) -> str:
        secret = create_token("Browser extension", ["read"], timezone.now(), seed, repo_key)
        # The first answers of a process take seconds, for which the extension does not wait.
        for path in ("/inbox", f"/score/{world.MARA}?repo={repo_key}"):
            assert Client().get(path, headers={"authorization": f"Bearer {secret}"}).status_code == 200
        overlay.connect(live_server.url.replace("localhost", "127.0.0.1"), secret, pages)
        return secret

    return connect
