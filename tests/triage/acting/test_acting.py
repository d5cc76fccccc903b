"""Acting on rows: it takes effect once after ten seconds, which undo it, and the page says what was done."""

import re
from html import unescape
from urllib.parse import quote_plus

import pytest
from django.test import Client
from pytest_django import Settings

from ingest.store.database import StreamClock
from tests.ingest.stream.frames import ANA as TUTOR
from tests.ingest.stream.frames import MALLORY, MARA, REPO
from tests.pipeline import Later
from tests.scoring.pipeline.offered_world import SECOND, THIRD, a_new_round, learn
from tests.scoring.small import OFFERED
from tests.triage.worlds.acting_site import ANA, HTMX, NOON, ActingSite, approved, last_key
from triage.access.tokens import create_token, make_link
from triage.models import Action, Change, Lease, OutboxEntry, Person, outbox
from triage.presenters.queue.rows import row_anchor
from triage.presenters.text import place_words
from triage.services.erasure import account_of, forget_account

pytestmark = pytest.mark.django_db


def test_an_approval_takes_effect_once_after_ten_seconds(site: ActingSite, ana: Client) -> None:
    assert ana.post("/act", site.form()).status_code == 302
    site.after(9.9)
    assert site.work() == 0
    assert approved(ana) == []
    site.after(0.1)
    assert site.work() == 1
    assert site.work() == 0
    assert approved(ana) == [OFFERED]
    page, made_at = ana.get("/").content.decode(), f"{NOON:%Y-%m-%dT%H:%M:%S}"
    assert "Approved, not merged yet" in page
    assert f'approved by <bdi>ana.example</bdi> <time datetime="{made_at}' in page, "the day it was done, as in the log"


def test_an_approval_names_the_record_the_round_and_the_patch(site: ActingSite, ana: Client) -> None:
    form = site.form()
    ana.post("/act", form)
    site.after(10)
    site.work()
    (one,) = ana.get("/approved.json").json()["approved"]
    assert {name: one[name] for name in ("record_cid", "patch_id")} == {
        name: form[name] for name in ("record_cid", "patch_id")
    }
    assert one["round"] == form["round"] + 1, "as the pages count"
    assert one["approved_by"] == ANA
    for repo_key, seen in ((REPO, [one]), ("did:plc:another", [])):
        token = create_token("robot", ["read"], site.now, repo_key=repo_key)
        told = Client().get("/approved.json", headers={"authorization": f"Bearer {token}"}).json()
        assert told["approved"] == seen, "a token for one repository gets that one's"


def test_undo_at_nine_point_nine_seconds_undoes(site: ActingSite, ana: Client) -> None:
    ana.post("/act", site.form())
    site.after(9.9)
    assert ana.post("/act/undo", {"key": last_key()}).status_code == 302
    site.after(10)
    assert site.work() == 0
    assert site.approvals() == []
    assert Action.objects.get().undone_at is not None
    assert [change.what for change in Change.objects.order_by("pk")] == ["action.approve", "action.undone"]


def test_undo_at_ten_point_one_seconds_says_that_it_is_too_late(site: ActingSite, ana: Client) -> None:
    ana.post("/act", site.form())
    site.after(10.1)
    answer = ana.post("/act/undo", {"key": last_key()})
    assert answer.status_code == 409
    assert "The 10 seconds are over" in answer.content.decode()
    assert site.work() == 1
    assert site.approvals() == ["in force"]


def test_an_undo_that_meets_the_delivery_is_too_late_and_never_half_done(site: ActingSite, ana: Client) -> None:
    ana.post("/act", site.form())
    OutboxEntry.objects.update(tries=1)  # the worker has begun
    site.after(2)
    assert ana.post("/act/undo", {"key": last_key()}).status_code == 409
    assert Action.objects.get().undone_at is None
    assert not outbox.withdraw(last_key())


@pytest.mark.parametrize(
    "headers", [{}, {"HX-Request": "true", "HX-Current-URL": "/?open=other"}], ids=["no-scripts", "scripts"]
)
def test_an_undo_goes_through_at_once_and_opens_the_pull_request_again(
    site: ActingSite, ana: Client, headers: dict[str, str]
) -> None:
    ana.post("/act", site.form())
    answer = ana.post("/act/undo", {"key": last_key(), "next": "/?q=gate&open=other"}, headers=headers)
    assert Action.objects.get().undone_at is not None
    if headers:
        assert f"open={quote_plus(OFFERED)}" in answer.headers["HX-Push-Url"]
        assert 'id="open" class="pane"' in answer.content.decode()
    else:
        assert re.fullmatch(
            rf"/\?q=gate&open={re.escape(quote_plus(OFFERED))}#pull-\w+-title", answer.headers["Location"]
        )


def test_the_second_click_on_an_undo_approves_nothing(site: ActingSite, ana: Client) -> None:
    ana.post("/act", site.form())
    ana.post("/act/undo", {"key": last_key()})
    ana.post("/act", site.form(version=2))
    assert Action.objects.count() == 1, "Undo was clicked twice"
    assert "Looked like a double click, so nothing changed." in ana.get("/").content.decode()
    site.after(2)
    ana.post("/act", site.form(version=2))
    assert Action.objects.count() == 2


def test_nobody_undoes_what_another_did(site: ActingSite, ana: Client, ben: Client) -> None:
    ana.post("/act", site.form())
    assert ben.post("/act/undo", {"key": last_key()}).status_code == 400
    assert Action.objects.get().undone_at is None


def test_the_swapped_row_says_what_was_done_and_offers_undo_and_the_tiles_follow(site: ActingSite, ana: Client) -> None:
    page = ana.post("/act", site.form(), headers=HTMX).content.decode()
    assert "Approved by you." in page
    assert '<div id="tiles"' in page
    assert 'hx-swap-oob="true"' in page
    assert '<span class="figure">2</span>' in page
    assert f'name="key" value="{last_key()}"' in page
    assert "<html" not in page


@pytest.mark.parametrize(
    ("address", "is_renewed"),
    [
        (f"/?open={quote_plus(OFFERED)}&sort=oldest#x", True),
        ("/?sort=oldest", False),
        ("/?open=at%3A%2F%2Fother", True),
        ("http://[", False),
        ("", False),
    ],
)
def test_undo_in_a_row_opens_it_again_where_the_page_has_a_pane(
    site: ActingSite, ana: Client, address: str, is_renewed: bool
) -> None:
    ana.post("/act", site.form("pull_for_review"))
    asks = {"HX-Request": "true", "HX-Target": "pull-x", "HX-Current-URL": address}
    page = ana.post("/act/undo", {"key": last_key()}, headers=asks).content.decode()
    assert ('<section id="open"' in page) is is_renewed
    assert page.count("Assign to me") == is_renewed
    assert "Unassign" not in page


def test_without_scripts_the_page_comes_back_with_the_offer_to_undo(site: ActingSite, ana: Client) -> None:
    answer = ana.post("/act", site.form(next="/?sort=oldest"), follow=True)
    assert answer.redirect_chain == [("/?sort=oldest", 302)]
    page = answer.content.decode()
    assert "Approved by you." in page
    assert "It takes effect in 10 seconds." in page
    site.after(11)
    assert "It takes effect in 10 seconds." not in ana.get("/").content.decode()


def test_the_way_back_leads_nowhere_else(site: ActingSite, ana: Client) -> None:
    assert ana.post("/act", site.form(next="//evil.example/"))["Location"] == "/"


def test_reviewing_is_shown_to_others_until_it_is_released(site: ActingSite, ana: Client, ben: Client) -> None:
    ana.post("/act", site.form("pull_for_review"))
    assert "Assigned to ana.example." in ben.get("/").content.decode()
    assert ">Unassign</button>" in ben.get(f"/pull/{OFFERED}").content.decode()
    assert ben.post("/act", site.form("release", version=1)).status_code == 302
    assert "Assigned to ana" not in ben.get("/").content.decode()


@pytest.mark.parametrize(
    ("kind", "button"), [("request_changes", "Withdraw request"), ("close", "Withdraw request to close")]
)
def test_who_refuses_a_round_is_not_assigned_and_the_button_names_what_it_takes_back(
    site: ActingSite, ana: Client, kind: str, button: str
) -> None:
    ana.post("/act", site.form(kind, note="Split it."))
    shown = ana.get(f"/pull/{OFFERED}").content.decode()
    assert f'value="release">{button}</button>' in shown
    assert "Unassign" not in shown
    assert "Assigned to" not in shown
    released = ana.post("/act", site.form("release", version=1), follow=True).content.decode()
    assert "Released " in released
    assert "Unassigned" not in released
    assert ">Assign to me</button>" in ana.get(f"/pull/{OFFERED}").content.decode()


def test_looking_at_a_row_is_told_to_others_for_five_minutes_and_stops_nobody(
    site: ActingSite, ana: Client, ben: Client
) -> None:
    assert ana.post("/act/look", {"uri": OFFERED}, headers=HTMX).status_code == 204
    assert "ana.example is looking" in ben.get("/").content.decode()
    assert "ana.example is looking" not in ana.get("/").content.decode()
    ben.post("/act/look", {"uri": OFFERED})
    assert "ben.example is looking" not in ana.get("/").content.decode()
    assert ben.post("/act", site.form()).status_code == 302
    site.after(301)
    assert "is looking" not in ben.get("/").content.decode()


def test_an_outcome_can_be_corrected_and_both_stay(site: ActingSite, ana: Client) -> None:
    site.merge(OFFERED)
    ana.post("/act", site.form("outcome", outcome="clean"))
    ana.post("/act", site.form("outcome", version=1, outcome="reverted"))
    site.after(10)
    assert site.work() == 2
    page = ana.get(f"/history/{OFFERED}").content.decode()
    assert "marked it as clean" in page
    assert "marked it as reverted" in page
    assert '<option value="reverted" selected>' in page, "the mark that holds"


def test_a_note_is_text_and_nothing_else(site: ActingSite, ana: Client) -> None:
    ana.post("/act", site.form("note", note="<script>alert(1)</script>\u202e"))
    site.after(10)
    site.work()
    page = ana.get(f"/history/{OFFERED}").content.decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;⟨U+202E⟩" in page
    assert ana.post("/act", site.form("note", version=1, note="x" * 2001)).status_code == 400
    assert ana.post("/act", site.form("note", version=1, note="  ")).status_code == 400


def test_every_action_is_logged_with_who_and_when(site: ActingSite, ana: Client) -> None:
    ana.post("/act", site.form(uri=SECOND))
    change = Change.objects.get()
    assert (change.what, change.person.did, change.subject, change.repo_key) == ("action.approve", ANA, SECOND, REPO)
    assert change.made_at == site.now


def test_an_erased_person_leaves_no_action_and_no_name_in_the_log(site: ActingSite, ana: Client, ben: Client) -> None:
    ana.post("/act", site.form(uri=SECOND))
    ben.post("/act", site.form())
    ben.post("/act/look", {"uri": OFFERED})
    ana.post("/act", site.form("note", version=1, note="kept"))
    assert len((account_of(ANA) or {})["actions"]) == 2
    forget_account(ANA, None)
    author = OFFERED.split("/")[2]
    forget_account(author, None)
    assert Action.objects.count() == OutboxEntry.objects.count() == Lease.objects.count() == 0
    assert not [
        change
        for change in Change.objects.all()
        if author in change.subject or (change.person is not None and change.person.did == ANA)
    ]
    assert Change.objects.count() == 3


def test_no_link_on_a_contributors_page_leads_to_nothing(site: ActingSite, ana: Client) -> None:
    frames = Later(NOON.replace(tzinfo=None))
    elsewhere = "did:plc:" + "c" * 24
    frames.repository(MALLORY, "cabin", repoDid=elsewhere)
    frames.pull(MARA, "unwatched", target=elsewhere, title="Heat the cabin")
    learn(site.result, frames)
    site.merge(SECOND)
    for did, title in ((MARA, "Heat the cabin"), (TUTOR, "Sweep the stairs")):
        page = ana.get(f"/c/{did}").content.decode()
        assert title in page
        links = set(re.findall(r'href="(/(?:pull|history|c)/[^"]*)"', page))
        assert links
        assert {link: ana.get(unescape(link)).status_code for link in links} == dict.fromkeys(links, 200)


@pytest.mark.parametrize(
    ("on_forge", "words"), [(False, "am --keep-cr"), (True, f"merge_approved {OFFERED} --as {ANA}")]
)
def test_an_approved_round_shows_its_maintainer_how_to_merge_it(
    site: ActingSite, ana: Client, settings: Settings, on_forge: bool, words: str
) -> None:
    settings.PUBLIC_READ, settings.MERGE_ON_FORGE = True, on_forge
    assert words not in page(ana)
    ana.post("/act", site.form())
    site.after(11)
    site.work()
    assert words in page(ana)
    assert words not in page(Client())
    a_new_round(site.result)
    site.work()
    assert words not in page(ana), "the approval is void"


def test_approve_and_merge_keeps_the_pull_request_open_and_shows_how_to_merge_it(site: ActingSite, ana: Client) -> None:
    headers = {"HX-Request": "true", "HX-Target": "open"}
    answer = ana.post("/act?then=merge", site.form(next="/"), headers=headers).content.decode()
    assert f'data-row="{row_anchor(OFFERED)}"' in answer
    assert '<details class="say" name="say" open><summary class="button primary">Merge…' in answer
    assert "manage.py approved" in answer
    (patch,) = re.findall(r'<a href="([^"]+)" download="approved.mbox">', answer)
    taken = ana.get(unescape(patch))
    assert taken.status_code == 200
    assert b"diff --git" in b"".join(taken.streaming_content if taken.streaming else [taken.content])


def page(client: Client) -> str:
    return unescape(client.get(f"/pull/{OFFERED}").content.decode())


def test_the_author_reads_what_is_asked_of_them_whole_and_once_whose_turn_it_is(
    site: ActingSite, ana: Client, ben: Client
) -> None:
    asked = "<script>alert(1)</script> Please \u202etest\r\nit. " + "x" * 1_900
    kinds = (("request_changes", asked), ("comment", "I like it."), ("note", "He is slow."), ("close", "Old."))
    for version, (kind, words) in enumerate(kinds):
        ben.post("/act", site.form(kind, version=version, note=words))
    by = Person.objects.get(did=ANA)
    links = [(kind, make_link(by, MARA, REPO, pull, site.now)) for kind, pull in (("data", ""), ("decision", OFFERED))]

    def own_pull_of(kind: str, token: str) -> str:
        page = Client().get(f"/c/{MARA}/{kind}/{token}").content.decode()
        return page.partition("<h1>")[2].partition("What helps")[0]

    assert not any("Please" in own_pull_of(*link) for link in links), "it can be undone yet"
    site.after(11)
    site.work()
    for link in links:
        page = own_pull_of(*link)
        assert "&lt;script&gt;alert(1)&lt;/script&gt; Please ⟨U+202E⟩test<br>it. " + "x" * 1_900 + "</bdi>" in page
        assert "asked you for changes on 20 Nov" in page
        assert 0 < page.find("I like it.") < page.find("Please"), "the newest first"
        assert not re.search(r"\bben\b|He is slow|Old\.", page), "names, notes and reasons are the maintainers'"
        assert page.count("Waits for your answer") == 1
        assert "Your answer, a new round or a comment of yours on Tangled makes it the maintainers" in page
        assert not re.search(r"A maintainer (will|has to) look|It is \d", page), "it is not a maintainer's turn"
    Client().post(f"/c/{MARA}/answer", {"pull": OFFERED, "text": "It is tested.", "link": links[1][1]})
    for version in range(5, 27):
        ben.post("/act", site.form("comment", version=version, note=f"Number {version}."))
    ben.post("/act/undo", {"key": last_key()})
    a_new_round(site.result)
    site.after(11)
    site.work()
    page = own_pull_of(*links[0])
    assert "The newest 20 of 24." in page
    assert re.findall(r"Number (\d+)\.", page) == [str(number) for number in range(25, 5, -1)]


def test_the_pane_says_why_a_row_stands_where_the_list_shows_it_and_the_row_how_many_have_its_title(
    site: ActingSite, ana: Client
) -> None:
    with site.result.store.write() as txn:
        txn.execute("update pull_requests set title = 'Sweep' where pull_uri in (?, ?)", [SECOND, THIRD])
    site.publish()
    for group in site.result.queue().groups:
        for row in group.rows:
            page = unescape(ana.get(f"/?open={quote_plus(row.uri)}").content.decode())
            assert row.place
            assert place_words(row.place) in page.partition("<strong>Why this place:</strong> ")[2]
            assert page.count("<span>2 with this title</span>") == 2
    assert "the oldest come first." in ana.get(f"/?sort=oldest&open={quote_plus(OFFERED)}").content.decode()
    done = ana.post("/act", site.form("pull_for_review", SECOND), headers=HTMX).content.decode()
    assert "<span>2 with this title</span>" in done, "a row that is swapped alone says it too"


def test_a_merge_that_its_author_claims_is_settled_by_another_maintainer_where_they_see_it(
    site: ActingSite, ana: Client
) -> None:
    frames = Later(StreamClock(site.result.store).now())
    frames.status(MARA, OFFERED, "merged", rkey="claim")
    learn(site.result, frames)
    site.work()
    mara, opened = site.maintainer(MARA, "mara.example"), f"/?open={quote_plus(OFFERED)}"
    page = unescape(ana.get(opened).content.decode())
    why = page.partition("Why this lane")[2].partition("Checks")[0]
    assert "Its author says that it was merged, and nothing confirms it." in why
    assert "A maintainer who says that it was merged takes it out of the inbox." in why
    assert why.count('value="confirm_merge">It was merged<') == why.count('value="deny_merge">It was not<') == 1
    assert 'value="confirm_merge"' not in mara.get(opened).content.decode(), "nobody settles their own claim"
    for client, form in ((mara, site.form("confirm_merge")), (ana, site.form("confirm_merge", SECOND))):
        assert client.post("/act", form).status_code == 409
    assert not Action.objects.exists()

    def proof() -> str:
        return site.result.value(
            f"select concat(state, ' ', merge_proof) from pull_requests where pull_uri = '{OFFERED}'"
        )

    said = {"deny_merge": "open contradicted", "confirm_merge": "merged verified"}
    for at, (kind, expected) in enumerate(said.items()):
        before = proof()
        ana.post("/act", site.form(kind, version=3 * at))
        ana.post("/act/undo", {"key": last_key()})
        site.after(11)
        site.work()
        assert proof() == before, "it was undone"
        assert ana.post("/act", site.form(kind, version=3 * at + 2)).status_code == 302
        assert (at == 0) or "Merged, says you" in ana.get(opened).content.decode()
        site.after(11)
        site.work()
        assert proof() == expected
        assert "unconfirmed" not in ana.get("/").content.decode()
    history = unescape(re.sub("<[^>]+>", " ", ana.get(f"/history/{OFFERED}").content.decode()))
    assert re.search(r"ana\.example\s+said that it was merged", history)
    assert re.search(r"ana\.example\s+said that it was not merged", history)
    assert "Said that it was merged" in ana.get("/changes").content.decode()
    assert "Mend the lamp" in ana.get("/settled").content.decode()
