"""Scores read from a snapshot: of whom, of which repository, and in how many statements."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingest.store.transaction import Params, Rows
from scoring.explain.reasons import ALARMS, UNCLEAR
from scoring.queries import read
from scoring.queries.people import scores
from scoring.queries.types import QueueQuery
from scoring.types import Lane
from tests.ingest.stream.frames import MARA, REPO, SEED, Frames, pull_uri
from tests.pipeline import Result, all_rows, opened
from tests.scoring.small import take
from trustsite.world import World


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
        assert found.explanation.startswith("First change here, no record yet; vouched for by the maintainer")
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
            assert codes & {"not_enough_evidence", "below_fast_lane", "tests_failed", *weak, *UNCLEAR}
        assert verdict.estimate.low <= (probability or 0.5) <= verdict.estimate.high
    assert {verdict.lane for verdict in verdicts} == set(Lane)


def test_score_names_the_lane_of_the_newest_open_pull_request(played: Result, world: World) -> None:
    for name in ("mara", "ruben", "alba"):
        newest = max(
            (row for row in all_rows(played) if row.author.did == world.cast[name]), key=lambda row: row.opened_at
        )
        assert played.score(world.cast[name]).decision is newest.verdict.lane


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
    words = played.rows("select voucher_id, subject_id from vouches where superseded_at is null")
    others = [word for word in words if word["voucher_id"] != word["subject_id"]]
    assert board.vouches + board.denounces == len(others) < len(words), "a vouch for oneself is not in the graph"


def test_a_probability_of_one_is_in_the_last_bar(played: Result) -> None:
    with played.reading() as rows:
        bars = read.dashboard(rows).histogram
    chances = [
        row["probability"]
        for row in played.rows("from current_scores where repository_id = 0 and probability is not null")
    ]
    assert [bar.count for bar in bars] == [sum(bar.low <= p < bar.high for p in chances) for bar in bars]


def test_reading_takes_the_same_number_of_statements_however_much_there_is(
    played: Result, world: World, tmp_path: Path
) -> None:
    few = Frames()
    few.repository(SEED, repoDid=REPO)
    few.pull(MARA, "only")
    with opened(tmp_path) as small:
        take(small, few)
        asked = {
            "queue": (lambda rows, did: read.queue(rows, QueueQuery(size=25)), 9),
            # Seven are what all scores share, which is read once a snapshot and here each time.
            "score": (lambda rows, did: read.score(rows, did), 7 + 5),
            "pull": (lambda rows, did: read.pull(rows, pull_uri(did, "only")), 7),
            "leaderboard": (lambda rows, did: read.leaderboard(rows, "score", True, 1), 7 + 2),
            "contributor": (lambda rows, did: read.contributor(rows, did), 2 * 7 + 31),
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


JUDGED_IN = 300
EVERYWHERE = f"""
insert into {{table}} select one.* replace (number as repository_id)
from {{table}} one, range(1001, {1001 + JUDGED_IN}) here (number) where one.repository_id = 0
"""


@pytest.fixture(scope="module", name="judged")
def judged_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Result]:
    """Two people who are judged in hundreds of repositories."""
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.pull(MARA, "only")
    with opened(tmp_path_factory.mktemp("judged")) as result:
        take(result, frames)
        with result.store.write() as txn:
            for table in ("current_scores", "trust"):
                txn.execute(EVERYWHERE.format(table=table))
        yield result


class CountedRows(Rows):
    """Rows that count what statements return."""

    returned = 0

    def rows(self, sql: str, params: Params = ()) -> list[dict[str, Any]]:
        found = super().rows(sql, params)
        self.returned += len(found)
        return found


class Explaining(Rows):
    """Statements that tell how they were run."""

    def rows(self, sql: str, params: Params = ()) -> list[dict[str, Any]]:
        return super().rows(f"explain analyze {sql}", params)


@pytest.mark.parametrize("repository", [None, REPO])
def test_of_who_is_judged_in_hundreds_of_repositories_the_one_that_is_asked_about_is_read(
    judged: Result, repository: str | None
) -> None:
    with judged.reading() as rows:
        page = read.contributor(rows, MARA)
        assert page is not None
        assert len(page.per_repository) >= JUDGED_IN
        alone, several = CountedRows(rows.cursor), CountedRows(rows.cursor)
        assert read.score(alone, MARA, repository) is not None
        assert read.scores(several, [MARA, SEED], repository).keys() == {MARA, SEED}
    assert max(alone.returned, several.returned) < JUDGED_IN


@pytest.mark.parametrize("people", [[1], [1, 3, 7]])
@pytest.mark.parametrize("number", [None, 0])
def test_judgements_are_found_by_the_index_by_person(judged: Result, people: list[int], number: int | None) -> None:
    with judged.reading() as rows:
        plan = str(scores._current(Explaining(rows.cursor), people, number))
    assert "Index Scan" in plan
