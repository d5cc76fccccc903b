"""Merging from the page in a maintainer's own name: on a knot that checks every token, with a real data server."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from ingest.errors import OAuthRefused
from ingest.oauth.records import STATUS
from ingest.oauth.resource import OwnServer
from tests.ingest.peer import Peer, Request, response
from tests.ingest.stream.frames import MARA
from tests.peers.knot import Knot
from tests.peers.network import Account, RealNetwork
from tests.scoring.small import OFFERED
from tests.triage.access.oauth.conftest import Site
from tests.triage.worlds.acting_site import ActingSite
from tests.triage.worlds.maintaining import Maintaining
from triage.access.oauth.client import web_sender
from triage.models import Change, OwnRecord
from triage.services import merging, own_records

pytestmark = pytest.mark.django_db
AUTHORS = "mara-pds.example.org"
PAGE = f"/pull/{OFFERED}"


@dataclass
class Place:
    """An approved pull request, its maintainer, the knot, and the data server of its author."""

    ana: Maintaining
    knot: Knot
    record: dict[str, Any] = field(default_factory=dict)

    def merge(self, **more: str) -> Any:
        return self.ana.browser.post("/act/merge", {"uri": OFFERED, "next": PAGE, **more})

    def told(self, **more: str) -> str:
        """What the page says after the click."""
        answer = self.merge(**more)
        return self.ana.browser.get(answer["Location"]).content.decode() if answer.status_code == 302 else "refused"

    def statuses(self) -> list[dict[str, Any]]:
        return [one["value"] for one in self.ana.records(STATUS)]


@pytest.fixture
def place(
    oauth_site: Site, site: ActingSite, real_network: RealNetwork, join: Callable[[str], Account]
) -> Iterator[Place]:
    def answer(request: Request) -> bytes:
        return response(json.dumps(made.record).encode(), Content_Type="application/json")

    with site.result.store.write() as txn:
        txn.execute("update contributors set pds = ? where did = ?", [f"https://{AUTHORS}", MARA])
        txn.execute("update repositories set knot = 'knot.example.org'")
        txn.execute("update pull_requests set target_branch = 'main'")
    site.publish()
    ana = Maintaining(oauth_site, site, join("mrg"))
    with Knot(real_network, holders={ana.account.did}) as knot, Peer(answer) as peer:
        real_network.lead(AUTHORS, peer.port)
        made = Place(ana, knot)
        form = site.form()
        made.record = {"uri": OFFERED, "cid": form["record_cid"], "value": {"title": "Mend the gate"}}
        ana.browser.post("/act", form)
        site.after(11)
        site.work()
        yield made


def test_a_click_merges_the_approved_round_and_writes_the_status(place: Place) -> None:
    pane = place.ana.pane()
    assert "Asks <bdi>knot.example.org</bdi> to merge round 1 into <bdi>main</bdi>" in pane
    assert place.merge()["Location"].startswith("/oauth/grant?act=merge")
    assert (place.knot.merged, OwnRecord.objects.count()) == ([], 0)
    place.ana.allow("merge")
    assert place.knot.merged == [], "allowing it merges nothing"
    assert "Merged into main." in place.told()
    (merged,) = place.knot.merged
    assert (merged["by"], merged["branch"]) == (place.ana.account.did, "main")
    assert merged["patch"].startswith("From ")
    (status,) = place.statuses()
    assert (status["pull"], status["status"]) == (OFFERED, f"{STATUS}.merged")
    logged = Change.objects.get(what="pull.merged")
    assert logged.details == {"record": OwnRecord.objects.get().uri}
    assert place.merge().status_code == 400, "it was merged already"
    assert len(place.knot.merged) == 1


def test_a_conflict_a_lost_race_a_stack_and_a_missing_right_merge_nothing_and_are_told_apart(place: Place) -> None:
    place.ana.allow("merge")
    place.knot.conflicts = ["a.py"]
    assert "it conflicts in a.py." in place.told()
    place.knot.conflicts, place.knot.moved = [], True
    assert "the branch moved between check and merge. Try again." in place.told()
    place.knot.moved = False
    place.record["value"]["dependentOn"] = f"at://{MARA}/sh.tangled.repo.pull/base"
    assert "it builds on another pull request. Merge that one first." in place.told()
    del place.record["value"]["dependentOn"]
    place.knot.holders.clear()
    assert "the knot does not let you push there." in place.told()
    cid, place.record["cid"] = place.record["cid"], "bafyother"
    assert "the pull request changed after it was approved." in place.told()
    place.record["cid"] = cid
    assert (place.knot.merged, place.statuses()) == ([], [])
    assert Change.objects.filter(what="pull.not_merged").count() == 5
    place.knot.holders.add(place.ana.account.did)
    assert "Merged into main." in place.told()


def test_a_lost_answer_is_not_tried_again_before_a_person_looked(place: Place) -> None:
    place.ana.allow("merge")
    place.knot.loses_answers = True
    assert "it may be merged" in place.told()
    place.knot.loses_answers = False
    assert "An earlier try may have merged it." in place.ana.pane()
    assert place.merge().status_code == 400
    assert len(place.knot.merged) == 1
    assert "Merged into main." in place.told(looked="1")
    assert len(place.knot.merged) == 2


def test_a_kill_in_the_middle_merges_nothing_a_second_time(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.ana.allow("merge")

    class Killed(BaseException):
        pass

    def killed(self: OwnServer, *told: Any) -> Any:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(OwnServer, "create_record", killed)
        with pytest.raises(Killed):
            place.merge()
    assert (len(place.knot.merged), OwnRecord.objects.get().state) == (1, "merging")
    assert place.merge().status_code == 400, "it may still be under way"
    place.ana.site.after(merging.UNDER_WAY.total_seconds() + 1)
    assert place.merge().status_code == 400
    assert "An earlier try may have merged it." in place.ana.pane()
    assert own_records.send_due(web_sender(), lambda: place.ana.site.now) == 0
    assert len(place.knot.merged) == 1


def test_a_status_that_was_not_taken_is_written_by_the_worker(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: OwnServer, *told: Any) -> Any:
        raise OAuthRefused("no answer", retry=True)

    place.ana.allow("merge")
    with monkeypatch.context() as patched:
        patched.setattr(OwnServer, "create_record", refuse)
        assert "your data server did not take the status" in place.told()
    assert (len(place.knot.merged), place.statuses()) == (1, [])
    assert place.ana.send() == 1
    assert [one["status"] for one in place.statuses()] == [f"{STATUS}.merged"]


def test_what_is_not_approved_or_not_theirs_is_not_merged(
    place: Place, oauth_site: Site, site: ActingSite, join: Callable[[str], Account]
) -> None:
    place.ana.allow("merge")
    for uri in (site.result.rows("select pull_uri from pull_requests order by 1 desc")[0]["pull_uri"], "at://nobody"):
        if uri != OFFERED:
            assert place.ana.browser.post("/act/merge", {"uri": uri}).status_code in (400, 404)
    stranger = site.maintainer("did:plc:" + "2" * 24, "cy.example")
    assert stranger.post("/act/merge", {"uri": OFFERED}).status_code == 400, "signed in by a link"
    outsider = site.maintainer("did:plc:" + "3" * 24, "dee.example", "did:plc:elsewhere")
    assert outsider.post("/act/merge", {"uri": OFFERED}).status_code == 403
    strict = oauth_site.browser(enforce_csrf_checks=True)
    assert strict.post("/act/merge", {"uri": OFFERED}).status_code == 403
    assert place.knot.merged == []
