"""A small real snapshot, made once for all tests of the pages."""

from pathlib import Path

import pytest
from pytest_django import Settings

from tests.triage import small_site


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
