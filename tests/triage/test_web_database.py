"""The web's own database: one connection a thread, which is left when another file lies there."""

import os
from pathlib import Path
from threading import local

import pytest
from django.core.management import call_command
from django.http import HttpResponse
from django.test import RequestFactory
from pytest_django import Settings

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


def test_a_file_that_was_moved_aside_is_left_once_the_transaction_in_it_has_ended(
    held: Connection, tmp_path: Path
) -> None:
    replace(tmp_path / "web.sqlite3")
    middleware.leave_replaced_database()
    replace(tmp_path / "web.sqlite3")
    held.in_atomic_block = True
    middleware.leave_replaced_database()
    assert held.closed == 0
    assert not middleware.is_known_database()
    held.in_atomic_block = False
    middleware.leave_replaced_database()
    assert held.closed == 1


def test_the_file_that_a_thread_uses_says_that_the_drive_is_there(held: Connection, tmp_path: Path) -> None:
    path = tmp_path / "web.sqlite3"
    assert not middleware.is_known_database(), "nothing was made yet"
    path.write_text("first")
    assert not middleware.is_known_database(), "this thread never used it"
    middleware.leave_replaced_database()
    assert middleware.is_known_database()
    replace(path)
    assert not middleware.is_known_database()
    middleware.leave_replaced_database()
    path.unlink()
    assert not middleware.is_known_database()


def test_what_lies_under_a_drive_that_is_gone_is_never_taken_for_the_site(
    held: Connection, tmp_path: Path, settings: Settings
) -> None:
    settings.MARK_PATH, answered = tmp_path / ".sunstead", HttpResponse("from the site")
    drive = middleware.DriveMiddleware(lambda request: answered)
    request = RequestFactory().get("/score/did:plc:ana")
    settings.MARK_PATH.touch()
    (tmp_path / "web.sqlite3").write_text("on the drive")
    assert [drive(request) for _ in range(2)] == [answered, answered]
    settings.MARK_PATH.unlink()
    replace(tmp_path / "web.sqlite3")
    assert [drive(request).status_code for _ in range(3)] == [503, 503, 503]
    assert held.closed == 0


@pytest.mark.django_db
def test_the_migrations_lead_to_the_models() -> None:
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)
