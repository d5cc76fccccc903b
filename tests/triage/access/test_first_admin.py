"""The first admin of an empty site: by the operator's code or by name, and nobody else."""

from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from marshmallow import ValidationError
from pytest_django import Settings

from tests.ingest.stream.frames import ANA, MALLORY, STRANGER
from tests.triage.access.people import admin, enter, is_in, somebody, text
from triage.access.admission import (
    SignInProblem,
    become_first_admin,
    check_code,
    let_in,
    make_code,
)
from triage.access.permissions import Role, has_admin, role_of
from triage.access.sign_in import issue_link
from triage.access.tokens import secret_hash
from triage.models import Change, FirstAdminCode, Maintainer
from trustsite.management.commands.worker import Command as WorkerCommand
from trustsite.validation import account

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("small", "nothing_counted")]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def printed_code() -> str:
    printed = StringIO()
    call_command("first_admin", stdout=printed, stderr=StringIO())
    return printed.getvalue().strip()


def test_whoever_comes_first_owns_nothing_without_the_operators_code() -> None:
    stranger = enter(STRANGER)
    assert "no admin yet" in text(stranger.get("/me"))
    assert stranger.get("/setup").status_code == 403
    printed_code()
    assert stranger.post("/begin/code", {"code": "aaaaa-bbbbb-ccccc-ddddd"}).status_code == 403
    assert not Maintainer.objects.exists()


def test_the_operator_begins_with_the_code_and_their_own_account(settings: Settings) -> None:
    code, browser = printed_code(), Client()
    settings.STAGED = "a demo"
    assert "This site has no admin yet" not in text(browser.get("/sign-in"))
    settings.STAGED = ""
    assert "This site has no admin yet" in text(browser.get("/sign-in"))
    assert browser.get("/begin").status_code == 200
    sent = browser.post("/begin/code", {"code": f" {code.upper()} "})
    assert sent["Location"] == "/sign-in?next=%2Fsetup"
    assert "The code is right." in text(browser.get(sent["Location"]))
    assert not Maintainer.objects.exists()
    enter(ANA, browser, next="/setup")
    assert role_of(somebody(ANA), "") is Role.ADMIN
    assert f'value="{ANA}"' in text(browser.get("/setup")), "whose repositories is filled in"
    assert Change.objects.get(what="role.changed").person is None
    assert browser.get("/begin").status_code == 302


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def printed_by_worker(out: StringIO) -> str:
    WorkerCommand(stdout=out, stderr=out)._offer_first_admin()
    return out.getvalue()


def test_the_worker_prints_a_code_at_its_start_until_somebody_is_admin(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    settings.FIRST_ADMIN = ANA
    assert printed_by_worker(Terminal()) == ""
    settings.FIRST_ADMIN = ""
    lines = printed_by_worker(Terminal()).splitlines()
    assert len(lines) == 1
    code = lines[0].rpartition(" ")[2]
    assert "/begin within 15 minutes" in lines[0]
    assert code not in caplog.text
    browser = Client()
    assert browser.post("/begin/code", {"code": code})["Location"] == "/sign-in?next=%2Fsetup"
    enter(ANA, browser)
    assert role_of(somebody(ANA), "") is Role.ADMIN
    assert printed_by_worker(Terminal()) == ""


def test_where_what_the_worker_prints_is_kept_by_others_it_prints_no_code() -> None:
    printed = printed_by_worker(StringIO())
    assert printed == "This site has no admin yet. `manage.py first_admin` prints a code that makes you admin.\n"
    assert not FirstAdminCode.objects.exists()


def test_whoever_is_signed_in_already_types_the_code_and_is_admin() -> None:
    ana = enter(ANA)
    assert "This account becomes the admin." in text(ana.get("/begin"))
    assert ana.post("/begin/code", {"code": printed_code()})["Location"] == "/setup"
    assert role_of(somebody(ANA), "") is Role.ADMIN


def test_a_code_makes_one_admin_once() -> None:
    code = printed_code()
    first, second = Client(), Client()
    for browser in (first, second):
        assert browser.post("/begin/code", {"code": code}).status_code == 302
    enter(ANA, first)
    late = second.post(f"/sign-in/{issue_link(somebody(MALLORY))}")
    assert (late.status_code, is_in(second)) == (409, False)
    assert "This site has an admin already." in text(late)
    assert [row.person.did for row in Maintainer.objects.all()] == [ANA]
    assert Client().post("/begin/code", {"code": code}).status_code == 403
    with pytest.raises(CommandError, match="has an admin already"):
        printed_code()
    Maintainer.objects.all().delete()
    assert Client().post("/begin/code", {"code": code}).status_code == 403, "it was spent"


def test_a_code_ends_after_its_minutes_and_with_the_next_one_and_only_its_hash_is_kept() -> None:
    first = make_code(NOON)
    end = NOON + timedelta(minutes=15)
    check_code(first, end - timedelta(seconds=1))
    with pytest.raises(SignInProblem, match="too old"):
        check_code(first, end)
    with pytest.raises(SignInProblem, match="too old"):
        become_first_admin(somebody(ANA), secret_hash(first.replace("-", "")), end)
    second = make_code(NOON)
    with pytest.raises(SignInProblem):
        check_code(first, NOON)
    kept = FirstAdminCode.objects.values_list().get()
    assert len(second.replace("-", "")) == 20
    assert second not in repr(kept)
    assert second.replace("-", "") not in repr(kept)
    assert not has_admin()


def test_a_code_is_not_guessed_and_not_sent_by_another_site() -> None:
    code, guesser = printed_code(), Client()
    tries = [guesser.post("/begin/code", {"code": f"guess {number}"}).status_code for number in range(21)]
    assert tries[0] == 403
    assert tries[-1] == 429
    waiting = guesser.post("/begin/code", {"code": code})
    assert (waiting.status_code, "Retry-After" in waiting) == (429, True)
    assert Client(enforce_csrf_checks=True).post("/begin/code", {"code": code}).status_code == 403
    assert guesser.get("/begin/code").status_code == 405


@pytest.mark.parametrize(
    ("named", "did", "stored", "proven", "becomes"),
    [
        (ANA, ANA, "", None, True),
        (ANA, MALLORY, "ana.example", "ana.example", False),
        ("ana.example", ANA, "", "ana.example", True),
        ("Ana.Example", ANA, "", "ana.example", True),
        ("ana.example", MALLORY, "ana.example", None, False),  # a stored handle may be another's by now
        ("ana.example", MALLORY, "ana.example", "mallory.example", False),
        ("", MALLORY, "", "mallory.example", False),
    ],
)
def test_the_named_first_admin_becomes_it_by_a_proven_did_or_handle_alone(
    settings: Settings, named: str, did: str, stored: str, proven: str | None, becomes: bool
) -> None:
    settings.FIRST_ADMIN = named
    person = somebody(did, handle=stored)
    let_in(person, None, NOON, proven)
    assert (role_of(person, "") is Role.ADMIN) is becomes
    assert has_admin() is becomes


def test_the_named_first_admin_is_one_only_while_there_is_none(settings: Settings) -> None:
    settings.FIRST_ADMIN, settings.SIGN_IN = ANA, "invited"
    admin()
    browser = enter(ANA)
    assert not is_in(browser)
    assert role_of(somebody(ANA), "") is Role.NOBODY


@pytest.mark.parametrize("named", ["ana", "did:plc:short", "ana example", "at://ana.example"])
def test_a_first_admin_that_is_no_account_is_refused_at_the_start(named: str) -> None:
    with pytest.raises(ValidationError, match="not a handle such as"):
        account(named)


def test_the_settings_take_a_handle_a_did_or_nothing() -> None:
    for named in ("", "ana.example.com", ANA):
        account(named)
