"""The content of a change lowers its lane and never lifts it, and what is missing is never fast lane."""

from dataclasses import replace
from math import nan, nextafter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.gate.decide import ORDINARY, decide_change, decide_person, judge, judge_change
from scoring.thresholds import Thresholds
from scoring.types import Content, Evidence, Lane
from tests.scoring.gate.test_gate import BETTER, CLEAR, KNOWN, OPEN, STRANGER, estimate, evidences

contents = st.builds(
    Content,
    risk=st.floats(0, 1),
    recommended=st.booleans(),
    coverage=st.sampled_from([0.0, 0.5, 1.0]),
    high_flags=st.integers(0, 2),
    has_verdict=st.booleans(),
)


def codes(content: Content | None, probability: float = 0.95, thresholds: Thresholds = OPEN) -> list[str]:
    return [reason.code for reason in decide_change(KNOWN, estimate(probability), content, ORDINARY, thresholds)[1]]


@pytest.mark.parametrize(
    ("risk", "lane"),
    [
        (0.0, Lane.FAST_LANE),
        (nextafter(0.20, 0), Lane.FAST_LANE),
        (0.20, Lane.FAST_LANE),
        (nextafter(0.20, 1), Lane.NORMAL_QUEUE),
        (nextafter(0.60, 0), Lane.NORMAL_QUEUE),
        (0.60, Lane.NEEDS_HUMAN),
        (nextafter(0.60, 1), Lane.NEEDS_HUMAN),
        (1.0, Lane.NEEDS_HUMAN),
    ],
)
def test_each_side_of_each_risk_has_its_lane(risk: float, lane: Lane) -> None:
    assert decide_change(KNOWN, estimate(0.95), replace(CLEAR, risk=risk), ORDINARY, OPEN)[0] is lane


def test_one_high_flag_asks_for_a_human_whatever_the_risk_and_the_record_and_comes_first() -> None:
    flagged = replace(CLEAR, risk=0.0, high_flags=2, worst="secret_leak", place="a.py:3")
    lane, reasons = decide_change(KNOWN, estimate(1.0), flagged, ORDINARY, OPEN)
    assert lane is Lane.NEEDS_HUMAN
    assert (reasons[0].code, reasons[0].params) == (
        "high_flag",
        {"count": 2, "type": "secret_leak", "place": "a.py:3"},
    )


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (None, "content_not_reviewed"),
        (replace(CLEAR, has_verdict=False, missing="refused"), "no_content_verdict"),
        (replace(CLEAR, coverage=nextafter(1.0, 0)), "content_partly_read"),
        (replace(CLEAR, recommended=True), "review_recommended"),
        (replace(CLEAR, risk=0.3), "content_risk_above"),
    ],
)
def test_whatever_is_missing_or_unclear_keeps_a_change_out_of_the_fast_lane(content: Content | None, code: str) -> None:
    assert decide_change(KNOWN, estimate(1.0), content, ORDINARY, OPEN)[0] is Lane.NORMAL_QUEUE
    assert codes(content, 1.0)[0] == code


def test_all_that_holds_a_change_back_is_told_and_what_the_contributor_lacks_first() -> None:
    poor = Content(risk=0.4, recommended=True, coverage=0.5, has_verdict=False)
    assert codes(poor, 0.5)[:5] == [
        "below_fast_lane",
        "no_content_verdict",
        "content_partly_read",
        "content_risk_above",
        "review_recommended",
    ]


@pytest.mark.parametrize("wrong", [nan, -0.1, 1.1])
def test_a_risk_or_coverage_that_is_no_number_in_0_to_1_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="content risk must be"):
        decide_change(KNOWN, estimate(0.95), replace(CLEAR, risk=wrong), ORDINARY, OPEN)
    with pytest.raises(ValueError, match="coverage must be"):
        decide_change(KNOWN, estimate(0.95), replace(CLEAR, coverage=wrong), ORDINARY, OPEN)


@given(evidences, st.none() | contents)
def test_no_content_lifts_a_change_above_the_lane_of_its_contributor(
    evidence: Evidence, content: Content | None
) -> None:
    person = judge(evidence, OPEN, prior=0.55, strength=5.0)
    change = judge_change(evidence, content, ORDINARY, OPEN, prior=0.55, strength=5.0)
    assert BETTER.index(change.lane) <= BETTER.index(person.lane)
    assert change.estimate == person.estimate
    assert change.reasons


@given(evidences, contents)
def test_what_was_not_read_whole_or_has_no_verdict_is_never_fast_laned(evidence: Evidence, content: Content) -> None:
    lane = judge_change(evidence, content, ORDINARY, OPEN, prior=0.95, strength=5.0).lane
    if content.coverage < 1 or not content.has_verdict or content.recommended:
        assert lane is not Lane.FAST_LANE


def test_a_stranger_with_a_clear_change_stays_where_a_stranger_is() -> None:
    assert (
        decide_change(STRANGER, estimate(None), CLEAR, ORDINARY, OPEN)[0]
        is decide_person(STRANGER, estimate(None), OPEN)[0]
    )
