"""Comments, requests for changes and closings in a maintainer's own name, from the pages to the real data server."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pytest_django import Settings

from ingest.errors import OAuthRefused
from ingest.oauth.records import COMMENT, LABEL, STATUS
from ingest.oauth.resource import OwnServer
from ingest.oauth.scopes import Act, act_scope
from tests.peers.network import Account
from tests.scoring.small import OFFERED
from tests.triage.access.oauth.conftest import Site
from tests.triage.worlds.acting_site import ActingSite
from tests.triage.worlds.labelling import define_label, tell_lanes
from tests.triage.worlds.maintaining import Maintaining
from triage import tasks
from triage.access.oauth.client import web_sender
from triage.models import Action, Change, OAuthSession, OwnRecord, PublishedRecord

pytestmark = pytest.mark.django_db
Join = Callable[[str], Account]
OWN = "org.sunstead"


@pytest.fixture
def ana(oauth_site: Site, site: ActingSite, join: Join) -> Maintaining:
    return Maintaining(oauth_site, site, join("ana"))


def test_a_comment_waits_for_its_permission_then_ten_seconds_and_is_written_once(ana: Maintaining) -> None:
    assert "as a comment (sh.tangled.feed.comment) into your repository at <bdi>pds.example.test</bdi>" in ana.pane()
    answer = ana.act("comment", "Why <b>so</b> long?")
    assert answer["Location"].startswith("/oauth/grant?act=comment&next=%2Fpull%2F")
    page = ana.browser.get(answer["Location"]).content.decode()
    assert "<code>repo:sh.tangled.feed.comment?action=create</code>" in page
    assert "sh.tangled.repo.pull.status" not in page
    assert (OwnRecord.objects.count(), Action.objects.get().note) == (0, "Why <b>so</b> long?")
    assert ana.allow("comment")["Location"] == f"/pull/{OFFERED}"
    assert OAuthSession.objects.get(ended_at=None).scope.split() == act_scope(Act.COMMENT, OWN).split()
    assert ana.records(COMMENT) == [], "allowing it sends nothing"
    ana.site.after(60)
    kept = Action.objects.get()
    sent = {"key": kept.key, "next": f"/pull/{OFFERED}"}
    assert "Send to Tangled" in ana.pane()
    assert ana.browser.post("/act/send", sent)["Location"] == f"/pull/{OFFERED}"
    assert ana.browser.post("/act/send", sent).status_code == 400, "twice"
    assert "goes to Tangled. It takes effect in 10 seconds." in ana.pane()
    assert (ana.send(9.9), ana.records(COMMENT)) == (0, [])
    assert (ana.send(0.1), ana.send(60)) == (1, 0)
    (record,) = ana.records(COMMENT)
    assert record["value"]["body"] == {"$type": "sh.tangled.markup.markdown", "text": "Why <b>so</b> long?"}
    assert record["value"]["subject"] == {"uri": OFFERED, "cid": kept.record_cid}
    assert record["value"]["pullRoundIdx"] == kept.round
    logged = Change.objects.get(what="record.written")
    assert (logged.subject, logged.details) == (OFFERED, {"record": record["uri"]})
    pane = ana.pane()
    assert ("sent to Tangled" in pane, record["uri"] in pane, "Send to Tangled" in pane) == (True, True, False)
    assert "Why &lt;b&gt;so&lt;/b&gt; long?" in pane


def test_a_request_for_changes_says_so_and_an_undo_within_ten_seconds_sends_nothing(ana: Maintaining) -> None:
    ana.allow("comment")
    assert ana.act("request_changes", "Test it, please.")["Location"] == f"/pull/{OFFERED}"
    ana.site.after(9.9)
    assert ana.browser.post("/act/undo", {"key": Action.objects.get().key}).status_code == 302
    assert (ana.send(), OwnRecord.objects.get().state) == (0, "withdrawn")
    ana.act("request_changes", "Test it, please.", version=2)
    assert ana.send() == 1
    (record,) = ana.records(COMMENT)
    assert record["value"]["body"]["text"] == "**Changes requested.**\n\nTest it, please."
    late = ana.browser.post("/act/undo", {"key": Action.objects.latest("pk").key})
    assert late.status_code == 409


def test_what_is_sent_later_can_be_undone_by_itself_and_sent_again(ana: Maintaining) -> None:
    ana.act("comment", "Kept.", "/act")
    ana.allow("comment")
    ana.site.after(60)
    sent = {"key": Action.objects.get().key}
    ana.browser.post("/act/send", sent)
    assert ana.browser.post("/act/undo", {"key": OwnRecord.objects.get().key, "next": "/"})["Location"] == "/"
    assert (ana.send(), ana.records(COMMENT)) == (0, [])
    ana.browser.post("/act/send", sent)
    assert ana.send() == 1
    assert Action.objects.get().undone_at is None


def test_closing_writes_the_status_and_not_the_words(ana: Maintaining) -> None:
    assert ana.act("close", "Nobody needs it.")["Location"].startswith("/oauth/grant?act=close")
    ana.allow("close")
    ana.browser.post("/act/send", {"key": Action.objects.get().key})
    assert ana.send() == 1
    (record,) = ana.records(STATUS)
    assert (record["value"]["pull"], record["value"]["status"]) == (OFFERED, f"{STATUS}.closed")
    assert "Nobody" not in str(record)
    assert ana.records(COMMENT) == []


def test_a_refusal_is_told_in_a_sentence_and_the_text_can_be_sent_again(ana: Maintaining) -> None:
    ana.allow("comment")
    OAuthSession.objects.update(scope=act_scope(Act.CLOSE, OWN) + " repo:sh.tangled.repo.pull.status?action=create")
    ana.act("close", "Out of scope.")
    assert ana.send() == 0
    row = OwnRecord.objects.get()
    assert (row.state, "you have not allowed this here" in row.problem) == ("refused", True)
    pane = ana.pane()
    assert ("Not sent: <bdi>you have not allowed" in pane, "Send to Tangled" in pane) == (True, True)
    assert "Out of scope." in pane
    assert Change.objects.filter(what="record.refused").count() == 1


def test_a_kill_between_sending_and_noting_writes_nothing_twice(
    ana: Maintaining, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana.allow("comment")
    ana.act("comment", "Once.")

    class Killed(BaseException):
        pass

    def killed_after(self: OwnServer, *told: Any) -> Any:
        create(self, *told)
        raise Killed

    create = OwnServer.create_record
    with monkeypatch.context() as patched:
        patched.setattr(OwnServer, "create_record", killed_after)
        with pytest.raises(Killed):
            ana.send()
    assert (len(ana.records(COMMENT)), OwnRecord.objects.get().state) == (1, "waiting")
    assert ana.browser.post("/act/undo", {"key": Action.objects.get().key}).status_code == 409, "it is on its way"
    assert ana.send(60) == 1
    assert (len(ana.records(COMMENT)), OwnRecord.objects.get().state) == (1, "written")


def test_a_lost_answer_and_a_renewed_token_are_tried_again_and_a_late_one_is_not(
    ana: Maintaining, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana.allow("comment")
    ana.act("comment", "Once.")
    create, lost = OwnServer.create_record, iter([OAuthRefused("no answer", retry=True), OAuthRefused("", stale=True)])

    def losing(self: OwnServer, *told: Any) -> Any:
        if problem := next(lost, None):
            raise problem
        return create(self, *told)

    monkeypatch.setattr(OwnServer, "create_record", losing)
    assert ana.send() == 0
    assert "Not sent: <bdi>no answer</bdi>" in ana.pane()
    assert ana.send(30) == 1, "with other tokens at once"
    ana.act("comment", "Too late.", version=1)
    assert ana.send(3_700) == 0
    assert "waited too long for the worker" in OwnRecord.objects.latest("pk").problem
    assert len(ana.records(COMMENT)) == 1


def test_nobody_sends_what_somebody_else_wrote_or_without_an_account(
    ana: Maintaining, oauth_site: Site, site: ActingSite, join: Join
) -> None:
    ana.act("comment", "Mine.", "/act")
    key = Action.objects.get().key
    ben = Maintaining(oauth_site, site, join("ben"))
    assert ben.browser.post("/act/send", {"key": key}).status_code == 400
    assert "Send to Tangled" not in ben.pane()
    by_link = site.maintainer("did:plc:" + "2" * 24, "cy.example")
    assert by_link.get(f"/pull/{OFFERED}").content.decode().count("(not sent to Tangled)</button>") >= 2
    answer = by_link.post("/act?send=1", site.form("comment", note="From here.", version=1))
    assert (answer.status_code, Action.objects.latest("pk").note) == (400, "From here.")
    assert by_link.get("/oauth/grant?act=comment")["Location"].startswith("/sign-in")
    assert ana.browser.post("/oauth/grant", {"act": "delete everything"}).status_code == 404
    strict = oauth_site.browser(enforce_csrf_checks=True)
    assert strict.post("/act/send", {"key": key}).status_code == 403
    assert strict.post("/oauth/grant", {"act": "comment"}).status_code == 403
    assert not OwnRecord.objects.exists()


def test_an_ended_session_sends_nothing(ana: Maintaining) -> None:
    ana.allow("comment")
    ana.act("comment", "Bye.")
    ana.browser.post("/sign-out")
    assert ana.send() == 0
    assert "sign in again" in OwnRecord.objects.get().problem
    assert ana.records(COMMENT) == []


def test_who_may_push_says_a_public_lane_as_a_label_of_tangled_where_the_experiment_is_on(
    ana: Maintaining, settings: Settings
) -> None:
    form = {"uri": OFFERED, "next": f"/pull/{OFFERED}"}
    tell_lanes(ana.site)
    settings.LANE_LABEL = True
    definition = define_label()
    assert (ana.browser.post("/act/label", form).status_code, "Label…" in ana.pane()) == (400, False), "no push"
    ana.may_push()
    settings.LANE_LABEL = False
    assert (ana.browser.post("/act/label", form).status_code, "Label…" in ana.pane()) == (400, False), "it is off"
    settings.LANE_LABEL = True
    PublishedRecord.objects.update(cid="")
    assert (ana.browser.post("/act/label", form).status_code, "Label…" in ana.pane()) == (400, False), "no definition"
    PublishedRecord.objects.update(cid="bafy")
    assert "as a label (<bdi>sh.tangled.label.op</bdi>) into your repository" in ana.pane()
    assert ana.browser.post("/act/label", form)["Location"].startswith("/oauth/grant?act=label")
    ana.allow("label")
    assert ana.browser.post("/act/label", form)["Location"] == f"/pull/{OFFERED}"
    assert ana.browser.post("/act/label", form).status_code == 400, "twice"
    assert ana.send() == 1
    (record,) = ana.records(LABEL)
    assert record["value"]["subject"] == OFFERED
    assert record["value"]["add"] == [{"key": definition, "value": "needs-human"}]
    assert "Label…" not in ana.pane()


def test_an_approval_is_published_on_a_click_alone_and_taken_back(ana: Maintaining) -> None:
    collection = f"{OWN}.approval"
    ana.browser.post("/act", ana.site.form(next=f"/pull/{OFFERED}"))
    ana.site.after(60)
    assert (ana.send(), OwnRecord.objects.count()) == (0, 0), "nobody asked for it"
    approval = Action.objects.get()
    form = {"key": approval.key, "next": f"/pull/{OFFERED}"}
    assert f"(<bdi>{collection}</bdi>) into your repository at <bdi>pds.example.test</bdi>" in ana.pane()
    assert ana.browser.post("/act/send", form)["Location"].startswith("/oauth/grant?act=approve")
    ana.allow("approve")
    ana.browser.post("/act/send", form)
    assert ana.send() == 1
    (record,) = ana.records(collection)
    assert record["value"]["subject"] == {"uri": OFFERED, "cid": approval.record_cid}
    assert (record["value"]["round"], record["value"]["patchId"]) == (approval.round, approval.patch_id)
    assert "Publish approval" not in ana.pane()
    taken = {"key": OwnRecord.objects.get().key, "next": f"/pull/{OFFERED}"}
    assert ana.browser.post("/act/take-back", taken)["Location"].startswith("/oauth/grant?act=take_back_approval")
    ana.allow("take_back_approval")
    ana.browser.post("/act", ana.site.form("release", version=1))
    assert f"your <bdi>approval of round 1</bdi> (<bdi>{collection}</bdi>)" in ana.pane(), (
        "once it was revoked here too"
    )
    ana.browser.post("/act/take-back", taken)
    assert ana.send() == 1
    assert ana.records(collection) == []
    assert ana.browser.post("/act/take-back", taken).status_code == 400
    assert "Take back" not in ana.pane()


def test_the_worker_sends_what_is_due(ana: Maintaining, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "close_old_connections", lambda: None)  # it is the one of this test's transaction
    monkeypatch.setattr(tasks, "current", lambda: SimpleNamespace(fetcher=web_sender().fetcher))
    ana.allow("comment")
    ana.act("comment", "From the worker.")
    tasks.send_own_records.call_local()
    assert ana.records(COMMENT) == []
    ana.site.after(10)
    tasks.send_own_records.call_local()
    assert [one["value"]["body"]["text"] for one in ana.records(COMMENT)] == ["From the worker."]
