"""An unchanged page costs a 304: its ETag follows what it shows, and of whom it depends."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from tests.triage.worlds.acting_site import signed_in
from tests.triage.worlds.drawn_rows import MARA, drawn_rows
from tests.triage.worlds.pages_world import DrawnSnapshot, DrawnWorld, draw
from triage import context, middleware
from triage.models import Maintainer, Person

pytestmark = pytest.mark.django_db
PART = {"HX-Request": "true"}
LOOKED_AT = drawn_rows()[1]
PAGES = (
    "/",
    f"/?open={LOOKED_AT.uri}",
    f"/pull/{LOOKED_AT.uri}",
    "/dashboard",
    "/leaderboard",
    f"/c/{MARA.did}",
    "/live",
)
FORM = {
    "kind": "pull_for_review",
    "uri": LOOKED_AT.uri,
    "record_cid": LOOKED_AT.record_cid,
    "round": LOOKED_AT.round,
    "patch_id": LOOKED_AT.patch_id,
    "version": 0,
}


@dataclass(slots=True)
class Site:
    """The drawn world under a clock that is set."""

    patch: pytest.MonkeyPatch
    now: datetime = datetime(2026, 3, 12, 15, tzinfo=UTC)
    number: int = 1

    def publish(self) -> None:
        """Show a newer snapshot."""
        self.number += 1
        self.patch.setattr(middleware.snapshot_reader(), "_snapshot", DrawnSnapshot(self.number))

    def maintainer(self, name: str) -> Client:
        """The browser of somebody who maintains everything and is signed in."""
        person, _ = Person.objects.get_or_create(did=f"did:plc:{name * 8}", defaults={"handle": f"{name}.example"})
        Maintainer.objects.get_or_create(person=person, repo_key="")
        return signed_in(person)


@pytest.fixture
def site(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Site:
    settings.PUBLIC_READ, settings.STREAM_CLOCK = False, True
    draw(monkeypatch, DrawnWorld())
    made = Site(monkeypatch)
    monkeypatch.setattr(timezone, "now", lambda: made.now)
    return made


@pytest.fixture
def ana(site: Site) -> Client:
    """Her browser has the cookie of the forms already."""
    client = site.maintainer("ana")
    client.get("/")
    return client


def again(client: Client, path: str, first: HttpResponse, headers: dict[str, str] | None = None) -> HttpResponse:
    """The same page, asked for by who holds the first answer."""
    return client.get(path, headers={"If-None-Match": first["ETag"], **(headers or {})})


@contextmanager
def changes(client: Client, path: str = "/") -> Generator[None]:
    """What happens in the block is seen by who holds the page."""
    first = client.get(path)
    assert again(client, path, first).status_code == 304
    yield
    assert again(client, path, first).status_code == 200


def test_a_page_that_is_held_costs_a_304_without_a_body(ana: Client) -> None:
    for path in PAGES:
        first = ana.get(path)
        second = again(ana, path, first)
        assert (second.status_code, second.content) == (304, b""), path
        for answer in (first, second):
            assert {"HX-Request", "Cookie", "Accept"} <= set(answer["Vary"].split(", ")), path
            assert set(answer["Cache-Control"].split(", ")) == {"private", "no-cache"}, path
        assert first["ETag"] == second["ETag"]


def test_a_page_and_its_fragment_never_share_a_tag(ana: Client) -> None:
    for path in ("/", "/leaderboard"):
        page, part = ana.get(path), ana.get(path, headers=PART)
        assert again(ana, path, page, PART).status_code == 200
        assert b"<html" in again(ana, path, part).content
        assert again(ana, path, part, PART).status_code == 304


def test_back_asks_for_the_page_and_not_for_the_fragment(ana: Client) -> None:
    part = ana.get("/", headers=PART)
    back = again(ana, "/", part, PART | {"HX-History-Restore-Request": "true"})
    assert b"<html" in back.content


def test_json_and_html_of_one_address_never_share_a_tag(ana: Client) -> None:
    told = ana.get("/leaderboard", headers={"Accept": "application/json"})
    assert b"<html" in again(ana, "/leaderboard", told, {"Accept": "text/html"}).content


def test_a_new_snapshot_is_seen(site: Site, ana: Client) -> None:
    for path in ("/", "/live"):
        with changes(ana, path):
            site.publish()


def test_what_somebody_did_is_seen_by_the_others(site: Site, ana: Client) -> None:
    ben = site.maintainer("ben")
    with changes(ana):
        ben.post("/act", FORM)
    site.now += timedelta(seconds=2)
    with changes(ana):
        ben.post("/act/undo", {"key": ben.get("/").content.decode().split('name="key" value="')[1][:32]})
    with changes(ana, "/live"):
        ben.post("/act/look", {"uri": LOOKED_AT.uri})


def test_a_lease_that_runs_out_is_seen_and_ones_own_is_not(site: Site, ana: Client) -> None:
    site.maintainer("ben").post("/act/look", {"uri": LOOKED_AT.uri})
    with changes(ana):
        site.now += timedelta(minutes=5, seconds=1)
    first = ana.get("/")
    ana.post("/act/look", {"uri": LOOKED_AT.uri})
    assert again(ana, "/", first).status_code == 304


def test_a_change_of_role_and_another_viewer_are_seen(site: Site, ana: Client) -> None:
    with changes(ana):
        Maintainer.objects.update(role="viewer")
    first = ana.get("/")
    assert again(site.maintainer("ben"), "/", first).status_code == 200


def test_nothing_is_held_while_it_counts_down(site: Site, ana: Client) -> None:
    ana.post("/act", FORM)
    assert "ETag" not in ana.get("/")
    site.now += timedelta(seconds=11)
    assert "ETag" in ana.get("/")


def test_what_ingest_says_is_seen(site: Site, ana: Client, settings: Settings) -> None:
    for path in ("/", "/live"):
        settings.STREAM_CLOCK = True
        with changes(ana, path):
            settings.STREAM_CLOCK = False


def test_a_web_that_was_started_anew_gives_every_page_anew(ana: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with changes(ana):
        monkeypatch.setattr(context, "STARTED", "0" * 16)


def test_a_refusal_or_a_missing_page_has_no_tag(ana: Client, client: Client, settings: Settings) -> None:
    settings.PUBLIC_READ = False
    assert "ETag" not in ana.get("/pull/at://nowhere")
    assert client.get("/live", headers=PART)["HX-Redirect"].startswith("/sign-in")
