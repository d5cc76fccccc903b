"""Approving several at once: only in the fast lane, with the figures first, all or none, one undo for all."""

import re
from dataclasses import replace
from urllib.parse import quote

import pytest
from django.test import Client

from scoring.handlers.settings import switch_shadow
from tests.ingest.stream.frames import MARA, REPO
from tests.scoring.pipeline.offered_world import MADE, SECOND, THIRD, a_new_round
from tests.scoring.small import OFFERED
from tests.triage.worlds.acting_site import ActingSite, fast_site
from tests.triage.worlds.drawn_rows import ANA as DRAWN_ANA
from tests.triage.worlds.drawn_rows import pull_request
from triage.forms.actions import read_choice
from triage.models import Action
from triage.services.actions import ActionProblem, check_typed, summary

pytestmark = pytest.mark.django_db
ALL = (OFFERED, SECOND, THIRD)
ANA = "did:plc:" + "2" * 24
SITE = fast_site  # all three pull requests in the fast lane


def choices(site: ActingSite, *uris: str) -> list[str]:
    names = ("uri", "record_cid", "round", "patch_id", "version")
    return ["|".join(str(site.form(uri=uri)[name]) for name in names) for uri in uris]


def test_the_lane_offers_boxes_and_one_button_that_belongs_to_them(site: ActingSite, ana: Client) -> None:
    page = ana.get("/").content.decode()
    assert page.count('class="pick"') == 3
    assert page.count('form="bulk"') == 3
    assert choices(site, OFFERED)[0] in page


def test_with_no_box_ticked_all_that_can_be_approved_are_offered(site: ActingSite, ana: Client) -> None:
    site.maintainer("did:plc:" + "3" * 24, "ben.example").post("/act", site.form(uri=THIRD))
    page = ana.post("/act/bulk", {"next": "/"}).content.decode()
    assert "None was ticked, so these are all in this view that can be approved together." in page
    offered = re.findall('name="pull" value="([^"]+)"', page)
    assert sorted(offered) == sorted(choices(site, OFFERED, SECOND))
    assert "Approve 2 pull requests" in ana.post("/act/bulk", {"pull": offered}).content.decode()
    assert "None was ticked" not in ana.post("/act/bulk", {"pull": offered}).content.decode()
    narrowed = ana.post("/act/bulk", {"next": "/?q=nothing-like-it"})
    assert narrowed.status_code == 400
    assert "Nothing in this view can be approved together." in narrowed.content.decode()
    with site.result.store.write() as txn:
        txn.execute("update current_decisions set own = true where pull_uri != ?", [THIRD])
    site.publish()
    assert 'id="bulk"' not in ana.get("/").content.decode(), "none of them can be approved together"
    assert Action.objects.filter(person__did=ANA).count() == 0


def test_what_failed_its_tests_is_counted_and_never_approved_together(site: ActingSite, ana: Client) -> None:
    first, second, third = re.findall(r'name="pull" value="([^|"]+)', ana.get("/").content.decode())
    chosen = choices(site, first, second, third)
    site.run_ci({first: "failed", second: "passed"})
    page = ana.get("/").content.decode()
    assert re.findall(r'name="pull" value="([^|"]+)', page) == [second, third]
    offer = ana.post("/act/bulk", {"next": "/"}).content.decode()
    offered = re.findall('name="pull" value="([^"]+)"', offer)
    assert "✕ CI failed on 1: not part of this, approve it one by one." in offer
    assert sorted(offered) == sorted(chosen[1:])
    asked = ana.post("/act/bulk", {"pull": offered}).content.decode()
    assert "<dt>CI</dt><dd>1 passed, 1 without CI</dd>" in asked
    assert ("<dt>Lowest chance to stay clean</dt>" in asked, "May need a fix" in asked) == (True, True)
    alone = ana.post("/act/bulk", {"pull": offered[:1]}).content.decode()
    assert "<dt>Chance to stay clean</dt>" in alone
    assert "<dt>May need a fix" not in alone, "one chance is said once"
    assert '<span class="ci-passed">✓ CI</span> <span class="quiet">' in asked
    for step in ({}, {"confirmed": "1"}):
        answer = ana.post("/act/bulk", {"pull": chosen, **step})
        assert answer.status_code == 409
        assert "CI failed on some of them. Approve those one by one." in answer.content.decode()
        assert '✕ CI<span class="unseen"> failed' in answer.content.decode()
    assert not Action.objects.exists()
    beside = ana.get(f"/?open={first}").content.decode()
    assert "Approve anyway…" in beside
    assert "Approve anyway…" not in ana.get(f"/?open={second}").content.decode()
    assert "say why you approve it anyway" in ana.post("/act", site.form(uri=first)).content.decode()
    assert not Action.objects.exists()
    assert ana.post("/act", site.form(uri=first, note="The runner was out of disk space.")).status_code == 302
    assert Action.objects.get().pull_uri == first


def test_whoever_had_something_reverted_lately_is_not_approved_together_with_others(
    site: ActingSite, ana: Client
) -> None:
    first, *_ = offered = re.findall(r'name="pull" value="([^|"]+)', ana.get("/").content.decode())
    with site.result.store.write() as txn:
        (pull,) = txn.rows("select pull_uri, author_id, repository_id from pull_requests where pull_uri = ?", [first])
        now = txn.value("select max(as_of) from current_scores")
        mark = {"actor_id": 1, "outcome": "reverted", "clean": False, "made_at": now, "known_from": now}
        txn.append("marks", [{**pull, **mark}])
    site.publish()
    page = ana.get("/").content.decode()
    left = re.findall(r'name="pull" value="([^|"]+)', page)
    assert first in set(offered) - set(left)
    assert "Something of theirs was reverted lately: approve it by itself." in page
    offer = ana.post("/act/bulk", {"next": "/"}).content.decode()
    assert "by people of whom something was reverted lately: not part of this" in offer


def test_where_the_lane_is_shut_too_a_row_whose_tests_fail_asks_why_it_is_approved(
    site: ActingSite, ana: Client
) -> None:
    switch_shadow(site.result.store, REPO, True, MADE)
    site.run_ci({OFFERED: "failed"})
    assert "Approve anyway…" in ana.get(f"/?open={OFFERED}").content.decode()
    assert "say why you approve it anyway" in ana.post("/act", site.form(uri=OFFERED)).content.decode()
    assert not Action.objects.exists()


def test_the_figures_are_shown_before_anything_is_done(site: ActingSite, ana: Client) -> None:
    page = ana.post("/act/bulk", {"pull": choices(site, *ALL)}).content.decode()
    assert "Approve 3 pull requests" in page
    assert "(worst 0.3)" in page
    assert "97 %" in page
    assert page.count("</bdi>: Chance 97 %: ") == 3, "each with what decided its place"
    assert Action.objects.count() == 0


def test_all_are_approved_and_one_undo_takes_all_back(site: ActingSite, ana: Client) -> None:
    ana.post("/act/bulk", {"pull": choices(site, *ALL), "confirmed": "1"})
    assert len({action.batch for action in Action.objects.all()}) == 1
    page = ana.get("/").content.decode()
    assert "Approved 3 pull requests." in page
    site.after(9)
    ana.post("/act/undo", {"key": Action.objects.latest("pk").batch})
    site.after(10)
    assert site.work() == 0


def test_approved_together_each_takes_effect_once(site: ActingSite, ana: Client) -> None:
    ana.post("/act/bulk", {"pull": choices(site, *ALL), "confirmed": "1"})
    site.after(10)
    assert site.work() == 3
    assert site.approvals() == ["in force"] * 3


def test_where_one_changed_none_is_approved_and_the_fresh_row_is_shown(site: ActingSite, ana: Client) -> None:
    form = {"pull": choices(site, *ALL), "confirmed": "1"}
    a_new_round(site.result)
    site.publish()
    answer = ana.post("/act/bulk", form)
    assert answer.status_code == 409
    assert Action.objects.count() == 0


def test_what_is_not_in_the_fast_lane_is_never_part_of_it(site: ActingSite, ana: Client) -> None:
    with site.result.store.write() as txn:
        txn.execute("update current_decisions set lane = 'normal_queue' where pull_uri = ?", [SECOND])
        txn.execute("update current_decisions set own = true where pull_uri = ?", [THIRD])
    site.publish()
    for uri in (SECOND, THIRD):
        answer = ana.post("/act/bulk", {"pull": choices(site, OFFERED, uri), "confirmed": "1"})
        assert answer.status_code == 409
        assert "some of them are no longer in the fast lane" in answer.content.decode()
    assert Action.objects.count() == 0


@pytest.mark.parametrize("step", [{}, {"confirmed": "1"}])
def test_nobody_approves_what_they_sent_together_with_others(site: ActingSite, step: dict[str, str]) -> None:
    mara = site.maintainer(MARA, "mara.example")
    assert mara.get("/").content.decode().count('class="pick"') == 2
    answer = mara.post("/act/bulk", {"pull": choices(site, *ALL), **step})
    assert answer.status_code == 409
    assert "You sent this pull request, so somebody else must approve it." in answer.content.decode()
    assert not Action.objects.exists()


def test_while_the_lane_is_shut_no_box_is_offered_and_one_at_a_time_is_approved(site: ActingSite, ana: Client) -> None:
    chosen = choices(site, *ALL)
    switch_shadow(site.result.store, REPO, True, MADE)
    site.publish()
    page = ana.get("/").content.decode()
    assert 'id="group-would_be_fast_lane">Would be fast lane</h2>' in page
    assert 'id="count-would_be_fast_lane">3<' in page
    assert 'id="tile-fast_lane"' in page, "whose figure counts what can be approved as such"
    assert re.search(r'id="tile-fast_lane".*?class="figure">0<', page, re.DOTALL)
    assert 'class="pick"' not in page
    beside = ana.get(f"/?open={OFFERED}").content.decode()
    assert 'value="approve"' in beside
    lane = f'<a href="/lane?repository={quote(REPO, safe="")}">the lane is shut</a>'
    assert f"; watching: {lane}" in beside
    assert ana.post("/act/bulk", {"pull": chosen, "confirmed": "1"}).status_code == 409
    assert not Action.objects.exists()
    assert ana.post("/act", site.form()).status_code == 302
    assert Action.objects.get().pull_uri == OFFERED


def test_what_changed_after_an_approval_is_approved_by_itself_or_not_at_all(site: ActingSite, ana: Client) -> None:
    ana.post("/act", site.form())
    site.after(10)
    site.work()
    a_new_round(site.result)
    site.work()
    with site.result.store.write() as txn:
        txn.execute("update current_decisions set lane = 'fast_lane'")
    site.publish()
    choice = "|".join([*choices(site, OFFERED)[0].split("|")[:-1], "1"])
    assert ana.post("/act/bulk", {"pull": [choice], "confirmed": "1"}).status_code == 409


def test_nothing_twice_nothing_empty_and_nothing_that_no_box_of_ours_says(site: ActingSite, ana: Client) -> None:
    (one,) = choices(site, OFFERED)
    for boxes in ([], [one, one], ["x"], [one + "|x"], [one.replace("|0|", "|x|", 1)]):
        assert ana.post("/act/bulk", {"pull": boxes, "confirmed": "1"}).status_code == 400
    assert Action.objects.count() == 0


def test_maintainers_of_something_else_approve_nothing(site: ActingSite) -> None:
    ben = site.maintainer("did:plc:" + "3" * 24, "ben.example", "did:plc:" + "z" * 24)
    assert ben.post("/act/bulk", {"pull": choices(site, OFFERED), "confirmed": "1"}).status_code == 403
    assert 'id="bulk"' not in ben.get("/").content.decode()


def test_above_twenty_the_number_is_typed() -> None:
    check_typed(20, "")
    check_typed(21, " 21 ")
    for typed in ("", "20", "yes"):
        with pytest.raises(ActionProblem, match="Type 21"):
            check_typed(21, typed)


def test_the_expected_number_of_bad_ones_is_the_sum_of_what_the_intervals_leave_open() -> None:
    row = pull_request(1, DRAWN_ANA, "Fix", 120, 0)
    found = [
        replace(row, verdict=replace(row.verdict, estimate=replace(row.verdict.estimate, low=low)))
        for low in (0.9, 0.95, 1.0)
    ]
    said = summary(found)
    assert (said.expected_bad, said.worst_bad) == ("0.1", "0.2")
    assert said.lines == 3 * 47
    assert not said.must_type


def test_a_choice_is_read_back_as_an_approval_of_what_was_seen() -> None:
    wanted = read_choice("at://x/y/z|bafy|2|abc|5")
    assert (wanted.kind, wanted.uri, wanted.version) == ("approve", "at://x/y/z", 5)
    assert (wanted.seen.record_cid, wanted.seen.round, wanted.seen.patch_id) == ("bafy", 2, "abc")
