"""Closing the fast lane: at once, by name and with a reason, and only a person opens it again."""

import json
import re
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from pytest_django import Settings

from scoring.queries import read
from tests.ingest.stream.frames import ANA, MARA, REPO, SEED
from tests.stores import statements_noted
from tests.triage.worlds.acting_site import ActingSite, signed_in
from tests.triage.worlds.estimated_site import CABIN, estimated_site
from tests.triage.worlds.lane_site import MORE, NEXT, OTHER, lane_site, lanes
from triage.models import Action, Change, Delivery, LaneClosure, OutboxEntry, Person
from triage.presenters.lane_heads import lane_states
from triage.services.erasure import forget_account
from triage.services.notifying.webhooks import note_changes

pytestmark = pytest.mark.django_db
SITE = lane_site
BEN = "did:plc:" + "3" * 24
HOSTILE = "<script>alert(1)</script> {{ x }} \u202egnp"
FAST, NORMAL = "fast_lane", "normal_queue"


def close(client: Client, **named: str) -> int:
    return client.post("/lane/close", {"repo_key": REPO, "because": "it let a bad one in", **named}).status_code


def fast_rows(client: Client) -> int:
    return client.get("/?bucket=fast_lane").content.decode().count('class="pick"')


def test_all_three_are_fast_laned_before_anybody_closes_anything(site: ActingSite, ben: Client) -> None:
    assert set(lanes(site).values()) == {FAST}
    assert fast_rows(ben) == 3


def test_a_closed_lane_is_closed_on_the_pages_at_once_and_in_the_store_with_the_next_pass(
    site: ActingSite, ben: Client
) -> None:
    assert close(ben) == 302
    page = ben.get("/").content.decode()
    assert 'class="pick"' not in page
    assert page.count('class="lane review"') == 3
    head = r'<h2 id="group-normal_queue">Needs review</h2> <span class="count" id="count-normal_queue">3</span>'
    assert re.search(head + r"\s*<p>oldest \d+ (?:min|h|d)", page)
    assert "it let a bad one in" in page
    assert "ben.example closed the fast lane in" in page
    (told,) = ben.get("/lanes").json()["lanes"]
    assert (told["state"], told["reason"], told["threshold"]) == ("shut", "lane_closed", None)
    assert told["notice"] == "ben.example closed the fast lane in lantern: it let a bad one in"
    assert told["since"].startswith(f"{site.now:%Y-%m-%dT%H:%M}")
    own = ben.get("/lane").content.decode()
    assert "<h1>The fast lane is closed by hand</h1>" in own
    assert "open, estimated" not in own
    anybody = Client().get("/").content.decode()
    assert "it let a bad one in" in anybody
    assert "/lane#closed" not in anybody, "that page asks them to sign in"
    assert set(lanes(site).values()) == {FAST}, "the worker was not told yet"
    assert site.work() == 1
    assert set(lanes(site).values()) == {NORMAL}
    assert "The fast lane is closed in this repository; " in ben.get(f"/pull/{NEXT}").content.decode()


def test_the_pull_requests_own_page_offers_no_fast_lane_either(site: ActingSite, ben: Client) -> None:
    close(ben, author=MARA)
    assert 'class="pill review"' in ben.get(f"/pull/{NEXT}").content.decode()
    assert 'class="pill fast"' in ben.get(f"/pull/{OTHER}").content.decode()


@pytest.mark.parametrize(
    ("named", "closed"),
    [({"author": MARA}, {NEXT, MORE}), ({"voucher": SEED}, {NEXT, MORE, OTHER}), ({"voucher": ANA}, set())],
)
def test_a_lane_is_closed_for_exactly_what_was_named(
    site: ActingSite, ben: Client, named: dict[str, str], closed: set[str]
) -> None:
    handle = {name: did.removeprefix("did:plc:")[:8] + ".example" for name, did in named.items()}
    assert close(ben, **handle) == 400, "nobody has this handle yet"
    with site.result.store.write() as txn:
        for name, did in named.items():
            txn.execute("update contributors set handle = ?, handle_verified = true where did = ?", [handle[name], did])
    site.publish()
    assert close(ben, **{name: f"@{each}" for name, each in handle.items()}) == 302
    assert fast_rows(ben) == 3 - len(closed)
    site.work()
    assert {uri for uri, lane in lanes(site).items() if lane == NORMAL} == closed
    assert fast_rows(ben) == 3 - len(closed)


def test_what_was_closed_is_not_approved_in_bulk(site: ActingSite, ben: Client) -> None:
    from triage.forms.actions import written_choice

    with site.reader.pin() as shown:
        assert shown is not None
        seen = {uri: one.seen for uri, one in read.subjects(shown, [NEXT, OTHER]).items()}
    chosen = {"pull": [written_choice(uri, one, 0) for uri, one in seen.items()], "confirmed": "yes"}
    close(ben, author=MARA)
    assert ben.post("/act/bulk", chosen).status_code == 409
    assert not Action.objects.exists()


def test_closing_twice_leaves_one_closure_and_its_first_reason(site: ActingSite, ben: Client) -> None:
    close(ben)
    close(ben, because="again")
    assert [one.because for one in LaneClosure.objects.all()] == ["it let a bad one in"]
    assert OutboxEntry.objects.count() == 1
    assert "before you did: it stays closed" in ben.get("/lane").content.decode()


def test_only_a_person_opens_it_again_and_both_are_logged(site: ActingSite, ben: Client) -> None:
    close(ben)
    site.work()
    site.after(10 * 86_400)
    assert site.work() == 0
    assert set(lanes(site).values()) == {NORMAL}
    key = LaneClosure.objects.get().key
    assert ben.post("/lane/open", {"key": key, "because": "mended"}).status_code == 302
    assert site.work() == 1
    assert set(lanes(site).values()) == {FAST}
    logged = (
        Change.objects.filter(what__startswith="lane.").order_by("pk").values_list("what", "person__did", "details")
    )
    assert [(what, did, details["because"]) for what, did, details in logged] == [
        ("lane.closed", BEN, "it let a bad one in"),
        ("lane.opened", BEN, "mended"),
    ]
    assert close(ben) == 302, "and it can be closed again"
    assert site.work() == 1
    assert set(lanes(site).values()) == {NORMAL}


def test_a_message_that_comes_twice_or_out_of_order_changes_nothing(site: ActingSite, ben: Client) -> None:
    close(ben)
    key = LaneClosure.objects.get().key
    ben.post("/lane/open", {"key": key, "because": "a slip"})
    OutboxEntry.objects.filter(kind="lane.closed").update(due_at=site.now.replace(year=2027))
    site.work()
    OutboxEntry.objects.update(due_at=site.now, delivered_at=None)
    assert site.work() == 2
    assert set(lanes(site).values()) == {FAST}
    counted = "select (select count(*) from lane_closures) + (select count(*) from lane_openings)"
    assert site.result.value(counted) == 2


@pytest.mark.parametrize("address", ["/lane/close", "/lane/open"])
def test_nobody_no_viewer_and_no_maintainer_of_another_repository_moves_the_lane(
    site: ActingSite, ben: Client, address: str
) -> None:
    close(ben, author=MARA)
    form = {"repo_key": REPO, "key": LaneClosure.objects.get().key, "because": "I say so"}
    answer = Client().post(address, form)
    assert answer.status_code == 401
    assert "I say so" in answer.content.decode(), "what somebody wrote is given back"
    assert 'href="/sign-in?next=' in answer.content.decode()
    viewer = Person.objects.create(did="did:plc:" + "4" * 24)
    elsewhere = site.maintainer("did:plc:" + "5" * 24, "eve.example", "did:plc:" + "6" * 24)
    for client in (signed_in(viewer), elsewhere):
        assert client.post(address, form).status_code == 403
    assert ben.post("/lane/close", {"because": "everywhere"}).status_code == 403, "ben maintains one repository"
    assert ben.get(address).status_code == 405
    assert LaneClosure.objects.filter(opened_at=None).count() == 1


def test_what_has_no_reason_or_names_nobody_closes_nothing(site: ActingSite, ben: Client) -> None:
    names = ({"author": "mara"}, {"author": "no.example"}, {"voucher": "x; drop"})
    for form in ({"because": "  "}, {"because": "x" * 501}, *names):
        assert close(ben, **form) == 400, form
    assert not LaneClosure.objects.exists()


def test_a_handle_is_taken_where_the_network_confirms_it(
    site: ActingSite, ben: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "dids_of_handles", lambda rows, handles: {"mara.example": MARA} if handles else {})
    assert close(ben, author="@Mara.example") == 302
    assert LaneClosure.objects.get().author == MARA


def test_hostile_words_are_shown_and_never_obeyed(site: ActingSite, ben: Client) -> None:
    close(ben, because=HOSTILE)
    for address in ("/", "/dashboard", "/lane"):
        page = ben.get(address).content.decode()
        assert "&lt;script&gt;alert(1)&lt;/script&gt; {{ x }} ⟨U+202E⟩gnp" in page
        assert "<script>alert" not in page


def test_readers_are_told_of_a_closed_repository_and_not_of_an_account_under_suspicion(
    site: ActingSite, ben: Client
) -> None:
    close(ben, author=MARA, because="mara lost her keys")
    assert "mara lost her keys" in ben.get("/dashboard").content.decode()
    for address in ("/", "/dashboard"):
        assert "mara lost her keys" not in Client().get(address).content.decode()
    close(ben, because="we look into it")
    assert "we look into it" in Client().get("/").content.decode()


def test_whoever_closed_it_may_be_erased_and_it_stays_closed_but_not_for_an_erased_author(
    site: ActingSite, ben: Client
) -> None:
    close(ben)
    close(ben, author=MARA)
    forget_account(BEN, None)
    forget_account(MARA, None)
    (left,) = LaneClosure.objects.all()
    assert (left.author, left.person) == ("", None)
    assert "an erased account closed the fast lane" in Client().get("/").content.decode()
    assert site.work() == 1, "the worker had not been told before"
    assert set(lanes(site).values()) == {NORMAL}


def run_command(*arguments: str) -> None:
    call_command("close_lane", *arguments, "--by", BEN)


def test_the_command_closes_and_opens_by_name(
    site: ActingSite, ben: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    run_command("--repo", REPO, "--author", MARA, "--because", "she lost her keys")
    assert "ben.example closed the fast lane for pull requests by did:plc:" in capsys.readouterr().out
    assert fast_rows(ben) == 1
    site.work()
    assert {uri for uri, lane in lanes(site).items() if lane == NORMAL} == {NEXT, MORE}
    run_command("--repo", REPO, "--author", MARA, "--because", "she has new ones", "--open")
    site.work()
    assert set(lanes(site).values()) == {FAST}


def test_the_command_says_what_is_wrong_and_changes_nothing(site: ActingSite) -> None:
    with pytest.raises(CommandError, match="has no account here"):
        run_command("--because", "x")
    site.maintainer(BEN, "ben.example")
    for arguments, said in (
        (("--repo", "nowhere", "--because", "x"), "No watched repository"),
        (("--author", "mara", "--because", "x"), "did:plc:"),
        (("--because", " "), "Give a reason"),
        (("--because", "x", "--open"), "is not closed for exactly this"),
    ):
        with pytest.raises(CommandError, match=said):
            run_command(*arguments)
    assert not LaneClosure.objects.exists()


def test_the_webhook_tells_of_the_closure_and_of_every_lane_that_follows(site: ActingSite, ben: Client) -> None:
    store = site.result.store
    assert note_changes(store, site.now) == 0
    close(ben, author=MARA)
    site.work()
    assert note_changes(store, site.now) == 3
    closed, *moved = [json.loads(one.body) for one in Delivery.objects.order_by("pk")]
    assert closed["data"] == {"by": "person", "scope": "author", "repository": REPO}
    assert {one["data"]["pull_request"] for one in moved} == {NEXT, MORE}
    assert {(one["data"]["from"], one["data"]["to"]) for one in moved} == {(FAST, NORMAL)}
    assert {one["data"]["reasons"][0] for one in moved} == {"lane_closed"}


def test_who_reads_the_lanes_asks_for_names_once_however_many_are_closed(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every page does: where 60 were closed it read all names 60 times."""
    asked = []
    with estimated_site(tmp_path, settings, monkeypatch) as site, site.reader.pin() as snapshot:
        assert snapshot is not None
        for repo_key in (REPO, CABIN):
            admin = site.maintainer(BEN, "ben.example", repo_key)
            assert admin.post("/lane/close", {"repo_key": repo_key, "because": "we look"}).status_code == 302
            lane_states(snapshot)  # what the snapshot itself says is kept
            with statements_noted() as statements:
                closed = [one for one in lane_states(snapshot) if one.because == "lane_closed"]
            asked.append((len(closed), len(statements)))
    assert asked == [(1, asked[0][1]), (2, asked[0][1])]
