"""The simulated network in all its variants, each played once."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.attacks.played import Play, Played
from tests.pipeline import OPEN_LANE, Result, opened, run
from trustsite.world import build_world


@pytest.fixture(scope="package", name="play")
def play_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    """`play(without=…)`: that variant of the world, judged with a fast lane from .60 on; each is played once."""
    done: dict[tuple[str, ...], Played] = {}
    with ExitStack() as stack:

        def play(*, without: tuple[str, ...] = ()) -> Played:
            if without not in done:
                world = build_world(without=without)
                folder = tmp_path_factory.mktemp("world")
                context = run(
                    world.recording, folder, world.watched.values(), [world.cast["ana"]], world.stages, OPEN_LANE
                )
                done[without] = Played(world, stack.enter_context(context))
            return done[without]

        yield play


@pytest.fixture(scope="package", name="full")
def full_fixture(play: Play) -> Played:
    """The world with all its attacks."""
    return play()


@pytest.fixture(scope="package", name="base")
def base_fixture(full: Played, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed copy of the full world's store, to go on from."""
    folder = tmp_path_factory.mktemp("base")
    full.result.store.checkpoint()
    shutil.copy(full.result.store.path, folder / "trust.duckdb")
    return folder


@pytest.fixture(name="after")
def after_fixture(base: Path, tmp_path: Path) -> Iterator[Result]:
    """That copy, opened: what is fed to it comes after everything else."""
    shutil.copy(base / "trust.duckdb", tmp_path / "trust.duckdb")
    with opened(tmp_path, OPEN_LANE) as result:
        yield result
