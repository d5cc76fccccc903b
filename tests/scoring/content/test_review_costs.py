"""Readings as rows: found by content, paid once, within the day's budget, also by two workers and after a kill."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from threading import Thread

import pytest

from ingest.store import Store
from scoring import read
from scoring.claude_models import Usage
from scoring.cost_gate import Call
from scoring.readings import Reading, Ticket
from scoring.review_costs import StoreLedger, costs_since
from tests.scoring.content.reviewing import SONNET, a_case, a_flag, a_reviewer, an_assessment
from trustsite.standins.claude import ClaudeStandIn

NOON = datetime(2026, 11, 21, 12)
READING = Reading(
    SONNET, (an_assessment(0.4, a_flag()),), 0.75, (2, 5), False, None, Usage(1, 2, 3, 4), 0.02, temperature_sent=0.0
)


class Wall:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture(name="wall")
def wall_fixture() -> Wall:
    return Wall()


@pytest.fixture(name="store")
def store_fixture(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "trust.duckdb")
    yield store
    store.close()


def ticket(key: str = "pear", dollars: float = 0.1) -> Ticket:
    return Ticket(key, "content", "prompt", SONNET, dollars, "at://did:plc:x/y/z")


def rows(store: Store, sql: str) -> list[tuple[object, ...]]:
    with store.read() as found:
        return [tuple(row.values()) for row in found.rows(sql)]


def test_a_reading_comes_back_as_it_was_kept(store: Store, wall: Wall) -> None:
    ledger = StoreLedger(store, 5.0, wall)
    assert ledger.find("pear") is None
    assert ledger.reserve(ticket()) == "reserved"
    assert ledger.find("pear") is None, "it is still under way"
    ledger.settle(ticket(), READING)
    assert ledger.find("pear") == READING
    assert ledger.find("plum") is None


def test_a_row_says_everything_about_its_review(store: Store, wall: Wall) -> None:
    ledger = StoreLedger(store, 5.0, wall)
    ledger.reserve(ticket())
    wall.now += timedelta(seconds=9)
    ledger.settle(ticket(), READING)
    columns = "review_id, model, prompt_version, content_hash, pull_uri, state, reason, coverage, cache_read_tokens"
    assert rows(store, f"select {columns}, dollars, temperature_sent, started_clock, ended_clock from reviews") == [
        (
            *("pear-0", SONNET, "prompt", "content", "at://did:plc:x/y/z", "content verdict", None, 0.75, 4),
            *(0.02, 0.0, NOON, NOON + timedelta(seconds=9)),
        )
    ]


def test_a_reading_that_failed_is_kept_with_its_cost_and_asked_again(store: Store, wall: Wall) -> None:
    ledger = StoreLedger(store, 5.0, wall)
    for reading in (Reading(SONNET, reason="refused", dollars=0.03), READING):
        assert ledger.reserve(ticket()) == "reserved"
        ledger.settle(ticket(), reading)
    assert rows(store, "select review_id, state, reason, dollars from reviews order by review_id") == [
        ("pear-0", "no content verdict", "refused", 0.03),
        ("pear-1", "content verdict", None, 0.02),
    ]
    assert ledger.find("pear") == READING


def test_what_may_be_spent_is_set_aside_until_it_is_known(store: Store, wall: Wall) -> None:
    ledger = StoreLedger(store, 0.25, wall)
    assert ledger.reserve(ticket("a")) == ledger.reserve(ticket("b")) == "reserved"
    assert ledger.reserve(ticket("c")) == "over_budget"
    assert ledger.spent_today() == pytest.approx(0.2)
    ledger.settle(ticket("a"), READING)
    assert ledger.reserve(ticket("c")) == "reserved"


def test_a_new_day_has_a_new_budget(store: Store, wall: Wall) -> None:
    ledger = StoreLedger(store, 0.1, wall)
    ledger.reserve(ticket())
    ledger.settle(ticket(), Reading(SONNET, dollars=0.1))
    assert ledger.reserve(ticket("plum")) == "over_budget"
    wall.now = datetime(2026, 11, 22)
    assert ledger.spent_today() == 0
    assert ledger.reserve(ticket("plum")) == "reserved"


def test_of_many_workers_with_one_content_one_reads(store: Store, wall: Wall) -> None:
    ledger = StoreLedger(store, 5.0, wall)
    said: list[str] = []
    workers = [Thread(target=lambda: said.append(ledger.reserve(ticket()))) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(said) == ["reserved", *["under_way"] * 7]


def test_a_reading_whose_worker_was_killed_is_taken_up_again_and_its_money_counts(store: Store, wall: Wall) -> None:
    ledger = StoreLedger(store, 5.0, wall)
    ledger.reserve(ticket())
    wall.now += timedelta(minutes=29)
    assert ledger.reserve(ticket()) == "under_way"
    wall.now += timedelta(minutes=2)
    assert ledger.reserve(ticket()) == "reserved"
    assert rows(store, "select state, reason from reviews order by review_id") == [
        ("no content verdict", "abandoned"),
        ("running", None),
    ]
    assert ledger.spent_today() == pytest.approx(0.2)


def test_median_and_95th_percentile_are_of_readings_that_ended(store: Store, wall: Wall) -> None:
    ledger = StoreLedger(store, 500.0, wall)
    for number in range(1, 102):
        ledger.reserve(ticket(str(number)))
        ledger.settle(ticket(str(number)), Reading(SONNET, dollars=number / 100))
    ledger.reserve(ticket("still running", 99.0))
    with store.read() as found:
        costs = costs_since(found, NOON)
        assert costs_since(found, NOON + timedelta(days=1)).median is None
    assert (costs.reviews, costs.median, costs.p95) == (101, 0.51, pytest.approx(0.96))
    assert costs.dollars == pytest.approx(51.51)


def test_a_verdict_that_cannot_be_understood_any_more_counts_as_none(store: Store, wall: Wall) -> None:
    ledger = StoreLedger(store, 5.0, wall)
    ledger.reserve(ticket())
    ledger.settle(ticket(), READING)
    for broken in ("{", '{"assessments":[{}],"left_out":[],"words_whole":true}', "[]"):
        with store.write() as txn:
            txn.execute("update reviews set verdict = ?", [broken])
        assert ledger.find("pear") is None


def test_a_review_through_the_store_is_paid_once(store: Store, wall: Wall) -> None:
    with ClaudeStandIn() as claude:
        reviewer = a_reviewer(claude, ledger=StoreLedger(store, 5.0, wall))
        first = reviewer.review(a_case(), Call.CLAUDE, pull_uri="at://did:plc:x/y/z")
        again = reviewer.review(a_case(), Call.CLAUDE, pull_uri="at://did:plc:x/y/other")
    assert len(claude.messages) == 1
    assert first.assessment == again.assessment
    assert rows(store, "select dollars, pull_uri, length(cache_key) from reviews") == [
        (first.dollars, "at://did:plc:x/y/z", 64)
    ]


def test_the_dashboard_tells_what_a_reading_costs(store: Store) -> None:
    with store.read() as rows:
        board = read.dashboard(rows)
        assert (board.readings, board.reading_median) == (0, None)
    ledger = StoreLedger(store, 5.0, lambda: datetime(2026, 3, 1))
    for number, dollars in enumerate((0.01, 0.02, 0.09)):
        ticket = Ticket(f"key{number}", "content", "prompt", "model", 0.5)
        assert ledger.reserve(ticket) == "reserved"
        ledger.settle(ticket, Reading("model", dollars=dollars))
    with store.read() as rows:
        board = read.dashboard(rows)
    assert (board.readings, board.reading_median) == (3, pytest.approx(0.02))
    assert board.reading_dollars == pytest.approx(0.12)
    assert board.reading_p95 is not None
    assert board.reading_p95 > 0.08
