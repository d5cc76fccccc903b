"""What pages and JSON are told: whole, consistent, and in a number of statements that does not grow."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from ingest.transaction import Params, Rows
from scoring import read
from scoring.answers import GroupKey, LeaderboardSort, QueueQuery
from scoring.explain_content import ALARMS, UNCLEAR
from scoring.read import QueueRow
from scoring.verdict import Lane
from tests.ingest.stream import MALLORY, MARA, REPO, SEED, STRANGER, Frames, pull_uri
from tests.pipeline import OPEN_LANE, Result, opened, run
from tests.scoring.small import take
from trustsite.world import World, build_world


@pytest.fixture(scope="module", name="world")
def world_fixture() -> World:
    """The simulated network."""
    return build_world()


@pytest.fixture(scope="module", name="played")
def played_fixture(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Result]:
    """Its end, judged with a fast lane from .60 on."""
    folder, seeds = tmp_path_factory.mktemp("played"), [world.cast["ana"]]
    with run(world.recording, folder, world.watched.values(), seeds, policy=OPEN_LANE) as result:
        yield result


class Counting(Rows):
    """Rows that count the statements."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows.cursor)
        self.statements = 0

    def rows(self, sql: str, params: Params = ()) -> list[dict[str, Any]]:
        self.statements += 1
        return super().rows(sql, params)

    def value(self, sql: str, params: Params = ()) -> Any:
        self.statements += 1
        return super().value(sql, params)


def all_rows(result: Result, query: QueueQuery | None = None) -> list[QueueRow]:
    return [row for group in result.queue(query).groups for row in group.rows]


def test_nobody_unknown_is_scored(played: Result) -> None:
    with played.reading() as rows:
        assert read.score(rows, "did:plc:nobody") is None
        assert read.contributor(rows, "did:plc:nobody") is None


@pytest.mark.parametrize("repository", ["", "did:plc:unknown", "nobody/nothing", "at://did:plc:x/a.b.c/d", "/", "'"])
def test_an_unknown_repository_is_none(played: Result, world: World, repository: str) -> None:
    with played.reading() as rows:
        assert read.score(rows, world.cast["mara"], repository) is None


def test_a_known_repository_that_nobody_watches_is_none(played: Result, world: World) -> None:
    kit = played.value("select repo_key from repositories where name = 'kit'")
    with played.reading() as rows:
        assert read.score(rows, world.cast["mallory"], kit) is None


def test_a_repository_has_three_names(played: Result, world: World) -> None:
    lantern = world.watched["lantern"]
    uri = played.value("select alias from repository_aliases where alias like 'at://%' and contains(alias, ?) limit 1",
                       [world.cast["ana"]])  # fmt: skip
    names = [lantern, "ana.example.test/lantern", f"{world.cast['ana']}/lantern"]
    answers = {played.score(world.cast["mara"], name).repository for name in names}
    assert answers == {"lantern"}
    assert uri is not None


def test_who_offered_nothing_here_is_judged_by_the_seeds_here_and_the_record_elsewhere(tmp_path: Path) -> None:
    with opened(tmp_path) as result:
        frames = Frames()
        frames.repository(SEED, repoDid=REPO)
        frames.vouch(SEED, MARA)
        take(result, frames)
        found = result.score(MARA, REPO)
        assert (found.distance, [person.did for person in found.path]) == (1, [SEED, MARA])
        assert found.structural_trust > 0.89
        assert found.explanation.startswith("Vouched for by the maintainer")
        shown = {factor.name: factor.value for factor in found.verdict.factors}
        assert shown["structural_trust"] == found.structural_trust
        assert {reason.code for reason in found.verdict.reasons} >= {"not_enough_evidence", "trust_path"}
        seed = result.score(SEED, REPO)
        assert (seed.structural_trust, seed.distance) == (1, 0)
        assert "is_seed" in {reason.code for reason in seed.verdict.reasons}


def test_a_person_without_ties_to_a_repository_has_the_factors_of_that_repository(played: Result, world: World) -> None:
    for name in ("blitz", "tilde", "narcis", "mallory-7"):
        for repository in (None, *world.watched.values()):
            found = played.score(world.cast[name], repository)
            shown = {factor.name: factor.value for factor in found.verdict.factors}
            assert shown["structural_trust"] == found.structural_trust
            assert shown["distance"] == found.distance
            assert (found.repository is None) == (repository is None)
            assert found.seeds


def test_probability_and_lane_never_contradict(played: Result, world: World) -> None:
    verdicts = [
        played.score(did, where).verdict for did in world.cast.values() for where in (None, world.watched["lantern"])
    ]
    verdicts += [row.verdict for row in all_rows(played)]
    for verdict in verdicts:
        probability, codes = verdict.estimate.probability, {reason.code for reason in verdict.reasons}
        if verdict.lane is Lane.FAST_LANE:
            assert probability is not None
            assert probability >= 0.6
            assert codes & {"trust_path", "is_seed", "trust_reaches"}
        elif verdict.lane is Lane.NEEDS_HUMAN:
            assert codes & {"denounced_by_seed", *ALARMS} or (probability is not None and probability < 0.3)
        else:
            assert probability is None or probability >= 0.3
            weak = {"no_trust_path", "trust_too_low", "one_account_path"}
            assert codes & {"not_enough_evidence", "below_fast_lane", *weak, *UNCLEAR}
        assert verdict.estimate.low <= (probability or 0.5) <= verdict.estimate.high
    assert {verdict.lane for verdict in verdicts} == set(Lane)


def test_score_names_the_lane_of_the_newest_open_pull_request(played: Result, world: World) -> None:
    for name in ("mara", "ruben", "alba"):
        newest = max(
            (row for row in all_rows(played) if row.author.did == world.cast[name]), key=lambda row: row.opened_at
        )
        assert played.score(world.cast[name]).decision is newest.verdict.lane


def test_groups_add_up_to_the_counts(played: Result) -> None:
    queue = played.queue()
    assert [group.key for group in queue.groups] == [
        key for key in get_args(GroupKey) if key in {g.key for g in queue.groups}
    ]
    for group in queue.groups:
        assert (
            group.total == len(group.rows) == (queue.own_count if group.key == "own" else queue.counts[Lane(group.key)])
        )
        assert group.oldest == min(row.opened_at for row in group.rows)
        newcomers = [row.opened_at for row in group.rows if row.first_timer]
        assert group.oldest_first_timer == min(newcomers, default=None)
    assert len(queue.repositories) == 3


def test_a_pull_request_bears_its_number_on_the_forge_once_that_is_known(played: Result) -> None:
    row = all_rows(played)[0]
    assert (row.label, row.page) == (f"{row.repository_name} · {row.uri[-5:]}", None)
    page = {"pull_uri": row.uri, "number": 12, "url": "https://tangled.org/o/r/pulls/12"}
    with played.store.write() as txn:
        txn.append("pull_pages", [page])
    shown = played.pull(row.uri)
    with played.store.write() as txn:
        txn.execute("delete from pull_pages")
    assert shown is not None
    assert (shown.label, shown.page) == (f"{row.repository_name} #12", page["url"])


@pytest.mark.parametrize("sort", ["findings", "oldest", "newest", "lowest"])
def test_every_order_is_kept_over_pages(played: Result, sort: read.QueueSort) -> None:
    whole = {group.key: group.rows for group in played.queue(QueueQuery(sort=sort)).groups}
    for rows in whole.values():
        ages = [row.opened_at for row in rows]
        if sort == "lowest":
            chances = [row.verdict.estimate.probability for row in rows]
            assert chances == sorted(chances, key=lambda p: (p is None, p or 0))
        elif sort == "findings":
            assert rows == tuple(sorted(rows, key=lambda row: ((row.content_risk or 0) < 0.1, row.opened_at)))
        else:
            assert ages == sorted(ages, reverse=sort == "newest")
    for key, rows in whole.items():
        size, paged = 4, []
        for page in range(1, -(-len(rows) // size) + 1):
            (group,) = played.queue(QueueQuery(bucket=key, sort=sort, page=page, size=size)).groups
            assert group.total == len(rows)
            paged += group.rows
        assert tuple(paged) == rows
        (last,) = played.queue(QueueQuery(bucket=key, sort=sort, page=99, size=size)).groups
        assert last.rows == rows[(len(rows) - 1) // size * size :]


def test_findings_come_first_and_the_size_of_a_change_is_none(played: Result) -> None:
    def normal_queue(sort: read.QueueSort = "findings") -> tuple[read.QueueRow, ...]:
        return next(group.rows for group in played.queue(QueueQuery(sort=sort)).groups if group.key == "normal_queue")

    newest = normal_queue("newest")[0]
    places = {}
    for risk in (0.10, 0.09, newest.content_risk):  # a low finding, a large change, what it had
        with played.store.write() as txn:
            sql = "update current_decisions set content_risk = ? where pull_uri = ?"
            txn.execute(sql, [risk, newest.uri])
        places[risk] = [row.uri for row in normal_queue()].index(newest.uri)
    assert places[0.10] < places[0.09] == len(normal_queue()) - 1


def test_a_preview_shows_the_first_rows_of_every_group(played: Result) -> None:
    whole, cut = played.queue(), played.queue(QueueQuery(size=2))
    assert [(g.key, g.rows[:2], g.total, g.oldest) for g in whole.groups] == [
        (g.key, g.rows, g.total, g.oldest) for g in cut.groups
    ]


def test_the_queue_is_narrowed_by_text_repository_and_bucket(played: Result, world: World) -> None:
    mara = world.cast["mara"]
    assert {row.author.did for row in all_rows(played, QueueQuery(text="mara.EXAMPLE"))} == {mara}
    assert {row.author.did for row in all_rows(played, QueueQuery(text=mara))} == {mara}
    assert {row.repository_name for row in all_rows(played, QueueQuery(text="tidepo"))} == {"tidepool"}
    title = all_rows(played)[0].title
    assert title in {row.title for row in all_rows(played, QueueQuery(text=title.upper()))}
    key = world.watched["driftwood"]
    assert {row.repository_key for row in all_rows(played, QueueQuery(repository=key))} == {key}
    assert all(row.own for row in all_rows(played, QueueQuery(bucket="own")))
    narrowed = played.queue(QueueQuery(text="nothing %_' is called so", bucket="needs_human"))
    assert narrowed.groups == ()
    assert narrowed.counts == played.queue().counts, "the tiles count all of them"
    assert not all_rows(played, QueueQuery(repository="unknown"))


def test_a_handle_that_is_not_proven_finds_and_names_nobody(played: Result, world: World) -> None:
    teo = world.cast["teo"]
    drifter = next(row for row in all_rows(played) if row.author.did == world.cast["drifter"])
    assert drifter.author.name.startswith("did:plc:")
    assert {row.author.did for row in all_rows(played, QueueQuery(text="teo.example"))} == {teo}


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


def test_the_dashboard_adds_up(played: Result, world: World) -> None:
    with played.reading() as rows:
        board = read.dashboard(rows)
    queue = played.queue()
    assert (board.lanes, board.own) == (queue.counts, queue.own_count)
    assert board.scored == board.contributors == len(world.cast)
    assert sum(part.count for part in board.histogram) + board.not_enough_evidence == board.scored
    assert (board.watched, board.dead_letters) == (3, 0)
    assert (board.t_low, board.t_high) == (0.3, 0.6)
    assert board.seeds == len(played.score(world.cast["mara"]).seeds)


def test_a_probability_of_one_is_in_the_last_bar(played: Result) -> None:
    with played.reading() as rows:
        bars = read.dashboard(rows).histogram
    chances = [
        row["probability"]
        for row in played.rows("from current_scores where repository_id = 0 and probability is not null")
    ]
    assert [bar.count for bar in bars] == [sum(bar.low <= p < bar.high for p in chances) for bar in bars]


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


def test_reading_takes_the_same_number_of_statements_however_much_there_is(
    played: Result, world: World, tmp_path: Path
) -> None:
    few = Frames()
    few.repository(SEED, repoDid=REPO)
    few.pull(MARA, "only")
    with opened(tmp_path) as small:
        take(small, few)
        asked = {
            "queue": (lambda rows, did: read.queue(rows, QueueQuery(size=25)), 6),
            # Six are what all scores share, which is read once a snapshot and here each time.
            "score": (lambda rows, did: read.score(rows, did), 6 + 5),
            "pull": (lambda rows, did: read.pull(rows, pull_uri(did, "only")), 4),
            "leaderboard": (lambda rows, did: read.leaderboard(rows, "score", True, 1), 6 + 2),
            "contributor": (lambda rows, did: read.contributor(rows, did), 2 * 6 + 21),
        }
        for name, (ask, most) in asked.items():
            counted = []
            for result, did in ((small, MARA), (played, world.cast["mara"])):
                with result.reading() as rows:
                    counting = Counting(rows)
                    ask(counting, did)
                    counted.append(counting.statements)
            assert max(counted) <= most, name


@pytest.mark.parametrize("watched", [None, "lantern"])
def test_many_scores_are_those_of_each_without_the_path_in_as_many_statements_as_for_half(
    played: Result, world: World, watched: str | None
) -> None:
    repository, dids = world.watched[watched] if watched else None, sorted(world.cast.values())
    with played.reading() as rows:
        alone = {did: one for did in dids if (one := read.score(rows, did, repository))}
        few, many = Counting(rows), Counting(rows)
        read.scores(few, dids[::2], repository)
        assert read.scores(many, dids, repository) == {
            did: replace(one, path=(), distance=None) for did, one in alone.items()
        }
    assert any(one.path for one in alone.values())
    assert many.statements == few.statements


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


def test_first_timers_and_regulars_are_everybody_in_the_queue_who_may_not_push(played: Result) -> None:
    with played.reading() as rows:
        newcomers, regulars = read.fares(rows)
    shown = [row for group in played.queue().groups if group.key != "own" for row in group.rows]
    for fare in (newcomers, regulars):
        its = [row for row in shown if row.first_timer == fare.first_timers]
        assert fare.open == len(its)
        assert fare.lanes[Lane.FAST_LANE] == sum(row.verdict.lane is Lane.FAST_LANE for row in its)
        assert fare.oldest_opened_at == min(row.opened_at for row in its)
        assert fare.median_opened_at in {row.opened_at for row in its}
        assert fare.decided > 0
        assert fare.median_days is not None
    assert (newcomers.first_timers, regulars.first_timers) == (True, False)


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
