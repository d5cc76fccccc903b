"""Incidents, audits and settled pull requests are found again, by those who may know of them."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from django.test import Client
from pytest_django import Settings

from tests.ingest.stream.frames import MARA, REPO, pull_uri
from tests.triage.acting.lanes.test_incidents import approve, mark
from tests.triage.worlds.acting_site import ANA, ActingSite, maintainer, signed_in
from tests.triage.worlds.lane_site import MORE, NEXT, OTHER, lane_site
from triage.models import Action, AuditAnswer, Change, HandledIncident, Person
from triage.views.lanes.lists import CONCLUSIONS

pytestmark = pytest.mark.django_db
SITE = lane_site
MERGED = pull_uri(MARA, "offered")
ELSEWHERE = "did:plc:" + "e" * 24
HOSTILE = "<img src=x onerror=alert(1)> \u202egnp"
TITLES = {NEXT: "Mend the gate", OTHER: "Sweep", MORE: "Paint the fence"}


@pytest.fixture
def audited(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[ActingSite]:
    with lane_site(tmp_path, settings, monkeypatch, audited=True) as made:
        yield made


def page_of(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


def viewer() -> Client:
    return signed_in(Person.objects.create(did=f"did:plc:{'s' * 24}"))


def elsewhere() -> Client:
    return maintainer(f"did:plc:{'w' * 24}", ELSEWHERE)


def two_incidents(site: ActingSite, client: Client) -> list[str]:
    """Two approved ones, marked bad one after the other; the keys of the marks."""
    for uri in (NEXT, OTHER):
        approve(site, client, uri)
    return [mark(site, client, uri).rpartition("/")[2] for uri in (NEXT, OTHER)]


def handle(client: Client, key: str, handled: str = "", conclusion: str = "Fixed since") -> int:
    form = {"key": key, "handled": handled, "next": "/incidents", "conclusion": conclusion}
    return client.post("/incidents/handle", form).status_code


def order_of(page: str) -> list[str]:
    listed = (page.partition("<h1")[2] or page).partition('class="toast"')[0]
    return sorted((uri for uri, title in TITLES.items() if title in listed), key=lambda uri: listed.index(TITLES[uri]))


def test_open_incidents_come_first_and_are_counted_in_the_queue_and_on_the_dashboard(
    site: ActingSite, ana: Client, ben: Client
) -> None:
    assert "No incidents." in page_of(ben, "/incidents")
    keys = two_incidents(site, ben)
    page = page_of(ana, "/incidents")
    assert order_of(page) == [OTHER, NEXT], "the newest first"
    assert all(f"/incident/{key}" in page for key in keys)
    for address in ("/", "/dashboard"):
        assert "Incidents (2 open)" in page_of(ana, address)
    assert handle(ana, keys[1]) == 302
    page = page_of(ben, "/incidents")
    assert order_of(page) == [NEXT, OTHER], "open before handled"
    assert "Handled by <bdi>ana.example</bdi>" in page
    assert "Incidents (1 open)" in page_of(ben, "/")
    for author in (MARA, ANA):
        found = order_of(page_of(ben, f"/incidents?q={author}"))
        assert found == [uri for uri in (NEXT, OTHER) if uri.startswith(f"at://{author}/")]
    assert f"/incidents?q={quote(MARA)}" in page_of(ben, f"/c/{MARA}"), "their page leads there"
    handle(ben, keys[1], "0")
    assert order_of(page_of(ben, "/incidents")) == [OTHER, NEXT]
    told = [one.what for one in Change.objects.filter(what__startswith="incident.").order_by("pk")]
    assert told == ["incident.handled", "incident.reopened"]
    assert "Handled an incident" in page_of(ben, "/changes")


def test_what_was_marked_clean_since_is_open_no_more_and_a_second_bad_mark_opens_no_second_one(
    site: ActingSite, ben: Client
) -> None:
    first, _ = two_incidents(site, ben)
    second = mark(site, ben, version=2, outcome="needed_fix").rpartition("/")[2]
    page = page_of(ben, "/incidents")
    assert f"/incident/{first}" not in page
    assert f"/incident/{second}" in page
    ben.post("/act", site.form("outcome", NEXT, 3, outcome="clean"))
    page = page_of(ben, "/incidents")
    assert order_of(page) == [OTHER, NEXT]
    assert "Marked as clean since" in page


def test_how_an_incident_ended_is_asked_kept_and_shown_as_text(site: ActingSite, ana: Client, ben: Client) -> None:
    key, _ = two_incidents(site, ben)
    page = page_of(ben, f"/incident/{key}")
    for words in CONCLUSIONS:
        assert f'<button class="button" name="conclusion" value="{words}">{words}</button>' in page, "one click"
    for refused in ("", " \n", "x" * 501):
        assert handle(ben, key, conclusion=refused) == 400
    assert not HandledIncident.objects.exists()
    assert handle(ben, key, conclusion="<b>Mended</b>\u202e in round 3") == 302
    assert handle(ana, key, conclusion="Something else") == 302
    assert "Nothing changed: somebody handled it before you." in page_of(ana, "/incidents")
    for address in ("/incidents", f"/incident/{key}"):
        page = ben.get(address).content.decode()
        said = "Handled by <bdi>ben.example</bdi>: <q><bdi>&lt;b&gt;Mended&lt;/b&gt;⟨U+202E⟩ in round 3</bdi></q>"
        assert said in page, "the first word stays"
        assert "Something else" not in page
    assert "Mark as handled" not in page


def test_strangers_viewers_and_maintainers_elsewhere_learn_of_no_incident(site: ActingSite, ben: Client) -> None:
    key, _ = two_incidents(site, ben)
    outsiders = (Client(), viewer(), elsewhere())
    assert [client.get("/incidents").status_code for client in outsiders] == [302, 403, 200]
    assert order_of(page_of(outsiders[2], "/incidents")) == []
    assert "open)" not in page_of(outsiders[2], "/")
    assert [handle(client, key) for client in outsiders] == [302, 403, 403]
    assert not HandledIncident.objects.exists()
    assert [handle(ben, key), handle(ben, key)] == [302, 302]
    assert HandledIncident.objects.count() == 1


def test_hundreds_of_incidents_are_shown_a_page_at_a_time(site: ActingSite, ben: Client) -> None:
    two_incidents(site, ben)
    person = Person.objects.get(did="did:plc:" + "3" * 24)
    told = {"person": person, "repo_key": REPO, "round": 0, "made_at": site.now, "effective_at": site.now}
    for kind, outcome in (("approve", ""), ("outcome", "reverted")):
        Action.objects.bulk_create(
            Action(key=f"{kind}{n}", pull_uri=f"at://gone/p/{n}", kind=kind, outcome=outcome, **told)
            for n in range(400)
        )
    page = page_of(ben, "/incidents")
    assert page.count("Mark as handled</button>") == 50
    assert "Page 1 of 9" in page
    assert order_of(page_of(ben, "/incidents?page=9999")) == [OTHER, NEXT], "a page too far is the last one"


def answer(client: Client, site: ActingSite, uri: str = NEXT, because: str = "small") -> None:
    form = {**site.form(uri=uri), "answer": "no", "because": because}
    assert client.post("/audit", form).status_code == 302


def test_audits_are_due_until_answered(audited: ActingSite) -> None:
    site, ben = audited, audited.maintainer(ANA, "ana.example")
    page = page_of(ben, "/audits")
    due, _, answered = page.partition('id="audits-answered"')
    assert set(order_of(due)) == set(TITLES)
    assert "No audit was answered yet." in answered
    assert "Audits (3 due)" in page_of(ben, "/")
    answer(ben, site, because=HOSTILE)
    for worked in (False, True):
        due, _, answered = page_of(ben, "/audits").partition('id="audits-answered"')
        assert set(order_of(due)) == {OTHER, MORE}, worked
        assert order_of(answered) == [NEXT]
        assert "&lt;img src=x" in answered
        assert HOSTILE not in answered
        assert "Audits (2 due)" in page_of(ben, "/")
        site.work()


def test_an_audit_that_is_due_gives_nothing_of_its_decision_away(audited: ActingSite) -> None:
    ben = audited.maintainer(ANA, "ana.example")
    _, _, page = page_of(ben, "/audits").partition('id="audits-due"')
    telling = ("Stays clean", "60 %", "0.6", "Fast lane", "pill", f"/c/{MARA}")
    assert [word for word in telling if word in page.partition('id="audits-answered"')[0]] == []
    snoozed = {**audited.form(uri=NEXT), "until": "week"}
    ben.post("/snooze", snoozed)
    _, _, listed = page_of(ben, "/snoozed").partition('aria-label="Snoozed pull requests"')
    assert "Mend the gate" in listed
    assert [word for word in ("60 %", "Fast lane", "flagged") if word in listed.partition("</section>")[0]] == []
    assert "Mend the gate" in page_of(ben, "/audits"), "a snooze answers nothing"


def test_strangers_viewers_and_maintainers_elsewhere_see_no_audit(audited: ActingSite) -> None:
    answer(audited.maintainer(ANA, "ana.example"), audited)
    outsiders = (Client(), viewer(), elsewhere())
    assert [client.get("/audits").status_code for client in outsiders] == [302, 403, 200]
    assert order_of(page_of(outsiders[2], "/audits")) == []
    assert AuditAnswer.objects.count() == 1


def test_the_page_of_one_that_left_the_queue_leads_to_its_history_and_the_list_does_too(
    site: ActingSite, ben: Client
) -> None:
    moved = ben.get(f"/pull/{MERGED}")
    assert (moved.status_code, moved["Location"]) == (302, f"/history/{MERGED}")
    assert f'href="/history/{MERGED}"' in page_of(ben, "/settled")
    assert f"/settled?q={MARA.replace(':', '%3A')}" in page_of(ben, f"/c/{MARA}")
    assert ben.get("/pull/at://made/up/one").status_code == 404


def test_decided_ones_that_were_never_judged_have_no_column_of_dashes(site: ActingSite, ben: Client) -> None:
    page = page_of(ben, f"/settled?q={MERGED}")
    assert "None of these was judged here before it was decided, or an audit hides it." in page
    assert "Judged then" not in page


@pytest.mark.parametrize("words", ["%", "'; drop table x", "\x00", "{{ 7|add:1 }}", HOSTILE, "a" * 5_000, "\u202e"])
def test_hostile_searches_find_nothing_and_are_told_escaped(site: ActingSite, ben: Client, words: str) -> None:
    answered = ben.get("/settled", {"q": words, "outcome": words, "repository": words})
    page = answered.content.decode()
    assert answered.status_code == 200
    beyond = ben.get("/settled", {"page": words})
    assert (beyond.status_code, "<img src=x" in beyond.content.decode()) == (404, False)
    assert "<img src=x" not in page
    assert ("No decided pull request matches." in page) is (words not in ("\x00", "\u202e"))


def test_a_public_site_shows_settled_and_snoozed_ones_to_everybody(site: ActingSite, ana: Client) -> None:
    ana.post("/snooze", {**site.form(uri=NEXT), "until": "week"})
    assert MERGED in page_of(Client(), "/settled")
    page = page_of(Client(), "/snoozed")
    assert "Mend the gate" in page
    assert "Show now" not in page
    assert "1 snoozed</a>" in page_of(Client(), "/")
