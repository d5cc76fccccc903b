"""An action means what was seen: a newer round or another's action in between ends without an approval."""

import re

import pytest
from django.test import Client

from tests.scoring.pipeline.offered_world import a_new_round
from tests.scoring.small import OFFERED
from tests.triage.worlds.acting_site import HTMX, ActingSite, approved, last_key
from triage.models import Action

pytestmark = pytest.mark.django_db


def test_a_round_between_render_and_click_ends_without_an_approval(site: ActingSite, ana: Client) -> None:
    form = site.form(next=f"/?open={OFFERED}")
    a_new_round(site.result)
    site.work()
    answer = ana.post("/act", form, headers=HTMX | {"HX-Target": "open"})
    assert answer.status_code == 409
    page = answer.content.decode()
    assert "it changed since you opened it" in page
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
    pane = ana.get(f"/pull/{OFFERED}").content.decode()
    assert "<strong>Changed after you approved it.</strong>" in pane
    assert f'<a href="/diff/{OFFERED}?since=1">What changed since</a>' in pane
    page = ana.get(f"/history/{OFFERED}").content.decode()
    assert "void: the patch changed later" in page
    assert f'href="/diff/{OFFERED}?since=1">See what changed since</a>' in page
    assert "++" not in page, "the page of the change compares the rounds, not a diff of two diffs"


@pytest.mark.parametrize(("rounds", "sent"), [(2, "sent round 2"), (1, "replaced the patch of round 1")])
def test_the_history_has_a_line_for_the_change_that_voided_an_approval(
    site: ActingSite, ana: Client, rounds: int, sent: str
) -> None:
    ana.post("/act", site.form())
    site.after(10)
    site.work()
    approved_patch = str(site.form()["patch_id"])[:12]
    a_new_round(site.result, rounds=rounds)
    site.work()
    newest = str(site.form()["patch_id"])[:12]
    page = ana.get(f"/history/{OFFERED}").content.decode()
    lines = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in page.split("<tbody>")[1].split("<tr>")[1:]]
    assert sorted(line[2:] for line in lines) == [
        ["approved it; void: the patch changed later", f"round 1, patch {approved_patch}"],
        ["opened it", f"round 1, patch {approved_patch}"],
        [f"{sent}, so the approval of the patch before is void", f"round {rounds}, patch {newest}"],
    ]
    assert approved_patch != newest


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
    assert "somebody acted on it before you" in answer.content.decode()
    assert "Approved by ana.example." in answer.content.decode()
    assert Action.objects.count() == 1


def test_a_note_that_came_too_late_is_given_back(site: ActingSite, ana: Client, ben: Client) -> None:
    form = site.form("note", note="<b>ask her</b>", next=f"/?open={OFFERED}")
    ana.post("/act", site.form("pull_for_review"))
    row = ben.post("/act", form, headers=HTMX | {"HX-Target": "open"})
    page = ben.post("/act", form)
    assert (row.status_code, page.status_code) == (409, 409)
    assert "readonly>&lt;b&gt;ask her&lt;/b&gt;</textarea>" in row.content.decode(), "in the fresh pane"
    assert "readonly>&lt;b&gt;ask her&lt;/b&gt;</textarea>" in page.content.decode()


def test_after_an_undo_a_stale_screen_is_late_as_well(site: ActingSite, ana: Client, ben: Client) -> None:
    form = site.form()
    ana.post("/act", form)
    site.after(2)
    ana.post("/act/undo", {"key": last_key()})
    assert ben.post("/act", form).status_code == 409
    assert ben.post("/act", form | {"version": 2}).status_code == 302
