"""Merging on a knot with a session at a real data server: every end, and what a service token is good for."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from ingest.atproto.syntax import NAMESPACE
from ingest.clock import wall_now
from ingest.lookups.forge import MERGE, MergeOrder, Outcome, merge, newest_cid
from ingest.oauth.flow import Grant, revoke
from ingest.oauth.resource import OwnServer
from ingest.oauth.scopes import Act, act_scope, every_scope
from ingest.records.registry import STATUS
from tests.ingest.oauth.site import Site, make_site
from tests.peers.knot import Knot, TokenProblem
from tests.peers.network import PDS_HOST, Account, RealNetwork

OWN = "org.sunstead"
PULL = f"{NAMESPACE}repo.pull"
SCOPE = act_scope(Act.MERGE, OWN)


@dataclass
class Place:
    """A maintainer who is signed in, a pull request of a contributor's, and the knot of the repository."""

    site: Site
    knot: Knot
    maintainer: Account
    contributor: Account
    grant: Grant

    def __post_init__(self) -> None:
        self.merged = set[str]()  # at-uris of other pull requests
        self.uri = self.contributor.create(PULL, {"title": "Mend the lamp", "createdAt": "2026-11-20T12:00:00Z"})
        repo = "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"
        names = (self.knot.host, repo, self.maintainer.did, "lamp", "main")
        order = MergeOrder(*names, self.uri, "", PDS_HOST, "diff --git", "Mend the lamp")
        self.order = replace(order, record_cid=newest_cid(self.site.sender.fetcher, order))

    def merge(self, grant: Grant | None = None) -> Outcome:
        server = OwnServer(self.site.sender, grant or self.grant)
        return merge(self.site.sender.fetcher, server, self.order, wall_now(), self.merged.__contains__).outcome

    def statuses(self) -> list[str]:
        """What the maintainer's data server holds about this pull request."""
        listed = self.site.network.query("com.atproto.repo.listRecords", repo=self.maintainer.did, collection=STATUS)
        return [record["value"]["status"] for record in listed["records"] if record["value"]["pull"] == self.uri]


@pytest.fixture(scope="module")
def signed_in(real_network: RealNetwork) -> Iterator[tuple[Site, Account, Account, Grant]]:
    number = time.time_ns() % 1_000_000_000
    ana, mara = real_network.join(f"mrg{number}"), real_network.join(f"pul{number}")
    with make_site(real_network, every_scope(OWN)) as site:
        yield site, ana, mara, site.sign_in(ana, SCOPE)


@pytest.fixture
def place(real_network: RealNetwork, signed_in: tuple[Site, Account, Account, Grant]) -> Iterator[Place]:
    site, ana, mara, grant = signed_in
    with Knot(real_network, holders={ana.did}) as knot:
        yield Place(site, knot, ana, mara, grant)


def test_a_merge_is_the_maintainers_own_on_the_knot_and_in_their_repository(place: Place) -> None:
    assert place.merge() is Outcome.MERGED
    (merged,) = place.knot.merged
    assert (merged["by"], merged["patch"], merged["branch"]) == (place.maintainer.did, "diff --git", "main")
    assert place.statuses() == [f"{STATUS}.merged"]


def test_a_conflict_a_lost_race_and_a_change_merge_nothing_and_are_told_apart(place: Place) -> None:
    place.knot.conflicts = ["a.txt"]
    assert place.merge() is Outcome.CONFLICT
    place.knot.conflicts, place.knot.moved = [], True
    assert place.merge() is Outcome.LOST
    place.knot.moved = False
    place.contributor.put(place.uri, {"title": "Break the lamp", "createdAt": "2026-11-20T12:00:00Z"})
    assert place.merge() is Outcome.CHANGED
    assert place.knot.merged == place.statuses() == []


@pytest.mark.parametrize("base", ["at://did:plc:aaaaaaaaaaaaaaaaaaaaaaaa/sh.tangled.repo.pull/base", 7, {}])
def test_a_pull_request_that_builds_on_an_open_one_is_not_merged_before_it(place: Place, base: object) -> None:
    shapes = [base, {"uri": base, "cid": "bafy"}] if isinstance(base, str) else [base]
    for depends in shapes:
        told = {"title": "Mend the lamp", "createdAt": "2026-11-20T12:00:00Z", "dependentOn": depends}
        place.contributor.put(place.uri, told)
        place.order = replace(place.order, record_cid=newest_cid(place.site.sender.fetcher, place.order))
        assert place.merge() is Outcome.STACKED
        assert place.knot.merged == []
    place.merged.add(str(base))
    assert (place.merge() is Outcome.MERGED) == isinstance(base, str)


def test_who_may_not_push_is_refused_by_the_knot(place: Place) -> None:
    place.knot.holders.clear()
    assert place.merge() is Outcome.REFUSED
    assert (place.knot.refused, place.statuses()) == (["no push right"], [])


def test_a_lost_answer_is_unknown_and_the_merge_was_sent_once(place: Place) -> None:
    place.knot.loses_answers = True
    assert place.merge() is Outcome.UNKNOWN
    assert len(place.knot.merged) == 1
    assert place.statuses() == []


@pytest.mark.parametrize(("left_out", "ends"), [("rpc:", Outcome.FAILED), ("repo:", Outcome.NOT_RECORDED)])
def test_who_took_half_of_the_scope_out_gets_half_of_it(place: Place, left_out: str, ends: Outcome) -> None:
    begun = place.site.begin(place.maintainer, SCOPE)
    allowed = " ".join(scope for scope in SCOPE.split() if not scope.startswith(left_out))
    grant = place.site.redeem(begun, place.site.visit(begun, place.maintainer).consent(allowed))
    assert place.merge(grant) is ends
    assert (len(place.knot.merged), place.statuses()) == (int(ends is Outcome.NOT_RECORDED), [])


def test_a_session_that_has_ended_merges_nothing(place: Place) -> None:
    grant = place.site.sign_in(place.maintainer, SCOPE)
    revoke(place.site.sender, place.site.client, grant)
    assert place.merge(grant) is Outcome.FAILED
    assert place.knot.merged == []


def test_a_service_token_serves_one_knot_once(place: Place) -> None:
    server = OwnServer(place.site.sender, place.grant)
    token = server.service_token(f"did:web:{place.knot.host}", MERGE)
    assert place.knot.check_token(f"Bearer {token}") == place.maintainer.did
    with pytest.raises(TokenProblem, match="used before"):
        place.knot.check_token(f"Bearer {token}")
    with pytest.raises(TokenProblem, match="for another service"):
        place.knot.check_token(f"Bearer {server.service_token('did:web:other.example.org', MERGE)}")
