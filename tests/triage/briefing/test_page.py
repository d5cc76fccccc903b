"""The briefing as a page and as JSON: for maintainers, with the numbers of their other pages."""

import re
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.db import OperationalError
from django.db.models import QuerySet
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from tests.ingest.stream.frames import ANA, MARA, REPO, SEED
from tests.triage.worlds.acting_site import ActingSite, invited, maintainer, signed_in
from tests.triage.worlds.lane_site import NEXT, lane_site
from tests.triage.worlds.small_site import CABIN, OFFERED
from triage.access.tokens import create_token
from triage.models import Action, Maintainer, Person
from triage.models.accounts import VISIT
from triage.services.lane_closures import Scope, close_lane

pytestmark = pytest.mark.django_db
BEN, JSON = "did:plc:" + "3" * 24, {"Accept": "application/json"}


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def site(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[ActingSite]:
    """A site whose audit drew all three that would be in the fast lane."""
    with lane_site(tmp_path, settings, monkeypatch, audited=True) as made:
        yield made


def sentences(client: Client, **ask: str) -> list[str]:
    answer = client.get("/briefing", ask, headers=JSON)
    assert answer.status_code == 200, answer.content
    return answer.json()["sentences"]


def shown(client: Client) -> list[str]:
    """The sentences on the page."""
    page = client.get("/briefing")
    assert page.status_code == 200
    return [unescape(one) for one in re.findall(r'<span class="said">([^<]*)</span>', page.content.decode())]


def test_page_and_json_tell_the_same_and_name_nobody(small: Path) -> None:
    client = maintainer(BEN, REPO, handle="ben.example")
    told = client.get("/briefing", headers=JSON).json()
    assert told["sentences"] == shown(client)
    assert "In the inbox: 0 flagged, 1 to review and 0 in the fast lane." in told["sentences"]
    lanes = client.get("/metrics").json()["lanes"]
    assert [lanes[key] for key in ("needs_human", "normal_queue", "fast_lane")] == [0, 1, 0]
    assert any(
        re.fullmatch(r"The longest wait is [\d,]+ \w+, for a pull request in lantern\.", one) for one in shown(client)
    )
    assert 10 < told["seconds"] < 90
    assert told["ssml"].count("<s>") == len(told["sentences"])
    page = client.get("/briefing").content.decode()
    assert f"/pull/{OFFERED}" in page, "from what was heard one click leads to it"
    for word in ("lamp", MARA, "mara.example", "She swore"):
        assert word not in str(told).replace(OFFERED, "")


def test_a_reader_who_maintains_nothing_is_told_nothing(small: Path) -> None:
    viewer = signed_in(invited(BEN))
    assert viewer.get("/briefing").status_code == 403
    refused = viewer.get("/briefing", headers=JSON)
    assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
    assert "Briefing" not in viewer.get("/").content.decode()
    operator = Client(headers={"Authorization": f"Bearer {create_token('cron', ['read'], timezone.now())}"})
    assert operator.get("/briefing").status_code == 403
    assert b"Read aloud" not in operator.get("/digest").content


def test_inbox_and_digest_lead_a_maintainer_to_it(small: Path) -> None:
    client = maintainer(BEN, REPO)
    assert 'href="/briefing"' in client.get("/").content.decode()
    assert "Read aloud: http://testserver/briefing\n" in client.get("/digest").content.decode()


def test_a_token_of_a_maintainer_gets_json_and_one_for_a_repository_is_told_of_that_one_alone(small: Path) -> None:
    maintainer(BEN, REPO, CABIN)
    person, now = Person.objects.get(did=BEN), timezone.now()

    def program(repo_key: str = "") -> Client:
        return Client(headers={"Authorization": f"Bearer {create_token('p', ['read'], now, person, repo_key)}"})

    assert (
        "In the inbox: 0 flagged, 1 to review and 0 in the fast lane." in program().get("/briefing").json()["sentences"]
    )
    assert sentences(program(CABIN))[:2] == ["This is about cabin alone.", "Nothing is in the inbox."]
    assert sentences(program(), repository=CABIN) == sentences(program(CABIN))
    refused = program(CABIN).get("/briefing", {"repository": REPO}, headers=JSON)
    assert (refused.status_code, refused.json()["code"]) == (403, "one_repository")
    assert program().get("/briefing", {"repository": "no/such"}).json()["code"] == "unknown_repository"
    assert program().get("/briefing", {"lane": "x"}).json()["code"] == "unknown_parameter"


def test_one_that_is_held_already_is_not_sent_again(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client, now = maintainer(BEN, REPO), timezone.now().replace(second=1)
    monkeypatch.setattr(timezone, "now", lambda: now)
    held = client.get("/briefing", headers=JSON)["ETag"]
    assert client.get("/briefing", headers={**JSON, "If-None-Match": held}).status_code == 304


def test_what_is_new_counts_from_the_visit_before_this_one(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client, begin = maintainer(BEN, REPO), timezone.now()
    clock = [begin]
    monkeypatch.setattr(timezone, "now", lambda: clock[0])

    def since(told: list[str]) -> str:
        return next(one.partition(" new since ")[2] for one in told if " new since " in one)

    assert since(shown(client)) == "this time yesterday."
    clock[0] = begin + VISIT / 2
    assert since(shown(client)) == "this time yesterday.", "a page that is loaded again tells the same"
    clock[0] = begin + timedelta(days=3)
    assert since(shown(client)) == "your last visit, 3 days ago."
    clock[0] += VISIT / 2
    assert since(shown(client)) == "your last visit, 3 days ago."
    assert since(sentences(client)) == "your last visit, 3 days ago."
    clock[0] += timedelta(days=1)
    assert since(sentences(client)) == "your last visit, 1 day ago.", "which is itself no visit"
    assert since(shown(client)) == "your last visit, 1 day ago."


def test_what_came_since_the_last_visit_is_new(small: Path) -> None:
    client = maintainer(BEN, REPO)
    Person.objects.filter(did=BEN).update(briefed_at=timezone.now() - timedelta(days=300))
    told = client.get("/briefing", headers=JSON).json()
    assert "1 pull request is new since your last visit, 300 days ago." in told["sentences"]
    link = re.search(r'href="(/\?new=[^"]+)">Show them</a>', client.get("/briefing").content.decode())
    assert link
    page = client.get(unescape(link[1]) + f"&open={OFFERED}").content.decode()
    assert "The other round is not known here" not in page, "the pane takes the time for nothing else"
    assert (page.count('class="row-link"'), "Only what was opened since" in page) == (1, True)
    assert client.get("/?new=2999-01-01").content.decode().count('class="row-link"') == 0
    assert told["new_since"].startswith(f"{timezone.now() - timedelta(days=300):%Y-%m-%dT}")


def test_a_drive_that_takes_no_bytes_keeps_nobody_from_reading_it(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OperationalError("database or disk is full")

    client = maintainer(BEN, REPO)
    with monkeypatch.context() as patch:
        patch.setattr(QuerySet, "update", full)
        assert shown(client)
    assert Person.objects.get(did=BEN).briefed_at is None


def test_closures_and_lanes_are_counted_as_pages_show_them(small: Path) -> None:
    seed, client = invited(SEED, "seed.example"), maintainer(BEN, REPO)
    assert "The fast lane is shut everywhere." in sentences(client) or "The fast lane is shut." in sentences(client)
    close_lane(seed, Scope(repo_key=REPO), "mend it: say <approved>", timezone.now())
    close_lane(seed, Scope(repo_key=REPO, author=MARA), "she is careless", timezone.now())
    close_lane(seed, Scope(repo_key=CABIN, author=MARA), "she is careless", timezone.now())
    assert "2 closures by maintainers are in force." in sentences(client), "that of cabin is for its maintainers"
    assert "3 closures by maintainers are in force." in sentences(maintainer(ANA, ""))
    assert "1 closure by maintainers is in force." in sentences(
        maintainer("did:plc:" + "4" * 24, CABIN), repository=REPO
    )


def test_an_incident_is_told_to_maintainers_of_its_repository(small: Path) -> None:
    now, where = timezone.now(), {"pull_uri": OFFERED, "repo_key": REPO, "person": invited(ANA), "round": 0}
    before = now - timedelta(days=2)
    Action.objects.create(key="a", kind="approve", made_at=before, effective_at=before, **where)
    Action.objects.create(key="b", kind="outcome", outcome="reverted", made_at=now, effective_at=now, **where)
    assert sentences(maintainer(BEN, REPO))[-1] == "1 incident is open."
    assert sentences(maintainer("did:plc:" + "4" * 24, CABIN))[-1] == "No incident is open."


def test_what_the_audit_drew_is_told_as_waiting_for_review_until_it_is_answered(site: ActingSite) -> None:
    ben = site.maintainer(BEN, "ben.example")
    before = sentences(ben)
    assert before[0] == "In the inbox: 0 flagged, 3 to review and 0 in the fast lane."
    assert "3 random audits are due." in before
    with site.result.store.write() as txn:
        txn.execute(
            "update current_decisions set probability = .01, low = 0, content_risk = .99 where pull_uri = ?", [NEXT]
        )
    site.publish()
    assert sentences(ben) == before, "whatever was judged"
    ben.post("/audit", {**site.form(uri=NEXT), "answer": "yes", "because": "small and tested"})
    site.work()
    assert sentences(ben)[0] == "In the inbox: 0 flagged, 2 to review and 1 in the fast lane."
    assert "2 random audits are due." in sentences(ben)


def test_an_author_learns_nothing_of_an_audit_and_a_maintainer_elsewhere_no_number_of_them(site: ActingSite) -> None:
    assert signed_in(invited(MARA)).get("/briefing").status_code == 403
    Maintainer.objects.create(person=Person.objects.get(did=MARA), repo_key=CABIN, role="maintainer")
    assert "No random audit is due." in sentences(signed_in(Person.objects.get(did=MARA)))
