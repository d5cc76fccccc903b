"""Readings as rows: found by content, paid once, within the day's budget, also by two workers and after a kill."""

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.store.database import Store
from scoring.queries import read
from scoring.review.cache import Reading, Reserved, StoreLedger, Ticket, costs_since
from scoring.review.costs import Call, Usage
from tests.conftest import count
from tests.scoring.review.reviewing import (
    HAIKU,
    SONNET,
    a_case,
    a_change,
    a_file,
    a_flag,
    a_reviewer,
    an_assessment,
    says,
)
from tests.standins.claude import Answer, ClaudeStandIn
from tests.stores import fresh_store

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
    store = fresh_store(tmp_path / "trust.duckdb")
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
    wall.now += timedelta(minutes=179)
    assert ledger.reserve(ticket()) == "under_way", "with every setting at its most it might still be read"
    wall.now += timedelta(minutes=2)
    assert ledger.reserve(ticket()) == "reserved"
    assert rows(store, "select state, reason from reviews order by review_id") == [
        ("no content verdict", "abandoned"),
        ("running", None),
    ]
    assert ledger.spent_today() == pytest.approx(0.2)


def test_a_reading_of_a_process_that_was_killed_is_taken_up_by_the_next_at_once(store: Store, wall: Wall) -> None:
    StoreLedger(store, 5.0, wall).reserve(ticket())
    wall.now += timedelta(seconds=3)
    after = StoreLedger(store, 5.0, wall, opened=wall.now)
    assert after.reserve(ticket()) == "reserved"
    assert after.reserve(ticket()) == "under_way", "its own reading is not taken for a dead one"
    after.settle(ticket(), READING)
    assert rows(store, "select state, reason from reviews order by review_id") == [
        ("no content verdict", "abandoned"),
        ("content verdict", None),
    ]


def test_an_answer_that_was_lost_between_call_and_row_is_paid_again_and_both_count(store: Store, wall: Wall) -> None:
    class Killed(StoreLedger):
        def settle(self, ticket: Ticket, reading: Reading) -> None:
            raise KeyboardInterrupt

    with ClaudeStandIn() as claude:
        with pytest.raises(KeyboardInterrupt):
            a_reviewer(claude, ledger=Killed(store, 5.0, wall)).review(a_case(), Call.CLAUDE)
        wall.now += timedelta(seconds=3)
        after = StoreLedger(store, 5.0, wall, opened=wall.now)
        review = a_reviewer(claude, ledger=after).review(a_case(), Call.CLAUDE)
    assert (review.state, len(claude.messages)) == ("content verdict", 2)
    assert after.spent_today() > 2 * review.dollars, "what was set aside for the lost one counts as spent"


def test_an_error_of_ours_leaves_no_reading_under_way(
    store: Store, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = StoreLedger(store, 5.0, wall)
    with ClaudeStandIn() as claude:
        reviewer = a_reviewer(claude, ledger=ledger)
        with monkeypatch.context() as broken:
            broken.delattr("scoring.review.reviewer.tidy_assessment")
            with pytest.raises(NameError):
                reviewer.review(a_case(), Call.CLAUDE)
        assert rows(store, "select state, reason from reviews") == [("no content verdict", "abandoned")]
        assert ledger.spent_today() > 0
        assert reviewer.review(a_case(), Call.CLAUDE).state == "content verdict"


def test_of_many_workers_with_the_last_dollars_no_more_than_the_budget_is_set_aside(store: Store, wall: Wall) -> None:
    ledger = StoreLedger(store, 0.35, wall)
    said: list[str] = []
    workers = [Thread(target=lambda name=name: said.append(ledger.reserve(ticket(name)))) for name in "abcdefgh"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(said) == [*["over_budget"] * 5, *["reserved"] * 3]
    assert ledger.spent_today() <= 0.35


def offered_in(store: Store, number: int) -> str:
    """A pull request of this repository."""
    uri = f"at://did:plc:x/pull/{number}"
    columns = {"pull_uri": uri, "author_id": 1, "repository_id": number, "title": "", "body": "", "state": "open"}
    form = {"record_form": "rounds", "round": 0, "round_count": 1}
    empty = dict.fromkeys(("target_branch", "source_branch", "record_cid", "patch_ref", "deleted_at", "state_at"))
    moments = dict.fromkeys(("opened_at", "seen_at", "changed_at"), NOON)
    with store.write() as txn:
        if not txn.value("select count(*) from pull_requests where pull_uri = ?", [uri]):
            txn.append("pull_requests", [columns | form | empty | moments | {"merged_at": None, "merge_proof": None}])
    return uri


def test_one_repository_and_one_sender_by_hand_spend_their_share_and_no_more(store: Store, wall: Wall) -> None:
    def paid(key: str, number: int | None, sender: str | None = None) -> str:
        shares = StoreLedger(store, 1.0, wall, repository_budget=0.25, sender=sender, own_budget=0.15)
        uri = None if number is None else offered_in(store, number)
        return shares.reserve(Ticket(key, "content", "prompt", SONNET, 0.1, uri))

    assert [paid(f"a{n}", 7) for n in range(3)] == ["reserved", "reserved", "over_repository_budget"]
    assert [paid(f"b{n}", None, "person:1") for n in range(2)] == ["reserved", "over_own_budget"]
    assert paid("c", 8) == "reserved", "another repository has its own"
    assert paid("d", None, "person:2") == "reserved"
    assert StoreLedger(store, 1.0, wall).spent_by_repository() == pytest.approx({7: 0.2, 8: 0.1})
    wall.now += timedelta(days=1)
    assert paid("e", 7) == paid("f", None, "person:1") == "reserved"


@settings(max_examples=count(6, 1000))
@given(st.lists(st.tuples(st.sampled_from([1, 2, 3, "person:1", "token:2"]), st.floats(0.01, 0.6)), max_size=25))
def test_no_order_of_readings_spends_beyond_any_budget(wanted: list[tuple[int | str, float]]) -> None:
    """And nothing is refused for a budget that still has the dollars."""
    with tempfile.TemporaryDirectory() as folder, closing(fresh_store(Path(folder) / "trust.duckdb")) as store:
        limits = {"over_budget": 2.0, "over_repository_budget": 0.9, "over_own_budget": 0.7}
        spent: dict[int | str, float] = defaultdict(float)
        for place, (payer, dollars) in enumerate(wanted):
            by_hand = isinstance(payer, str)
            shares = StoreLedger(
                store, 2.0, lambda: NOON, repository_budget=0.9, sender=str(payer) if by_hand else None, own_budget=0.7
            )
            uri = None if isinstance(payer, str) else offered_in(store, payer)
            said = shares.reserve(Ticket(f"key {place}", "content", "prompt", SONNET, dollars, uri))
            if said == "reserved":
                spent[payer] += dollars
            else:
                used = sum(spent.values()) if said == "over_budget" else spent[payer]
                assert used + dollars > limits[said] - 1e-9
        assert sum(spent.values()) <= 2.0 + 1e-9
        assert all(used <= (0.7 if isinstance(payer, str) else 0.9) + 1e-9 for payer, used in spent.items())


@pytest.mark.parametrize("words", ["", "Faster pears"])
def test_no_reading_counts_for_more_than_was_set_aside_whatever_is_lost(store: Store, wall: Wall, words: str) -> None:
    class Noting(StoreLedger):
        aside, counted = 0.0, 0.0

        def reserve(self, ticket: Ticket) -> Reserved:
            self.aside = ticket.dollars
            return super().reserve(ticket)

        def settle(self, ticket: Ticket, reading: Reading) -> None:
            self.counted = reading.dollars
            super().settle(ticket, reading)

    ledger, dead = Noting(store, 500.0, wall), Answer(how="dead")
    passes = 2 if words else 1
    with ClaudeStandIn() as claude:
        claude.script(*[dead, dead, says()] * passes)
        assert a_reviewer(claude, ledger=ledger).review(a_case(title=words), Call.CLAUDE).state == "content verdict"
        assert 0 < ledger.counted <= ledger.aside
        claude.script(dead, dead, dead)
        other = a_case(a_change(a_file("b.py", ["x"] * 500)), title=words)
        assert a_reviewer(claude, ledger=ledger).review(other, Call.CLAUDE).reason == "unreachable"
        assert 0 < ledger.counted <= ledger.aside


def test_a_reading_over_midnight_counts_for_the_day_on_which_it_began(store: Store, wall: Wall) -> None:
    wall.now = datetime(2026, 11, 21, 23, 59, 59)
    ledger = StoreLedger(store, 0.1, wall)
    assert ledger.reserve(ticket()) == "reserved"
    wall.now = datetime(2026, 11, 22, 0, 0, 1)
    ledger.settle(ticket(), Reading(SONNET, dollars=0.1))
    assert ledger.spent_today() == 0
    assert ledger.reserve(ticket("plum")) == "reserved"
    wall.now = datetime(2026, 11, 21, 23, 59, 59)
    assert ledger.reserve(ticket("fig")) == "over_budget", "a clock that is set back makes no new day"


def test_a_call_that_never_became_a_reading_is_not_counted_among_the_costs(store: Store, wall: Wall) -> None:
    ledger = StoreLedger(store, 5.0, wall)
    for name, dollars in (("a", 0.0), ("b", 0.0), ("c", 0.02)):
        ledger.reserve(ticket(name))
        ledger.settle(ticket(name), Reading(SONNET, reason=None if dollars else "overloaded", dollars=dollars))
    with store.read() as found:
        costs = costs_since(found, NOON)
    assert (costs.reviews, costs.median) == (1, 0.02)


def test_a_verdict_of_an_older_prompt_or_another_model_is_not_found(
    store: Store, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = StoreLedger(store, 5.0, wall)
    with ClaudeStandIn() as claude:
        a_reviewer(claude, ledger=ledger).review(a_case(), Call.CLAUDE)
        monkeypatch.setattr("scoring.review.reviewer.prompt_version", lambda: "a newer one")
        a_reviewer(claude, ledger=ledger).review(a_case(), Call.CLAUDE)
        a_reviewer(claude, ledger=ledger, screens=True).review(a_case(), Call.SCREEN)
    assert [ask.told["model"] for ask in claude.messages] == [SONNET, SONNET, HAIKU]
    assert rows(store, "select count(distinct cache_key), count(*) from reviews") == [(3, 3)]


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
