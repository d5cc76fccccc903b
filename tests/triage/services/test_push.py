"""Pushes to a real service on loopback: counts alone, once an hour, never in quiet hours, to who may be told."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from pytest_django import Settings

from ingest.http.fetcher import Fetcher
from ingest.push.message import read_browser
from tests.ingest.peer import Answer, Request, Start, response
from tests.ingest.push.service import ORIGIN, PushService, Subscriber
from tests.ingest.stream.frames import ANA, MARA, REPO
from tests.triage.services.test_webhook_sending import dripping, endless
from tests.triage.worlds.small_site import CABIN
from triage.access.oauth.sessions import end_sessions
from triage.models import (
    Action,
    Delivery,
    LaneClosure,
    Maintainer,
    OAuthSession,
    Person,
    PushChoice,
    PushSubscription,
    Snooze,
    ToldState,
)
from triage.services.erasure import account_of, forget_account
from triage.services.notifying import push
from triage.services.notifying.webhooks import keep_fresh

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
EVERYTHING = push.EVENTS


@dataclass
class World:
    """One push service, and a maintainer of REPO whose browser `phone` is told of everything at any time."""

    service: PushService
    fetcher: Fetcher
    ana: Person

    def told(self, person: Person, name: str, now: datetime = NOW) -> PushSubscription:
        """Have a person told in a new browser."""
        form = self.service.open(name, push.site_key()).form
        browser = read_browser(*(form[key] for key in ("endpoint", "p256dh", "auth")))
        return push.subscribe(person, browser, "Firefox on Linux", "UTC", now)

    def run(self, now: datetime) -> int:
        """What the worker does each minute; returns how many messages were accepted."""
        self.service.now = now
        if push.is_wanted():
            push.note_pushes(now)
        return push.send_pushes(self.fetcher, lambda: now)


@pytest.fixture(name="world")
def world_fixture(start: Start, settings: Settings) -> Iterator[World]:
    settings.PUBLIC_ORIGIN, settings.PUSH_KEY = "https://trust.example", "5a" * 32
    service = PushService(NOW)
    peer = start(service.answer)
    fetcher = Fetcher(peer.origin)
    ana = Person.objects.create(did=ANA, handle="ana-marked.example")
    Maintainer.objects.create(person=ana, repo_key=REPO)
    world = World(service, fetcher, ana)
    world.told(ana, "phone", NOW - HOUR)
    push.choose(ana, EVERYTHING, (0, 0), "UTC", NOW - HOUR)
    yield world
    fetcher.close()


def came(
    kind: str = "lane", value: str = "needs_human", key: str = "", repo_key: str = REPO, at: datetime | None = NOW
) -> None:
    """The worker noted this at that moment."""
    key = key or f"at://{MARA}/marked/{ToldState.objects.count()}"
    ToldState.objects.create(kind=kind, key=key, value=value, repo_key=repo_key, since=at)


def test_a_message_travels_signed_and_encrypted_to_the_browser_that_alone_reads_it(world: World) -> None:
    came()
    came()
    came("audit", "0")
    assert world.run(NOW + MINUTE) == 1
    text = "2 pull requests need a human. 1 audit is due."
    assert world.service.taken == [("phone", {"text": text, "path": "/"}, 12 * 3_600)]
    assert world.service.refused == []
    assert world.run(NOW + 2 * MINUTE) == 0, "nothing is told twice"


@pytest.mark.parametrize(
    ("kind", "value", "path", "text"),
    [
        ("lane", "needs_human", "/?bucket=needs_human", "1 pull request needs a human."),
        ("audit", "2", "/audits", "1 audit is due."),
        ("gate", "closed", "/lane", "The fast lane was closed in 1 place."),
        ("closure", "repository", "/lane", "The fast lane was closed in 1 place."),
    ],
)
def test_a_message_about_one_kind_leads_to_its_page(world: World, kind: str, value: str, path: str, text: str) -> None:
    came(kind, value)
    world.run(NOW)
    ((_, message, _),) = world.service.taken
    assert message == {"text": text, "path": path}


def test_a_lane_that_opened_or_was_closed_for_one_person_and_other_lanes_are_not_told(world: World) -> None:
    for kind, value in (("gate", "open"), ("closure", "author"), ("closure", "voucher"), ("lane", "fast_lane")):
        came(kind, value)
    came("lane", "needs_human", at=None)  # it stood before the notes began
    assert world.run(NOW) == 0


def test_one_push_an_hour_tells_what_came_meanwhile_and_still_stands(world: World) -> None:
    came()
    world.run(NOW)
    came(key="undone", at=NOW + MINUTE)
    came(at=NOW + 10 * MINUTE)
    came("closure", "site", repo_key="", at=NOW + 50 * MINUTE)
    for minutes in (1, 10, 59):
        assert world.run(NOW + minutes * MINUTE) == 0
    ToldState.objects.filter(key="undone").update(value="normal_queue")
    assert world.run(NOW + HOUR) == 1
    assert world.service.told[1:] == [("phone", "1 pull request needs a human. The fast lane was closed in 1 place.")]


def test_the_hour_is_the_persons_however_many_browsers_they_have(world: World) -> None:
    world.told(world.ana, "laptop")
    came()
    assert world.run(NOW) == 2
    world.told(world.ana, "tablet")
    came(at=NOW + MINUTE)
    assert world.run(NOW + 2 * MINUTE) == 0
    assert world.run(NOW + HOUR) == 3


BERLIN = ((22, 7), "Europe/Berlin")  # 21:00 to 06:00 UTC in winter


@pytest.mark.parametrize(
    ("quiet", "zone", "hour", "is_told"),
    [
        (*BERLIN, 20, True),
        (*BERLIN, 21, False),
        (*BERLIN, 2, False),
        (*BERLIN, 5, False),
        (*BERLIN, 6, True),
        ((9, 17), "UTC", 8, True),
        ((9, 17), "UTC", 9, False),
        ((9, 17), "UTC", 17, True),
        ((0, 0), "UTC", 0, True),
        ((22, 7), "Gone/Nowhere", 22, False),  # a zone that this machine does not know counts as UTC
    ],
)
def test_nothing_is_sent_in_quiet_hours_where_the_person_is(
    world: World, quiet: tuple[int, int], zone: str, hour: int, is_told: bool
) -> None:
    push.choose(world.ana, EVERYTHING, quiet, zone, NOW - HOUR)
    came(at=NOW)
    now = datetime(2026, 11, 21, hour, tzinfo=UTC)
    assert world.run(now) == is_told


def test_what_comes_at_night_is_told_in_the_morning(world: World) -> None:
    push.choose(world.ana, EVERYTHING, *BERLIN, NOW)
    for hour in (21, 23):
        came(at=NOW.replace(hour=hour))
        assert world.run(NOW.replace(hour=hour)) == 0
    assert world.run(datetime(2026, 11, 21, 6, tzinfo=UTC)) == 1
    assert world.service.told == [("phone", "2 pull requests need a human.")]


def test_a_message_that_did_not_arrive_ends_with_the_next_quiet_hours(
    world: World,
) -> None:
    push.choose(world.ana, EVERYTHING, *BERLIN, NOW)
    late = NOW.replace(hour=20, minute=30)
    came(at=late)
    world.run(late)
    assert world.service.taken[0][2] == 30 * 60, "no service keeps it for longer"
    del world.service.browsers["phone"]
    PushChoice.objects.update(pushed_at=None)
    world.told(world.ana, "laptop")
    world.service.browsers["laptop"].key = "another, so that nothing is taken"
    came(at=late + MINUTE)
    for minutes in (1, 2, 7, 22, 30, 31, 60, 500):
        world.run(late + minutes * MINUTE)
    assert len(world.service.refused) == 4, "at 20:31, 20:32, 20:37 and 20:52"
    laptop = Delivery.objects.filter(subscription__endpoint=f"{ORIGIN}/p/laptop")
    assert laptop.get().problem == "it waited for too long"
    world.service.browsers["laptop"].key = push.site_key()
    assert world.run(late + 600 * MINUTE) == 1, "in the morning it is counted again"
    assert world.service.told[1:] == [("laptop", "1 pull request needs a human.")]


def test_what_comes_while_a_message_waits_is_counted_into_it_and_the_hour_begins_when_it_arrives(world: World) -> None:
    phone, world.service.browsers = world.service.browsers, {"phone": Subscriber("phone")}
    world.service.browsers["phone"].key = "another, so that nothing is taken"
    came()
    assert world.run(NOW) == 0
    came(at=NOW + 30 * MINUTE)
    for minutes in (1, 30):
        assert world.run(NOW + minutes * MINUTE) == 0
    world.service.browsers = phone
    assert world.run(NOW + HOUR + 21 * MINUTE) == 1
    came(at=NOW + HOUR + 30 * MINUTE)
    assert world.run(NOW + 2 * HOUR) == 0, "less than an hour after it was shown"
    assert world.run(NOW + 2 * HOUR + 21 * MINUTE) == 1
    assert [text for _, text in world.service.told] == [
        "2 pull requests need a human.",
        "1 pull request needs a human.",
    ]


def test_a_changed_choice_holds_for_what_waits_and_saving_it_again_forgets_nothing(world: World) -> None:
    world.service.browsers["phone"].key = "another, so that nothing is taken"
    came()
    assert world.run(NOW) == 0
    world.service.browsers["phone"].key = push.site_key()
    push.choose(world.ana, EVERYTHING, (11, 14), "UTC", NOW + MINUTE)
    assert world.run(NOW + 2 * MINUTE) == 0, "its quiet hours began"
    push.choose(world.ana, EVERYTHING, (11, 14), "UTC", NOW + HOUR)
    assert world.run(NOW + 2 * HOUR) == 1
    assert world.service.told == [("phone", "1 pull request needs a human.")]


def test_what_somebody_acted_on_or_snoozed_is_not_told(world: World) -> None:
    for name in ("acted", "snoozed", "open"):
        came(key=f"at://{MARA}/{name}")
    kept = {"person": world.ana, "repo_key": REPO, "made_at": NOW, "round": 1}
    Action.objects.create(key="a", kind="approve", pull_uri=f"at://{MARA}/acted", effective_at=NOW, **kept)
    states = {"lane": "needs_human", "comments": 0, "until": NOW + timedelta(days=3)}
    Snooze.objects.create(key="s", pull_uri=f"at://{MARA}/snoozed", **kept, **states)
    world.run(NOW)
    assert world.service.told == [("phone", "1 pull request needs a human.")]


def test_a_person_is_told_of_what_they_chose_from_the_moment_in_which_they_chose_it(world: World) -> None:
    push.choose(world.ana, ["audit"], (0, 0), "UTC", NOW)
    came(at=NOW + MINUTE)
    assert world.run(NOW + MINUTE) == 0
    came("audit", "0", at=NOW + MINUTE)
    assert world.run(NOW + MINUTE) == 1
    came("lane", at=NOW + 2 * MINUTE)
    push.choose(world.ana, EVERYTHING, (0, 0), "UTC", NOW + HOUR)
    assert world.run(NOW + 2 * HOUR) == 0, "what came before is old"


def test_whoever_turns_notifications_on_again_is_not_told_of_what_came_while_they_were_off(world: World) -> None:
    PushSubscription.objects.all().delete()
    came()
    world.told(world.ana, "phone", NOW + MINUTE)
    assert world.run(NOW + HOUR) == 0


def test_only_repositories_that_a_person_maintains_and_the_whole_site_are_counted(world: World) -> None:
    ben = Person.objects.create(did="did:plc:" + "3" * 24)
    Maintainer.objects.create(person=ben, repo_key=CABIN)
    Maintainer.objects.create(person=ben, repo_key=REPO, role="viewer")
    world.told(ben, "ben", NOW - HOUR)
    push.choose(ben, EVERYTHING, (0, 0), "UTC", NOW - HOUR)
    came()
    came("closure", "site", repo_key="")
    world.run(NOW)
    assert dict(world.service.told) == {
        "phone": "1 pull request needs a human. The fast lane was closed in 1 place.",
        "ben": "The fast lane was closed in 1 place.",
    }


def test_nothing_that_a_locked_screen_should_not_show_is_in_a_message(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    LaneClosure.objects.create(
        key="marked-key", person=world.ana, repo_key=REPO, because="marked reason", closed_at=NOW
    )
    came()
    came("closure", "repository", key="marked-key")
    came("audit", "0")
    world.run(NOW)
    phone = world.service.browsers["phone"]
    hidden = [REPO, MARA, ANA, "marked", "did:", "at://", "trust.example"]
    for text in (Delivery.objects.get().body, str(world.service.taken)):
        assert [word for word in hidden if word in text] == []
    secrets = [phone.name + "'", "/p/phone", *(phone.form[name] for name in ("p256dh", "auth")), "5a" * 32, "vapid"]
    assert [word for word in (*hidden, *secrets) if word in caplog.text] == []


@pytest.mark.parametrize("how", ["gone", "gone with a long page", "unknown"])
def test_a_browser_that_its_service_no_longer_knows_is_forgotten_and_no_other(world: World, how: str) -> None:
    world.told(world.ana, "laptop")
    if how == "gone":
        world.service.gone.add("phone")
    elif how == "gone with a long page":
        world.service.long_page.add("phone")
    else:
        del world.service.browsers["phone"]
    came()
    assert world.run(NOW) == 1
    assert [row.endpoint for row in PushSubscription.objects.all()] == [f"{ORIGIN}/p/laptop"]
    assert [delivery.delivered_at for delivery in Delivery.objects.all()] == [NOW]


def redirecting(_: Request) -> Answer:
    return response(status=307, Location="https://169.254.169.254/latest/meta-data")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (redirecting, "push.example.net answered 307"),
        (lambda _: response(status=500), "push.example.net answered 500"),
        (lambda _: response(status=429, Retry_After="7200"), "push.example.net answered 429"),
        (lambda _: response(status=401), "push.example.net answered 401"),
        (dripping, "took too long"),
        (endless, "more than 16384 bytes"),
    ],
)
def test_a_hostile_service_costs_one_bounded_try_and_a_later_one(
    world: World, start: Start, monkeypatch: pytest.MonkeyPatch, answer: Callable[[Request], Answer], problem: str
) -> None:
    monkeypatch.setattr(push, "SECONDS", 0.5)
    peer = start(answer)
    came()
    push.note_pushes(NOW)
    assert push.send_pushes(Fetcher(peer.origin), lambda: NOW) == 0
    waiting = Delivery.objects.get()
    assert problem in waiting.problem
    assert waiting.due_at == NOW + (2 * HOUR if "429" in problem else MINUTE)
    assert len(peer.requests) == 1, "no redirect is followed, and nothing is sent twice in one try"


def test_a_name_that_leads_to_a_private_address_is_never_connected_to(world: World) -> None:
    dialled: list[tuple[str, int]] = []

    def route(address: str, port: int) -> tuple[str, int]:
        dialled.append((address, port))
        return address, port

    came()
    push.note_pushes(NOW)
    for address in ("10.0.0.1", "127.0.0.1", "169.254.169.254", "::1"):
        Delivery.objects.update(due_at=NOW)
        fetcher = Fetcher(resolver=lambda _, there=address: [there], route=route)
        assert push.send_pushes(fetcher, lambda: NOW) == 0
        assert "not a public address" in Delivery.objects.get().problem
    assert dialled == []


def test_a_browser_that_took_none_of_five_messages_is_forgotten(world: World) -> None:
    world.service.browsers["phone"].key = "another"
    for day in range(push.MOST_LOST):
        now = NOW + timedelta(days=day)
        came(at=now)
        world.run(now)
        assert PushSubscription.objects.exists()
        world.run(now + push.LIFETIME)
    world.run(now + push.LIFETIME + MINUTE)
    assert not PushSubscription.objects.exists()
    assert not Delivery.objects.exists()


@pytest.mark.parametrize("how", ["switched off", "no role", "viewer", "erased", "another key", "no address"])
def test_nobody_is_told_who_may_not_be_told_any_more(world: World, settings: Settings, how: str) -> None:
    came()
    match how:
        case "switched off":
            Person.objects.update(is_active=False)
        case "no role":
            Maintainer.objects.all().delete()
        case "viewer":
            Maintainer.objects.update(role="viewer")
        case "erased":
            forget_account(ANA, None)
        case "another key":
            settings.PUSH_KEY = "77" * 32
        case "no address":
            settings.PUBLIC_ORIGIN = ""
    assert not push.is_wanted()
    assert world.run(NOW) == 0
    assert world.service.refused == []
    assert PushSubscription.objects.exists() == (how == "no address")


def test_a_message_that_waits_goes_with_its_browser(world: World) -> None:
    came()
    push.note_pushes(NOW)
    Person.objects.update(is_active=False)
    assert not push.is_wanted()
    assert not Delivery.objects.exists()


def test_the_export_of_an_account_names_its_browsers_and_choice_and_none_of_their_secrets(world: World) -> None:
    told = account_of(ANA) or {}
    assert [row["browser"] for row in told["push_subscriptions"]] == ["Firefox on Linux"]
    assert told["push_choice"][0]["time_zone"] == "UTC"
    form = world.service.browsers["phone"].form
    assert [word for word in (form["endpoint"], form["p256dh"], form["auth"], "5a" * 32) if word in str(told)] == []


def test_a_person_has_five_browsers(world: World) -> None:
    for number in range(push.MOST_BROWSERS - 1):
        world.told(world.ana, f"more{number}")
    with pytest.raises(push.PushProblem, match="5 browsers already"):
        world.told(world.ana, "more")
    assert PushSubscription.objects.count() == push.MOST_BROWSERS


def test_a_browser_belongs_to_whoever_signed_in_last_and_nobody_takes_it_by_its_address_alone(world: World) -> None:
    ben = Person.objects.create(did="did:plc:" + "3" * 24)
    form = world.service.browsers["phone"].form
    stranger = Subscriber("phone").form
    names = ("endpoint", "p256dh", "auth")
    with pytest.raises(push.PushProblem, match="another subscription"):
        push.subscribe(ben, read_browser(*(stranger[name] for name in names)), "Firefox", "UTC", NOW)
    assert PushSubscription.objects.get().person == world.ana
    Maintainer.objects.create(person=ben, repo_key=CABIN)
    came()
    push.note_pushes(NOW)
    push.subscribe(ben, read_browser(*(form[name] for name in names)), "Firefox", "UTC", NOW)
    assert PushSubscription.objects.get().person == ben
    assert world.run(NOW) == 0, "what waited there was for another person"


def test_notifications_end_with_the_session_in_which_they_were_turned_on(world: World) -> None:
    times = dict.fromkeys(("tokens_expire_at", "lease_until", "made_at", "last_used_at"), NOW)
    session = OAuthSession.objects.create(person=world.ana, sealed=b"", **times)
    PushSubscription.objects.update(oauth_session=session)
    came()
    end_sessions([session.pk], OAuthSession.Ended.PERSON, NOW)
    assert world.run(NOW) == 0
    assert not PushSubscription.objects.exists()


def test_after_a_restore_no_browser_is_told_what_waited_in_the_backup(world: World) -> None:
    came()
    push.note_pushes(NOW)
    assert keep_fresh(NOW + HOUR) == (0, 0)
    assert world.run(NOW + MINUTE) == 0
