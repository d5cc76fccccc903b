"""The Atom feed of a token: what a reader may see, nothing of what others wrote taken for markup, no secret told."""

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from tests.ingest.stream.frames import ANA, MARA, REPO, SEED
from tests.triage.worlds.acting_site import invited
from tests.triage.worlds.lane_site import lane_site
from tests.triage.worlds.small_site import CABIN, OFFERED
from triage.access import throttle
from triage.access.tokens import create_token
from triage.models import Action, ApiToken, Maintainer
from triage.services.lane_closures import Scope, close_lane, open_lane
from triage.views.inbox import feed

pytestmark = pytest.mark.django_db
NS = {"a": "http://www.w3.org/2005/Atom"}
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script> & ]]> \u202egnp"


@pytest.fixture(autouse=True)
def _world(small: Path) -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def merged(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A site on which `OFFERED` is merged."""
    with lane_site(tmp_path, settings, monkeypatch):
        yield


def token_of(role: str = "", scope: str = "read") -> str:
    """A token of somebody with this role in lantern."""
    person = invited("did:plc:" + "3" * 24, "ben.example")
    if role:
        Maintainer.objects.create(person=person, repo_key=REPO, role=role)
    return create_token("feed", [scope], timezone.now(), person)


def parsed(text: str | bytes) -> ElementTree.Element:
    return ElementTree.fromstring(text)  # noqa: S314 - our own


def titles(token: str, **ask: str) -> list[str]:
    answer = Client().get(f"/feed/{token}.atom", ask)
    assert answer.status_code == 200
    return [one.findtext("a:title", "", NS) for one in parsed(answer.content).findall("a:entry", NS)]


def test_it_names_the_open_pull_requests_with_their_reason_and_their_page_here() -> None:
    answer = Client().get(f"/feed/{token_of()}.atom")
    (entry,) = parsed(answer.content).findall("a:entry", NS)
    link, summary = entry.find("a:link", NS), entry.findtext("a:summary", "", NS)
    assert "lantern" in entry.findtext("a:title", "", NS)
    assert link is not None
    assert link.get("href") == f"http://testserver/pull/{OFFERED}"
    assert summary.startswith("<p>")
    assert len(summary) > 20
    assert answer["Content-Type"] == "application/atom+xml; charset=utf-8"
    assert (answer["Referrer-Policy"], answer["X-Robots-Tag"]) == ("no-referrer", "noindex")
    assert "private" in answer["Cache-Control"]


def test_closures_that_name_nobody_are_for_readers_and_the_others_for_maintainers() -> None:
    seed = invited(SEED, "seed.example")
    closure, _ = close_lane(seed, Scope(repo_key=REPO), HOSTILE, timezone.now())
    close_lane(seed, Scope(repo_key=REPO, author=MARA), "she is careless", timezone.now())
    open_lane(seed, closure, "mended", timezone.now())
    told = [one for one in titles(token_of()) if "fast lane" in one]
    assert [one.split(" fast lane")[0] for one in told] == ["seed.example opened the", "seed.example closed the"]
    assert len([one for one in titles(token_of("maintainer")) if "fast lane" in one]) == 3
    assert b"<script>" not in Client().get(f"/feed/{token_of()}.atom").content


@pytest.mark.usefixtures("merged")
def test_an_incident_is_told_to_maintainers_of_its_repository_alone() -> None:
    ana, now = invited(ANA), timezone.now()
    named = {"pull_uri": OFFERED, "repo_key": REPO, "person": ana, "round": 0}
    approved = now - timedelta(days=2)
    Action.objects.create(key="a", kind="approve", made_at=approved, effective_at=approved, **named)
    Action.objects.create(key="b", kind="outcome", outcome="reverted", made_at=now, effective_at=now, **named)
    assert not any("was reverted" in one for one in titles(token_of()))
    assert any("A merged pull request was reverted in lantern" in one for one in titles(token_of("maintainer")))


def test_what_was_never_merged_had_no_incident() -> None:
    ana, now = invited(ANA), timezone.now()
    named = {"pull_uri": OFFERED, "repo_key": REPO, "person": ana, "round": 0}
    Action.objects.create(key="a", kind="approve", made_at=now, effective_at=now, **named)
    Action.objects.create(key="b", kind="outcome", outcome="reverted", made_at=now, effective_at=now, **named)
    assert not any("was reverted" in one for one in titles(token_of("maintainer")))


def test_what_is_older_than_thirty_days_is_not_told_of() -> None:
    seed = invited(SEED)
    close_lane(seed, Scope(repo_key=REPO), "long ago", timezone.now() - timedelta(days=31))
    assert not any("fast lane" in one for one in titles(token_of()))


def test_the_feed_of_a_token_for_one_repository_tells_of_no_other() -> None:
    seed = invited(SEED, "seed.example")
    close_lane(seed, Scope(repo_key=REPO), "mend it first", timezone.now())
    here = create_token("here", ["read"], timezone.now(), seed, REPO)
    elsewhere = create_token("elsewhere", ["read"], timezone.now(), seed, "did:plc:" + "7" * 24)
    assert titles(here) == titles(token_of())
    assert len(titles(here)) == 2
    assert titles(elsewhere) == []


def test_a_feed_that_did_not_change_is_not_sent_again_and_another_ones_tag_opens_nothing() -> None:
    first, other = token_of(), token_of("maintainer")
    held = Client().get(f"/feed/{first}.atom")["ETag"]
    again = Client().get(f"/feed/{first}.atom", headers={"if-none-match": held})
    assert (again.status_code, again["ETag"], again.content) == (304, held, b"")
    assert Client().get("/feed/made-up.atom", headers={"if-none-match": held}).status_code == 404
    close_lane(invited(SEED), Scope(repo_key=REPO), "so", timezone.now())
    assert Client().get(f"/feed/{other}.atom", headers={"if-none-match": held}).status_code == 200


def test_whoever_guesses_is_told_what_any_made_up_address_is_and_then_to_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    revoked, review = token_of(), token_of(scope="review")
    ApiToken.objects.filter(scopes=["read"]).update(revoked_at=timezone.now())
    for token in (revoked, review, "made-up"):
        answer = Client().get(f"/feed/{token}.atom")
        assert answer.status_code == 404
        assert answer.content == Client().get("/feed/other.atom").content
        assert token not in caplog.text
    # Twice as many, since a window may end among them.
    answers = [Client().get("/feed/made-up.atom") for _ in range(2 * throttle.LIMIT)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    assert int(refused[0]["Retry-After"]) > 0


def test_a_feed_counts_with_what_its_token_asks_of_the_api(settings: Settings) -> None:
    settings.API_REQUESTS_A_MINUTE = 2
    token = token_of()
    assert Client().get("/queue", headers={"authorization": f"Bearer {token}"}).status_code == 200
    answers = [Client().get(f"/feed/{token}.atom") for _ in range(2)]
    assert [one.status_code for one in answers] == [200, 429]
    assert 1 <= int(answers[1]["Retry-After"]) <= throttle.MINUTE


def test_what_happens_elsewhere_crowds_nothing_out_of_the_feed_of_one_repository(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feed, "MOST_OTHERS", 1)
    seed = invited(SEED, "seed.example")
    close_lane(seed, Scope(repo_key=REPO), "mend it first", timezone.now())
    close_lane(seed, Scope(repo_key="did:plc:" + "7" * 24), "elsewhere", timezone.now())
    here = create_token("here", ["read"], timezone.now(), seed, REPO)
    assert len([one for one in titles(here) if "fast lane" in one]) == 1


@pytest.mark.usefixtures("merged")
def test_what_somebody_is_not_told_of_crowds_nothing_out_of_their_feed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MOST_OTHERS", 1)
    seed, now = invited(SEED, "seed.example"), timezone.now()
    close_lane(seed, Scope(repo_key=REPO), "mend it first", now)
    close_lane(seed, Scope(repo_key=REPO, author=MARA), "it let a bad one in", now)
    assert len([one for one in titles(token_of()) if "fast lane" in one]) == 1
    approved = now - timedelta(days=2)
    for key, repo_key in (("here", REPO), ("there", "did:plc:" + "7" * 24)):
        where = {"pull_uri": OFFERED, "repo_key": repo_key, "person": seed, "round": 0}
        Action.objects.create(key=key, kind="approve", made_at=approved, effective_at=approved, **where)
        marked = {"kind": "outcome", "outcome": "reverted", "made_at": now, "effective_at": now}
        Action.objects.create(key=f"{key}-marked", **marked, **where)
    assert len([one for one in titles(token_of("maintainer")) if "was reverted" in one]) == 1


def test_repository_and_text_narrow_a_feed_as_they_narrow_the_queue() -> None:
    token = token_of()
    for ask, count in (({"q": "lamp"}, 1), ({"q": "stairs"}, 0), ({"repository": REPO}, 1), ({"repository": CABIN}, 0)):
        assert len(titles(token, **ask)) == count, ask
    held = create_token("here", ["read"], timezone.now(), repo_key=CABIN)
    for secret, repository in ((token, "no/such"), (held, REPO)):
        assert Client().get(f"/feed/{secret}.atom", {"repository": repository}).status_code == 404


@pytest.mark.usefixtures("merged")
def test_the_text_of_a_feed_narrows_its_incidents() -> None:
    ana, now = invited(ANA), timezone.now()
    named = {"pull_uri": OFFERED, "repo_key": REPO, "person": ana, "round": 0}
    approved = now - timedelta(days=2)
    Action.objects.create(key="a", kind="approve", made_at=approved, effective_at=approved, **named)
    Action.objects.create(key="b", kind="outcome", outcome="reverted", made_at=now, effective_at=now, **named)
    token = token_of("maintainer")
    assert len([one for one in titles(token, q="lamp") if "was reverted" in one]) == 1
    assert not [one for one in titles(token, q="stairs") if "was reverted" in one]


def test_the_secret_stands_neither_in_the_feed_nor_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token = token_of()
    assert token not in Client().get(f"/feed/{token}.atom").content.decode()
    assert Client(enforce_csrf_checks=True).post(f"/feed/{token}.atom").status_code == 405
    for other in (token, f"{token}.atom/", f"{token}.rss"):
        assert Client().get(f"/feed/{other}").status_code == 404
    assert Client().get(f"/feed/{token}.atom", headers={"host": "elsewhere.example"}).status_code == 400
    assert token not in caplog.text


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=20))
def test_whatever_others_wrote_it_is_one_feed_with_one_entry_of_plain_text(title: str, said: str, by: str) -> None:
    entry = feed.Entry(title, "/pull/at://x/y/z", said, NOW, NOW, by=by)
    root = parsed(feed.written([entry], lambda path: f"https://here{path}"))
    (found,) = root.findall("a:entry", NS)
    (paragraph,) = parsed(f"<div>{found.findtext('a:summary', '', NS)}</div>")
    assert (paragraph.tag, list(paragraph)) == ("p", [])
