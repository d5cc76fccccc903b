"""Failed attempts to sign in are counted by address, and what they tried stays out of the log."""

from collections.abc import Generator

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from triage.access import throttle
from triage.access.sign_in import issue_link, use_link
from triage.models import Person

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def no_attempts() -> Generator[None]:
    """Nobody tried yet, and nobody tried for the tests that follow."""
    cache.clear()
    yield
    cache.clear()


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time stands, so that no window ends within a test."""
    monkeypatch.setattr("triage.access.sign_in.time.time", lambda: 300.0 * 5_900_000 + 10)


@pytest.fixture
def ana() -> Person:
    """Someone with an account."""
    return Person.objects.create(did="did:plc:ana222222222222222222222")


def link_address(token: str) -> str:
    """Where the sign-in link leads."""
    return reverse("sign_in_link", args=[token])


def test_the_site_waits_after_too_many_attempts_from_one_address(client: Client, ana: Person) -> None:
    for _ in range(throttle.LIMIT):
        assert client.post(reverse("sign_in"), {"link": "made-up"}).status_code == 403
    good = issue_link(ana)
    for answer in (client.post(link_address(good)), client.get(link_address(good))):
        assert answer.status_code == 429
        assert 1 <= int(answer["Retry-After"]) <= throttle.WINDOW_SECONDS
        assert "Too many sign-in attempts" in answer.content.decode()
    assert client.post(link_address(good), REMOTE_ADDR="192.0.2.7").status_code == 302


def test_links_that_are_good_are_not_counted(client: Client, ana: Person) -> None:
    for _ in range(throttle.LIMIT + 1):
        address = link_address(issue_link(ana))
        assert client.get(address).status_code == 200
        assert Client().post(address).status_code == 302
    assert client.post(reverse("sign_in"), {"link": issue_link(ana)}).status_code == 302


def test_the_window_of_the_throttle_opens_again() -> None:
    start = 300.0 * 5_900_000
    for _ in range(throttle.LIMIT):
        assert throttle.seconds_to_wait("test", "192.0.2.1", start + 10) == 0
        throttle.count_failure("test", "192.0.2.1", start + 10)
    assert throttle.seconds_to_wait("test", "192.0.2.1", start + 10) == 290
    assert throttle.seconds_to_wait("test", "192.0.2.2", start + 10) == 0
    assert throttle.seconds_to_wait("test", "192.0.2.1", start + 300) == 0


def test_one_ipv6_subscriber_counts_as_one_address() -> None:
    assert throttle.network_of("2001:db8::1") == throttle.network_of("2001:db8::ffff") != throttle.network_of("::1")
    assert throttle.network_of("192.0.2.1") != throttle.network_of("192.0.2.2")
    assert throttle.network_of("") == "unknown"


def test_no_link_is_written_to_the_log(ana: Person, caplog: pytest.LogCaptureFixture) -> None:
    strict = Client(enforce_csrf_checks=True)
    token = issue_link(ana)
    strict.post(link_address(token))
    use_link(token, timezone.now())
    for _ in range(throttle.LIMIT + 1):
        strict.get(link_address(token))
    assert "CSRF cookie not set" in caplog.text
    assert "Too Many Requests: /sign-in/(hidden)" in caplog.text
    assert token not in caplog.text
