"""A new prompt or model reads what the old one read before it opens a lane: no outage ends it, no diff holds it up."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from scoring.queries.changes import reread
from scoring.review.costs import Call
from scoring.review.payload import Case
from scoring.review.pending import GIVEN_UP, review_due
from scoring.review.schema import Review
from tests.pipeline import Result, by_scanners, prepared
from tests.scoring.offered import CLEAN, offer, one_open
from tests.scoring.review.test_review_pulls import kept, many, reviewing
from tests.scoring.small import OFFERED


def paid(
    result: Result,
    uri: str,
    version: str,
    model: str = "claude-old",
    state: str = "content verdict",
    reason: str | None = None,
    begun: datetime = datetime(2026, 1, 1),
    verdict: str = "{}",
) -> None:
    """A reading, of an earlier day unless told otherwise."""
    row = {
        "review_id": f"{uri}{version}{model}{begun}",
        "cache_key": f"{uri}{version}{model}",
        "content_hash": uri,
        "prompt_version": version,
        "model": model,
        "pull_uri": uri,
        "state": state,
        "reason": reason,
        "verdict": verdict,
        "coverage": 1.0,
        "input_tokens": 1,
        "output_tokens": 1,
        "cache_write_tokens": 0,
        "cache_read_tokens": 0,
        "dollars": 0.01,
        "started_clock": begun,
    }
    with result.store.write() as txn:
        txn.append("reviews", [row])
        txn.execute("update watched_repositories set review = 'claude'")


def test_a_new_model_opens_no_lane_before_it_has_read_what_the_old_one_read(queued: Result) -> None:
    paid(queued, OFFERED, "old prompt")
    calls: list[str] = []

    def by_model(case: Case, call: Call, unfinished: tuple[str, ...], uri: str) -> Review:
        if call is Call.CLAUDE:
            if not calls:
                paid(queued, uri, "new prompt", "claude-new")
            return replace(by_scanners(case, call, unfinished, uri), reviewer="claude-new", model="claude-new")
        return by_scanners(case, call, unfinished, uri)

    trying = replace(
        reviewing(queued, by_model), has_key=True, budget=1.0, version="new prompt", models=("claude-new",)
    )
    assert review_due(queued.store, trying) == 1
    (first,) = kept(queued)
    assert (first["state"], first["missing"]) == ("no content verdict", "on_trial")
    offer(queued, CLEAN.replace("print(2)", "print(3)"), ref="blob:next")
    calls.append("again")
    assert review_due(queued.store, trying) == 1
    assert kept(queued)[-1]["state"] == "content verdict", "it has read all that the old one read"


def test_what_waited_for_a_trial_is_read_once_it_is_over(queued: Result) -> None:
    paid(queued, OFFERED, "old prompt")

    def by_model(case: Case, call: Call, unfinished: tuple[str, ...], uri: str) -> Review:
        return replace(by_scanners(case, call, unfinished, uri), reviewer="claude-new", model="claude-new")

    trying = replace(
        reviewing(queued, by_model), has_key=True, budget=1.0, version="new prompt", models=("claude-new",)
    )
    assert review_due(queued.store, trying) == 1
    assert [review["missing"] for review in kept(queued)] == ["on_trial"]
    paid(queued, OFFERED, "new prompt", "claude-new")
    assert review_due(queued.store, trying) == 1
    assert [review["state"] for review in kept(queued)] == ["content verdict"]


def test_a_trial_reads_again_one_at_a_time_and_only_what_is_still_kept(queued: Result) -> None:
    read_before(queued)
    paid(queued, OFFERED, "old prompt")
    paid(queued, "at://did:plc:gone/pull/1", "old prompt")
    asked: list[str] = []

    def by_model(case: Case, call: Call, unfinished: tuple[str, ...], uri: str) -> Review:
        asked.append(uri)
        paid(queued, uri, "new prompt", "claude-new")
        return by_scanners(case, call, unfinished, uri)

    trying = replace(
        reviewing(queued, by_model), has_key=True, budget=1.0, version="new prompt", models=("claude-new",)
    )
    assert [review_due(queued.store, trying) for _ in range(3)] == [1, 0, 0]
    assert asked == [OFFERED]


class Trying:
    """A site with a new prompt and model whose answers a test gives; `hours` pass between two turns."""

    def __init__(self, result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
        self.result = result
        self.asked: list[str] = []
        self.answer: Callable[[str], str | None] = lambda uri: None
        self.keeps = True  # whether a reading leaves a row, as one that is not known yet does
        self.now = result.store.wall()
        monkeypatch.setattr(result.store, "wall", lambda: self.now)
        self.reviewing = replace(
            reviewing(result, self._review), has_key=True, budget=1.0, version="new prompt", models=("claude-new",)
        )

    def _review(self, case: Case, call: Call, unfinished: tuple[str, ...], uri: str) -> Review:
        told = by_scanners(case, call, unfinished, uri)
        if call is not Call.CLAUDE:
            return told
        self.asked.append(uri)
        reason = self.answer(uri)
        state = "no content verdict" if reason else "content verdict"
        if self.keeps:
            paid(self.result, uri, "new prompt", "claude-new", state=state, reason=reason, begun=self.now)
        return replace(told, reviewer="claude-new", model="claude-new", state=state, reason=reason)

    def turns(self, number: int, hours: int = 2, **changes: object) -> list[int]:
        told = []
        for _ in range(number):
            told.append(review_due(self.result.store, replace(self.reviewing, **changes)))
            self.now += timedelta(hours=hours)
        return told


def read_before(result: Result) -> None:
    """Whatever is open was read by an old prompt, as the cost gate asked."""
    result.review()
    with result.store.write() as txn:
        txn.execute("update content_reviews set asked_because = 'between_thresholds'")


@pytest.fixture(name="trying")
def trying_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trying]:
    """The offered pull request was read by an old prompt."""
    with prepared(tmp_path, one_read_before) as result:
        yield Trying(result, monkeypatch)


def one_read_before(result: Result) -> None:
    one_open(result)
    read_before(result)
    paid(result, OFFERED, "old prompt")


def is_over(trying: Trying, uri: str = OFFERED) -> bool:
    """Whether a change that comes now, as a new round of this pull request, gets a content verdict."""
    trying.answer = lambda uri: None
    trying.now += timedelta(minutes=1)
    offer(trying.result, CLEAN.replace("print(2)", f"print({trying.now.timestamp()})"), uri, ref=str(trying.now))
    review_due(trying.result.store, trying.reviewing)
    return max(kept(trying.result), key=lambda row: row["reviewed_clock"])["missing"] != "on_trial"


@pytest.mark.parametrize("reason", ["overloaded", "timeout", "no_such_model", "over_budget", "abandoned"])
def test_an_outage_ends_no_trial(trying: Trying, reason: str) -> None:
    trying.answer = lambda uri: reason
    assert trying.turns(GIVEN_UP + 2) == [0] * (GIVEN_UP + 2)
    assert not is_over(trying)


@pytest.mark.parametrize("reason", ["refused", "malformed", "too_large"])
def test_a_refusal_is_an_answer(trying: Trying, reason: str) -> None:
    trying.answer = lambda uri: reason
    trying.turns(2)
    assert trying.asked == [OFFERED]
    assert is_over(trying)


def test_a_failed_reading_is_tried_again_an_hour_later_and_not_at_once(trying: Trying) -> None:
    trying.answer = lambda uri: "timeout"
    trying.turns(5, hours=0)
    assert trying.asked == [OFFERED]
    trying.now += timedelta(hours=2)
    trying.turns(1)
    assert trying.asked == [OFFERED] * 2


def test_a_diff_that_nobody_can_read_in_time_holds_up_no_trial(trying: Trying) -> None:
    other, third = many(trying.result, 2)
    read_before(trying.result)
    paid(trying.result, other, "old prompt")
    trying.answer = lambda uri: "timeout" if uri == OFFERED else None
    trying.turns(GIVEN_UP + 3)
    assert trying.asked.count(OFFERED) >= GIVEN_UP
    assert not is_over(trying, third), "nothing was read since its last try, so it may be an outage"
    assert is_over(trying, third)


def test_an_answer_that_was_known_counts_and_is_not_asked_for_for_ever(trying: Trying) -> None:
    trying.keeps = False
    assert trying.turns(3, hours=0) == [1, 0, 0]
    assert trying.asked == [OFFERED]
    trying.keeps = True
    assert is_over(trying)


@pytest.mark.parametrize("reason", ["too_large", "unreachable"])
def test_a_call_that_never_became_a_reading_is_not_made_every_minute(trying: Trying, reason: str) -> None:
    trying.keeps, trying.answer = False, lambda uri: reason
    trying.turns(4, hours=0)
    assert trying.asked == [OFFERED]
    trying.keeps = True
    assert is_over(trying) == (reason == "too_large")


def test_without_dollars_nothing_is_tried(trying: Trying) -> None:
    trying.turns(3, spent=lambda: 1.0)
    assert trying.asked == []


def test_what_the_small_model_read_is_no_reason_for_a_trial(queued: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    read_before(queued)
    paid(queued, OFFERED, "new prompt", "claude-small")
    paid(queued, OFFERED, "old prompt", "claude-small")
    trying = Trying(queued, monkeypatch)
    trying.reviewing = replace(trying.reviewing, screen="claude-small")
    trying.turns(2)
    assert trying.asked == []
    assert is_over(trying)


def test_a_review_that_a_new_prompt_gave_on_trial_opens_no_lane_when_the_old_one_is_cached(trying: Trying) -> None:
    assert not is_over(trying)
    assert {row["state"] for row in kept(trying.result) if row["missing"] == "on_trial"} == {"no content verdict"}


def judged(risk: float, words: float = 0.0) -> str:
    """The verdict of a reading in two passes."""
    return json.dumps({"assessments": [{"content_risk": risk}, {"content_risk": words}]})


def test_what_two_models_said_of_the_same_changes_stands_side_by_side(queued: Result) -> None:
    first, second, third = (f"at://did:plc:{name}/sh.tangled.repo.pull/1" for name in "abc")
    later = datetime(2026, 2, 1)
    paid(queued, first, "one", verdict=judged(0.1))
    paid(queued, second, "one", verdict=judged(0.7, 0.2))
    paid(queued, third, "one", verdict=judged(0.5))
    with queued.store.read() as rows:
        assert reread(rows, 0.2, 0.6) is None, "one model alone is compared with nobody"
    paid(queued, first, "two", begun=later, verdict=judged(0.1, 0.3))
    paid(queued, second, "two", begun=later, verdict=judged(0.9))
    with queued.store.read() as rows:
        told = reread(rows, 0.2, 0.6)
    assert told is not None
    assert (told.changes, told.moved) == (2, 1)
    assert (told.before, told.since) == pytest.approx((0.4, 0.6))


def test_a_reading_whose_words_are_not_kept_is_compared_with_none(queued: Result) -> None:
    paid(queued, OFFERED, "one", verdict="{}")
    paid(queued, OFFERED, "two", begun=datetime(2026, 2, 1), verdict=judged(0.4))
    with queued.store.read() as rows:
        assert reread(rows, 0.2, 0.6) is None
