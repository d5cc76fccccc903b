"""Looking at a person has the worker ask for what they declare elsewhere, and never costs the page anything."""

import sqlite3
import threading
from pathlib import Path

import pytest
from django.test import Client
from huey import MemoryHuey
from pytest_django import Settings

from tests.triage.worlds.drawn_rows import MARA
from tests.triage.worlds.pages_world import DrawnWorld, draw
from tests.waiting import LONG_SECONDS, ends_by_itself
from triage.services import profiles
from triage.services.profiles import EVERY_SECONDS, IN_LINE, REMEMBERED, Looks
from triage.views.inbox import queue as views

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _live(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.PUBLIC_READ = True
    settings.STREAM_CLOCK = False
    draw(monkeypatch, DrawnWorld())


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whom the worker is told of by the pages of one test."""
    found: list[str] = []
    monkeypatch.setattr(views, "looks", Looks(found.append))
    return found


def drained(noted: Looks) -> None:
    """Wait until the line is empty."""
    noted._line.join()


def test_a_contributors_page_tells_the_worker_once_an_hour(client: Client, told: list[str]) -> None:
    for _ in range(3):
        assert client.get(f"/c/{MARA.did}").status_code == 200
    drained(views.looks)
    assert told == [MARA.did]


def test_nobody_is_told_of_who_is_not_known_or_not_shown(client: Client, told: list[str]) -> None:
    assert client.get("/c/did:plc:nobodynobodynobodynobody").status_code == 404
    assert client.get("/c/nonsense").status_code == 422
    drained(views.looks)
    assert told == []


def test_a_recorded_stream_asks_nobody(client: Client, told: list[str], settings: Settings) -> None:
    settings.STREAM_CLOCK = True
    assert client.get(f"/c/{MARA.did}").status_code == 200
    drained(views.looks)
    assert told == []


def test_after_an_hour_the_worker_is_told_again() -> None:
    found: list[str] = []
    now = [0.0]
    noted = Looks(found.append, lambda: now[0])
    for moment in (0.0, EVERY_SECONDS - 1, EVERY_SECONDS + 1):
        now[0] = moment
        noted.note(MARA.did)
    drained(noted)
    assert found == [MARA.did] * 2


def test_a_queue_that_is_stuck_holds_up_no_page_and_no_memory(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    free = threading.Event()
    stuck = Looks(lambda _: free.wait(2 * LONG_SECONDS))
    monkeypatch.setattr(views, "looks", stuck)
    with ends_by_itself():
        for number in range(2 * REMEMBERED):
            stuck.note(f"did:plc:{number:024d}")
        assert client.get(f"/c/{MARA.did}").status_code == 200
    assert stuck._line.qsize() <= IN_LINE
    assert len(stuck._told) <= IN_LINE + 1
    free.set()


def test_a_queue_that_cannot_be_written_is_no_error_of_the_page(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []

    def tell(did: str) -> None:
        found.append(did)
        raise sqlite3.OperationalError("database is locked")

    noted = Looks(tell)
    monkeypatch.setattr(views, "looks", noted)
    assert client.get(f"/c/{MARA.did}").status_code == 200
    noted.note("did:plc:anotheranotheranotheranot")
    drained(noted)
    assert len(found) == 2


def test_where_no_worker_takes_anything_the_queue_stays_small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    line = MemoryHuey("looks", immediate=False)
    monkeypatch.setattr(profiles, "huey", line)
    monkeypatch.setattr(profiles, "look_at_person", line.task()(lambda did: None))
    monkeypatch.setattr(profiles, "ON_THE_QUEUE", 3)
    for number in range(5):
        profiles._tell_worker(f"did:plc:{number}")
    assert line.pending_count() == 3
