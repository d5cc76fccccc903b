"""Rows that nobody touched for half a year are listed, and several are snoozed and brought back together."""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta

import pytest
from django.test import Client

from tests.scoring.pipeline.offered_world import SECOND, THIRD, a_new_round
from tests.scoring.small import OFFERED
from tests.triage.worlds.acting_site import ActingSite, invited, signed_in
from triage.context import present
from triage.models import Change, Snooze

pytestmark = pytest.mark.django_db
ALL = (OFFERED, SECOND, THIRD)
QUIET, YOUNG = timedelta(days=181), timedelta(days=179)


def now(site: ActingSite) -> datetime:
    """The present time of the pages."""
    with site.reader.pin() as snapshot:
        assert snapshot is not None
        return present(snapshot)


def spoken(site: ActingSite, uris: Iterable[str], ago: timedelta) -> None:
    """Make these pull requests and their rounds that old."""
    moment = now(site) - ago
    with site.result.store.write() as txn:
        for uri in uris:
            txn.execute("update pull_requests set opened_at = ? where pull_uri = ?", [moment, uri])
            txn.execute("update pull_rounds set created_at = ? where pull_uri = ?", [moment, uri])
            txn.execute("delete from comments where subject_uri = ?", [uri])
    site.publish()


def offered(client: Client) -> list[str]:
    """The values of the list's boxes."""
    return re.findall(r'name="pull" value="([^"]+)" checked', client.get("/quiet").content.decode())


def uris(client: Client) -> set[str]:
    return {value.partition("|")[0] for value in offered(client)}


def test_only_what_nobody_touched_for_half_a_year_is_listed_and_the_inbox_leads_there(
    site: ActingSite, ana: Client
) -> None:
    spoken(site, ALL, YOUNG)
    assert "Nothing in the inbox is that quiet." in ana.get("/quiet").content.decode()
    assert "quiet for half a year" not in ana.get("/").content.decode()
    spoken(site, [OFFERED, THIRD], QUIET)
    assert uris(ana) == {OFFERED, THIRD}
    assert '<a href="/quiet">2 quiet for half a year</a>' in ana.get("/").content.decode()


def test_a_comment_an_action_or_a_new_round_is_a_word(site: ActingSite, ana: Client) -> None:
    spoken(site, ALL, QUIET)
    moment = now(site)
    comment = {"uri": "at://c", "author_id": 1, "form": "pull", "subject_uri": OFFERED, "body": "?"}
    with site.result.store.write() as txn:
        txn.append("comments", [comment | {"written_at": moment, "seen_at": moment, "changed_at": moment}])
    site.publish()
    assert uris(ana) == {SECOND, THIRD}
    with site.result.store.write() as txn:
        txn.execute("update comments set deleted_at = ? where uri = 'at://c'", [moment])
        txn.execute("update pull_rounds set created_at = ? where pull_uri = ?", [moment, SECOND])
    site.publish()
    assert uris(ana) == {OFFERED, THIRD}, "a comment that is gone is no word"


def test_neither_flagged_ones_nor_unanswered_audits_nor_snoozed_ones_are_listed(site: ActingSite, ana: Client) -> None:
    spoken(site, ALL, QUIET)
    with site.result.store.write() as txn:
        txn.execute("update current_decisions set lane = 'needs_human' where pull_uri = ?", [OFFERED])
    site.publish()
    assert uris(ana) == {SECOND, THIRD}
    ana.post("/quiet/snooze", {"pull": [value for value in offered(ana) if SECOND in value]})
    assert uris(ana) == {THIRD}


def test_the_ticked_ones_are_snoozed_until_they_change_and_one_undo_brings_all_back(
    site: ActingSite, ana: Client, ben: Client
) -> None:
    spoken(site, ALL, QUIET)
    assert ana.post("/quiet/snooze", {"pull": offered(ana)[:2]}).status_code == 302
    assert set(Snooze.objects.values_list("until", flat=True)) == {None}
    assert Change.objects.filter(what="row.snoozed").count() == 2
    page = ana.get("/quiet").content.decode()
    assert len(re.findall("Snoozed 2 pull requests until they change.", page)) >= 1
    key = re.search(r'name="key" value="(\w+)"', page.partition('id="offers"')[2])
    assert key is not None
    assert ben.post("/act/undo", {"key": key[1]}).status_code == 400
    assert ana.post("/act/undo", {"key": key[1]}).status_code == 302
    assert len(offered(ana)) == 3
    assert not Snooze.objects.exists()


def test_a_change_between_page_and_click_snoozes_none_of_them(site: ActingSite, ana: Client) -> None:
    spoken(site, ALL, QUIET)
    values = offered(ana)
    a_new_round(site.result)
    site.work()
    answer = ana.post("/quiet/snooze", {"pull": values})
    assert answer.status_code == 409
    assert not Snooze.objects.exists()


@pytest.mark.parametrize("pulls", [[], ["x"], ["a|b|0|c|0"] * 60, ["at://nobody/x/1||0||0"]])
def test_a_form_that_no_page_of_ours_sends_snoozes_nothing(site: ActingSite, ana: Client, pulls: list[str]) -> None:
    spoken(site, ALL, QUIET)
    assert ana.post("/quiet/snooze", {"pull": pulls}).status_code in (400, 409)
    assert not Snooze.objects.exists()


def test_only_maintainers_see_the_list_and_snooze_their_own_repositories_rows(site: ActingSite, ana: Client) -> None:
    spoken(site, ALL, QUIET)
    values = offered(ana)
    for client in (Client(), signed_in(invited(f"did:plc:{'v' * 24}"))):
        assert client.get("/quiet").status_code in (302, 403)
        client.post("/quiet/snooze", {"pull": values})
    elsewhere = site.maintainer(f"did:plc:{'w' * 24}", "wim.example", "did:plc:elsewhere")
    assert uris(elsewhere) == set()
    assert elsewhere.post("/quiet/snooze", {"pull": values}).status_code == 403
    assert not Snooze.objects.exists()
