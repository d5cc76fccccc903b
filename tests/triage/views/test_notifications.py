"""The forms of notifications: what a browser sends is not believed, and nobody touches another person's browsers."""

from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from tests.ingest.push.service import Subscriber
from tests.ingest.stream.frames import ANA, REPO
from triage.access.sign_in import issue_link
from triage.models import Maintainer, Person, PushChoice, PushSubscription

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("small")]
CHOSEN: dict[str, Any] = {"events": ["flagged"], "quiet_from": "22", "quiet_until": "7", "time_zone": "Europe/Berlin"}


@pytest.fixture(name="client")
def client_fixture(seed: Person, settings: Settings) -> Client:
    """The maintainer of lantern, on a site with a public address."""
    settings.PUBLIC_ORIGIN, settings.PUSH_KEY = "https://trust.example", "5a" * 32
    client = Client(headers={"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"})
    client.force_login(seed)
    return client


def test_a_browser_is_listed_by_words_of_our_own_and_its_address_is_shown_nowhere(client: Client) -> None:
    form = Subscriber("phone").form
    page = client.post("/notifications/subscribe", form, follow=True).content.decode()
    assert "Firefox on Linux (this one)" in page
    assert [word for word in (form["endpoint"], form["p256dh"], form["auth"]) if word in page] == []
    assert PushChoice.objects.get().time_zone == "Europe/Berlin", "that of the browser, where nothing was chosen before"


@pytest.mark.parametrize(
    "wrong",
    [
        {"endpoint": "https://10.0.0.1/p/one"},
        {"endpoint": "http://push.example.net/p/one"},
        {"endpoint": ""},
        {"p256dh": "AAAA"},
        {"auth": "<script>"},
        {"auth": "A" * 100_000},
    ],
)
def test_what_is_no_subscription_is_refused_in_a_sentence_that_repeats_none_of_it(
    client: Client, wrong: dict[str, str]
) -> None:
    answer = client.post("/notifications/subscribe", Subscriber("phone").form | wrong)
    assert answer.status_code == 422
    assert "Nothing was changed." in answer.content.decode()
    assert "10.0.0.1" not in answer.content.decode()
    assert not PushSubscription.objects.exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"time_zone": "../../etc/passwd"},
        {"time_zone": ""},
        {"quiet_from": "24"},
        {"quiet_until": "-1"},
        {"quiet_until": "٣"},
        {"events": ["flagged", "made-up"]},
    ],
)
def test_a_choice_that_the_page_does_not_offer_is_refused(client: Client, wrong: dict[str, Any]) -> None:
    assert client.post("/notifications", CHOSEN | wrong).status_code == 422
    assert not PushChoice.objects.exists()


def test_a_time_zone_that_a_browser_makes_up_counts_as_utc(client: Client) -> None:
    client.post("/notifications/subscribe", Subscriber("phone").form | {"time_zone": "../../etc/passwd"})
    assert PushChoice.objects.get().time_zone == "UTC"


def test_nobody_ends_the_notifications_of_another_person(client: Client) -> None:
    client.post("/notifications/subscribe", Subscriber("phone").form)
    other = Person.objects.create(did=ANA)
    Maintainer.objects.create(person=other, repo_key=REPO)
    stranger = Client()
    stranger.force_login(other)
    number = PushSubscription.objects.get().pk
    assert stranger.post(f"/notifications/{number}/end").status_code == 404
    assert "Firefox" not in stranger.get("/notifications").content.decode()
    assert client.post(f"/notifications/{number}/end").status_code == 302
    assert not PushSubscription.objects.exists()


def test_signing_out_ends_the_notifications_in_that_browser_alone(client: Client, seed: Person) -> None:
    other = Client()
    other.force_login(seed)
    other.post("/notifications/subscribe", Subscriber("laptop").form)
    client.post("/notifications/subscribe", Subscriber("phone").form)
    client.post("/sign-out")
    assert PushSubscription.objects.get().endpoint.endswith("/laptop")


def test_somebody_else_who_signs_in_in_the_same_browser_ends_them_too(client: Client) -> None:
    client.post("/notifications/subscribe", Subscriber("phone").form)
    client.post(f"/sign-in/{issue_link(Person.objects.create(did=ANA))}")
    assert not PushSubscription.objects.exists()


@pytest.mark.parametrize(("staged", "words"), [("", "PUBLIC_ORIGIN"), ("a demo on this machine", "This is a demo")])
def test_a_site_without_a_public_address_offers_none_and_says_why(
    client: Client, settings: Settings, staged: str, words: str
) -> None:
    settings.PUBLIC_ORIGIN, settings.STAGED = "", staged
    page = client.get("/notifications").content.decode()
    assert words in page
    assert "Turn on" not in page
    assert client.post("/notifications/subscribe", Subscriber("phone").form).status_code == 404


def test_in_a_demo_the_choices_can_be_tried_and_are_kept(client: Client, settings: Settings) -> None:
    settings.PUBLIC_ORIGIN, settings.STAGED = "", "a demo"
    assert "2 pull requests need a human. 1 audit is due." in client.get("/notifications").content.decode()
    page = client.post("/notifications", CHOSEN, follow=True).content.decode()
    assert '<option value="22" selected>22:00</option>' in page
    assert "Turn on" not in page


def test_the_worker_and_the_offline_page_are_the_same_for_everybody(client: Client) -> None:
    for path in ("/service-worker.js", "/offline", "/manifest.webmanifest"):
        assert client.get(path).content == Client().get(path).content, path
        assert "Set-Cookie" not in Client().get(path)
    policy = client.get("/service-worker.js")["Content-Security-Policy"]
    assert "script-src 'self'" in policy
