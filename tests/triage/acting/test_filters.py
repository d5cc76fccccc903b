"""One's own rows and saved filters: alike in list, counts, feed, digest and JSON, and nobody else's."""

from html import unescape
from urllib.parse import quote_plus

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from tests.ingest.stream.frames import MARA, REPO
from tests.scoring.pipeline.offered_world import SECOND, THIRD, a_new_round
from tests.scoring.small import OFFERED
from tests.triage.worlds.acting_site import ANA, ActingSite, invited, signed_in
from triage.access.tokens import create_token
from triage.models import Person
from triage.presenters.lists import MOST_SAVED, NAME_LENGTH
from triage.services.erasure import account_of, forget_account

pytestmark = pytest.mark.django_db
HOSTILE = "<script>alert(1)</script>"


def page_of(client: Client, address: str = "/?mine=1") -> str:
    return unescape(client.get(address).content.decode())


def shown(client: Client) -> set[str]:
    """What `?mine=1` lists, which page, counts and JSON tell alike."""
    page = page_of(client)
    found = {one["uri"] for one in client.get("/queue?mine=1").json()["pull_requests"]}
    assert {uri for uri in (OFFERED, SECOND, THIRD) if f"open={quote_plus(uri)}" in page} == found
    assert page.partition('id="tile-all"')[2].partition('class="figure">')[2].startswith(f"{len(found)}<")
    return found


def token_of(did: str) -> str:
    return create_token("mine", ["read"], timezone.now(), Person.objects.get(did=did))


def test_mine_is_what_i_have_in_hand_until_i_let_go_of_it(site: ActingSite, ana: Client, ben: Client) -> None:
    assert shown(ana) == set()
    ana.post("/act", site.form("pull_for_review"))
    ben.post("/act", site.form("request_changes", SECOND, note="Split it."))
    assert (shown(ana), shown(ben)) == ({OFFERED}, {SECOND})
    ana.post("/act", site.form("release", version=1))
    assert (shown(ana), shown(ben)) == (set(), {SECOND})


def test_mine_is_what_i_approved_and_what_changed_after_that(site: ActingSite, ana: Client, ben: Client) -> None:
    ana.post("/act", site.form())
    assert f"open={quote_plus(OFFERED)}" in page_of(ana), "before the worker knows of it"
    site.after(11)
    site.work()
    assert "Approved, not merged yet" in page_of(ana)
    assert "Approved, not merged yet" not in page_of(ben)
    a_new_round(site.result)
    site.work()
    assert shown(ana) == {OFFERED}
    assert "hanged after you approved it" in page_of(ana)
    assert shown(ben) == set()


def test_feed_and_digest_tell_of_what_is_mine_as_the_inbox_does(site: ActingSite, ana: Client, ben: Client) -> None:
    ana.post("/act", site.form("pull_for_review"))
    for client, did, count in ((ana, ANA, 1), (ben, "did:plc:" + "3" * 24, 0)):
        token = token_of(did)
        feed = Client().get(f"/feed/{token}.atom?mine=1").content.decode()
        by_token = Client(headers={"Authorization": f"Bearer {token}"})
        for text in (page_of(client, "/digest?mine=1"), page_of(by_token, "/digest?mine=1")):
            assert text.count(f"/pull/{OFFERED}") >= count
            assert f"/pull/{SECOND}" not in text
            assert f", {count} to review," in text
        assert feed.count("<entry>") == count
        assert [one["uri"] for one in by_token.get("/queue?mine=1").json()["pull_requests"]] == [OFFERED] * count
        assert Client().get(f"/feed/{token}.atom").content.decode().count("<entry>") == 3


def test_who_is_nobody_here_has_nothing(site: ActingSite, settings: Settings) -> None:
    settings.PUBLIC_READ = True
    page = page_of(Client())
    assert "No open pull request matches this filter." in page
    assert 'name="mine"' not in page
    assert Client().get("/queue?mine=1").json()["total"] == 0


def save(client: Client, name: str, view: str = "/?q=lamp&sort=oldest&mine=1") -> int:
    return client.post("/filters/save", {"name": name, "next": view}).status_code


def links(client: Client) -> str:
    """The navigation of saved filters; "" where there is none."""
    return page_of(client, "/").partition('aria-label="Saved filters"')[2].partition("</nav>")[0]


def test_a_saved_filter_restores_its_view_and_is_nobody_elses(site: ActingSite, ana: Client, ben: Client) -> None:
    view = f"/?bucket=normal_queue&q=lamp&repository={quote_plus(REPO)}&sort=oldest&mine=1"
    assert save(ana, "  Lamps   first ", f"{view}&page=3&open={OFFERED}") == 302
    assert f'href="{view}"' in links(ana)
    assert "Lamps first" in links(ana)
    assert 'aria-current="true"' in page_of(ana, view).partition('aria-label="Saved filters"')[2].partition("</nav>")[0]
    assert links(ben) == ""
    ben.post("/filters/delete", {"name": "Lamps first"})
    assert "Lamps first" in links(ana)
    ana.post("/filters/delete", {"name": "Lamps first"})
    assert links(ana) == ""


def test_a_second_one_of_a_name_takes_the_place_of_the_first(site: ActingSite, ana: Client) -> None:
    save(ana, "Lamps")
    save(ana, "Lamps", "/?q=stairs")
    assert "lamp&" not in links(ana)
    assert 'href="/?q=stairs"' in links(ana)


def test_a_held_page_is_made_anew_after_a_filter_was_saved(site: ActingSite, ana: Client) -> None:
    tag = ana.get("/")["ETag"]
    save(ana, "Lamps")
    assert ana.get("/", headers={"If-None-Match": tag}).status_code == 200


def test_what_has_no_name_or_filters_nothing_is_not_saved(site: ActingSite, ana: Client) -> None:
    assert [save(ana, name, "/?q=a") for name in ("", "  ", "x" * (NAME_LENGTH + 1), "a\x00b")] == [400] * 4
    assert save(ana, "Everything", "/") == 400
    assert save(ana, "New", "/?new=2026-11-19T12:00:00") == 400, "a moment is no view to come back to"
    assert Person.objects.get(did=ANA).saved_filters == []


def test_their_number_is_bounded_and_their_names_are_text(site: ActingSite, ana: Client) -> None:
    assert [save(ana, f"{HOSTILE[:30]}\u202e{number}") for number in range(MOST_SAVED + 2)][-3:] == [400] * 3
    Person.objects.filter(did=ANA).update(saved_filters=[])
    assert [save(ana, f"{HOSTILE[:30]}{number}") for number in range(MOST_SAVED + 2)] == [302] * MOST_SAVED + [400] * 2
    raw = ana.get("/").content.decode()
    assert "<script>alert" not in raw
    assert raw.count("&lt;script&gt;alert") >= MOST_SAVED


def test_what_is_stored_of_a_filter_is_only_ever_a_view(site: ActingSite, ana: Client) -> None:
    """A form made by hand, and a row that another version wrote."""
    save(ana, "Elsewhere", "https://elsewhere.example/?q=lamp&evil=1")
    assert "elsewhere.example" not in links(ana)
    assert "evil" not in str(Person.objects.get(did=ANA).saved_filters)
    Person.objects.filter(did=ANA).update(saved_filters=[{"name": "Old", "sort": "gone", "q": "lamp"}])
    assert 'href="/?q=lamp"' in links(ana)


def test_it_is_told_and_erased_with_its_account_and_where_it_names_somebody(site: ActingSite, ana: Client) -> None:
    save(ana, "Lamps", "/?q=lamp")
    save(ana, "One person", f"/?q={MARA}")
    save(ana, "By handle", "/?q=Mara.Example")
    assert [one["name"] for one in (account_of(ANA) or {})["saved_filters"]] == ["Lamps", "One person", "By handle"]
    forget_account(MARA, "mara.example")
    assert [one["name"] for one in (account_of(ANA) or {})["saved_filters"]] == ["Lamps"]
    forget_account(ANA, None)
    assert not Person.objects.filter(did=ANA).exists()


def test_only_who_is_signed_in_saves_one(site: ActingSite, ana: Client) -> None:
    assert Client().post("/filters/save", {"name": "x", "next": "/?q=a"}).status_code == 302
    viewer = signed_in(invited(f"did:plc:{'v' * 24}"))
    assert save(viewer, "Mine alone") == 302
    assert "Mine alone" in links(viewer)
    assert "Mine alone" not in links(ana)
