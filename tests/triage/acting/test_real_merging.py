"""Merging from the page in a maintainer's own name: on a knot that checks every token, with a real data server."""

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.conf import settings

from ingest.errors import OAuthRefused
from ingest.oauth.records import STATUS, VOUCH
from ingest.oauth.resource import OwnServer
from tests.conftest import Count
from tests.ingest.peer import Peer, Request, response
from tests.ingest.stream.frames import MARA
from tests.peers.knot import Knot
from tests.peers.network import Account, RealNetwork
from tests.scoring.small import OFFERED
from tests.triage.access.oauth.conftest import Site
from tests.triage.worlds.acting_site import ActingSite
from tests.triage.worlds.killed import Forking, forking
from tests.triage.worlds.maintaining import Maintaining
from triage.access.oauth.client import web_sender
from triage.access.oauth.sessions import FREE
from triage.models import Change, OAuthSession, OwnRecord
from triage.services.own_name import merging, own_records

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

    def click(self) -> tuple[str, str, str, str, dict[str, str]]:
        """The same as a job of another process."""
        cookie = self.ana.browser.cookies[settings.SESSION_COOKIE_NAME].value
        form = {"uri": OFFERED, "next": PAGE}
        return "merge", self.ana.oauth.host, cookie, self.ana.site.now.isoformat(), form

    def settle(self, processes: Forking) -> str:
        """Do what the pages offer after a kill, until it is merged and said so; return what that was."""
        OAuthSession.objects.update(lease_until=FREE)  # as once the lease is over
        self.ana.site.after(merging.UNDER_WAY.total_seconds() + 1)
        signs_in_again = not OAuthSession.objects.filter(ended_at=None).exists()
        if signs_in_again:
            assert self.ana.oauth.sign_in(self.ana.browser, self.ana.account)["Location"] == "/"
            self.ana.allow("merge")
        unclear = "An earlier try may have merged it." in self.ana.pane()
        if unclear:
            assert self.merge().status_code == 400, "nothing is tried before somebody looked"
            assert own_records.send_due(web_sender(), lambda: self.ana.site.now) == 0
        is_there = len(self.knot.merged) == 1
        if unclear and is_there:
            assert "Your server is told that it is merged." in self.told(seen="present")
        elif unclear:
            assert "Merged into main." in self.told(seen="absent")
        elif not is_there:
            processes.run(*self.click())
        self.ana.send(0)
        seen = "it is there" if is_there else "it is not"
        return f"looked: {seen}" if unclear else "was whole" if is_there else "clicked again"

    def forget(self) -> tuple[int, int]:
        """Make it an open one again; return how often it was merged, and how often that was written."""
        merged, statuses = len(self.knot.merged), self.ana.records(STATUS)
        for status in statuses:
            self.ana.account.delete(status["uri"])
        self.knot.merged.clear()
        OwnRecord.objects.all().delete()
        return merged, len(statuses)

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


def test_whoever_merged_it_can_vouch_for_its_author_at_once_and_name_it(place: Place) -> None:
    place.ana.allow("merge")
    place.merge()
    form = f'action="/c/{MARA}/vouch"'
    pane = place.ana.pane()
    assert (form in pane, f'value="{OFFERED}" checked' in pane, ">Merge</button>" in pane) == (True, True, False)
    assert "Merged from here by" in pane
    place.ana.allow("vouch")
    vouch = {"reason": "Careful", "evidence": [OFFERED], "next": PAGE}
    assert place.ana.browser.post(f"/c/{MARA}/vouch", vouch)["Location"] == PAGE
    assert "Your vouch is being sent." in place.ana.pane()
    assert place.ana.send() == 1
    assert [one["value"]["evidences"] for one in place.ana.records(VOUCH)] == [[OFFERED]]
    assert "Take my vouch back" in place.ana.pane()


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
    assert "Merged into main." in place.told(seen="absent")
    assert len(place.knot.merged) == 2


def test_who_looked_and_found_it_merged_has_the_status_written_and_nothing_else(
    place: Place, oauth_site: Site, site: ActingSite, join: Callable[[str], Account]
) -> None:
    place.ana.allow("merge")
    assert place.merge(seen="present").status_code == 400, "no earlier try is unclear"
    place.knot.loses_answers = True
    place.merge()
    ben = Maintaining(oauth_site, site, join("mrb"))
    ben.allow("merge")
    assert ("It is there: only" in ben.pane(), "It is there: only" in place.ana.pane()) == (False, True)
    assert ben.browser.post("/act/merge", {"uri": OFFERED, "seen": "present"}).status_code == 400
    assert "Your server is told that it is merged." in place.told(seen="present")
    assert (place.ana.send(0), len(place.knot.merged)) == (1, 1)
    assert [one["status"] for one in place.statuses()] == [f"{STATUS}.merged"]
    assert "Merged from here by" in place.ana.pane()
    assert place.merge(seen="present").status_code == 400
    assert place.merge(seen="absent").status_code == 400


@pytest.mark.django_db(transaction=True)
def test_a_kill_at_any_moment_of_a_merge_merges_once_and_what_is_unclear_is_settled_by_whoever_looks(
    place: Place, count: Count
) -> None:
    place.ana.allow("merge")
    draws, rounds, ends = random.Random(7), count(2, 20), list[str]()
    with forking() as processes:
        began = time.monotonic()
        assert not processes.run(*place.click())
        longest = time.monotonic() - began
        assert place.forget() == (1, 1), "nothing was killed"
        place.knot.answers.clear()
        assert processes.run(*place.click(), until=lambda: place.knot.merged), "before the answer came"
        place.knot.answers.set()
        assert (place.statuses(), place.merge().status_code) == ([], 400), "it may still be under way"
        assert (place.settle(processes), place.forget()) == ("looked: it is there", (1, 1))
        for turn in range(rounds):
            processes.run(*place.click(), seconds=longest * (turn + draws.random()) / rounds)
            ends.append(place.settle(processes))
            assert place.forget() == (1, 1), ends
    print(Counter(ends))  # noqa: T201  for docs/measurements.md: pytest -rP


def test_no_time_that_passes_and_no_page_that_is_read_merges_anything(place: Place) -> None:
    place.ana.allow("merge")
    for _ in range(3):
        place.ana.send(3_600)
        place.ana.site.work()
        for address in (PAGE, "/", "/act/merge", f"/act/merge?uri={OFFERED}&next={PAGE}"):
            place.ana.browser.get(address)
    assert (place.knot.merged, place.knot.refused, place.knot.asked) == ([], [], 0)


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
