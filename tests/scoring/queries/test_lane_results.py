"""Results of the fast lane are counted in the month in which their outcome became known."""

from collections.abc import Iterator
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as draw_from

from ingest.store.transaction import Transaction
from scoring.config.policy import Policy
from scoring.pipeline.score import score
from scoring.queries.lanes import LaneMonth, lane_results, share_interval
from tests.pipeline import At, Result
from tests.scoring.pipeline.offered_world import offered_world

MARCH = datetime(2026, 3, 5)
NOW = datetime(2030, 1, 1)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Result]:
    with offered_world(tmp_path_factory.mktemp("lane") / "store") as result:
        score(result.store, At(NOW), Policy())
        yield result


def told(world: Result, lane: str, labels: list[tuple[bool, datetime]]) -> tuple[LaneMonth, ...]:
    """The results where every decision had this lane and the first pull requests these outcomes."""
    with world.store.write() as txn:
        txn.execute("delete from labels")
        txn.execute("update scores set lane = ?, reasons = '[]' where pull_uri is not null", [lane])
        for row, (clean, known_from) in zip(_pulls(txn), labels, strict=False):
            txn.append("labels", [row | {"clean": clean, "known_from": known_from}])
    with world.store.read() as rows:
        return lane_results(rows)


def _pulls(txn: Transaction) -> list[dict[str, object]]:
    """Pull requests that were decided on, by people who may not push."""
    return txn.rows(
        "select distinct p.pull_uri, p.author_id, p.repository_id from pull_requests p semi join scores s "
        "on s.pull_uri = p.pull_uri anti join own_people o on o.repository_id = p.repository_id "
        "and o.contributor_id = p.author_id order by p.pull_uri"
    )


def test_outcomes_of_the_lane_are_counted_by_month_and_the_oldest_stands_first(world: Result) -> None:
    found = told(world, "fast_lane", [(True, MARCH), (False, MARCH.replace(month=2)), (False, MARCH)])
    assert [(one.month, one.n, one.bad) for one in found] == [("2026-02", 1, 1), ("2026-03", 2, 1)]
    assert found[1].low < 0.5 < found[1].high


def test_what_a_person_looked_at_first_is_no_result_of_the_lane(world: Result) -> None:
    assert told(world, "normal_queue", [(False, MARCH)]) == ()


def test_what_is_not_known_yet_counts_nowhere(world: Result) -> None:
    assert told(world, "fast_lane", [(True, NOW.replace(year=2031))]) == ()


@given(draw_from.integers(1, 10**6).flatmap(lambda n: draw_from.tuples(draw_from.integers(0, n), draw_from.just(n))))
def test_an_interval_lies_around_its_share_and_is_never_empty(counts: tuple[int, int]) -> None:
    bad, n = counts
    low, high = share_interval(bad, n)
    assert 0 <= low <= bad / n <= high <= 1
    assert low < high
