"""Acting on rows: what was seen is what is meant, ten seconds to undo, and nobody overwrites anybody."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from tests.ingest.stream import REPO
from tests.scoring.offered_world import SECOND, a_new_round
from tests.scoring.small import OFFERED
from tests.triage.acting_site import ActingSite, acting_site, signed_in
from triage import outbox
from triage.erasure import account_of, forget_account
from triage.models import Action, Change, Lease, Maintainer, OutboxEntry, Person
from triage.tokens import create_token

pytestmark = pytest.mark.django_db
ANA, BEN = "did:plc:" + "2" * 24, "did:plc:" + "3" * 24
HTMX = {"HX-Request": "true"}


@pytest.fixture
def site(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[ActingSite]:
    with acting_site(tmp_path, settings, monkeypatch) as acting:
        yield acting


@pytest.fixture
def ana(site: ActingSite) -> Client:
    return site.maintainer(ANA, "ana.example")


@pytest.fixture
def ben(site: ActingSite) -> Client:
    return site.maintainer(BEN, "ben.example")


def approved(client: Client) -> list[str]:
    answer = client.get("/approved.json")
    assert answer.status_code == 200
    return [one["pull_request"] for one in answer.json()["approved"]]


def last_key() -> str:
    return Action.objects.latest("pk").key


def test_an_approval_takes_effect_once_after_ten_seconds(site: ActingSite, ana: Client) -> None:
    assert ana.post("/act", site.form()).status_code == 302
    site.after(9.9)
    assert site.work() == 0
    assert approved(ana) == []
    site.after(0.1)
    assert site.work() == 1
    assert site.work() == 0
    assert approved(ana) == [OFFERED]
    assert "Approved, not merged yet" in ana.get("/").content.decode()


def test_an_approval_names_the_record_the_round_and_the_patch(site: ActingSite, ana: Client) -> None:
    form = site.form()
    ana.post("/act", form)
    site.after(10)
    site.work()
    (one,) = ana.get("/approved.json").json()["approved"]
    assert {name: one[name] for name in ("record_cid", "round", "patch_id")} == {
        name: form[name] for name in ("record_cid", "round", "patch_id")
    }
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


def test_a_second_click_in_the_place_of_the_first_neither_undoes_nor_approves_again(
    site: ActingSite, ana: Client
) -> None:
    ana.post("/act", site.form())
    key = last_key()
    site.after(1.4)
    assert ana.post("/act/undo", {"key": key, "next": "/?q=gate"}).headers["Location"] == "/?q=gate"
    assert Action.objects.get().undone_at is None
    assert "may be the second of two clicks" in ana.get("/").content.decode()
    site.after(0.2)
    ana.post("/act/undo", {"key": key})
    assert Action.objects.get().undone_at is not None
    ana.post("/act", site.form(version=2))
    assert Action.objects.count() == 1, "Undo was clicked twice"
    site.after(2)
    ana.post("/act", site.form(version=2))
    assert Action.objects.count() == 2


def test_with_scripts_the_page_holds_a_second_click_and_a_quick_undo_undoes(site: ActingSite, ana: Client) -> None:
    ana.post("/act", site.form())
    ana.post("/act/undo", {"key": last_key()}, headers={"HX-Request": "true"})
    assert Action.objects.get().undone_at is not None


def test_nobody_undoes_what_another_did(site: ActingSite, ana: Client, ben: Client) -> None:
    ana.post("/act", site.form())
    assert ben.post("/act/undo", {"key": last_key()}).status_code == 400
    assert Action.objects.get().undone_at is None


def test_a_round_between_render_and_click_ends_without_an_approval(site: ActingSite, ana: Client) -> None:
    form = site.form(next=f"/?open={OFFERED}")
    a_new_round(site.result)
    site.work()
    answer = ana.post("/act", form, headers=HTMX)
    assert answer.status_code == 409
    page = answer.content.decode()
    assert "It changed since you looked at it" in page
    assert site.form()["patch_id"] in page
    site.after(20)
    assert site.work() == 0
    assert approved(ana) == []


def test_a_round_inside_the_undo_window_ends_without_an_approval(site: ActingSite, ana: Client) -> None:
    ana.post("/act", site.form())
    site.after(5)
    a_new_round(site.result)
    site.after(5)
    assert site.work() == 1
    assert site.approvals() == ["voided"]
    assert approved(ana) == []
    assert "Changed after" in ana.get("/").content.decode()


def test_a_round_between_approval_and_merge_ends_without_an_approval(site: ActingSite, ana: Client) -> None:
    ana.post("/act", site.form())
    site.after(10)
    site.work()
    a_new_round(site.result)
    site.work()
    assert site.approvals() == ["voided"]
    assert approved(ana) == []
    page = ana.get(f"/history/{OFFERED}").content.decode()
    assert "void: it changed after the approval" in page
    assert "-+print(2)" in page
    assert "++print(3)" in page


def test_a_snapshot_from_between_two_hops_shows_no_approval_of_an_older_round(site: ActingSite, ana: Client) -> None:
    ana.post("/act", site.form())
    site.after(10)
    site.work()
    a_new_round(site.result)
    site.publish()
    assert approved(ana) == []


def test_who_acts_second_on_the_same_row_sees_409_and_the_fresh_row(site: ActingSite, ana: Client, ben: Client) -> None:
    form = site.form()
    assert ana.post("/act", form, headers=HTMX).status_code == 200
    answer = ben.post("/act", form | {"kind": "pull_for_review"}, headers=HTMX)
    assert answer.status_code == 409
    assert "Somebody acted on it since you looked at it" in answer.content.decode()
    assert "Approved by ana.example." in answer.content.decode()
    assert Action.objects.count() == 1


def test_a_note_that_came_too_late_is_given_back(site: ActingSite, ana: Client, ben: Client) -> None:
    form = site.form("note", note="<b>ask her</b>", next=f"/?open={OFFERED}")
    ana.post("/act", site.form("pull_for_review"))
    row = ben.post("/act", form, headers=HTMX)
    page = ben.post("/act", form)
    assert (row.status_code, page.status_code) == (409, 409)
    assert 'value="&lt;b&gt;ask her&lt;/b&gt;"' in row.content.decode(), "into the fresh row's own field"
    assert "readonly>&lt;b&gt;ask her&lt;/b&gt;</textarea>" in page.content.decode()


def test_after_an_undo_a_stale_screen_is_late_as_well(site: ActingSite, ana: Client, ben: Client) -> None:
    form = site.form()
    ana.post("/act", form)
    site.after(2)
    ana.post("/act/undo", {"key": last_key()})
    assert ben.post("/act", form).status_code == 409
    assert ben.post("/act", form | {"version": 2}).status_code == 302


def test_the_swapped_row_says_what_was_done_and_offers_undo_and_the_tiles_follow(site: ActingSite, ana: Client) -> None:
    page = ana.post("/act", site.form(), headers=HTMX).content.decode()
    assert "Approved by you." in page
    assert '<nav id="tiles"' in page
    assert 'hx-swap-oob="true"' in page
    assert '<span class="figure">2</span>' in page
    assert f'name="key" value="{last_key()}"' in page
    assert "<html" not in page


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
    assert "In review by ana.example." in ben.get("/").content.decode()
    assert ben.post("/act", site.form("release", version=1)).status_code == 302
    assert "In review by" not in ben.get("/").content.decode()


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
    ana.post("/act", site.form("outcome", outcome="clean"))
    ana.post("/act", site.form("outcome", version=1, outcome="reverted"))
    site.after(10)
    assert site.work() == 2
    page = ana.get(f"/history/{OFFERED}").content.decode()
    assert "marked it as clean" in page
    assert "marked it as reverted" in page


def test_a_note_is_text_and_nothing_else(site: ActingSite, ana: Client) -> None:
    ana.post("/act", site.form("note", note="<script>alert(1)</script>\u202e"))
    site.after(10)
    site.work()
    page = ana.get(f"/history/{OFFERED}").content.decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;⟨U+202E⟩" in page
    assert ana.post("/act", site.form("note", version=1, note="x" * 2001)).status_code == 400
    assert ana.post("/act", site.form("note", version=1, note="  ")).status_code == 400


def test_what_has_no_patch_cannot_be_approved(site: ActingSite, ana: Client) -> None:
    with site.result.store.write() as txn:
        txn.execute("delete from patches where pull_uri = ?", [OFFERED])
    site.publish()
    answer = ana.post("/act", site.form(patch_id=""))
    assert answer.status_code == 409
    assert "nothing that could be approved" in answer.content.decode()


@pytest.mark.parametrize(
    "broken",
    [{"round": "-1"}, {"round": "1e3"}, {"version": ""}, {"uri": "x" * 601}, {"kind": "merge"}, {"uri": "at://\0"}],
)
def test_a_form_that_is_none_of_ours_changes_nothing(site: ActingSite, ana: Client, broken: dict[str, str]) -> None:
    assert ana.post("/act", site.form() | broken).status_code in (400, 404)
    assert Action.objects.count() == 0


def test_what_no_row_shows_cannot_be_approved_by_a_form_made_by_hand(site: ActingSite, ana: Client) -> None:
    form = site.form()
    with site.result.store.write() as txn:
        author = "(select contributor_id from contributors where did = ?)"
        txn.execute(
            f"update contributors set account_status = 'takendown' where contributor_id = {author}",
            [OFFERED.split("/")[2]],
        )
        txn.inputs_changed()
    site.work()
    answer = ana.post("/act", form)
    assert (answer.status_code, "not judged yet" in answer.content.decode()) == (409, True)
    assert not Action.objects.exists()


def test_who_lost_the_role_since_the_page_was_made_acts_no_more(site: ActingSite, ana: Client) -> None:
    ana.post("/act", site.form(uri=SECOND))
    Maintainer.objects.all().delete()
    for address, form in (
        ("/act", site.form()),
        ("/act/bulk", {"pull": f"{OFFERED}||0||0"}),
        ("/act/look", {"uri": OFFERED}),
    ):
        assert ana.post(address, form).status_code == 403
    site.after(2)  # sooner it would be a second click
    assert ana.post("/act/undo", {"key": last_key()}).status_code == 302, "what they did before can be taken back"
    site.after(11)
    site.work()
    assert site.approvals() == []


def test_only_maintainers_of_the_repository_act(site: ActingSite, client: Client) -> None:
    stranger = signed_in(Person.objects.create(did=ANA))
    elsewhere = site.maintainer(BEN, "ben.example", "did:plc:" + "z" * 24)
    for path, form in (("/act", site.form()), ("/act/look", {"uri": OFFERED})):
        assert client.post(path, form)["Location"].startswith("/sign-in?next=")
        assert stranger.post(path, form).status_code == 403
        assert elsewhere.post(path, form).status_code == 403
        assert elsewhere.get(path).status_code == 405
    assert client.post("/act/undo", {"key": "x"})["Location"].startswith("/sign-in")
    assert Action.objects.count() == 0


def test_every_form_is_held_to_csrf(site: ActingSite, ana: Client) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(Person.objects.get(did=ANA))
    for path in ("/act", "/act/undo", "/act/look"):
        assert strict.post(path, site.form()).status_code == 403


def test_who_may_not_act_sees_no_form_on_a_row(site: ActingSite, settings: Settings, client: Client) -> None:
    settings.PUBLIC_READ = True
    assert 'action="/act"' not in client.get(f"/?open={OFFERED}").content.decode()
    assert 'action="/act"' in site.maintainer(ANA, "ana.example").get(f"/?open={OFFERED}").content.decode()


def test_approved_json_needs_a_reader(site: ActingSite, client: Client) -> None:
    answer = client.get("/approved.json")
    assert answer.status_code == 401
    assert json.loads(answer.content)["status"] == 401


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
