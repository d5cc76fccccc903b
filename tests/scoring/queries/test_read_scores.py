"""A score reads the rows that it is about, found by an index, and nothing beside them."""

from collections.abc import Iterator
from typing import Any

import pytest

from ingest.store.transaction import Params, Rows
from scoring.queries import read, scores
from tests.ingest.stream.frames import MARA, REPO, SEED, Frames
from tests.pipeline import Result, opened
from tests.scoring.small import take

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


class Counting(Rows):
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
        alone, several = Counting(rows.cursor), Counting(rows.cursor)
        assert read.score(alone, MARA, repository) is not None
        assert read.scores(several, [MARA, SEED], repository).keys() == {MARA, SEED}
    assert max(alone.returned, several.returned) < JUDGED_IN


@pytest.mark.parametrize("people", [[1], [1, 3, 7]])
@pytest.mark.parametrize("number", [None, 0])
def test_judgements_are_found_by_the_index_by_person(judged: Result, people: list[int], number: int | None) -> None:
    with judged.reading() as rows:
        plan = str(scores._current(Explaining(rows.cursor), people, number))
    assert "Index Scan" in plan
