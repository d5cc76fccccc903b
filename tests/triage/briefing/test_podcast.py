"""The briefing as a private podcast: an item each morning and its sound, both behind a maintainer's token."""

import io
import json
import logging
import re
import wave
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from tests.ingest.peer import Start, response
from tests.ingest.stream.frames import REPO, SEED
from tests.triage.worlds.acting_site import invited
from tests.triage.worlds.small_site import CABIN
from triage.access import throttle
from triage.access.tokens import create_token
from triage.models import Maintainer, Person
from triage.services import speech
from triage.services.lane_closures import Scope, close_lane
from triage.services.speech import Espeak, Sound, SpeechProblem

pytestmark = pytest.mark.django_db
BEN = "did:plc:" + "3" * 24
MORNING = datetime(2026, 11, 26, 8, tzinfo=UTC)
ITUNES = "{http://www.itunes.com/dtds/podcast-1.0.dtd}"


class Clock:
    """The time of the web process."""

    def __init__(self) -> None:
        self.now = MORNING


@pytest.fixture
def clock(small: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """The small site, in the morning."""
    cache.clear()
    made = Clock()
    monkeypatch.setattr(timezone, "now", lambda: made.now)
    yield made
    cache.clear()


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """No program speaks."""
    monkeypatch.setattr(speech, "choose_voice", lambda: Espeak(None))


def token_of(role: str = "maintainer", repo_key: str = "", scope: str = "read") -> str:
    """A token of somebody with this role in lantern."""
    person = invited(BEN, "ben.example")
    Maintainer.objects.get_or_create(person=person, repo_key=REPO, defaults={"role": role})
    return create_token("podcast", [scope], timezone.now(), person, repo_key)


def item_of(token: str) -> ElementTree.Element:
    answer = Client().get(f"/feed/{token}/briefing.rss")
    assert answer.status_code == 200
    assert answer["Content-Type"] == "application/rss+xml; charset=utf-8"
    (item,) = ElementTree.fromstring(answer.content).findall("channel/item")  # noqa: S314 - our own
    return item


def said(token: str) -> str:
    return item_of(token).findtext("description", "")


def test_the_item_names_a_sound_that_is_there_whole_behind_the_same_token(clock: Clock, espeak: Path) -> None:
    token = token_of()
    item = item_of(token)
    assert item.findtext("title") == "Briefing of 26 November 2026"
    assert parsedate_to_datetime(item.findtext("pubDate", "")) == datetime(2026, 11, 26, 5, tzinfo=UTC)
    enclosure = item.find("enclosure")
    assert enclosure is not None
    assert enclosure.get("url") == f"http://testserver/feed/{token}/briefing.wav"
    answer = Client().get(f"/feed/{token}/briefing.wav")
    assert (answer.status_code, answer["Content-Type"]) == (200, enclosure.get("type"))
    assert len(answer.content) == int(enclosure.get("length", "0"))
    with wave.open(io.BytesIO(answer.content)) as told:
        assert 5 < told.getnframes() / told.getframerate() < 90
    assert Client().get("/feed/made-up/briefing.wav").status_code == 404
    assert Client().get(f"/feed/{token}/briefing.mp3").status_code == 404


@pytest.mark.parametrize(
    ("asked", "status", "part", "told"),
    [
        ("bytes=0-1", 206, slice(0, 2), "bytes 0-1/1000"),
        ("bytes=990-", 206, slice(990, 1000), "bytes 990-999/1000"),
        ("bytes=990-99999", 206, slice(990, 1000), "bytes 990-999/1000"),
        ("bytes=1000-", 416, slice(0), "bytes */1000"),
        ("bytes=5-4", 416, slice(0), "bytes */1000"),
        ("bytes=0-1,5-6", 200, slice(None), None),
        ("lines=0-1", 200, slice(None), None),
        ("bytes=-5", 200, slice(None), None),
    ],
)
def test_a_part_of_a_sound_is_sent_to_a_player_that_asks_for_it(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, asked: str, status: int, part: slice, told: str | None
) -> None:
    data = bytes(number % 251 for number in range(1_000))
    monkeypatch.setattr(speech, "speak", lambda text: Sound(data, "audio/wav", "wav"))
    answer = Client().get(f"/feed/{token_of()}/briefing.wav", headers={"Range": asked})
    assert (answer.status_code, answer.content, answer.get("Content-Range")) == (status, data[part], told)


def test_where_nothing_speaks_it_carries_the_text_and_says_why(clock: Clock, silent: None) -> None:
    token = token_of()
    assert item_of(token).find("enclosure") is None
    assert "<p>In the inbox: 0 flagged, 1 to review and 0 in the fast lane.</p>" in said(token)
    assert said(token).endswith("<p>(espeak-ng is not installed on this server, so there is no sound.)</p>")
    answer = Client().get(f"/feed/{token}/briefing.wav")
    assert (answer.status_code, answer.content) == (
        404,
        b"espeak-ng is not installed on this server, so there is no sound.",
    )


def test_an_item_stays_as_it_is_until_the_next_morning(clock: Clock, silent: None) -> None:
    token = token_of()
    first, guid = said(token), item_of(token).findtext("guid")
    close_lane(invited(SEED), Scope(repo_key=REPO), "so", MORNING)
    clock.now = MORNING + timedelta(hours=20)
    assert (said(token), item_of(token).findtext("guid")) == (first, guid), "until BRIEFING_HOUR"
    cache.clear()
    assert item_of(token).findtext("guid") == guid, "after a restart too, else an app shows it twice"
    clock.now = MORNING + timedelta(hours=22)
    assert "1 closure by maintainers is in force." in said(token)
    assert item_of(token).findtext("guid") != guid


def test_it_follows_the_role_of_its_person_at_once(clock: Clock, silent: None) -> None:
    token = token_of()
    close_lane(invited(SEED), Scope(repo_key=REPO, author=SEED), "careless", MORNING)
    assert "1 closure by maintainers is in force." in said(token)
    Maintainer.objects.filter(person__did=BEN, repo_key=REPO).update(repo_key=CABIN)
    assert "closure" not in said(token)
    Maintainer.objects.filter(person__did=BEN, repo_key=CABIN).delete()
    assert Client().get(f"/feed/{token}/briefing.rss").status_code == 404


def test_a_token_for_one_repository_tells_of_that_one_alone(clock: Clock, silent: None) -> None:
    Maintainer.objects.create(person=invited(BEN), repo_key=CABIN, role="maintainer")
    assert said(token_of(repo_key=CABIN)).startswith("<p>This is about cabin alone.</p><p>Nothing is in the inbox.</p>")


def test_whoever_maintains_nothing_gets_what_any_made_up_address_gives_and_then_has_to_wait(
    clock: Clock, silent: None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    viewer, operator = token_of("viewer"), create_token("cron", ["read"], MORNING)
    review = create_token("r", ["review"], MORNING, Person.objects.get(did=BEN))
    made_up = Client().get("/feed/made-up/briefing.rss").content
    for token in (viewer, operator, review):
        for kind in ("rss", "wav", "mp3", "txt"):
            answer = Client().get(f"/feed/{token}/briefing.{kind}")
            assert (answer.status_code, answer.content) == (404, made_up)
        assert Client().post(f"/feed/{token}/briefing.rss").status_code == 405
        assert token not in caplog.text
    for _ in range(throttle.LIMIT):
        answer = Client().get("/feed/made-up/briefing.rss")
    assert (answer.status_code, "Retry-After" in answer) == (429, True)


def test_no_cache_index_directory_or_other_site_learns_its_address(clock: Clock, silent: None) -> None:
    answer = Client(headers={"Accept-Encoding": "gzip"}).get(f"/feed/{token_of()}/briefing.rss")
    assert answer["Cache-Control"] == "private, no-store"
    assert (answer["Referrer-Policy"], answer["X-Robots-Tag"]) == ("no-referrer", "noindex")
    assert "Content-Encoding" not in answer, "its length would tell the secret (BREACH)"
    assert ElementTree.fromstring(answer.content).findtext(f"channel/{ITUNES}block") == "Yes"  # noqa: S314 - our own


def test_it_waits_while_as_many_sounds_are_made_as_may_be(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    token = token_of()
    monkeypatch.setattr(speech, "_places", type("Full", (), {"acquire": lambda *_, **__: False})())
    answer = Client().get(f"/feed/{token}/briefing.rss")
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")


def test_a_sound_of_another_kind_is_named_as_what_it_is(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    class Far:
        def speak(self, text: str) -> Sound:
            assert text.startswith("In the inbox: ")
            return Sound(b"ID3", "audio/mpeg", "mp3")

    monkeypatch.setattr(speech, "choose_voice", Far)
    token = token_of()
    enclosure = item_of(token).find("enclosure")
    assert enclosure is not None
    assert (enclosure.get("type"), enclosure.get("length")) == ("audio/mpeg", "3")
    assert Client().get(f"/feed/{token}/briefing.mp3").content == b"ID3"
    assert Client().get(f"/feed/{token}/briefing.wav").status_code == 404


def test_elevenlabs_is_sent_the_sentences_of_the_item_once_and_nothing_else(
    clock: Clock, settings: Settings, start: Start
) -> None:
    peer = start(lambda request: response(b"ID3" + bytes(99), Content_Type="audio/mpeg"))
    settings.STAND_IN_ORIGIN, settings.ELEVENLABS_API_KEY, settings.ELEVENLABS_VOICE = peer.origin, "sk", "abc"
    token = token_of()
    sentences = re.findall("<p>([^<]*)</p>", said(token))
    assert Client().get(f"/feed/{token}/briefing.mp3").content == b"ID3" + bytes(99)
    (sent,) = peer.requests
    assert json.loads(sent.body)["text"] == " ".join(sentences)
    assert token not in f"{sent.headers}{sent.body!r}"


def test_a_voice_that_fails_leaves_the_text_with_its_sentence(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def speak(self, text: str) -> Sound:
            raise SpeechProblem("ElevenLabs refused the key.")

    monkeypatch.setattr(speech, "choose_voice", Failing)
    assert said(token_of()).endswith("<p>(ElevenLabs refused the key.)</p>")


def test_the_page_names_the_address_and_what_makes_the_sound(clock: Clock, silent: None, settings: Settings) -> None:
    token_of()
    client = Client()
    client.force_login(Person.objects.get(did=BEN))
    page = client.get("/briefing").content.decode()
    assert "http://testserver/feed/TOKEN/briefing.rss" in page
    assert "the podcast has the text and no sound" in page
