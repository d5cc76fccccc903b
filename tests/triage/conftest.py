"""A small real snapshot, made once for all tests of the pages."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright
from pytest_django import Settings

from tests.triage import small_site
from tests.waiting import PATIENT_MS

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
def browser(chromium: str) -> Iterator[Browser]:
    """One for all tests of a file, whose windows share nothing: a start takes 1 s of CPU.

    While Playwright's loop runs in this thread, Django refuses to touch a database unless it is told that nobody does
    so within the loop.
    """
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        expect.set_options(timeout=PATIENT_MS)
        yield playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)


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
