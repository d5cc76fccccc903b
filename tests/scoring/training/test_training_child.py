"""Training beside the worker: started when it is time, one at a time, and waited for by nobody."""

import logging
import sys
from pathlib import Path

import pytest
from pytest_django import Settings

from scoring.tasks import train_again
from scoring.training.process import DAY_SECONDS, STARTED, TrainingChild, note_end
from tests.waiting import LONG_SECONDS

NOW = 1_800_000_000.0
WEEK = 7 * DAY_SECONDS


def command(words: str) -> tuple[str, ...]:
    return sys.executable, "-S", "-c", words


def ended(child: TrainingChild) -> int:
    assert child._child is not None
    return child._child.wait(LONG_SECONDS)


@pytest.fixture(name="child")
def child_fixture(tmp_path: Path) -> TrainingChild:
    return TrainingChild(tmp_path / "models", tmp_path / "logs" / "train.log")


def test_a_training_begins_when_its_days_have_passed_also_after_a_restart(child: TrainingChild) -> None:
    assert child.follow(command("print('words')"), 7, NOW)
    assert ended(child) == 0
    assert child.log.read_text() == "words\n"
    assert not child.follow(command(""), 7, NOW + 60)
    again = TrainingChild(child.folder, child.log)
    assert not again.follow(command(""), 7, NOW + WEEK - 1)
    assert again.follow(command(""), 7, NOW + WEEK)
    assert ended(again) == 0


def test_none_begins_while_another_runs(child: TrainingChild) -> None:
    assert child.follow(command("import signal; signal.pause()"), 1, NOW)
    assert not child.follow(command(""), 1, NOW + WEEK)
    assert child._child is not None
    child._child.kill()
    assert ended(child) == -9
    assert child.follow(command(""), 1, NOW + WEEK)
    assert ended(child) == 0


def test_a_training_that_nobody_saw_end_begins_again_at_the_next_chance(child: TrainingChild) -> None:
    assert child.follow(command("import os; os.kill(os.getpid(), 9)"), 7, NOW)
    assert ended(child) == -9
    after_a_power_cut = TrainingChild(child.folder, child.log)
    assert after_a_power_cut.follow(command(""), 7, NOW + 60)
    assert ended(after_a_power_cut) == 0


def test_a_child_that_outlives_its_worker_is_not_joined_by_another_and_says_itself_that_it_ended(
    child: TrainingChild,
) -> None:
    assert child.follow(command("import signal; signal.pause()"), 7, NOW)
    other = TrainingChild(child.folder, child.log)
    assert not other.follow(command(""), 7, NOW + WEEK)
    assert child._child is not None
    child._child.kill()
    assert ended(child) == -9
    note_end(child.folder, NOW + 30)
    assert not other.follow(command(""), 7, NOW + WEEK - 1)
    assert other.follow(command(""), 7, NOW + WEEK)
    assert ended(other) == 0


def test_zero_days_are_never(child: TrainingChild) -> None:
    assert not child.follow(command(""), 0, NOW)
    assert not child.folder.exists()


def test_a_child_that_is_killed_is_told_and_ends_nothing_else(
    child: TrainingChild, caplog: pytest.LogCaptureFixture
) -> None:
    assert child.follow(command("import os; os.kill(os.getpid(), 9)"), 7, NOW)
    assert ended(child) == -9
    with caplog.at_level(logging.ERROR):
        assert not child.follow(command(""), 7, NOW + 60)
    assert [one.getMessage() for one in caplog.records] == [
        f"Training ended with -9; what served goes on serving. Its last words are in {child.log}"
    ]


def test_what_cannot_be_started_is_told(child: TrainingChild, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert not child.follow(("/nonexistent/python",), 7, NOW)
    assert "Training could not be started" in caplog.text
    assert (child.folder / STARTED).exists()
    assert not child.follow(command(""), 7, NOW + 3600), "and is not tried every hour"


@pytest.mark.parametrize("recorded", [True, False])
def test_neither_a_recording_nor_what_was_never_published_is_trained_on(
    tmp_path: Path, settings: Settings, recorded: bool
) -> None:
    settings.STREAM_CLOCK = recorded
    settings.SNAPSHOT_DIR, settings.MODEL_DIR = tmp_path / "snapshots", tmp_path / "models"
    train_again.call_local()
    assert not settings.MODEL_DIR.exists()
