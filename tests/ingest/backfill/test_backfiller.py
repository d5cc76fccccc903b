"""The thread that works off backfills: what it says when it cannot go on, and what follows an error in the program."""

import threading
from pathlib import Path

import pytest

from ingest.backfill import turn
from ingest.backfill.turn import Backfiller, BackfillProblem
from ingest.store.database import Store
from tests.ingest.backfill.backfilled import sources
from tests.ingest.stream.frames import at
from tests.waiting import LONG_SECONDS, wait_for


def test_a_backfill_that_cannot_go_on_says_why_until_it_does(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: list[BackfillProblem | None] = [BackfillProblem("no backfill host answered")]

    def take_turn(*_: object) -> None:
        if outcomes and (problem := outcomes.pop()):
            raise problem

    monkeypatch.setattr(turn, "take_turn", take_turn)
    monkeypatch.setattr(turn, "LOOK_SECONDS", 0.2)
    backfiller = Backfiller(store, sources("http://127.0.0.1:1", tmp_path, at(0)), lambda: True, lambda: None)
    backfiller.start()
    wait_for(lambda: backfiller.problem == "no backfill host answered")
    wait_for(lambda: backfiller.problem is None)
    backfiller.stop()
    assert not backfiller.is_alive()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_backfill_that_ended_by_an_error_goes_on_in_a_new_thread(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, went_on = [ZeroDivisionError()], threading.Event()

    def take_turn(*_: object) -> None:
        if turns:
            raise turns.pop()
        went_on.set()

    monkeypatch.setattr(turn, "take_turn", take_turn)
    monkeypatch.setattr(turn, "LOOK_SECONDS", 0.05)
    ended = Backfiller(store, sources("http://127.0.0.1:1", tmp_path, at(0)), lambda: True, lambda: None)
    ended.start()
    ended.join(LONG_SECONDS)
    assert not ended.is_alive()
    again = ended.renewed()
    again.start()
    assert went_on.wait(LONG_SECONDS)
    again.stop()
