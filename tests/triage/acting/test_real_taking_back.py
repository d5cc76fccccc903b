"""Comments, closings and labels that were sent in one's own name are taken back, from the pages to the data server."""

from collections.abc import Callable
from typing import Any

import pytest
from pytest_django import Settings

from ingest.oauth.records import COMMENT, LABEL, STATUS
from ingest.oauth.resource import OwnServer
from ingest.oauth.scopes import Act, act_scope
from ingest.store.database import StreamClock
from tests.peers.network import Account
from tests.pipeline import Later
from tests.scoring.pipeline.offered_world import learn
from tests.scoring.small import OFFERED
from tests.triage.access.oauth.conftest import Site
from tests.triage.worlds.acting_site import ActingSite
from tests.triage.worlds.labelling import define_label, tell_lanes
from tests.triage.worlds.maintaining import Maintaining
from triage.models import Action, Change, OAuthSession, OwnRecord
from triage.services.actions import written_to_author

pytestmark = pytest.mark.django_db
Join = Callable[[str], Account]
OWN = "org.sunstead"
GO_BACK = {"next": f"/pull/{OFFERED}"}


@pytest.fixture
def ana(oauth_site: Site, site: ActingSite, join: Join) -> Maintaining:
    return Maintaining(oauth_site, site, join("ana"))


def sent(ana: Maintaining, kind: str = "comment", note: str = "Too harsh.") -> OwnRecord:
    """What ana sent, with the right to take it back if it is a comment."""
    for act in ("close",) if kind == "close" else ("comment", "take_back_comment"):
        ana.allow(act)
    ana.act(kind, note)
    assert ana.send() == 1
    ana.site.work()
    return OwnRecord.objects.get()


def take_back(ana: Maintaining, row: OwnRecord) -> Any:
    return ana.browser.post("/act/take-back", {"key": row.key, **GO_BACK})


def tell(ana: Maintaining, row: OwnRecord, operation: str) -> None:
    """The stream brings a status of ana's, or its deletion, and the worker judges what follows."""
    frames = Later(StreamClock(ana.site.result.store).now())
    if operation == "create":
        frames.status(ana.account.did, OFFERED, "closed", rkey=row.rkey)
    else:
        frames.delete(ana.account.did, row.collection, row.rkey)
    ana.site.after(1)
    learn(ana.site.result, frames)
    ana.site.work()


def test_a_sent_comment_is_deleted_with_its_own_permission_after_ten_seconds_that_can_be_undone(
    ana: Maintaining, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana.allow("comment")
    ana.act("comment", "Too harsh.")
    ana.send()
    ana.site.work()
    row, (record,) = OwnRecord.objects.get(), ana.records(COMMENT)
    pane = ana.pane()
    assert "Deletes your <bdi>comment</bdi> (<bdi>sh.tangled.feed.comment</bdi>) from your repository at " in pane
    assert (record["uri"].replace("/", "/<wbr>") in pane, "<bdi>pds.example.test</bdi>, as" in pane) == (True, True)
    asked = take_back(ana, row)["Location"]
    assert asked.startswith("/oauth/grant?act=take_back_comment")
    page = ana.browser.get(asked).content.decode()
    assert "<code>repo:sh.tangled.feed.comment?action=delete</code>" in page
    assert "delete your comments on pull requests (sh.tangled.feed.comment) from your repository at" in page
    ana.allow("take_back_comment")
    assert OAuthSession.objects.get(ended_at=None).scope.split()[1:] == [
        *act_scope(Act.COMMENT, OWN).split()[1:],
        *act_scope(Act.TAKE_BACK_COMMENT, OWN).split()[1:],
    ]
    assert take_back(ana, row)["Location"] == f"/pull/{OFFERED}"
    assert take_back(ana, row).status_code == 400, "twice"
    pane = ana.pane()
    assert ("is deleted from Tangled. It takes effect in 10 seconds." in pane, "being taken back" in pane) == (
        True,
        True,
    )
    ana.browser.post("/act/undo", {"key": OwnRecord.objects.latest("pk").key})
    assert (ana.send(), len(ana.records(COMMENT))) == (0, 1)
    assert "Take back…" in ana.pane()
    with monkeypatch.context() as patched:
        read = OwnServer.read_record
        patched.setattr(OwnServer, "read_record", lambda *told: ana.site.after(8) or read(*told))
        take_back(ana, row)
    assert (ana.send(9.9), ana.send(0.1), ana.send(60)) == (0, 1, 0), "they begin once the server has answered"
    assert ana.records(COMMENT) == []
    assert "Too harsh." not in ana.pane()
    assert not written_to_author(OFFERED, ana.site.now).exists()
    assert Change.objects.filter(what="record.deletion_asked").count() == 2
    assert Change.objects.get(what="record.deleted").details == {"record": record["uri"]}
    history = ana.browser.get(f"/history/{OFFERED}").content.decode()
    assert ("commented, sent to Tangled and taken back" in history, "Too harsh." in history) == (True, False)
    assert take_back(ana, row).status_code == 400, "it is gone"


def test_a_comment_that_came_back_by_the_stream_is_taken_back_where_it_stands(ana: Maintaining) -> None:
    row = sent(ana)
    frames = Later(StreamClock(ana.site.result.store).now())
    frames.commit(ana.account.did, COMMENT, row.rkey, ana.records(COMMENT)[0]["value"])
    learn(ana.site.result, frames)
    ana.site.work()
    pane = ana.pane()
    assert (pane.count("Too harsh."), pane.count("Take back…"), "on Tangled: <bdi>Too harsh." in pane) == (1, 1, True)
    take_back(ana, row)
    assert ana.send() == 1
    tell(ana, row, "delete")
    assert "Too harsh." not in ana.pane()


def test_a_request_for_changes_that_is_taken_back_waits_for_nobody_and_leaves_other_peoples_verdicts(
    ana: Maintaining, oauth_site: Site, site: ActingSite, join: Join
) -> None:
    row = sent(ana, "request_changes")
    assert ("Changes requested by you" in ana.pane(), "your <bdi>request for changes</bdi>" in ana.pane()) == (
        True,
        True,
    )
    take_back(ana, row)
    assert ana.send() == 1
    ana.site.work()
    pane = ana.pane()
    assert [words in pane for words in ("Changes requested by you", "Waiting on author", "Too harsh.")] == [False] * 3
    assert Change.objects.filter(what__in=("action.undone", "action.release")).count() == 2
    ben = Maintaining(oauth_site, site, join("ben"))
    ana.act("request_changes", "Once more.", version=3)
    ana.send()
    later = OwnRecord.objects.latest("pk")
    ben.browser.post("/act", site.form("pull_for_review", version=4))
    take_back(ana, later)
    ana.send()
    ana.site.work()
    assert ("Assigned to you" in ben.pane(), "Once more." in ben.pane()) == (True, False)


def test_a_closing_is_taken_back_on_its_history_and_the_queue_has_it_again(ana: Maintaining) -> None:
    ana.may_push()
    row = sent(ana, "close", "Nobody needs it.")
    assert "To be closed, says you" in ana.pane()
    tell(ana, row, "create")
    assert "Mend the lamp" not in ana.browser.get("/").content.decode()
    assert ana.browser.get(f"/pull/{OFFERED}")["Location"] == f"/history/{OFFERED}"
    history = ana.browser.get(f"/history/{OFFERED}").content.decode()
    assert "asked to close it, sent to Tangled: Nobody needs it." in history
    assert "Deletes your <bdi>closing</bdi> (<bdi>sh.tangled.repo.pull.status</bdi>) from your repository" in history
    form = {"key": row.key, "next": f"/history/{OFFERED}"}
    assert ana.browser.post("/act/take-back", form)["Location"].startswith("/oauth/grant?act=take_back_close&next=")
    ana.allow("take_back_close")
    assert ana.browser.post("/act/take-back", form)["Location"] == f"/history/{OFFERED}"
    assert ana.send() == 1
    assert ana.records(STATUS) == []
    tell(ana, row, "delete")
    pane = ana.pane()
    assert [words in pane for words in ("To be closed", "Nobody needs it.", "Take back…")] == [False] * 3
    assert "Mend the lamp" in ana.browser.get("/").content.decode()
    assert "sent to Tangled and taken back" in ana.browser.get(f"/history/{OFFERED}").content.decode()


def test_a_label_is_taken_back_and_can_be_written_again(ana: Maintaining, settings: Settings) -> None:
    tell_lanes(ana.site)
    ana.may_push()
    settings.LANE_LABEL = True
    define_label()
    ana.allow("label")
    ana.browser.post("/act/label", {"uri": OFFERED, **GO_BACK})
    assert ana.send() == 1
    assert "your <bdi>label needs-human</bdi> (<bdi>sh.tangled.label.op</bdi>)" in ana.pane()
    assert take_back(ana, OwnRecord.objects.get())["Location"].startswith("/oauth/grant?act=take_back_label&next=")
    ana.allow("take_back_label")
    take_back(ana, OwnRecord.objects.get())
    assert ana.send() == 1
    assert ana.records(LABEL) == []
    assert ("Label…" in ana.pane(), "Take back…" in ana.pane()) == (True, False)


def test_a_kill_between_deleting_and_noting_deletes_once_and_ends_what_was_said(
    ana: Maintaining, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = sent(ana)
    take_back(ana, row)

    class Killed(BaseException):
        pass

    deleted = list[str]()

    def killed_after(self: OwnServer, collection: str, rkey: str, replaces: str) -> None:
        delete(self, collection, rkey, replaces)
        deleted.append(rkey)
        raise Killed

    delete = OwnServer.delete_record
    monkeypatch.setattr(OwnServer, "delete_record", killed_after)
    with pytest.raises(Killed):
        ana.send()
    assert (ana.records(COMMENT), OwnRecord.objects.latest("pk").state) == ([], "waiting")
    assert "Too harsh." in ana.pane()
    assert ana.browser.post("/act/undo", {"key": OwnRecord.objects.latest("pk").key}).status_code == 400
    assert (ana.send(60), deleted) == (1, [row.rkey])
    assert "Too harsh." not in ana.pane()


def test_what_is_gone_already_counts_as_deleted_and_what_changed_meanwhile_stays(ana: Maintaining) -> None:
    row = sent(ana)
    (record,) = ana.records(COMMENT)
    take_back(ana, row)
    ana.account.put(record["uri"], {**record["value"], "createdAt": "2026-11-20T12:00:00Z"})
    assert (ana.send(), len(ana.records(COMMENT))) == (0, 1)
    assert "Not taken back: <bdi>the record changed meanwhile" in ana.pane()
    take_back(ana, row)
    ana.account.delete(record["uri"])
    assert (ana.send(), "Too harsh." in ana.pane()) == (1, False)
    ana.act("comment", "And this.", version=2)
    ana.send()
    ana.account.delete(ana.records(COMMENT)[0]["uri"])
    assert take_back(ana, OwnRecord.objects.latest("pk")).status_code == 302
    assert (ana.send(), "And this." in ana.pane()) == (1, False)


def test_nobody_takes_back_what_somebody_else_sent_or_without_permission_or_session(
    ana: Maintaining, oauth_site: Site, site: ActingSite, join: Join
) -> None:
    row = sent(ana)
    ben = Maintaining(oauth_site, site, join("ben"))
    ben.allow("take_back_comment")
    answer = take_back(ben, row)
    assert (answer.status_code, "Nothing was taken back" in answer.content.decode()) == (400, True)
    assert ("Too harsh." in ben.pane(), "Take back…" in ben.pane()) == (True, False)
    strict = oauth_site.browser(enforce_csrf_checks=True)
    assert strict.post("/act/take-back", {"key": row.key}).status_code == 403
    by_link = site.maintainer(ana.account.did, "ana.example")
    assert by_link.post("/act/take-back", {"key": row.key}).status_code == 400, "not with a link alone"
    take_back(ana, row)
    ana.browser.post("/sign-out")
    assert ana.send() == 0
    assert "your sign-in at your own server has ended; sign in again" in OwnRecord.objects.latest("pk").problem
    assert (len(ana.records(COMMENT)), Action.objects.get().undone_at) == (1, None)


def test_a_server_that_allows_no_deletion_is_told_in_a_sentence(ana: Maintaining) -> None:
    ana.allow("comment")
    ana.act("comment", "Too harsh.")
    ana.send()
    OAuthSession.objects.update(scope=f"{act_scope(Act.COMMENT, OWN)} repo:sh.tangled.feed.comment?action=delete")
    take_back(ana, OwnRecord.objects.get())
    assert ana.send() == 0
    pane = ana.pane()
    assert "Not taken back: <bdi>you have not allowed this here (repo:sh.tangled.feed.comment?action=delete)" in pane
    assert ("Take back…" in pane, len(ana.records(COMMENT))) == (True, 1)
