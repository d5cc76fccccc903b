"""A snoozed row leaves the queue for everybody, is counted, and comes back on its day or when it changes."""

import re
from datetime import datetime, timedelta
from itertools import product
from typing import Any
from urllib.parse import quote_plus

import pytest
from django.test import Client

from tests.conftest import Count
from tests.ingest.stream.frames import MARA, REPO
from tests.scoring.pipeline.offered_world import SECOND, THIRD, a_new_round
from tests.scoring.small import OFFERED
from tests.triage.worlds.acting_site import ANA, BEN, HTMX, ActingSite, invited, maintainer, signed_in
from triage import tasks
from triage.models import Change, Person, Snooze

pytestmark = pytest.mark.django_db
ELSEWHERE = "did:plc:" + "e" * 24
HOSTILE = "<script>alert(1)</script>"


def snooze(site: ActingSite, client: Client, uri: str = OFFERED, until: str = "week", **changes: Any) -> int:
    """What the form sends; the status of the answer."""
    form = site.form(uri=uri, until=until, next=f"/?open={uri}&q=", **changes)
    return client.post("/snooze", {name: value for name, value in form.items() if value is not None}).status_code


def page_of(client: Client, address: str = "/") -> str:
    return client.get(address).content.decode()


def is_listed(client: Client, uri: str = OFFERED) -> bool:
    """Whether the queue, its feed's source and its JSON show the row; they never disagree."""
    on_page = quote_plus(uri) in page_of(client)
    in_json = uri in [one["uri"] for one in client.get("/queue").json()["pull_requests"]]
    assert on_page == in_json
    return on_page


def tile(client: Client) -> str:
    """The count of all pull requests in the inbox."""
    return page_of(client).partition('id="tile-all"')[2].partition('class="figure">')[2].partition("<")[0]


def test_a_snoozed_row_leaves_the_queue_and_its_counts_for_everybody_and_the_header_says_so(
    site: ActingSite, ana: Client, ben: Client
) -> None:
    assert tile(ben) == "3"
    assert "snoozed</a>" not in page_of(ben)
    answer = ana.post("/snooze", {**_sent(site), "until": "week", "next": f"/?q=a&open={OFFERED}"})
    assert (answer.status_code, answer["Location"]) == (302, "/?q=a")
    for client in (ana, ben, signed_in(invited(f"did:plc:{'v' * 24}"))):
        assert not is_listed(client)
        assert tile(client) == "2"
        assert "1 snoozed</a>" in page_of(client)
    assert "Snoozed until 27 Nov 2026 by ana.example" in page_of(ben, f"/pull/{OFFERED}")
    assert "Snoozed until 27 Nov 2026 by ana.example." in page_of(ben, f"/history/{OFFERED}")
    listed = page_of(ben, "/snoozed")
    assert "Snoozed until 27 Nov 2026 by ana.example" in listed
    assert f'href="/c/{MARA}"' in listed, "who sent it"
    read = page_of(signed_in(invited(f"did:plc:{'v' * 24}")), "/snoozed")
    assert ("Snoozed until 27 Nov 2026" in read, "ana.example" in read) == (True, False), "who did is the maintainers'"
    digest = page_of(ana, "/digest")
    assert OFFERED not in digest
    assert "Snoozed: 1, 0 of them flagged." in digest


def test_what_is_open_is_counted_by_one_number_on_every_page_and_for_programs(
    site: ActingSite, ana: Client, ben: Client
) -> None:
    snooze(site, ana)
    assert ben.post("/act", site.form(uri=SECOND)).status_code == 302
    said = "3 are open: 1 in the inbox, 1 approved and not merged yet, 1 snoozed."
    for worked in (False, True):
        assert tile(ana) == "1", worked
        assert "1 approved</a>" in page_of(ana)
        board = page_of(ana, "/dashboard")
        assert said in board
        counts = board.partition("In the inbox</th>")[2].partition("</table>")[0]
        assert sum(map(int, re.findall(r'</th><td class="number">(\d+)</td>', counts))) == 1, "as the tiles say"
        assert said in page_of(ana, "/digest")
        told = ana.get("/metrics").json()
        assert told["open"] == {"total": 3, "inbox": 1, "approved": 1, "snoozed": 1}
        assert sum(told["lanes"].values()) == 1, "as the dashboard's"
        whole, *lanes = map(int, re.findall(r'class="figure">(\d+)<', page_of(ana)))
        assert (whole, sum(lanes)) == (1, 1), "the tiles add up"
        assert " of 1 in the inbox " in board
        assert ana.get("/queue").json()["total"] == (1 if worked else 2), "it follows the worker"
        gauges = page_of(ana, "/ops/metrics")
        assert 'sunstead_inbox_left_out{why="approved"} 1.0' in gauges
        assert 'sunstead_inbox_left_out{why="snoozed"} 1.0' in gauges
        site.after(11)
        site.work()
    ana.post("/snooze", _sent(site, SECOND) | {"until": "week"})
    assert said in page_of(ana, "/dashboard"), "what is approved counts once"


def _sent(site: ActingSite, uri: str = OFFERED) -> dict[str, Any]:
    return {name: value for name, value in site.form(uri=uri).items() if value is not None}


def test_a_flagged_one_is_named_as_such_in_the_header(site: ActingSite, ana: Client, ben: Client) -> None:
    with site.result.store.write() as txn:
        txn.execute("update current_decisions set lane = 'needs_human' where pull_uri = ?", [OFFERED])
    site.publish()
    snooze(site, ana)
    snooze(site, ana, SECOND)
    assert "2 snoozed, 1 flagged</a>" in page_of(ben)
    assert "2 snoozed, 1 flagged" in page_of(ben, "/snoozed")


def test_a_page_of_a_person_leads_to_what_of_theirs_is_snoozed(site: ActingSite, ana: Client, ben: Client) -> None:
    snooze(site, ana)
    author, other = OFFERED.removeprefix("at://").partition("/")[0], ELSEWHERE
    address = f"/snoozed?q={quote_plus(author)}"
    assert f'<a href="{address}">Snoozed</a>' in page_of(ben, f"/c/{author}")
    assert OFFERED in page_of(ben, address)
    assert "1 snoozed" in page_of(ben, address)
    for hostile in (other, author[:-1], f"{author}/", "did:plc:<script>"):
        shown = page_of(ben, f"/snoozed?q={quote_plus(hostile)}")
        assert OFFERED not in shown
        assert "Nothing of theirs is snoozed." in shown
        assert "<script>" not in shown.partition("<h1>")[2].partition("</main>")[0]


@pytest.mark.parametrize(("until", "hours"), [("tomorrow", 12), ("3days", 60), ("week", 156), ("day", 252)])
def test_it_comes_back_on_its_day(site: ActingSite, ana: Client, until: str, hours: int) -> None:
    assert snooze(site, ana, until=until, day="2026-12-01") == 302
    site.now += timedelta(hours=hours, seconds=-1)
    assert not is_listed(ana)
    site.after(1)
    assert is_listed(ana), "at noon its day is so many hours away"
    assert "Nothing is snoozed. Snooze a row in the inbox with the key z." in page_of(ana, "/snoozed")


def test_a_page_that_is_held_is_made_anew_when_the_day_has_come(site: ActingSite, ana: Client) -> None:
    snooze(site, ana)
    site.after(11)
    ana.get("/")  # sets the cookie that its forms go with
    tag = ana.get("/")["ETag"]
    assert ana.get("/", headers={"If-None-Match": tag}).status_code == 304
    site.now += timedelta(days=7)
    assert ana.get("/", headers={"If-None-Match": tag}).status_code == 200


def test_a_new_round_brings_it_back(site: ActingSite, ana: Client) -> None:
    snooze(site, ana)
    a_new_round(site.result)
    site.work()
    assert is_listed(ana)


def test_a_comment_brings_it_back(site: ActingSite, ana: Client) -> None:
    snooze(site, ana, until="change")
    comment = {"uri": "at://c", "author_id": 1, "form": "pull", "subject_uri": OFFERED, "body": "?"}
    moment = site.now.replace(tzinfo=None)
    with site.result.store.write() as txn:
        txn.append("comments", [comment | {"written_at": moment, "seen_at": moment, "changed_at": moment}])
    site.publish()
    assert is_listed(ana)


def test_another_lane_brings_it_back_and_another_number_does_not(site: ActingSite, ana: Client) -> None:
    snooze(site, ana, until="change")
    for column, is_back in (
        ("probability = .5, as_of = as_of + interval 1 day", False),
        ("lane = 'needs_human'", True),
    ):
        with site.result.store.write() as txn:
            txn.execute(f"update current_decisions set {column} where pull_uri = ?", [OFFERED])
        site.publish()
        assert is_listed(ana) is is_back


def test_what_somebody_does_with_it_brings_it_back_unless_they_undo_it(
    site: ActingSite, ana: Client, ben: Client
) -> None:
    snooze(site, ana)
    site.after(1)
    ben.post("/act", site.form("note", note="Look at the tests."))
    assert is_listed(ana)
    note = Change.objects.get(what="action.note").details["key"]
    ben.post("/act/undo", {"key": note}, headers=HTMX)
    assert not is_listed(ana)


def test_it_is_undone_by_the_toast_and_shown_again_from_the_list(site: ActingSite, ana: Client, ben: Client) -> None:
    snooze(site, ana)
    key = Snooze.objects.get().key
    assert f'value="{key}"' in page_of(ana).partition('id="offers"')[2]
    assert f'value="{key}"' not in page_of(ben).partition('id="offers"')[2]
    assert ben.post("/act/undo", {"key": key}).status_code == 400, "another one's toast undoes nothing"
    assert not is_listed(ana)
    assert ana.post("/act/undo", {"key": key}).status_code == 302
    assert is_listed(ana)
    snooze(site, ana)
    key = Snooze.objects.get().key
    assert "Show now" in page_of(ben, "/snoozed")
    assert ben.post("/snooze/end", {"key": key, "next": "/snoozed"})["Location"] == "/snoozed"
    assert is_listed(ben)
    told = [change.what for change in Change.objects.order_by("pk")]
    assert told == ["row.snoozed", "row.shown", "row.snoozed", "row.shown"]
    assert "Snoozed a row" in page_of(ana, "/changes")


def test_a_later_snooze_takes_the_place_of_the_first(site: ActingSite, ana: Client, ben: Client) -> None:
    snooze(site, ana, until="tomorrow")
    snooze(site, ben, until="change")
    assert Snooze.objects.get().person == Person.objects.get(did=BEN)
    assert "Snoozed until it changes by ben.example" in page_of(ana, "/snoozed")


def test_a_row_that_changed_since_it_was_shown_is_not_snoozed(site: ActingSite, ana: Client) -> None:
    form = _sent(site)
    a_new_round(site.result)
    site.work()
    answer = ana.post("/snooze", {**form, "until": "week"})
    assert answer.status_code == 409
    assert "it changed since you opened it" in answer.content.decode()
    assert is_listed(ana)


def test_no_other_day_is_taken(site: ActingSite, ana: Client) -> None:
    days = ("", "2026-11-20", "2027-11-21", "9999-12-31", "2026-02-30", HOSTILE)
    for until, day in product(("", "year", HOSTILE, "day"), days):
        assert snooze(site, ana, until=until, day=day) == 400, (until, day)
    assert not Snooze.objects.exists()


def test_only_maintainers_of_the_repository_snooze_and_show(site: ActingSite, ana: Client) -> None:
    stranger = signed_in(invited(f"did:plc:{'s' * 24}"))
    elsewhere = maintainer(f"did:plc:{'w' * 24}", ELSEWHERE)
    assert snooze(site, Client()) == 302
    assert (snooze(site, stranger), snooze(site, elsewhere)) == (403, 403)
    assert not Snooze.objects.exists()
    snooze(site, ana)
    key = {"key": Snooze.objects.get().key}
    for client, status in ((Client(), 302), (stranger, 403), (elsewhere, 403)):
        assert client.post("/snooze/end", key).status_code == status
        assert "Show now" not in page_of(client, "/snoozed")
    assert not is_listed(ana)
    assert ana.post("/snooze", {**_sent(site), "uri": "at://made/up/one", "until": "week"}).status_code == 404


def test_any_number_of_snoozes_stays_a_page_long(site: ActingSite, ana: Client, count: Count) -> None:
    person, moment = Person.objects.get(did=ANA), site.now
    told = {"repo_key": REPO, "person": person, "made_at": moment, "round": 0, "lane": "normal_queue", "comments": 0}
    Snooze.objects.bulk_create(
        Snooze(key=f"k{n}", pull_uri=f"at://gone/p/{n}", **told) for n in range(count(500, 3_000))
    )
    for uri in (OFFERED, SECOND, THIRD):
        snooze(site, ana, uri)
    page = page_of(ana, "/snoozed")
    assert page.count("Show now</button>") == 3, "what is not open any more is not counted"
    assert tile(ana) == "0"


def test_the_list_and_the_panel_escape_what_strangers_wrote(site: ActingSite, ana: Client) -> None:
    with site.result.store.write() as txn:
        txn.execute("update pull_requests set title = ? where pull_uri = ?", [f"{HOSTILE}\u202e", OFFERED])
    site.publish()
    snooze(site, ana)
    for address in ("/snoozed", f"/pull/{OFFERED}"):
        page = page_of(ana, address)
        assert HOSTILE not in page
        assert "\u202e" not in page
        assert "&lt;script&gt;" in page


def test_comments_are_counted_on_the_row_and_all_that_are_counted_are_listed_in_one_word(
    site: ActingSite, ana: Client, ben: Client
) -> None:
    ana.post("/act", site.form("note", note=f"Ask mara first. {HOSTILE}"))
    page = page_of(ben, f"/pull/{OFFERED}")
    assert ">1 comment</a>" in page
    inbox = page_of(ben)
    assert ">noted</b>" in inbox
    assert ">1 comment</span>" not in inbox, "a note is for maintainers, and no comment"
    assert "for maintainers: <bdi>Ask mara first. &lt;script&gt;" in page
    assert re.search(r"\d\d:\d\d UTC</time>", page.partition("for maintainers")[0][-200:])
    assert "ana.example" in page
    assert HOSTILE not in page
    stranger = signed_in(invited(f"did:plc:{'s' * 24}"))
    assert "Ask mara first" not in page_of(stranger, f"/pull/{OFFERED}"), "what is for maintainers is theirs"
    ana.post("/act/undo", {"key": Change.objects.get(what="action.note").details["key"]}, headers=HTMX)
    assert "Nobody commented yet." in page_of(ben, f"/pull/{OFFERED}")


def test_comments_on_the_forge_are_listed_cut_and_as_text_but_not_those_of_who_is_hidden_or_took_them_back(
    site: ActingSite, ben: Client
) -> None:
    moment = datetime(2026, 3, 1)
    about = {"author_id": 1, "form": "pull", "subject_uri": OFFERED, "seen_at": moment, "changed_at": moment}
    said = [
        (f"at://{number}", f"Number {number} {HOSTILE}\u202e {'x' * 3_000}", moment - timedelta(hours=number + 1))
        for number in range(60)
    ]
    with site.result.store.write() as txn:
        txn.append("comments", [about | {"uri": uri, "body": body, "written_at": at} for uri, body, at in said])
        txn.execute("update comments set deleted_at = ? where uri = 'at://1'", [moment])
        txn.execute("update comments set written_at = ? where uri = 'at://2'", [moment + timedelta(days=900)])
    site.publish()
    page = page_of(ben, f"/pull/{OFFERED}")
    assert ">59 comments</a>" in page
    assert "The newest 50 of 59." in page
    shown = re.findall(r"on Tangled: <bdi>Number (\d+) ", page)
    assert (len(shown), shown[-1], shown[0]) == (50, "2", "50"), "no date is later than its arrival"
    assert "1 Mar 2026 00:00 UTC" in page
    assert HOSTILE not in page
    assert "\u202e" not in page
    assert "x" * 2_001 not in page
    assert ">59 comments</span>" in page_of(ben)
    with site.result.store.write() as txn:
        txn.execute("update contributors set account_status = 'takendown' where contributor_id = 1")
    site.publish()
    hidden = page_of(ben, f"/pull/{OFFERED}")
    assert "on Tangled: <bdi>" not in hidden
    assert "Nobody commented yet." not in hidden, "somebody did, who is hidden now"


def test_after_ten_seconds_a_snooze_is_ended_from_its_list(site: ActingSite, ana: Client) -> None:
    snooze(site, ana)
    key = Snooze.objects.get().key
    site.after(10.1)
    answer = ana.post("/act/undo", {"key": key})
    assert (answer.status_code, Snooze.objects.count()) == (409, 1)
    assert "Show it again from the list of snoozed rows." in answer.content.decode()
    assert ana.post("/snooze/end", {"key": key}).status_code == 302
    assert not Snooze.objects.exists()


def test_an_approved_row_that_is_snoozed_is_counted_out_once(site: ActingSite, ana: Client) -> None:
    ana.post("/act", site.form())
    assert tile(ana) == "2"
    site.after(1)
    assert snooze(site, ana) == 302
    assert tile(ana) == "2"


def test_digest_counts_what_is_snoozed_in_its_view_and_not_among_the_new(site: ActingSite, ana: Client) -> None:
    before = page_of(ana, "/digest")
    snooze(site, ana)
    assert "Snoozed: 1" in page_of(ana, "/digest")
    assert "Snoozed" not in page_of(ana, "/digest?q=nothing-like-this")
    new = re.compile(r"New within 24 hours: (\d+)")
    assert int(new.findall(page_of(ana, "/digest"))[0]) == int(new.findall(before)[0]) - 1


def test_snoozes_that_hide_nothing_are_deleted_and_the_others_stay(
    site: ActingSite, ana: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "_has_tables", lambda: True)
    monkeypatch.setattr(tasks, "close_old_connections", lambda: None)  # it is the one of this test's transaction
    for uri, until in ((OFFERED, "change"), (SECOND, "tomorrow"), (THIRD, "week")):
        assert snooze(site, ana, uri, until) == 302
    a_new_round(site.result)
    site.after(2 * 86_400)
    site.work()
    tasks.drop_what_ended.call_local()
    assert [one.pull_uri for one in Snooze.objects.all()] == [THIRD]
    assert not is_listed(ana, THIRD)
