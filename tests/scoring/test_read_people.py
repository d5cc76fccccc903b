"""What pages are told of people: the leaderboard, somebody's own page, and the graph around them."""

from pathlib import Path
from typing import get_args

import pytest

from scoring import read
from scoring.answers import LeaderboardSort
from tests.ingest.stream import MALLORY, MARA, REPO, SEED, STRANGER, Frames, pull_uri
from tests.pipeline import Result, opened
from tests.scoring.small import take
from trustsite.world import World


@pytest.mark.parametrize("sort", get_args(LeaderboardSort))
@pytest.mark.parametrize("descending", [True, False])
def test_the_leaderboard_is_in_order_and_its_pages_hold_everybody_once(
    played: Result, world: World, sort: LeaderboardSort, descending: bool
) -> None:
    with played.reading() as rows:
        first = read.leaderboard(rows, sort, descending, 1)
        lines = [
            line for page in range(1, first.pages + 1) for line in read.leaderboard(rows, sort, descending, page).rows
        ]
        assert read.leaderboard(rows, sort, descending, 10**6).page == first.pages
        assert read.leaderboard(rows, sort, descending, -5).page == 1
    assert sorted(line.person.did for line in lines) == sorted(world.cast.values())
    assert [line.rank for line in lines] == list(range(1, first.total + 1))
    values = {
        "score": [line.verdict.estimate.probability for line in lines],
        "merged": [line.merged for line in lines],
        "reverts": [line.reverts for line in lines],
        "hops": [line.distance for line in lines],
    }[sort]
    known = [value for value in values if value is not None]
    assert known == sorted(known, reverse=descending)
    assert values[: len(known)] == known, "who has no value comes last either way"
    assert all(line.provisional == (line.verdict.estimate.cases < 5) for line in lines)


def test_a_contributors_page_tells_the_same_as_the_score(played: Result, world: World) -> None:
    for name in ("mara", "ruben", "alba", "blitz", "mallory"):
        with played.reading() as rows:
            page = read.contributor(rows, world.cast[name])
        assert page is not None
        assert page.score == played.score(world.cast[name])
        assert [one.repository for one in page.per_repository] == sorted(
            one.repository or "" for one in page.per_repository
        )
        watched = [played.score(world.cast[name], key) for key in world.watched.values()]
        assert all(one in watched for one in page.per_repository)
        assert page.history[-1].lane is page.score.verdict.lane
    with played.reading() as rows:
        page = read.contributor(rows, world.cast["alba"])
    assert page is not None
    assert not page.vouches, "a stranger's denounce is not shown"


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        (((SEED, "merged"),), "merged, still being watched or in a repository that does not count"),
        (((MARA, "merged"),), "open; said to be merged, which nobody else who may push confirms"),
        (((SEED, "closed"),), "closed unmerged"),
        (
            ((SEED, "closed"), (MARA, "merged")),
            "closed unmerged; said to be merged, against the word of those who may push or the target branch itself",
        ),
    ],
)
def test_a_claim_without_proof_is_told_as_one(result: Result, words: tuple[tuple[str, str], ...], outcome: str) -> None:
    frames, offered = Frames(), pull_uri(MARA, "offered")
    frames.repository(SEED, repoDid=REPO)
    frames.pull(MARA, "offered")
    for actor, word in words:
        frames.status(actor, offered, word)
    take(result, frames)
    with result.reading() as rows:
        page, row = read.contributor(rows, MARA), read.pull(rows, offered)
    assert page is not None
    assert [line.outcome for line in page.pulls] == [outcome]
    if row is not None:
        assert outcome == f"open; {row.claim}"


@pytest.mark.parametrize("name", ["ana", "mara", "mallory"])
def test_the_graph_around_somebody_holds_their_ways_from_the_seeds_and_forty_people_at_most(
    played: Result, world: World, name: str
) -> None:
    with played.reading() as rows:
        graph = read.vouch_graph(rows, world.cast[name], played.policy)
        explained = read.explain_trust(rows, world.cast[name], None, played.policy)
    assert graph is not None
    assert explained is not None
    people = [one.person.did for one in graph.people]
    assert people[0] == world.cast[name]
    assert len(people) == len(set(people)) <= 40
    ways = {one.did for way in explained.paths for one in way}
    assert ways <= set(people)
    for voucher, subject in graph.vouches:
        assert voucher != subject
        assert graph.people[subject].onward == (voucher == 0)
    assert all(graph.people[people.index(way[0].did)].hops == 0 for way in explained.paths)
    assert {subject for voucher, subject in graph.vouches if voucher == 0} == {
        at for at, one in enumerate(graph.people) if one.onward
    }


def test_nobody_stands_around_whom_nobody_knows(played: Result, world: World) -> None:
    with played.reading() as rows:
        assert read.vouch_graph(rows, world.cast["ruben"], played.policy) is None
        assert read.vouch_graph(rows, "did:plc:nobody", played.policy) is None


def test_whoever_is_hidden_is_not_in_the_graph(tmp_path: Path) -> None:
    with opened(tmp_path) as result:
        frames = Frames()
        frames.repository(SEED, repoDid=REPO)
        frames.vouch(SEED, MARA)
        frames.vouch(MALLORY, MARA)
        frames.vouch(MARA, STRANGER)
        take(result, frames)
        with result.reading() as rows:
            before = read.vouch_graph(rows, MARA, result.policy)
        with result.store.write() as txn:
            txn.execute("update contributors set account_status = 'takendown' where did = ?", [MALLORY])
        with result.reading() as rows:
            after = read.vouch_graph(rows, MARA, result.policy)
    assert before is not None
    assert after is not None
    assert [(one.person.did, one.hops) for one in before.people] == [
        (MARA, 1),
        (SEED, 0),
        (MALLORY, None),
        (STRANGER, 2),
    ]
    assert [one.person.did for one in after.people] == [MARA, SEED, STRANGER]
    assert after.left_out == 0
    assert after.vouches == ((0, 2), (1, 0))
