"""Signing in, signing out, and what the one-time link, the demo's button and `next` do not let through."""

from collections.abc import Generator
from datetime import UTC, datetime, timedelta

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from triage.access import sign_in, tokens
from triage.access.permissions import Role, roles_of
from triage.access.sign_in import SignInProblem, check_link, issue_link, use_link
from triage.models import Person, SignInMethod

ANA = "did:plc:ana222222222222222222222"
MALLORY = "did:plc:mallory2222222222222222"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ELSEWHERE = [
    "https://evil.example/",
    "//evil.example/",
    "///evil.example",
    "/\\evil.example",
    "http:evil.example",
    "javascript:alert(1)",
    "/\t/evil.example",
    " /leaderboard",
    "evil.example",
]

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def quiet_site(settings: Settings) -> Generator[None]:
    """Reading is closed, nothing is a demo, and no attempt is counted before or left behind."""
    settings.PUBLIC_READ = False
    settings.DEMO_MAINTAINER = None
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def ana() -> Person:
    """Someone with an account."""
    return Person.objects.create(did=ANA, handle="ana.example")


@pytest.fixture
def strict() -> Client:
    """A browser that is held to CSRF."""
    return Client(enforce_csrf_checks=True)


def link_address(token: str) -> str:
    """Where the sign-in link leads."""
    return reverse("sign_in_link", args=[token])


def signed_in_as(client: Client) -> str | None:
    """Primary key of the person whose session this is."""
    return client.session.get("_auth_user_id")


def test_a_link_signs_in_by_post_and_leads_to_the_queue(client: Client, ana: Person) -> None:
    answer = client.post(link_address(issue_link(ana)))
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert signed_in_as(client) == str(ana.pk)


def test_opening_a_link_shows_a_page_and_spends_nothing(client: Client, ana: Person) -> None:
    token = issue_link(ana)
    for _ in range(3):
        answer = client.get(link_address(token))
        assert answer.status_code == 200
        assert "no-store" in answer["Cache-Control"]
    assert signed_in_as(client) is None
    assert use_link(token, timezone.now()) == ana


def test_a_link_works_once(client: Client, ana: Person) -> None:
    token = issue_link(ana)
    client.post(link_address(token))
    again = Client().post(link_address(token))
    assert again.status_code == 410
    assert "This sign-in link was already used." in again.content.decode()
    assert Client().get(link_address(token)).status_code == 410


def test_of_two_who_checked_the_same_link_only_the_first_to_spend_it_gets_in(
    ana: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = issue_link(ana, now=NOON)
    seen_fresh = check_link(token, NOON)
    use_link(token, NOON)
    monkeypatch.setattr(sign_in, "check_link", lambda token, now: seen_fresh)
    with pytest.raises(SignInProblem) as refused:
        use_link(token, NOON)
    assert refused.value.status == 410


def test_a_link_dies_after_its_minutes(ana: Person) -> None:
    token = issue_link(ana, minutes=15, now=NOON)
    assert check_link(token, NOON + timedelta(minutes=15) - timedelta(seconds=1)).person == ana
    with pytest.raises(SignInProblem, match="has expired") as refused:
        use_link(token, NOON + timedelta(minutes=15))
    assert refused.value.status == 410
    assert SignInMethod.objects.get().used_at is None


def test_an_expired_link_says_so_in_one_sentence(client: Client, ana: Person) -> None:
    token = issue_link(ana, now=timezone.now() - timedelta(minutes=16))
    for answer in (client.get(link_address(token)), client.post(link_address(token))):
        assert answer.status_code == 410
        assert "This sign-in link has expired." in answer.content.decode()
    assert signed_in_as(client) is None


def test_a_made_up_link_is_refused(client: Client, ana: Person) -> None:
    issue_link(ana)
    answer = client.post(link_address("made-up"))
    assert answer.status_code == 403
    assert "not one of ours" in answer.content.decode()
    assert client.get(link_address("made-up")).status_code == 403


def test_a_link_of_an_account_that_is_switched_off_is_refused(ana: Person) -> None:
    token = issue_link(ana, now=NOON)
    Person.objects.update(is_active=False)
    with pytest.raises(SignInProblem) as refused:
        use_link(token, NOON)
    assert refused.value.status == 403


def test_switching_an_account_off_ends_its_sessions(client: Client, ana: Person) -> None:
    client.post(link_address(issue_link(ana)))
    Person.objects.update(is_active=False)
    assert client.get(reverse("leaderboard")).status_code == 302


def test_only_the_hash_of_a_link_is_kept(ana: Person) -> None:
    token = issue_link(ana)
    kept = SignInMethod.objects.values_list().get()
    assert tokens.secret_hash(token) in kept
    assert token not in repr(kept)


def test_every_link_is_new_and_has_256_bits(ana: Person) -> None:
    links = {issue_link(ana) for _ in range(50)}
    assert len(links) == 50
    assert all(len(link) == 43 for link in links)  # 32 bytes in base64


def test_hashes_are_compared_in_constant_time(ana: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[str, str]] = []
    constant_time = tokens.hmac.compare_digest

    def watched(left: str, right: str) -> bool:
        compared.append((left, right))
        return constant_time(left, right)

    monkeypatch.setattr(tokens.hmac, "compare_digest", watched)
    token = issue_link(ana, now=NOON)
    secret = tokens.create_token("overlay", ["read"], NOON)
    use_link(token, NOON)
    tokens.find_token(secret, "read", NOON)
    assert compared == [(tokens.secret_hash(token),) * 2, (tokens.secret_hash(secret),) * 2]


def test_signing_in_gives_the_session_a_new_key(client: Client, ana: Person) -> None:
    planted = client.session
    planted["planted"] = True
    planted.save()
    client.cookies["sessionid"] = planted.session_key
    client.post(link_address(issue_link(ana)))
    assert client.cookies["sessionid"].value != planted.session_key
    assert not Client(headers={"cookie": f"sessionid={planted.session_key}"}).session.get("_auth_user_id")


def test_a_whole_link_may_be_pasted_on_the_sign_in_page(client: Client, ana: Person) -> None:
    whole = f" http://127.0.0.1:8000{link_address(issue_link(ana))}\n"
    answer = client.post(reverse("sign_in"), {"link": whole, "next": "/leaderboard?sort=merged"})
    assert (answer.status_code, answer["Location"]) == (302, "/leaderboard?sort=merged")
    assert signed_in_as(client) == str(ana.pk)


@pytest.mark.parametrize("pasted", ["", "/", "?", "http://[broken", "made-up"])
def test_what_is_no_link_is_refused_on_the_sign_in_page(client: Client, pasted: str) -> None:
    assert client.post(reverse("sign_in"), {"link": pasted}).status_code == 403


@pytest.mark.parametrize("target", ELSEWHERE)
def test_signing_in_never_leads_to_another_site(client: Client, ana: Person, target: str) -> None:
    answer = client.post(link_address(issue_link(ana)), {"next": target})
    assert answer["Location"] == "/"
    assert client.get(reverse("sign_in"), {"next": target})["Location"] == "/"


def test_a_page_sends_strangers_to_sign_in_and_back(client: Client, ana: Person) -> None:
    sent = client.get(reverse("leaderboard") + "?sort=merged&page=2")
    assert sent["Location"] == "/sign-in?next=%2Fleaderboard%3Fsort%3Dmerged%26page%3D2"
    assert "private" in sent["Cache-Control"]
    shown = client.get(sent["Location"])
    assert shown.status_code == 200
    assert "/leaderboard?sort=merged&amp;page=2" in shown.content.decode()


def test_a_fragment_sends_the_whole_browser_to_sign_in(client: Client) -> None:
    headers = {"hx-request": "true", "hx-current-url": "http://testserver/leaderboard?page=3"}
    answer = client.get(reverse("leaderboard"), headers=headers)
    assert answer["HX-Redirect"] == "/sign-in?next=%2Fleaderboard%3Fpage%3D3"


def test_a_program_at_a_page_is_told_401_instead(client: Client) -> None:
    for headers in ({"accept": "application/json"}, {"authorization": "Bearer made-up"}):
        answer = client.get(reverse("leaderboard"), headers=headers)
        assert answer.status_code == 401
        assert answer["Content-Type"] == "application/problem+json"
        assert answer["WWW-Authenticate"].startswith("Bearer")


def test_pages_are_open_where_reading_is_public(client: Client, settings: Settings) -> None:
    settings.PUBLIC_READ = True
    assert client.get(reverse("leaderboard")).status_code == 200


def test_signing_out_ends_the_session(client: Client, ana: Person) -> None:
    client.post(link_address(issue_link(ana)))
    assert client.get(reverse("sign_out")).status_code == 405
    assert client.post(reverse("sign_out"))["Location"] == "/"
    assert signed_in_as(client) is None


def test_a_link_is_not_spent_without_a_csrf_token(strict: Client, ana: Person) -> None:
    token = issue_link(ana)
    assert strict.post(link_address(token)).status_code == 403
    assert use_link(token, timezone.now()) == ana


def test_the_confirm_page_carries_the_csrf_token_that_its_button_needs(strict: Client, ana: Person) -> None:
    address = link_address(issue_link(ana))
    strict.get(address)
    body = {"csrfmiddlewaretoken": strict.cookies["csrftoken"].value}
    assert strict.post(address, body).status_code == 302


def test_there_is_no_demo_sign_in_outside_the_demo(client: Client) -> None:
    headers = {"host": "127.0.0.1:8000"}
    assert client.post(reverse("demo_sign_in"), headers=headers).status_code == 404
    assert client.get(reverse("demo_sign_in"), headers=headers).status_code == 404
    assert reverse("demo_sign_in") not in client.get(reverse("sign_in"), headers=headers).content.decode()
    assert not Person.objects.exists()


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "[::1]:8000"])
def test_the_demo_signs_in_with_one_click(client: Client, settings: Settings, host: str) -> None:
    settings.DEMO_MAINTAINER = ANA
    answer = client.post(reverse("demo_sign_in"), {"next": "/dashboard"}, headers={"host": host})
    assert (answer.status_code, answer["Location"]) == (302, "/dashboard")
    assert signed_in_as(client) == str(Person.objects.get(did=ANA).pk)


def test_in_the_demo_one_click_shows_it_as_a_contributor_without_any_role(client: Client, settings: Settings) -> None:
    settings.DEMO_MAINTAINER, settings.DEMO_CONTRIBUTOR, local = ANA, MALLORY, {"host": "localhost"}
    assert "Look at it as a contributor" in client.get(reverse("sign_in"), headers=local).text
    client.post(reverse("demo_sign_in"), {"as": "contributor"}, headers=local)
    person = Person.objects.get(did=MALLORY)
    assert signed_in_as(client) == str(person.pk)
    assert roles_of(person).highest() == Role.NOBODY
    settings.DEMO_CONTRIBUTOR = None
    client.logout()
    assert client.post(reverse("demo_sign_in"), {"as": "contributor"}, headers=local).status_code == 404


def test_whoever_sent_a_pull_request_reads_there_how_to_get_further(client: Client, settings: Settings) -> None:
    page = client.get(reverse("sign_in")).text
    assert reverse("find") in page
    assert "ask the maintainers of its repository for a private link" in page
    assert "your own AT Protocol account" not in page


def test_the_demo_signs_nobody_in_by_get(client: Client, settings: Settings) -> None:
    settings.DEMO_MAINTAINER = ANA
    assert client.get(reverse("demo_sign_in"), headers={"host": "127.0.0.1"}).status_code == 405


@pytest.mark.parametrize(("host", "address"), [("testserver", "127.0.0.1"), ("localhost", "192.0.2.7")])
def test_the_demo_signs_nobody_in_from_elsewhere(client: Client, settings: Settings, host: str, address: str) -> None:
    settings.DEMO_MAINTAINER = ANA
    answer = client.post(reverse("demo_sign_in"), headers={"host": host}, REMOTE_ADDR=address)
    assert answer.status_code == 403
    assert signed_in_as(client) is None
