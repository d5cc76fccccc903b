"""A password after the one-time link: who is asked for one, what it must be, and what guessing brings."""

from collections.abc import Generator

import pytest
from django.conf import global_settings
from django.contrib.auth.hashers import identify_hasher
from django.core.cache import cache
from django.test import Client
from pytest_django import Settings

from tests.triage.access.test_sign_in import ELSEWHERE
from triage.access import sign_in as passwords
from triage.access import throttle
from triage.access.sign_in import OLD, TWICE, WRONG, issue_link
from triage.models import Maintainer, Person

ANA, BEN = "did:plc:" + "a" * 24, "did:plc:" + "b" * 24
GOOD, OTHER = "seven lanterns at noon", "nine attics at midnight"
PAGE = "/sign-in/password"
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def quick_and_quiet(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """A hash that takes no time, a clock that stands, and no attempt before or after."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.PUBLIC_READ = False
    monkeypatch.setattr("triage.access.sign_in.time.time", lambda: 300.0 * 5_900_000 + 10)
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def ana() -> Person:
    """An admin of the site."""
    person = Person.objects.create(did=ANA, handle="ana.example")
    Maintainer.objects.create(person=person)
    return person


def with_password(person: Person, password: str = GOOD) -> Person:
    person.set_password(password)
    person.save()
    return person


def by_link(person: Person) -> Client:
    """A browser that came in by a one-time link."""
    client = Client()
    assert client.post(f"/sign-in/{issue_link(person)}").status_code == 302
    return client


def sign_in(name: str, password: str, **more: str) -> tuple[Client, int, str]:
    client = Client()
    answer = client.post("/sign-in", {"name": name, "password": password, **more})
    return client, answer.status_code, answer.content.decode()


def is_signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def test_the_first_link_of_a_maintainer_leads_to_the_password_and_then_on(ana: Person) -> None:
    client = Client()
    there = client.post(f"/sign-in/{issue_link(ana)}", {"next": "/dashboard"})
    assert there["Location"] == f"{PAGE}?next=%2Fdashboard"
    shown = client.get(there["Location"]).content.decode()
    assert "Your current password" not in shown
    assert 'href="/dashboard">Not now' in shown
    done = client.post(PAGE, {"password": GOOD, "again": GOOD, "next": "/dashboard"})
    assert (done.status_code, done["Location"]) == (302, "/dashboard")
    assert is_signed_in(client), "this session goes on"
    assert client.get(PAGE).status_code == 200


def test_somebody_who_has_one_or_maintains_nothing_is_not_asked(ana: Person) -> None:
    with_password(ana)
    ben = Person.objects.create(did=BEN)
    for person in (ana, ben):
        assert Client().post(f"/sign-in/{issue_link(person)}")["Location"] == "/"


@pytest.mark.parametrize("name", [ANA, "ana.example", "@Ana.Example", f" {ANA} "])
def test_handle_or_did_and_password_sign_in(ana: Person, name: str) -> None:
    with_password(ana)
    client, status, _ = sign_in(name, GOOD, next="/dashboard")
    assert (status, is_signed_in(client)) == (302, True)


@pytest.mark.parametrize("name", [ANA, "ana.example", "nobody.example", "", "a" * 5_000, "ana.example\x00"])
@pytest.mark.parametrize("password", ["", "wrong", GOOD.upper(), "x" * 100_000])
def test_a_wrong_pair_is_one_sentence_whoever_it_names(ana: Person, name: str, password: str) -> None:
    with_password(ana)
    client, status, shown = sign_in(name, password)
    assert (status, is_signed_in(client)) == (403, False)
    assert WRONG in shown
    assert name[:300].strip("\x00") in shown, "what was typed stands in its field"
    assert 'type="password" required autocomplete="current-password" maxlength="1000">' in shown


def test_without_a_password_nothing_typed_signs_in(ana: Person) -> None:
    for typed in ("", "!", "None"):
        assert sign_in(ANA, typed)[1] == 403


def test_an_account_that_is_switched_off_and_a_handle_of_two_name_nobody(ana: Person) -> None:
    with_password(ana)
    with_password(Person.objects.create(did=BEN, handle="ana.example"))
    assert sign_in("ana.example", GOOD)[1] == 403
    assert sign_in(BEN, GOOD)[1] == 302
    Person.objects.filter(did=BEN).update(is_active=False)
    assert sign_in(BEN, GOOD)[1] == 403
    assert sign_in("ana.example", GOOD)[1] == 302


def test_somebody_unknown_costs_the_same_work_as_a_wrong_password(ana: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    worked: list[str] = []
    monkeypatch.setattr(passwords, "make_password", lambda typed: worked.append(typed))
    assert sign_in("nobody.example", "guess")[1] == 403
    assert sign_in(ANA, "guess")[1] == 403
    assert worked == ["guess", "guess"]


@pytest.mark.parametrize(
    ("new", "sentence"),
    [
        ("short", "at least 12 characters"),
        ("123456789012345", "entirely numeric"),
        ("password1234", "too common"),
        ("ana.example.", "too similar to the handle"),
        ("x" * 2_000, "at most 1,000 characters"),
    ],
)
def test_a_password_that_is_easy_to_guess_is_refused_in_words(ana: Person, new: str, sentence: str) -> None:
    answer = by_link(ana).post(PAGE, {"password": new, "again": new})
    assert answer.status_code == 422
    assert sentence in answer.content.decode()
    ana.refresh_from_db()
    assert not ana.has_password


def test_two_that_differ_are_refused(ana: Person) -> None:
    answer = by_link(ana).post(PAGE, {"password": GOOD, "again": OTHER})
    assert (answer.status_code, TWICE in answer.content.decode()) == (422, True)


def test_a_new_password_asks_for_the_old_one_and_ends_every_other_session(ana: Person) -> None:
    with_password(ana)
    here, elsewhere = sign_in(ANA, GOOD)[0], sign_in(ANA, GOOD)[0]
    refused = here.post(PAGE, {"old": "wrong", "password": OTHER, "again": OTHER})
    assert (refused.status_code, OLD in refused.content.decode()) == (422, True)
    assert here.post(PAGE, {"old": GOOD, "password": OTHER, "again": OTHER}).status_code == 302
    assert here.get(PAGE).status_code == 200
    assert elsewhere.get(PAGE)["Location"].startswith("/sign-in?next=")
    assert (sign_in(ANA, GOOD)[1], sign_in(ANA, OTHER)[1]) == (403, 302)


def test_whoever_forgot_it_comes_by_a_link_and_sets_another(ana: Person) -> None:
    client = by_link(with_password(ana))
    assert client.post(PAGE, {"password": OTHER, "again": OTHER}).status_code == 302
    again = client.post(PAGE, {"password": GOOD, "again": GOOD})
    assert again.status_code == 422, "the link was good for one"


def test_nobody_sets_a_password_without_being_signed_in(client: Client) -> None:
    assert client.post(PAGE, {"password": GOOD, "again": GOOD})["Location"].startswith("/sign-in?next=")


@pytest.mark.parametrize("target", ELSEWHERE[:3])
def test_a_password_never_leads_to_another_site(ana: Person, target: str) -> None:
    client = Client()
    assert client.post(f"/sign-in/{issue_link(ana)}", {"next": target})["Location"] == f"{PAGE}?next=%2F"
    assert client.post(PAGE, {"password": GOOD, "again": GOOD, "next": target})["Location"] == "/"
    assert sign_in(ANA, GOOD, next=target)[0].get("/sign-in")["Location"] == "/"


def test_guessing_from_one_address_has_to_wait(ana: Person) -> None:
    with_password(ana)
    for _ in range(throttle.LIMIT):
        assert sign_in(ANA, "guess")[1] == 403
    assert sign_in(ANA, GOOD)[1] == 429


def test_guessing_from_many_addresses_shuts_the_password_of_that_account_alone(ana: Person) -> None:
    with_password(ana)
    ben = with_password(Person.objects.create(did=BEN))
    now = 300.0 * 5_900_000 + 10
    for _ in range(throttle.ACCOUNT_LIMIT):
        assert passwords.find_person(ANA, "guess", now) is None
    assert passwords.find_person(ANA, GOOD, now) is None
    assert passwords.find_person(BEN, GOOD, now) == ben
    assert is_signed_in(by_link(ana)), "a link still opens"
    assert passwords.find_person(ANA, GOOD, now + throttle.WINDOW_SECONDS) == ana


def test_a_password_is_kept_as_a_slow_salted_hash(ana: Person, settings: Settings) -> None:
    settings.PASSWORD_HASHERS = global_settings.PASSWORD_HASHERS
    with_password(ana)
    assert identify_hasher(ana.password).algorithm == "pbkdf2_sha256"
    assert GOOD not in ana.password


def test_no_password_is_written_to_the_log(ana: Person, caplog: pytest.LogCaptureFixture) -> None:
    with_password(ana)
    sign_in(ANA, "my-secret-guess")
    Client(enforce_csrf_checks=True).post("/sign-in", {"name": ANA, "password": "my-secret-guess"})
    assert "my-secret-guess" not in caplog.text


def test_the_forms_are_held_to_csrf(ana: Person) -> None:
    strict = Client(enforce_csrf_checks=True)
    assert strict.post("/sign-in", {"name": ANA, "password": GOOD}).status_code == 403
    assert strict.post(PAGE, {"password": GOOD, "again": GOOD}).status_code == 403


def test_a_session_that_was_stolen_sets_no_password_after_a_while(ana: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    client, now = by_link(ana), passwords.time.time()
    form = {"password": GOOD, "again": GOOD}
    monkeypatch.setattr("triage.access.sign_in.time.time", lambda: now + passwords.FRESH_SECONDS)
    shown = client.get(PAGE).content.decode()
    assert passwords.LATE in shown
    assert 'id="password"' not in shown
    assert client.post(PAGE, form).status_code == 422
    ana.refresh_from_db()
    assert not ana.has_password
    monkeypatch.setattr("triage.access.sign_in.time.time", lambda: now + passwords.FRESH_SECONDS - 1)
    assert client.post(PAGE, form).status_code == 302
    monkeypatch.setattr("triage.access.sign_in.time.time", lambda: now + passwords.FRESH_SECONDS)
    new = {"password": OTHER, "again": OTHER}
    assert OLD in client.post(PAGE, new).content.decode(), "the link lets nobody change it for ever"
    assert client.post(PAGE, new | {"old": GOOD}).status_code == 302
