"""The decisive clause of a row, and what would bring a change to the next lane."""

from dataclasses import replace
from itertools import chain, product
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.explain.decided import CLAUSES, LONGEST, LONGEST_REASON, ChangeOutline, decided, explain, fit, place_words
from scoring.explain.sentences import SENTENCES
from scoring.gate.decide import ORDINARY, judge_change
from scoring.thresholds import Thresholds
from scoring.types import Content, Estimate, Evidence, Lane, Param, Prediction, Reason, ShownFinding, Verdict

KNOWN = Evidence(clean=41, not_clean=1, merged_here=41, settled_here=42, structural_trust=0.9, path=("ana", "mara"))
CLEAR = Content(risk=0.05, recommended=False)
FLAGGED = Content(0.83, True, high_flags=28, worst="security", place="lantern/resolve_form.py:14")
PARAMS: dict[str, Param] = {
    **dict.fromkeys(("probability", "t_low", "t_high", "risk", "r_low", "r_high", "coverage", "odds"), 0.5),
    **dict.fromkeys(("low", "high", "structural_trust", "budget", "bad_low", "bad_high", "threshold"), 0.25),
    **dict.fromkeys(
        ("waiting", "needed", "have", "count", "judged", "newest", "days", "most", "hops", "bad"), 1_234_567
    ),
    **dict.fromkeys(("merged_here", "settled_here", "clean", "cases", "weeks", "key_days"), 1_234_567),
    **dict.fromkeys(("seed", "voucher", "name", "by", "missing", "place", "type", "kind", "who", "what"), "w" * 300),
    "scope": "site",
    "authors": True,
}


def finding(
    rule: str = "override",
    file: str | None = "lantern/resolve_form.py",
    line: int = 14,
    severity: Literal["low", "high"] = "high",
) -> ShownFinding:
    return ShownFinding("addressed", rule, "security", severity, "It speaks to its reader.", file, line, False, "")


def clause(evidence: Evidence, content: Content = CLEAR, change: ChangeOutline | None = None) -> str:
    verdict = judge_change(evidence, content, ORDINARY, Thresholds(), 0.55, 5.0)
    return decided(verdict, evidence, change or ChangeOutline())


def test_every_reason_has_a_clause_and_no_clause_is_without_a_reason() -> None:
    assert set(CLAUSES) == set(SENTENCES)


def test_the_clause_of_a_reason_fits_into_a_row_whatever_its_figures_are() -> None:
    people = (KNOWN, Evidence(), Evidence(waiting=1_234_567), Evidence(clean=1_234_567))
    for code, evidence in product(CLAUSES, people):
        verdict = Verdict(Lane.NORMAL_QUEUE, Estimate(0.5, 0.2, 0.8, 5), (Reason(code, PARAMS),), ())
        first, line = decided(verdict, evidence), explain(verdict, evidence)
        assert 0 < len(first) <= LONGEST, code
        assert first[0].isupper() or first[0].isdigit(), first
        assert line.startswith(first)
        assert len(line) <= LONGEST_REASON, line


def test_the_cause_comes_first_and_names_come_after_it() -> None:
    verdict = judge_change(KNOWN, FLAGGED, ORDINARY, Thresholds(), 0.55, 5.0)
    line = explain(verdict, KNOWN, ChangeOutline((finding(),)))
    assert line == ("Prompt injection in resolve_form.py:14; 41 of 42 merged here; vouched for by the maintainer ana")


def test_one_finding_in_many_places_is_counted_instead_of_placed() -> None:
    alike = tuple(finding(rule, line=line) for line, rule in enumerate(("override", "role") * 14, 1))
    assert clause(KNOWN, FLAGGED, ChangeOutline(alike)) == "Prompt injection, 28 places"
    short = tuple(finding(file="a/uv.lock", line=line) for line in range(1, 29))
    assert clause(KNOWN, FLAGGED, ChangeOutline(short)) == "Prompt injection in a/uv.lock, 28 places"


def test_a_flag_of_a_model_is_named_by_its_kind() -> None:
    assert (
        clause(KNOWN, Content(0.8, True, high_flags=1, worst="subtle_bug", place="a.go:7")) == "Possible bug in a.go:7"
    )


def in_open_lane(evidence: Evidence, start: float, change: ChangeOutline | None = None) -> tuple[str, str]:
    """The clause as readers and as maintainers are told it, where the lane starts there."""
    thresholds = Thresholds(t_high=start, certified=True)
    verdict = judge_change(evidence, CLEAR, ORDINARY, thresholds, 0.55, 5.0)
    words = [decided(verdict, evidence, change or ChangeOutline(), exact) for exact in (False, True)]
    return words[0], words[1]


def test_where_the_lane_starts_decides_the_place_of_a_known_author_and_is_named_to_maintainers() -> None:
    assert in_open_lane(KNOWN, 0.97) == (
        "Chance 93 %, too low for the fast lane",
        "Chance 93 %, fast lane from 97 %",
    )
    failing = ChangeOutline(tests_fail=True)
    assert in_open_lane(KNOWN, 0.97, failing)[1] == "Chance 93 %, fast lane from 97 %", "tests decide no lane"
    few = replace(KNOWN, structural_trust=0.2)
    assert in_open_lane(few, 0.9) == ("Too little trust for the fast lane",) * 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (ChangeOutline(), "41 of 42 merged here"),
        (ChangeOutline(files=2), "41 of 42 merged here, no findings"),
        (ChangeOutline((finding(severity="low"),), files=2), "41 of 42 merged here, 1 low finding"),
        (ChangeOutline(files=2, own=True), "Its author may push here"),
        (ChangeOutline(files=2, own=True, tests_fail=True), "Author may push; tests fail"),
        (ChangeOutline(files=2, shadow=True), "41 of 42 merged; fast lane not open here"),
        (ChangeOutline(files=2, shadow=True, tests_fail=True), "41 of 42 merged; fast lane not open here"),
        (ChangeOutline(files=2, claimed=True), "Author marked it merged; nothing shows it"),
    ],
)
def test_a_row_of_the_fast_lane_names_the_record_and_what_the_scanners_found(change: ChangeOutline, words: str) -> None:
    assert in_open_lane(KNOWN, 0.9, change) == (words, words)


def test_people_are_told_apart_by_their_record_here_and_by_their_tests() -> None:
    assert clause(KNOWN) == "Fast lane not open in this repository"
    assert clause(KNOWN, change=ChangeOutline(tests_fail=True)) == "41 of 42 merged here, tests fail"
    assert clause(Evidence()) == "First change here, no record yet"
    assert clause(Evidence(), change=ChangeOutline(files=2)) == "First change here, no record yet"
    found = ChangeOutline((finding(severity="low"),), files=2)
    assert clause(Evidence(), change=found) == "First change here, 1 low finding"
    for probability, words in ((0.06, "Chance 6 %: first change here"), (0.65, "Chance 65 %: first change here")):
        prediction = Prediction(Estimate(probability, 0.0, 0.9, 9), (), "m")
        judged = judge_change(Evidence(), CLEAR, ORDINARY, Thresholds(t_low=0.3), 0.55, 5.0, prediction)
        assert decided(judged, Evidence(), ChangeOutline(files=2)) == words
        tests_fail = ChangeOutline(files=2, tests_fail=True)
        assert decided(judged, Evidence(), tests_fail) == "First change here, tests fail"
    several = ChangeOutline(several_open=True)
    assert clause(Evidence(), change=several) == "New here, no record yet"
    assert clause(Evidence(), change=replace(several, tests_fail=True)) == "New here, tests fail"
    assert clause(Evidence(), change=ChangeOutline(tests_fail=True)) == "First change here, tests fail"
    assert clause(Evidence(clean=3, not_clean=1)) == "New here; 3 of 4 went well elsewhere"


@pytest.mark.parametrize(
    ("probability", "tests_fail", "words"),
    [
        (0.42, False, "Chance 42 %, though 41 of 42 clean"),
        (0.42, True, "Chance 42 %, tests fail"),
        (0.08, False, "Chance 8 %, though 41 of 42 clean"),
        (0.08, True, "Chance 8 %, tests fail"),
        (0.57, False, "Chance 57 %, though 41 of 42 clean"),
        (0.7, False, "Fast lane not open in this repository"),
    ],
)
def test_a_chance_below_even_or_far_below_the_record_is_named_before_it(
    probability: float, tests_fail: bool, words: str
) -> None:
    prediction = Prediction(Estimate(probability, 0.2, 0.8, 42), (), "m")
    verdict = judge_change(KNOWN, CLEAR, ORDINARY, Thresholds(t_low=0.1), 0.55, 5.0, prediction)
    assert decided(verdict, KNOWN, ChangeOutline(tests_fail=tests_fail)) == words


def test_an_absence_is_told_first_only_where_it_keeps_a_change_out_of_an_open_lane() -> None:
    away, once = replace(ORDINARY, silent_days=200), Evidence(not_clean=1, settled_here=1, structural_trust=0.9)
    open_lane, shut = Thresholds(t_high=0.8), Thresholds(shut=Reason("certificate_expired", {"days": 3}))
    told = [
        decided(judge_change(evidence, CLEAR, away, thresholds, 0.55, 5.0), evidence)
        for evidence, thresholds in ((KNOWN, open_lane), (KNOWN, shut), (once, open_lane), (once, shut))
    ]
    low = "Chance 45 %: none of 1 merged cleanly"
    assert told == ["Sent right after a long absence", "41 of 42 merged here, fast lane shut", low, low]


def test_a_merge_of_theirs_that_was_reverted_lately_is_told_where_a_row_would_be_fast_lane() -> None:
    fast, shut = Thresholds(t_high=0.8), Thresholds()
    for thresholds, change, first in (
        (fast, ChangeOutline(files=1, reverted=1), "41 of 42 merged here, 1 reverted lately"),
        (fast, ChangeOutline(files=1, reverted=2, shadow=True), "41 of 42 merged here, 2 reverted lately"),
        (fast, ChangeOutline(files=1, reverted=1, tests_fail=True), "41 of 42 merged here, tests fail"),
        (shut, ChangeOutline(files=1, reverted=1), "Fast lane not open in this repository"),
    ):
        verdict = judge_change(KNOWN, CLEAR, ORDINARY, thresholds, 0.55, 5.0)
        line = explain(verdict, KNOWN, change)
        assert line.startswith(first)
        assert line.count(f"{change.reverted} reverted lately") == 1


def test_one_who_was_refused_is_not_said_to_have_sent_bad_changes() -> None:
    refused = Evidence(clean=0, not_clean=14, merged_here=1, settled_here=14)
    verdict = judge_change(refused, CLEAR, ORDINARY, Thresholds(t_low=0.0), 0.55, 5.0)
    assert decided(verdict, refused) == "Chance 14 %: none of 14 merged cleanly"
    assert explain(verdict, refused).split("; ")[1] == "1 of 14 merged here, 1 needed a fix"
    record = next(SENTENCES[reason.code](reason.params) for reason in verdict.reasons if reason.code == "track_record")
    assert record == "Here: 1 merged, 1 needed a fix; 13 not merged."


def test_a_large_change_says_how_large_it_is_where_nothing_was_found_in_it() -> None:
    large = Content(0.09, True)
    assert clause(KNOWN, large, ChangeOutline(files=41, lines=2_000)) == "Large: 41 files"
    assert clause(KNOWN, large, ChangeOutline(files=2, lines=12_345)) == "Large: 12,345 lines"


def test_what_raises_the_risk_a_little_is_named_where_it_is_one_thing_and_counted_where_it_is_several() -> None:
    low = finding(severity="low")
    assert clause(KNOWN, Content(0.3, False), ChangeOutline((low,))) == "Prompt injection in resolve_form.py:14"
    two = ChangeOutline((low, low))
    assert clause(KNOWN, Content(0.3, False), two) == "2 low-severity findings in resolve_form.py"
    two = ChangeOutline((low, finding(severity="low", file="other.py")))
    assert clause(KNOWN, Content(0.3, False), two) == "2 low-severity findings, 2 files"


@pytest.mark.parametrize(
    ("place", "longest", "words"),
    [
        ("lantern/resolve_form.py:14", 26, "lantern/resolve_form.py:14"),
        ("lantern/resolve_form.py:14", 25, "resolve_form.py:14"),
        ("a/test_the_very_long_name_of_a_file.py:1234", 22, "test_the…_file.py:1234"),
        ("a/b.py:123456 (removed)", 8, ""),
    ],
)
def test_a_long_place_loses_its_folders_then_its_middle_and_never_its_line(
    place: str, longest: int, words: str
) -> None:
    assert place_words(place, longest) == words


@given(st.text(max_size=300), st.integers(0, 10**9))
def test_no_file_name_of_a_stranger_makes_a_clause_longer_or_moves_its_name(name: str, line: int) -> None:
    first = clause(KNOWN, FLAGGED, ChangeOutline((finding(file=name, line=line),)))
    assert first.startswith("Prompt injection")
    assert len(first) <= LONGEST
    assert first.isprintable()


@given(st.text(max_size=200))
def test_a_clause_that_is_cut_keeps_both_ends(words: str) -> None:
    assert len(fit(words)) <= LONGEST
    assert not words.strip() or set(fit(words)) <= set(chain(words, "…"))
