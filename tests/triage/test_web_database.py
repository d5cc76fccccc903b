"""The web's own database: one connection a thread, which is left when another file lies there."""

import os
from pathlib import Path
from threading import local

import pytest

from triage import middleware


class Connection:
    """What a thread holds open."""

    def __init__(self, path: Path) -> None:
        self.settings_dict = {"NAME": path}
        self.in_atomic_block = False
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Connection:
    made = Connection(tmp_path / "web.sqlite3")
    monkeypatch.setattr(middleware, "connection", made)
    monkeypatch.setattr(middleware, "_opened", local())
    return made


def replace(path: Path) -> None:
    """What a restore does: another file takes the name, while the one before it still lies somewhere."""
    if path.exists():
        path.rename(path.with_suffix(".aside"))
    path.write_text("another")


def test_a_connection_is_kept_for_as_long_as_the_same_file_lies_there(held: Connection, tmp_path: Path) -> None:
    path = tmp_path / "web.sqlite3"
    middleware.leave_replaced_database()  # before it was made
    path.write_text("first")
    for _ in range(3):
        middleware.leave_replaced_database()
        path.write_text("rows come and go")
    os.utime(path, (1, 1))
    middleware.leave_replaced_database()
    assert held.closed == 0


def test_after_a_restore_no_thread_goes_on_in_the_file_that_was_moved_aside(held: Connection, tmp_path: Path) -> None:
    replace(tmp_path / "web.sqlite3")
    middleware.leave_replaced_database()
    replace(tmp_path / "web.sqlite3")
    for _ in range(3):
        middleware.leave_replaced_database()
    assert held.closed == 1
