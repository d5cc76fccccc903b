"""Merging on a knot against the stand-in: exactly the approved patch, once, and every way in which it can end."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

import pytest

from ingest.http.fetcher import Fetcher
from ingest.lookups.forge import MergeOrder, Outcome, TokenSession, merge, newest_cid
from tests.ingest.stream.frames import ANA, MALLORY, MARA, PULL, REPO, Frames
from tests.standins.merging import Merging
from trustsite.standins import StandIns
from trustsite.standins.recording import Person, Repository, make_recording

NOW = datetime(2026, 11, 20, 12)
HOST, KNOT = "pds.example.test", "knot.example.test"


class Place:
    """The stand-ins, a fetcher, and somebody who is signed in."""

    def __init__(self, stand_ins: StandIns, forge: Merging) -> None:
        self.fetcher = Fetcher(stand_ins.origin)
        self.stand_ins, self.forge = stand_ins, forge
        order = MergeOrder(KNOT, REPO, ANA, "lamp", "main", f"at://{MARA}/{PULL}/one", "", HOST, "diff --git", "Mend")
        self.order = replace(order, record_cid=newest_cid(self.fetcher, order))

    def merge(self, did: str = ANA, **changes: str) -> Outcome:
        session = TokenSession(self.fetcher, did, HOST, self.forge.sign_in(did))
        return merge(self.fetcher, session, replace(self.order, **changes), NOW, {}.__contains__).outcome


@pytest.fixture
def place() -> Iterator[Place]:
    frames = Frames()
    frames.pull(MARA, "one")
    people = [Person(did, f"{did[8:12]}.example.test", f"https://{HOST}", "") for did in (ANA, MARA, MALLORY)]
    repositories = [Repository(REPO, "ana/lamp", ANA, KNOT, "spindle.example.test", (ANA,))]
    recording = make_recording(frames, {}, people, repositories)
    with StandIns(recording) as stand_ins:
        made = Place(stand_ins, Merging.beside(stand_ins, recording))
        yield made
        made.fetcher.close()


def test_a_merge_carries_the_approved_patch_and_writes_the_status_in_the_maintainers_name(place: Place) -> None:
    assert place.merge() is Outcome.MERGED
    (merged,) = place.forge.merged
    assert (merged["patch"], merged["branch"], merged["by"], merged["repo"]) == ("diff --git", "main", ANA, REPO)
    (written,) = place.forge.written
    assert written["repo"] == ANA
    assert written["record"]["pull"] == place.order.pull_uri
    assert written["record"]["status"].endswith(".merged")


def test_a_record_that_changed_after_the_approval_is_not_merged(place: Place) -> None:
    assert place.merge(record_cid="bafyolder") is Outcome.CHANGED
    assert place.forge.merged == []


def test_a_conflict_is_told_before_anything_is_tried(place: Place) -> None:
    place.forge.conflicts[REPO] = ["a.txt", "\u202eb\n"]
    session = TokenSession(place.fetcher, ANA, HOST, place.forge.sign_in(ANA))
    ended = merge(place.fetcher, session, place.order, NOW, {}.__contains__)
    assert ended.outcome is Outcome.CONFLICT
    assert ended.sentence == "Nothing was merged: it conflicts in a.txt, \\u202eb?."
    assert place.forge.merged == []


def test_who_may_not_push_is_refused_by_the_knot(place: Place) -> None:
    assert place.merge(MALLORY) is Outcome.REFUSED
    assert place.forge.merged == place.forge.written == []


def test_merged_but_not_recorded_is_a_state_of_its_own(place: Place) -> None:
    place.forge.refuse_records = True
    assert place.merge() is Outcome.NOT_RECORDED
    assert len(place.forge.merged) == 1


def test_a_lost_answer_is_unknown_and_the_merge_was_sent_once(place: Place) -> None:
    place.forge.lose_answers = True
    assert place.merge() is Outcome.UNKNOWN
    assert len(place.forge.merged) == 1
    assert place.forge.written == []


def test_an_access_token_that_is_none_merges_nothing(place: Place) -> None:
    session = TokenSession(place.fetcher, ANA, HOST, "stolen")
    assert merge(place.fetcher, session, place.order, NOW, {}.__contains__).outcome is Outcome.FAILED
    assert place.forge.merged == []


@pytest.mark.parametrize(
    "wrong", [{"knot": "evil.test/x"}, {"repo_did": "lamp"}, {"pull_uri": "at://x"}, {"author_pds": ""}]
)
def test_names_that_are_no_part_of_an_address_are_asked_nothing(place: Place, wrong: dict[str, str]) -> None:
    assert place.merge(**wrong) is Outcome.FAILED
    assert place.forge.merged == []


@pytest.mark.parametrize("host", [KNOT, HOST])
def test_a_server_that_fails_leaves_nothing_merged(place: Place, host: str) -> None:
    session = TokenSession(place.fetcher, ANA, HOST, "x")
    place.stand_ins.peers.fail(host, 500)
    assert merge(place.fetcher, session, place.order, NOW, {}.__contains__).outcome is Outcome.FAILED
    assert place.forge.merged == []
