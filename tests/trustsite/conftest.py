"""A drive that `init_drive` made, and a copy of it for each test."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import Manage, for_all_workers


@pytest.fixture(scope="session")
def made_drive(manage: Manage, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The drive as `init_drive` leaves it: each start of that command takes 1.2 s of CPU. Nobody may write to it."""

    def make(root: Path) -> None:
        done = manage("init_drive", DATA_ROOT=root)
        assert done.returncode == 0, done.stderr

    return for_all_workers("made-drive", make, tmp_path_factory)


@pytest.fixture(name="new_drive")
def new_drive_fixture(made_drive: Path, tmp_path: Path) -> Path:
    """A copy of that drive for one test."""
    return shutil.copytree(made_drive, tmp_path / "drive")
