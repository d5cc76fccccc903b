"""A small real snapshot, made once for all tests of the pages."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client
from playwright.sync_api import Browser, Page, expect, sync_playwright
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from tests.ingest.peer import Peer, Start
from tests.triage.windows import Windows
from tests.triage.worlds import small_site
from tests.waiting import PATIENT_MS

if TYPE_CHECKING:  # models load after Django is set up, conftest files before
    from tests.triage.worlds.acting_site import ActingSite

OpenPage = Callable[..., Page]
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def windows(chromium: str) -> Iterator[Windows]:
    """Those of the one browser of a file, whose start takes 1 s of CPU.

    While Playwright's loop runs in this thread, Django refuses to touch a database unless it is told that nobody does
    so within the loop.
    """
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        expect.set_options(timeout=PATIENT_MS)
        made = Windows(playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS))
        made.watch(patch)
        yield made


@pytest.fixture
def browser(windows: Windows) -> Browser:
    """The browser itself, for whoever opens windows of another kind."""
    return windows.browser


@pytest.fixture(scope="session", autouse=True)
def one_request_at_a_time() -> Iterator[None]:
    """The live server answers one request after the other: its threads share the connection to accounts in memory.

    There the transactions of two that meet are one, and the end of either ends both. Tests of meetings have a file.
    """
    from django.core.servers.basehttp import ThreadedWSGIServer

    turn, set_app = threading.Lock(), ThreadedWSGIServer.set_app

    def in_turn(server: ThreadedWSGIServer, application: Callable[..., Any]) -> None:
        def answer(*asked: Any) -> Any:
            with turn:
                return application(*asked)

        set_app(server, answer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ThreadedWSGIServer, "set_app", in_turn)
        yield


@pytest.fixture(autouse=True)
def keeps_the_policy(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test of a browser ends with something that the Content-Security-Policy forbade."""
    forbidden: list[str] = request.getfixturevalue("windows").forbidden if "windows" in request.fixturenames else []
    yield
    noted = forbidden.copy()
    forbidden.clear()
    assert noted == []


@pytest.fixture
def open_page(windows: Windows, live_server: LiveServer) -> Iterator[OpenPage]:
    """`open_page(width, client, **options)`: a window of its own on the site, signed in where a `client` is given."""
    with windows.lend(live_server.url) as opened:

        def open_one(width: int = 1440, client: Client | None = None, **options: Any) -> Page:
            cookie = client.cookies["sessionid"].value if client else ""
            return opened(width=width, cookie=cookie, **options)

        yield open_one


@pytest.fixture(scope="session")
def small_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small world, published."""
    folder = tmp_path_factory.mktemp("small")
    small_site.build(folder)
    return folder


@pytest.fixture
def small(small_folder: Path, settings: Settings) -> Path:
    """The pages show the small world, to readers only."""
    settings.PUBLIC_READ = False
    settings.DEMO_MAINTAINER = None
    settings.STREAM_CLOCK = True
    settings.SNAPSHOT_DIR = small_folder / "snapshots"
    return small_folder


@pytest.fixture
def webhook_key(settings: Settings) -> str:
    """The key with which messages to the webhook's receiver are signed, for a site with an address."""
    settings.WEBHOOK_KEY = "ab" * 32
    settings.CSRF_TRUSTED_ORIGINS = ["https://trust.example"]
    return settings.WEBHOOK_KEY


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a plain server that answers as it is told; it ends with the test."""
    with ExitStack() as started:
        yield lambda answer: started.enter_context(Peer(answer))


@pytest.fixture
def shown_site(
    live_server: LiveServer, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator["ActingSite"]:
    """Three fast-laned pull requests of a repository that is out of shadow mode, behind a real server."""
    from scoring.handlers.settings import switch_shadow
    from tests.ingest.stream.frames import REPO
    from tests.triage.worlds.lane_site import lane_site

    with lane_site(tmp_path, settings, monkeypatch) as made:
        switch_shadow(made.result.store, REPO, False, made.now)
        made.work()
        yield made
