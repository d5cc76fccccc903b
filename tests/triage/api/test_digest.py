"""The digest: the queue in plain text, one line for one pull request whatever its title says."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from scoring.queries import read
from scoring.queries.read import QueueQuery
from tests.ingest.stream.frames import MARA, REPO, SEED
from tests.triage.worlds.small_site import CABIN, OFFERED
from triage.access.tokens import create_token
from triage.api.digest import MOST, Told, digest_text
from triage.middleware import snapshot_reader
from triage.models import Maintainer, Person
from triage.presenters.queue.row_actions import OpenCounts
from triage.services.lane_closures import Scope, close_lane

pytestmark = pytest.mark.django_db


def client_of(role: str = "") -> Client:
    person = Person.objects.create(did=f"did:plc:{role}".ljust(32, "a"))
    Maintainer.objects.create(person=person, repo_key=REPO, role=role or "viewer")
    return Client(headers={"Authorization": f"Bearer {create_token('cron', ['read'], timezone.now(), person)}"})


@pytest.fixture
def told(small: Path) -> Told:
    """What the digest of the small world is written from."""
    with snapshot_reader().pin() as snapshot:
        assert snapshot is not None
        row = read.pull(snapshot, OFFERED)
        queue = read.queue(snapshot, QueueQuery(sort="newest"))
    assert row is not None
    now = row.opened_at + timedelta(hours=1)
    return Told(queue, OpenCounts({"normal_queue": 1}, 0, 0), row, 1, (), 0, (), (), "", now, "https://here")


def test_it_tells_what_waits_what_is_new_and_what_is_closed(small: Path) -> None:
    close_lane(Person.objects.create(did=SEED, handle="seed.example"), Scope(repo_key=REPO), "so", timezone.now())
    answer = client_of().get("/digest")
    text = answer.content.decode()
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert "1 to review, 0 fast lane.\n1 is open. 0 more by people with push access." in text
    assert "The oldest waits for " in text
    assert "New within 24 hours: " in text
    assert "No audit is due." in text
    assert "- seed.example closed the fast lane in lantern." in text
    assert "Approved, not merged yet: 0." in text
    assert f"http://testserver/pull/{OFFERED}" in text


@pytest.mark.parametrize(
    ("ask", "shown"),
    [({"q": "lamp"}, True), ({"q": "stairs"}, False), ({"repository": REPO}, True), ({"q": MARA}, True)],
)
def test_repository_and_text_narrow_it_as_they_narrow_the_queue(small: Path, ask: dict[str, str], shown: bool) -> None:
    client = client_of()
    text = client.get("/digest", ask).content.decode()
    assert (f"/pull/{OFFERED}" in text) is shown
    assert (", 1 to review," in text) is shown
    assert client.get("/queue", ask).json()["total"] == int(shown)


def test_the_digest_of_one_repository_tells_of_no_other_and_an_unknown_one_is_refused(small: Path) -> None:
    by = Person.objects.create(did=SEED, handle="seed.example")
    close_lane(by, Scope(repo_key=REPO), "so", timezone.now())
    client = client_of()
    assert "closed the fast lane in lantern" in client.get("/digest", {"repository": REPO}).content.decode()
    cabin = client.get("/digest", {"repository": CABIN}).content.decode()
    assert "closed the fast lane" not in cabin
    assert "In the inbox: 0 flagged, 0 to review, 0 fast lane" in cabin
    answer = client.get("/digest", {"repository": "no/such"})
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_repository")


def test_it_names_no_threshold_to_a_reader(small: Path) -> None:
    notices = [
        next(line for line in client_of(role).get("/digest").content.decode().splitlines() if "fast lane is" in line)
        for role in ("", "maintainer")
    ]
    assert "no threshold is certified yet" in notices[0]
    assert not any(character.isdigit() for character in notices[0])
    assert any(character.isdigit() for character in notices[1])


def test_one_that_is_held_already_is_not_sent_again(small: Path) -> None:
    client = client_of()
    held = client.get("/digest")["ETag"]
    assert client.get("/digest", headers={"if-none-match": held}).status_code == 304


def test_before_anything_was_published_it_says_when_to_come_again(tmp_path: Path, settings: Settings) -> None:
    settings.SNAPSHOT_DIR, settings.PUBLIC_READ = tmp_path, True
    assert Client().get("/digest").status_code == 503


def test_new_ones_are_told_flagged_first_and_no_more_than_twenty(told: Told) -> None:
    group = told.queue.groups[0]
    flagged = replace(group, key="needs_human", rows=group.rows * 15)
    both = replace(told.queue, groups=(flagged, replace(group, rows=group.rows * 15)))
    lines = digest_text(replace(told, queue=both, added=30)).splitlines()
    start = lines.index("New within 24 hours: 30.") + 1
    assert all("/pull/" in line for line in lines[start : start + MOST])
    assert lines[start + MOST] == "- and 10 more."


def test_what_is_older_than_a_day_is_not_new(told: Told) -> None:
    text = digest_text(replace(told, now=told.now + timedelta(days=2), added=0))
    assert "New within 24 hours: 0.\n\n" in text
    assert "The oldest waits for 2 days" in text


@given(title=st.text(max_size=60))
def test_no_title_breaks_a_line_or_hides_anything(title: str) -> None:
    row = _row(title)
    told = Told(
        read.Queue({}, 0, (), ()), OpenCounts({}, 0, 0), row, 0, (row,), 1, (), (), "", row.opened_at, "https://here"
    )
    text = digest_text(told)
    assert len(text.split("\n")) == len(digest_text(replace(told, oldest=_row("x"), due=(_row("x"),))).split("\n"))
    assert all(line.isprintable() or set(line) & set(title) for line in text.split("\n"))
    assert "\r" not in text


def _row(title: str) -> read.QueueRow:
    from scoring.types import NO_ESTIMATE, Lane, Verdict

    person, moment = read.Person("did:plc:x", "x"), datetime(2026, 11, 20, 12)
    facts: dict[str, Any] = {
        "round": 0,
        "record_cid": None,
        "patch_id": None,
        "files": None,
        "added": None,
        "removed": None,
    }
    return read.QueueRow(
        **facts,
        uri="at://did:plc:x/p/1",
        title=title,
        label="lantern #1",
        page=None,
        repository_key=REPO,
        repository_name="lantern",
        author=person,
        own=False,
        first_timer=True,
        opened_at=moment,
        verdict=Verdict(Lane.NORMAL_QUEUE, NO_ESTIMATE, (), ()),
        structural_trust=0.0,
        eigentrust=0.0,
        content_risk=None,
        path=(),
        sentence="Unknown",
        would_change="",
        as_of=moment,
        model_version="m",
    )
