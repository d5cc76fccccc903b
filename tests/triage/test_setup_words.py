"""The progress of the first reading, in words: no figure is told that was not measured."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.queries.progress import LEAST_ACCOUNTS, LEAST_SECONDS, FirstReading, seconds_left
from triage.presenters.setup import choices, minutes_words, progress_of, read_ticks

READING = FirstReading("reading", is_heard=True, watched=2, unasked=0, pulls=3, accounts=40, ended=12, records=900)
RECORD = "at://did:plc:a/x/lantern"


def repository(**changes: object) -> dict[str, object]:
    told: dict[str, object] = {"record": RECORD, "repo_key": "k", "name": "lantern", "is_fork": False}
    return told | {"is_watched": False, "is_disputed": False, "holders": [], "silent": ""} | changes


def headline(reading: FirstReading, handed_over: int = 0) -> str:
    found = progress_of(reading, handed_over)
    assert found is not None
    return found.headline


def test_nothing_is_shown_before_anything_was_begun() -> None:
    assert progress_of(replace(READING, state="none"), 0) is None
    assert progress_of(replace(READING, state="none"), 1) is not None


def test_without_a_pace_no_time_is_told() -> None:
    assert headline(READING) == "The time it takes is not known yet."


@pytest.mark.parametrize(
    ("seconds", "words"), [(1, "a minute"), (60, "a minute"), (61, "2 minutes"), (240, "4 minutes")]
)
def test_minutes_are_rounded_up(seconds: float, words: str) -> None:
    assert minutes_words(seconds) == words
    assert headline(replace(READING, seconds_left=seconds)) == f"Inbox ready in about {words}."


def test_it_is_usable_only_once_who_may_push_is_known_and_everything_was_taken_over() -> None:
    done = replace(READING, state="done")
    assert headline(done) == "The inbox is ready."
    assert "knots" in headline(replace(done, unasked=1))
    assert headline(done, handed_over=1) == "Almost ready: the worker applies your choice."
    found = progress_of(done, 1)
    assert found is not None
    assert found.is_moving


def test_what_could_not_be_had_and_who_is_read_later_are_told() -> None:
    found = progress_of(replace(READING, missing=2, rest=(100, 5_000)), 0)
    assert found is not None
    told = " ".join(step.words for step in found.steps)
    assert "12 of at least 40 accounts read, 900 records, 3 pull requests; 2 could not be read" in told
    assert "100 of 5,000 accounts read so far" in told


@pytest.mark.parametrize(
    ("ended", "elapsed"), [(0, 1e6), (LEAST_ACCOUNTS - 1, 1e6), (1_000, LEAST_SECONDS / 2), (5, -3.0)]
)
def test_a_pace_is_not_told_from_too_little(ended: int, elapsed: float) -> None:
    assert seconds_left(ended, 5_000, elapsed) is None


@given(st.integers(3, 10_000), st.integers(0, 10_000), st.floats(5, 1e6))
def test_the_rest_takes_as_long_as_its_share_took(ended: int, rest: int, elapsed: float) -> None:
    assert seconds_left(ended, ended + rest, elapsed) == pytest.approx(elapsed * rest / ended)
    assert seconds_left(ended, 0, elapsed) == 0


def test_a_crowd_of_push_holders_is_named_in_part_and_counted() -> None:
    found = {"did": "did:plc:owner", "handles": {"did:plc:3": "three.example"}}
    holders = [f"did:plc:{number}" for number in range(40)]
    (one,) = choices({**found, "repositories": [repository(holders=holders)]}, {})
    assert one.seeds[0] == "did:plc:owner"
    assert "three.example" in one.seeds
    assert len(one.seeds) + one.more_seeds == 41
    assert (one.is_ticked, one.review) == (False, "deterministic")


def test_what_was_ticked_stays_ticked_with_its_answer() -> None:
    ticked = read_ticks({f"review:{RECORD}": "claude", "review:other": "off"}, [RECORD, "x"])
    assert ticked == {RECORD: "claude", "x": "deterministic"}
    (one,) = choices({"did": "d", "handles": {}, "repositories": [repository()]}, ticked)
    assert (one.is_ticked, one.review) == (True, "claude")
