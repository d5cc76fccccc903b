"""The words: every code has a sentence, names stay names, numbers never contradict the lane, unknown is not bad."""

import ast
import inspect
from dataclasses import replace
from math import nextafter
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.certificates import in_force
from scoring.dataset.catalogue import FEATURES
from scoring.dataset.track_record import RECORD
from scoring.explain.decided import LONGEST, LONGEST_REASON, LOWERS, LOWERS_HERE, ChangeOutline, decided, explain
from scoring.explain.reasons import MISSING_WORDS
from scoring.explain.sentences import FACTOR_LABELS, SENTENCES, factor_label, sentence, would_change
from scoring.formatting import (
    bad_bound,
    bad_interval,
    bad_percent,
    basis_points,
    one_decimal_up,
    percent,
    percent_in_full,
    percent_interval,
    percents,
    risk_percent,
    trust_bound,
    trust_figure,
)
from scoring.gate import conditions, decide
from scoring.gate.decide import ORDINARY, judge, judge_change
from scoring.models.registry import factors
from scoring.review.schema import FailureReason
from scoring.thresholds import Thresholds
from scoring.types import Attestation, Content, Estimate, Evidence, Factor, Lane, Prediction, Reason, Verdict

SHUT = Thresholds()
OPEN = Thresholds(t_high=0.90, certified=True)
VOUCHED = Evidence(
    clean=14, not_clean=1, merged_here=14, settled_here=15, structural_trust=0.9, path=("ana.example.test", "mara.test")
)
HANGING = Evidence(clean=40, structural_trust=0.3, one_account=True, path=("seed.test", "ana.test", "mara.test"))
TWO_HOPS = Evidence(
    structural_trust=0.5, path=("seed.test", "ana.test", "mara.test"), clean=4, merged_here=4, settled_here=4
)
STRANGERS = [Evidence(), Evidence(waiting=2), Evidence(clean=3, not_clean=1), Evidence(clean=50)]
DISTRUST = ("distrust", "untrust", "suspicious", "suspect", "bad", "risk", "danger", "malicious", "fake", "unknown")


CLEAR = Content(risk=0.05, recommended=False)


def line(evidence: Evidence, thresholds: Thresholds = SHUT, content: Content | None = CLEAR) -> str:
    return explain(judge_change(evidence, content, ORDINARY, thresholds, 0.55, 5.0), evidence)


def codes_in_the_gate() -> set[str]:
    sources = (inspect.getsource(module) for module in (conditions, decide, in_force))
    calls = [node for source in sources for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    made = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Reason"]
    written = {str(call.args[0].value) for call in made if isinstance(call.args[0], ast.Constant)}
    return written | {f"attestation_{state}" for state in get_args(Attestation) if state not in ("valid", "not_asked")}


def test_every_code_of_the_gate_has_a_sentence_and_no_sentence_is_without_a_code() -> None:
    assert codes_in_the_gate() == set(SENTENCES)


@pytest.mark.parametrize("thresholds", [SHUT, OPEN, Thresholds(t_high=0.5), Thresholds(settled=1)])
@pytest.mark.parametrize(
    "evidence",
    [
        VOUCHED,
        TWO_HOPS,
        HANGING,
        *STRANGERS,
        Evidence(denounced_by_seed=True),
        Evidence(not_clean=9),
        Evidence(is_seed=True),
    ],
)
def test_every_sentence_is_whole_and_leaves_no_gap(evidence: Evidence, thresholds: Thresholds) -> None:
    verdict = judge(evidence, thresholds, 0.55, 5.0)
    sentences = [sentence(reason) for reason in verdict.reasons]
    for written in [*sentences, would_change(verdict, evidence, thresholds)]:
        assert written[0].isupper() or written[0].isdigit()
        assert written.endswith(".")
        assert not [gap for gap in ("{", "}", "None", "  ", "nan") if gap in written]
    row = explain(verdict, evidence)
    assert row[0].isupper() or row[0].isdigit()
    assert not row.endswith(".")


def test_a_code_of_another_version_is_named_instead_of_breaking_the_page() -> None:
    assert "never_heard_of" in sentence(Reason("never_heard_of", {"x": 1}))


def test_a_row_names_the_record_and_then_the_trust_path() -> None:
    assert (
        line(VOUCHED)
        == "Fast lane not open in this repository; 14 of 15 merged here; vouched for by the maintainer ana.example.test"
    )
    assert "; vouched for by ana.test, vouched for by the seed seed.test" in line(TWO_HOPS)
    far = Evidence(structural_trust=0.1, path=("seed.test", "a.test", "b.test", "mara.test"))
    assert "; 3 steps from the seed seed.test, through b.test" in line(far)
    assert line(Evidence()) == "First change here, no record yet; no trust path yet; no score yet"


def test_a_row_tells_a_record_elsewhere_from_one_here() -> None:
    assert line(Evidence(clean=3, not_clean=1)).startswith("New here; 3 of 4 went well elsewhere; ")
    both = Evidence(clean=20, not_clean=2, merged_here=5, settled_here=6)
    assert "Fast lane not open in this repository; 5 of 6 merged here, 20 of 22 clean overall" in line(both)
    fixed = Evidence(clean=12, not_clean=3, merged_here=14, settled_here=15)
    assert "Fast lane not open in this repository; 14 of 15 merged here, 2 needed a fix" in line(fixed)
    assert line(Evidence(waiting=2)).startswith("2 merged here, too new to count; ")


def test_a_row_says_what_decided_and_what_is_missing() -> None:
    assert line(Evidence(denounced_by_seed=True, clean=9)).startswith("Someone trusted here warns about them; ")
    assert line(Evidence(not_clean=7)).startswith("Chance 22 %: none of 7 merged cleanly; ")
    low = judge_change(Evidence(not_clean=7), CLEAR, ORDINARY, SHUT, 0.55, 5.0)  # as a model may say of a good record
    assert decided(low, Evidence(clean=3)) == "Chance 22 %, though 3 of 3 clean"
    touching = (Factor("repository_open", 57, -0.2), Factor("docs_only", 0, -0.1), Factor("touches_tests", 1, -0.09))
    assert decided(replace(low, factors=touching), Evidence(clean=3)) == "Chance 22 %: touches tests"
    faint = replace(low, factors=(Factor("touches_tests", 1, -0.01), Factor("lines_added", 900, 0.2)))
    assert decided(faint, Evidence(clean=3)) == "Chance 22 %, though 3 of 3 clean"
    assert decided(replace(low, factors=touching), Evidence(not_clean=7)) == "Chance 22 %: none of 7 merged cleanly"
    assert decided(low, Evidence(clean=2, not_clean=2)) == "Chance 22 %: 2 of 4 merged cleanly"
    assert "clean overall" not in line(Evidence(not_clean=7, settled_here=3)), "the same record is told once"
    assert line(VOUCHED, content=None).endswith("; content not reviewed yet")
    assert "; fast lane not certified; vouched for by" in line(VOUCHED, Thresholds(t_high=0.5))


def test_a_low_chance_of_somebody_without_a_record_is_told_and_flags_nobody() -> None:
    low = Prediction(Estimate(0.08, 0.04, 0.15, 11), (), "label_clean_fix")
    verdict = judge_change(Evidence(), CLEAR, ORDINARY, SHUT, 0.55, 5.0, low)
    assert verdict.lane is Lane.NORMAL_QUEUE
    assert explain(verdict, Evidence()) == (
        "Chance 8 %: first change here; no trust path yet; its low chance alone flags nobody"
    )
    told = [sentence(reason) for reason in verdict.reasons]
    assert "No record yet. A low chance (8 %) flags nobody without one." in told


def test_a_push_holder_s_own_change_is_not_told_by_its_chance() -> None:
    low = judge_change(Evidence(not_clean=7), CLEAR, ORDINARY, SHUT, 0.55, 5.0)
    assert decided(low, Evidence(clean=432, not_clean=151), ChangeOutline(own=True)) == "Its author may push here"


def test_words_for_what_lowers_a_chance_fit_a_row_and_name_features_that_models_know() -> None:
    known = {feature.name for feature in (*FEATURES, *RECORD)}
    assert LOWERS.keys() | LOWERS_HERE.keys() <= known
    for name, words in {**LOWERS, **LOWERS_HERE}.items():
        value = 0.424 if "rate" in name else 99_999 if name.startswith("lines") else 999
        assert len(f"Chance 22 %: {words(value)}") <= LONGEST, name


@pytest.mark.parametrize(
    ("factors", "of_newcomer", "of_known"),
    [
        ({"repository_days_since_merge": (36.3, -0.12)}, "first change here", "no merges here for 36 days"),
        ({"repository_open": (57, -0.1), "lines_added": (172, -0.05)}, "new here, 172 lines added", "172 lines added"),
        ({"repository_open": (57, -0.01)}, "first change here", ""),
        ({"lines_changed": (172_172, -0.2)}, "first change here", "172,172 lines changed"),
    ],
)
def test_a_low_chance_names_what_lowers_it_in_the_change_before_what_is_so_in_the_repository(
    factors: dict[str, tuple[float, float]], of_newcomer: str, of_known: str
) -> None:
    told = tuple(Factor(name, value, effect) for name, (value, effect) in factors.items())
    low, even = (Verdict(Lane.NORMAL_QUEUE, Estimate(chance, 0.0, 0.6, 9), (), told) for chance in (0.19, 0.55))
    known = Evidence(clean=1, merged_here=1, settled_here=1)
    assert decided(low, Evidence()) == f"Chance 19 %: {of_newcomer}"
    assert decided(even, Evidence()) == "Chance 55 %: first change here"
    assert decided(low, known) == (f"Chance 19 %: {of_known}" if of_known else "Chance 19 %, though 1 of 1 clean")
    of_own = "Author may push; 19 %: 172 lines added" if "lines_added" in factors else "Its author may push here"
    assert decided(low, known, ChangeOutline(own=True)) == of_own


def test_a_shut_lane_says_what_would_open_it() -> None:
    verdict = judge(VOUCHED, SHUT, 0.55, 5.0)
    assert would_change(verdict, VOUCHED, SHUT) == (
        "59 settled pull requests, all of them clean, are needed before a fast lane can open."
    )
    shut = next(reason for reason in judge(VOUCHED, Thresholds(settled=31), 0.55, 5.0).reasons)
    assert sentence(shut).endswith("are needed to set its threshold; so far there are 31.")


def test_a_lane_that_was_shut_is_opened_by_nothing_in_a_change_and_its_reason_is_told_once() -> None:
    expired = Thresholds(shut=Reason("certificate_expired", {"days": 3}))
    verdict = judge(VOUCHED, expired, 0.55, 5.0)
    assert would_change(verdict, VOUCHED, expired) == "Nothing in this change: the fast lane is shut here."
    stranger = judge(Evidence(), expired, 0.55, 5.0)
    assert would_change(stranger, Evidence(), expired) == (
        "Nothing in this change: the fast lane is shut here. A vouch by a seed gives a trust path. A first "
        "pull request like it that settles gives a score."
    )


def test_where_enough_have_settled_the_lane_does_not_ask_for_as_many_again() -> None:
    plenty = Thresholds(settled=2_151)
    verdict = judge(VOUCHED, plenty, 0.55, 5.0)
    shut = next(reason for reason in verdict.reasons if reason.code == "fast_lane_shut")
    assert sentence(shut) == (
        "The fast lane is shut: 2,151 pull requests by people without push access have settled, but those of the "
        "last year prove no score yet above which nearly all stay clean."
    )
    assert would_change(verdict, VOUCHED, plenty) == (
        "A fast lane opens from a score above which nearly all stay clean: 59 settled ones there without a bad one, or "
        "more with a few."
    )


def test_weak_trust_is_told_as_a_fact_with_what_the_lane_asks_for_and_names_nobody() -> None:
    verdict = judge_change(HANGING, CLEAR, ORDINARY, OPEN, 0.55, 5.0)
    told = {reason.code: sentence(reason) for reason in verdict.reasons}
    assert told["trust_too_low"] == "Structural trust is 0.30; the fast lane asks for 0.50."
    assert "All trust runs through one account" in told["one_account_path"]
    assert "ana" not in told["one_account_path"]
    assert would_change(verdict, HANGING, OPEN) == "A vouch by a seed would put this in the fast lane."
    young = replace(HANGING, clean=1)
    assert "together with a vouch by a seed" in would_change(judge(young, OPEN, 0.55, 5.0), young, OPEN)


def test_what_would_change_the_lane_is_true_when_it_is_tried() -> None:
    no_path = Evidence(clean=80)
    verdict = judge_change(no_path, CLEAR, ORDINARY, OPEN, 0.55, 5.0)
    assert would_change(verdict, no_path, OPEN) == "A vouch by a seed would put this in the fast lane."
    vouched = Evidence(clean=80, structural_trust=0.909, path=("seed.test", "mara.test"))
    assert judge_change(vouched, CLEAR, ORDINARY, OPEN, 0.55, 5.0).lane is Lane.FAST_LANE
    young = Evidence(clean=1)
    assert "together with a vouch by a seed" in would_change(
        judge_change(young, CLEAR, ORDINARY, OPEN, 0.55, 5.0), young, OPEN
    )
    denounced = Evidence(denounced_by_seed=True)
    assert "withdrawing the warning" in would_change(
        judge_change(denounced, CLEAR, ORDINARY, OPEN, 0.55, 5.0), denounced, OPEN
    )
    assert "end the fast lane" in would_change(judge_change(vouched, CLEAR, ORDINARY, OPEN, 0.55, 5.0), vouched, OPEN)


@pytest.mark.parametrize("evidence", STRANGERS)
@pytest.mark.parametrize("thresholds", [SHUT, OPEN, Thresholds(t_high=0.9), Thresholds(settled=3)])
def test_no_word_of_distrust_is_said_of_people_without_a_path_or_history(
    evidence: Evidence, thresholds: Thresholds
) -> None:
    verdict = judge(evidence, thresholds, 0.55, 5.0)
    assert verdict.lane is not Lane.NEEDS_HUMAN
    said = [explain(verdict, evidence), would_change(verdict, evidence, thresholds)]
    words = " ".join([*said, *(sentence(reason) for reason in verdict.reasons)]).lower()
    assert not [word for word in DISTRUST if word in words]


@pytest.mark.parametrize("name", ["{seed.__class__}", "{0}", "{", "%s%(x)d", "<script>", "{voucher!r:>999999}"])
def test_a_name_from_the_network_is_only_ever_a_name(name: str) -> None:
    evidence = Evidence(structural_trust=0.5, path=(name, name, "mara.test"))
    assert f"; vouched for by {name}, vouched for by the seed {name}; " in line(evidence)


def test_a_name_cannot_break_the_line_turn_its_direction_or_push_the_rest_away() -> None:
    short, long = (
        line(Evidence(structural_trust=0.9, path=("an\u202ea\n\u200b." + "x" * count, "mara.test")))
        for count in (9, 500)
    )
    assert "; vouched for by the maintainer an⟨U+202E⟩a⟨U+000A⟩⟨U+200B⟩.xxx" in short
    for row in (short, long):
        assert row.startswith("First change here, no record yet; ")
        assert row.endswith("; no score yet")
        assert row.isprintable()
        assert len(row) <= LONGEST_REASON


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_probability_beside_a_threshold_stands_on_its_true_side(probability: float, threshold: float) -> None:
    if probability < threshold:
        assert percents(probability) <= float(percent_in_full(threshold).removesuffix(" %"))
    if probability >= threshold:
        assert float(risk_percent(probability).removesuffix(" %")) >= 100 * threshold - 1e-6


@given(st.floats(0, 1), st.integers(0, 100))
def test_what_is_shown_never_contradicts_a_threshold_of_whole_percents(probability: float, hundredths: int) -> None:
    threshold = hundredths / 100
    assert (percents(probability) >= hundredths) == (probability >= threshold)
    assert (float(trust_figure(probability)) >= threshold) == (probability >= threshold)


@pytest.mark.parametrize(
    ("probability", "written"),
    [
        (0.899, "89 %"),
        (0.29, "29 %"),
        (0.3, "30 %"),
        (nextafter(0.9, 0), "89 %"),
        (0.0, "0 %"),
        (1.0, "100 %"),
        (5e-324, "0 %"),
    ],
)
def test_a_probability_is_rounded_down(probability: float, written: str) -> None:
    assert percent(probability) == written


def test_a_bound_is_told_in_full() -> None:
    assert [percent_in_full(one) for one in (0.9, 0.905, 1e-05, 1.0)] == ["90 %", "90.5 %", "0.001 %", "100 %"]
    assert (trust_bound(0.9), trust_bound(0.905), trust_bound(1e-05)) == ("0.90", "0.905", "0.00001")


def test_percents_are_floored_intervals_go_outward_and_what_is_bad_is_rounded_up() -> None:
    assert percent_interval(0.429, 0.951) == "42\N{EN DASH}96"
    assert (risk_percent(0.201), risk_percent(0.8), risk_percent(0.1 + 0.7)) == ("21 %", "80 %", "80 %")
    assert (bad_bound(0.0401), bad_bound(0.05), bad_bound(0.0)) == ("4.1 %", "5.0 %", "0.0 %")
    assert (bad_percent(3 / 14), bad_percent(22 / 188), bad_percent(0.0)) == ("21.4 %", "11.7 %", "0.0 %")
    assert bad_interval(0.0319, 0.0981) == "3.1\N{EN DASH}9.9"
    assert (one_decimal_up(0.301), one_decimal_up(0.3), one_decimal_up(0.1 + 0.2)) == ("0.4", "0.3", "0.3")


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_share_of_bad_ones_is_never_told_smaller_nor_its_interval_narrower(one: float, other: float) -> None:
    low, high = sorted((one, other))
    below, above = map(float, bad_interval(low, high).split("\N{EN DASH}"))
    assert below <= 100 * low + 1e-6
    assert above >= float(bad_bound(high).removesuffix(" %")) >= 100 * high - 1e-6


def test_basis_points_are_rounded_down_like_the_rest() -> None:
    assert [basis_points(p) for p in (0.0, 0.29, 0.89999, 1.0)] == [0, 2900, 8999, 10000]


def test_every_factor_has_a_plain_name() -> None:
    assert {factor.name for factor in factors(VOUCHED, 0.55, 5.0)} == set(FACTOR_LABELS)
    assert factor_label("structural_trust") == "Trust from the seeds"
    assert factor_label("ci_passed") == "Ci passed"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            Content(0.8, True, high_flags=2, worst="secret_leak", place="a.py:3"),
            "The review found a secret in the code (a.py:3), and 1 more finding of high severity.",
        ),
        (Content(0.61, True), "Content risk 61 %, limit 60 %."),
        (Content(0.25, False), "Content risk 25 %; the fast lane takes 20 % at most."),
        (Content(0.1, False, coverage=0.57), "Only 57 % of the changed lines could be read."),
        (
            Content(0.1, False, has_verdict=False, missing="refused"),
            "There is no verdict on the content: the model refused to review it.",
        ),
        (Content(0.1, False, has_verdict=False, missing="<b>"), "There is no verdict on the content."),
        (Content(0.1, True), "The review asks for a person."),
    ],
)
def test_what_a_review_found_is_told_in_one_sentence(content: Content, words: str) -> None:
    verdict = judge_change(VOUCHED, content, ORDINARY, OPEN, 0.55, 5.0)
    assert words in [sentence(reason) for reason in verdict.reasons]


def test_a_flag_is_lifted_by_another_round_and_not_by_a_good_record() -> None:
    flagged = Content(0.8, True, high_flags=1, worst="security", place="a.py:3")
    verdict = judge_change(VOUCHED, flagged, ORDINARY, OPEN, 0.55, 5.0)
    assert "A new round" in would_change(verdict, VOUCHED, OPEN)


def test_a_clear_review_is_named_where_only_that_is_missing() -> None:
    verdict = judge_change(replace(VOUCHED, clean=99), None, ORDINARY, OPEN, 0.55, 5.0)
    assert would_change(verdict, VOUCHED, OPEN) == "A clear review of its content would put this in the fast lane."
    assert judge_change(replace(VOUCHED, clean=99), CLEAR, ORDINARY, OPEN, 0.55, 5.0).lane is Lane.FAST_LANE


def test_every_reason_for_a_missing_verdict_has_its_words() -> None:
    assert {
        *get_args(FailureReason),
        "findings_incomplete",
        "review_failed",
        "on_trial",
        "review_off",
        "base_elsewhere",
    } == set(MISSING_WORDS)
