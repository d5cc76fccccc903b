"""The simulated network in all its variants, each played once."""

import pickle
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from tests.attacks.played import SWAPS, Play, Played, play_swaps
from tests.conftest import for_all_workers, simulated_network
from tests.pipeline import OPEN_LANE, Result, opened, run
from trustsite.world import World, build_world


@pytest.fixture(scope="package", name="base")
def base_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The closed store of the world with all its attacks, played once: whoever goes on takes a copy.

    Beside it lies what was shown of the pull requests whose patch was swapped.
    """

    def make(folder: Path) -> None:
        world = simulated_network()
        first, watched, maintainers = world.stages[:1], world.watched.values(), [world.cast["ana"]]
        with run(world.recording, folder, watched, maintainers, first, OPEN_LANE) as result:
            (folder / SWAPS).write_bytes(pickle.dumps(play_swaps(world, result)))

    return for_all_workers("attacked-world", make, tmp_path_factory)


@pytest.fixture(scope="package", name="full")
def full_fixture(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """That world."""
    with opened(shutil.copytree(base, tmp_path_factory.mktemp("full") / "world"), OPEN_LANE) as result:
        yield Played(simulated_network(), result)


@pytest.fixture(scope="package", name="play")
def play_fixture(full: Played, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    """`play(without=…)`: that variant of the world, judged with a fast lane from .60 on; each is played once."""
    done: dict[tuple[str, ...], Played] = {(): full}
    with ExitStack() as stack:

        def play(*, without: tuple[str, ...] = ()) -> Played:
            if without not in done:
                world = build_world(without=without)
                done[without] = Played(world, stack.enter_context(played(world, tmp_path_factory.mktemp("world"))))
            return done[without]

        yield play


def played(world: World, folder: Path) -> AbstractContextManager[Result]:
    """A world played stage by stage to its end."""
    return run(world.recording, folder, world.watched.values(), [world.cast["ana"]], world.stages, OPEN_LANE)


@pytest.fixture(name="after")
def after_fixture(base: Path, tmp_path: Path) -> Iterator[Result]:
    """That copy, opened: what is fed to it comes after everything else."""
    shutil.copy(base / "trust.duckdb", tmp_path / "trust.duckdb")
    with opened(tmp_path, OPEN_LANE) as result:
        yield result
