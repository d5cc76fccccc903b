"""A store for one test, and the simulated network at its end for those that only read."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import for_all_workers, simulated_network
from tests.pipeline import OPEN_LANE, Result, opened, prepared, run
from tests.scoring.offered import one_open
from trustsite.world import World


@pytest.fixture(name="result")
def result_fixture(tmp_path: Path) -> Iterator[Result]:
    """An empty store, judged with the default policy."""
    with opened(tmp_path) as result:
        yield result


@pytest.fixture(name="queued")
def queued_fixture(tmp_path: Path) -> Iterator[Result]:
    """One open pull request of mara's to seed's watched repository, with a small clean patch."""
    with prepared(tmp_path, one_open) as result:
        yield result


@pytest.fixture(scope="session", name="world")
def world_fixture() -> World:
    """The simulated network."""
    return simulated_network()


@pytest.fixture(scope="session", name="ended")
def ended_fixture(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The closed store of its end, judged with a fast lane from .60 on: played once, and copied by each file."""

    def make(folder: Path) -> None:
        with run(world.recording, folder, world.watched.values(), [world.cast["ana"]], policy=OPEN_LANE):
            pass

    return for_all_workers("ended-world", make, tmp_path_factory)


@pytest.fixture(scope="module", name="played")
def played_fixture(ended: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Result]:
    """A copy of that store for the tests of one file."""
    with opened(shutil.copytree(ended, tmp_path_factory.mktemp("played") / "world"), OPEN_LANE) as result:
        yield result
