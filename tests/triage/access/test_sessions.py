"""A drive that stops taking bytes just as a session is written: told in words, and nothing is half done."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.db import OperationalError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from triage.access.requests import SessionStore
from triage.access.sign_in import issue_link
from triage.middleware import UNKEPT, UNWRITABLE
from triage.models import Maintainer, Person, SignInMethod

pytestmark = pytest.mark.django_db
PASSWORD, NEW = "seven lanterns at noon", "nine attics at midnight"
INSERT, UPDATE, DELETE = 'INSERT INTO "django_session"', 'UPDATE "django_session"', 'DELETE FROM "django_session"'


@pytest.fixture
def ana(settings: Settings) -> Person:
    """An admin of the site with a password, whose hash takes no time."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    cache.clear()
    person = Person.objects.create(did="did:plc:" + "a" * 24, handle="ana.example")
    person.set_password(PASSWORD)
    person.save()
    Maintainer.objects.create(person=person)
    return person


@contextmanager
def takes_nothing_from(statement: str) -> Generator[None]:
    """From the first statement that begins so the file takes nothing; SQLite itself refuses it."""

    def watch(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if sql.startswith(statement):
            switch("on")
        return execute(sql, *rest)

    with connection.execute_wrapper(watch):
        yield
    if connection.needs_rollback:  # what failed outside of a transaction meets the test's own
        transaction.set_rollback(False)
    with connection.cursor() as cursor:
        assert cursor.execute("pragma query_only").fetchone() == (1,), "it was never written"
    switch("off")


def switch(state: str) -> None:
    assert connection.connection is not None
    connection.connection.execute(f"pragma query_only = {state}")


def signed_in(person: Person) -> Client:
    client = Client()
    assert client.post(f"/sign-in/{issue_link(person)}").status_code == 302
    return client


def is_signed_in(client: Client) -> bool:
    return client.get("/sign-in").status_code == 302


def assert_told(answer: Any, words: str) -> None:
    assert (answer.status_code, answer.content.decode()) == (503, words)
    assert (answer["Retry-After"], answer["Cache-Control"]) == ("10", "no-store")
    assert "sessionid" not in answer.cookies, "the browser goes on with what it had"


@pytest.mark.parametrize("statement", [INSERT, UPDATE])
def test_a_link_is_not_spent_where_the_session_cannot_be_written(ana: Person, statement: str) -> None:
    client, path = Client(), f"/sign-in/{issue_link(ana)}"
    with takes_nothing_from(statement):
        assert_told(client.post(path), UNWRITABLE)
    assert not SignInMethod.objects.filter(used_at__isnull=False).exists()
    assert not is_signed_in(client)
    assert client.post(path).status_code == 302
    assert is_signed_in(client)


@pytest.mark.parametrize("statement", [INSERT, UPDATE])
def test_a_sign_in_by_password_is_done_or_told_as_not_done(ana: Person, statement: str) -> None:
    client, typed = Client(), {"name": "ana.example", "password": PASSWORD}
    with takes_nothing_from(statement):
        assert_told(client.post("/sign-in", typed), UNWRITABLE)
    assert Session.objects.count() == 0
    assert client.post("/sign-in", typed).status_code == 302


@pytest.mark.parametrize("statement", [INSERT, UPDATE, DELETE])
def test_a_password_stays_as_it_was_where_the_session_cannot_follow_it(ana: Person, statement: str) -> None:
    client = signed_in(ana)
    with takes_nothing_from(statement):
        assert_told(client.post("/sign-in/password", {"password": NEW, "again": NEW}), UNWRITABLE)
    ana.refresh_from_db()
    assert ana.check_password(PASSWORD)
    assert is_signed_in(client)
    assert client.post("/sign-in/password", {"password": NEW, "again": NEW}).status_code == 302


def test_a_sign_out_that_could_not_be_done_leaves_the_browser_signed_in_too(ana: Person) -> None:
    client = signed_in(ana)
    with takes_nothing_from(DELETE):
        assert_told(client.post("/sign-out"), UNWRITABLE)
    assert is_signed_in(client)
    client.post("/sign-out")
    assert not is_signed_in(client)


def test_a_session_that_cannot_be_written_after_the_view_says_that_its_work_may_be_done(
    ana: Person, caplog: pytest.LogCaptureFixture
) -> None:
    client = signed_in(ana)
    with takes_nothing_from(UPDATE):
        assert_told(client.post("/setup/find", {"who": "no handle"}), UNKEPT)
    assert "a session cannot be written" in caplog.text
    assert is_signed_in(client)


def test_what_was_kept_with_the_view_is_not_written_again_after_it(ana: Person) -> None:
    with CaptureQueriesContext(
        connection,
    ) as told:
        client = signed_in(ana)
    written = [one["sql"][: len(INSERT)] for one in told if "django_session" in one["sql"]]
    assert [sql.split()[0] for sql in written if not sql.startswith("SELECT")] == ["INSERT", "UPDATE"]
    assert client.session["signed_in_by_link"] is True


def test_what_changes_after_it_was_kept_is_written_all_the_same() -> None:
    session = SessionStore()
    session["one"] = {"inner": 1}
    session.keep()
    session["one"]["inner"] = 2
    session.save()
    assert SessionStore(session.session_key)["one"] == {"inner": 2}


def test_a_session_that_somebody_ended_meanwhile_is_no_fault_of_the_drive() -> None:
    session = SessionStore()
    session.create()
    Session.objects.all().delete()
    with pytest.raises(UpdateError):
        session.save()
    session.create()
    with takes_nothing_from(UPDATE), pytest.raises(OperationalError, match="readonly"):
        session.save()
