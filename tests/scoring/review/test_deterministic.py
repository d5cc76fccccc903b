"""The deterministic reviewer: floors, summaries, and what always asks for a person."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.diff.change import Change
from scoring.review.deterministic import FLOOR, assess, combine, review_without_model
from scoring.types import Finding, Severity
from tests.scoring.review.reviewing import a_change, a_file, a_finding, a_flag, an_assessment

FINDINGS = st.lists(st.builds(a_finding, st.sampled_from(Severity)), max_size=80)


@pytest.mark.parametrize("severity", list(Severity))
def test_one_finding_puts_its_floor_under_the_risk(severity: Severity) -> None:
    assert assess(a_change(), [a_finding(severity)]).content_risk == FLOOR[severity]


@given(FINDINGS)
def test_the_risk_stays_between_the_floor_of_the_strongest_finding_and_the_next(findings: list[Finding]) -> None:
    told = assess(a_change(), findings)
    floors = [0.0, *(FLOOR[finding.severity] for finding in findings)]
    above = [floor for floor in (*FLOOR.values(), 1.0) if floor > max(floors)]
    assert max(floors) <= told.content_risk < min(above)


@given(FINDINGS, st.sampled_from(Severity))
def test_a_further_finding_never_lowers_the_risk(findings: list[Finding], severity: Severity) -> None:
    more = [*findings, a_finding(severity, line=7)]
    assert assess(a_change(), more).content_risk >= assess(a_change(), findings).content_risk


def test_a_larger_change_without_findings_is_never_less_risky_and_below_a_low_finding() -> None:
    risks = [assess(a_change(a_file("a.py", ["x"] * size)), []).content_risk for size in (1, 30, 400, 5_000)]
    assert risks == sorted(risks)
    assert risks[-1] < FLOOR[Severity.LOW]


def test_the_summary_can_be_read_aloud() -> None:
    change = a_change(a_file("src/pear.py", ["x"] * 120, ["y"]), a_file("b.py"), a_file("c.py"))
    told = assess(change, [a_finding(Severity.HIGH), a_finding(Severity.LOW)])
    assert told.summary == (
        "Changes 3 files, adds 122 lines, removes 1 line. "
        "1 high finding and 1 low finding, the first: A planted high finding."
    )


def test_silence_of_the_scanners_is_not_praised() -> None:
    told = assess(a_change(), [])
    assert "says nothing about whether the code is right" in told.summary
    assert not told.review_recommended


@pytest.mark.parametrize(
    "change",
    [
        a_change(coverage=0.999),
        Change((), (), (), 1.0),
        a_change(a_file("a.py", ["x"] * 1001)),
        a_change(problems=(a_finding(Severity.MED),)),
    ],
)
def test_what_was_not_read_or_is_large_always_asks_for_a_person(change: Change) -> None:
    assert assess(change, []).review_recommended


def test_a_scanner_that_could_not_finish_leaves_no_content_verdict() -> None:
    review = review_without_model(a_change(), [], ["secrets"])
    assert (review.state, review.reason) == ("no content verdict", "findings_incomplete")
    assert review.assessment.review_recommended
    assert review.reviewer == "deterministic"


def test_a_problem_of_reading_that_is_also_handed_over_counts_once() -> None:
    problem = a_finding(Severity.MED)
    assert len(assess(a_change(problems=(problem,)), [problem]).flags) == 1


@given(st.floats(0, 1), FINDINGS, st.lists(st.sampled_from(Severity), max_size=5), st.booleans())
def test_a_model_only_ever_raises_what_the_findings_say(
    risk: float, findings: list[Finding], severities: list[Severity], asks: bool
) -> None:
    ground = assess(a_change(), findings)
    reading = an_assessment(risk, *(a_flag(severity=one.value) for one in severities), asks=asks)
    told = combine(ground, [reading])
    assert told.content_risk == max([risk, ground.content_risk, *(FLOOR[one] for one in severities)])
    assert told.review_recommended or not (ground.review_recommended or asks or told.content_risk >= 0.4)
    assert {flag for flag in ground.flags if flag.severity is Severity.HIGH} <= set(told.flags)


def test_a_high_flag_with_a_low_risk_raises_the_risk() -> None:
    told = combine(assess(a_change(), []), [an_assessment(0.1, a_flag(severity="high"))])
    assert told.content_risk == 0.8


def test_a_summary_that_calms_does_not_stand_over_findings_that_do_not() -> None:
    ground = assess(a_change(), [a_finding(Severity.HIGH)])
    assert combine(ground, [an_assessment(0.0, summary="All is well.")]).summary == ground.summary
    assert combine(ground, [an_assessment(0.9, summary="It is broken.")]).summary == "It is broken."


def test_a_hostile_path_is_shown_with_what_cannot_be_seen_spelled_out() -> None:
    told = assess(a_change(), [a_finding(file="a\u202e\n\x1b[31mb.py")])
    assert told.flags[0].location == "a⟨U+202E⟩⟨U+000A⟩⟨U+001B⟩[31mb.py:1"
