"""The gate weighs P(clean), trust and content: each side of each threshold has its lane and its reasons."""

from dataclasses import replace
from math import nan, nextafter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.explain.sentences import plain_sentence, sentence
from scoring.gate.decide import ORDINARY, decide_change, decide_person, judge, judge_change
from scoring.thresholds import Thresholds
from scoring.types import NO_ESTIMATE, Content, Draw, Estimate, Evidence, Lane, Prediction, Reason

OPEN = Thresholds(t_high=0.90, certified=True)
KNOWN = Evidence(clean=14, not_clean=1, merged_here=14, settled_here=15, structural_trust=0.5, path=("seed", "ana"))
STRANGER = Evidence()
CLEAR = Content(risk=0.05, recommended=False)


def estimate(probability: float | None) -> Estimate:
    return Estimate(probability, 0.1, 0.99, 0 if probability is None else 15)


def codes(evidence: Evidence, probability: float | None, thresholds: Thresholds) -> list[str]:
    return [reason.code for reason in decide_change(evidence, estimate(probability), CLEAR, ORDINARY, thresholds)[1]]


@pytest.mark.parametrize(
    ("probability", "lane"),
    [
        (0.0, Lane.NEEDS_HUMAN),
        (nextafter(0.30, 0), Lane.NEEDS_HUMAN),
        (0.30, Lane.NORMAL_QUEUE),
        (nextafter(0.30, 1), Lane.NORMAL_QUEUE),
        (nextafter(0.90, 0), Lane.NORMAL_QUEUE),
        (0.90, Lane.FAST_LANE),
        (nextafter(0.90, 1), Lane.FAST_LANE),
        (1.0, Lane.FAST_LANE),
        (None, Lane.NORMAL_QUEUE),
    ],
)
def test_each_side_of_each_threshold_has_its_lane(probability: float | None, lane: Lane) -> None:
    doubtful = replace(KNOWN, clean=5, not_clean=5)
    assert decide_person(doubtful, estimate(probability), OPEN)[0] is lane


@pytest.mark.parametrize("probability", [0.0, 0.5, 1.0, None])
def test_a_denounce_by_a_seed_always_asks_for_a_human_and_comes_first(probability: float | None) -> None:
    denounced = Evidence(structural_trust=1.0, path=("seed", "mallory"), denounced_by_seed=True)
    lane, reasons = decide_person(denounced, estimate(probability), OPEN)
    assert lane is Lane.NEEDS_HUMAN
    assert reasons[0].code == "denounced_by_seed"
    assert "trust_path" not in [reason.code for reason in reasons]


def test_a_perfect_record_without_a_trust_path_is_not_fast_laned() -> None:
    lane, reasons = decide_person(STRANGER, estimate(1.0), OPEN)
    assert (lane, reasons[0].code) == (Lane.NORMAL_QUEUE, "no_trust_path")


@given(st.floats(0, 1), st.floats(0, 1), st.integers(0, 900), st.integers(0, 9))
def test_no_prediction_of_any_model_sends_who_has_no_history_to_a_person(
    probability: float, trust: float, similar: int, waiting: int
) -> None:
    said = Prediction(Estimate(probability, 0.0, 1.0, similar), (), "any")
    newcomer = Evidence(structural_trust=trust, waiting=waiting)
    assert judge(newcomer, OPEN, 0.55, 5.0, said).lane is not Lane.NEEDS_HUMAN


@pytest.mark.parametrize("trust", [0.0, 0.001, 1.0])
@pytest.mark.parametrize("probability", [0.30, 0.9, 1.0, None])
def test_without_a_threshold_there_is_no_fast_lane(trust: float, probability: float | None) -> None:
    assert decide_person(Evidence(structural_trust=trust), estimate(probability), Thresholds())[0] is Lane.NORMAL_QUEUE


def test_a_shut_fast_lane_says_how_many_cases_it_needs_and_has() -> None:
    _, reasons = decide_person(KNOWN, estimate(0.95), Thresholds(settled=31))
    assert (reasons[0].code, reasons[0].params) == ("fast_lane_shut", {"needed": 59, "have": 31})


def test_a_stranger_has_not_enough_evidence_and_is_no_case_for_a_human() -> None:
    verdict = judge(STRANGER, OPEN, prior=0.55, strength=5.0)
    assert verdict.lane is Lane.NORMAL_QUEUE
    assert [reason.code for reason in verdict.reasons][:2] == ["not_enough_evidence", "no_trust_path"]
    assert verdict.estimate.probability is None


def test_a_prior_below_t_low_does_not_send_strangers_to_a_human() -> None:
    assert judge(STRANGER, OPEN, prior=0.05, strength=5.0).lane is Lane.NORMAL_QUEUE


def test_a_model_that_expects_little_of_a_newcomer_sends_them_to_no_human_for_lack_of_history() -> None:
    said = Prediction(estimate(0.1), (), "label_clean-abc")
    verdict = judge(STRANGER, OPEN, 0.55, 5.0, said)
    assert verdict.lane is Lane.NORMAL_QUEUE
    assert verdict.reasons[0].code == "not_enough_evidence"
    assert judge(Evidence(not_clean=1), OPEN, 0.55, 5.0, said).lane is Lane.NEEDS_HUMAN


def test_a_low_chance_flags_nobody_of_whose_settled_work_most_was_clean() -> None:
    low = Prediction(estimate(0.1), (), "label_clean-abc")
    verdict = judge(Evidence(clean=5, not_clean=4), OPEN, 0.55, 5.0, low)
    assert verdict.lane is Lane.NORMAL_QUEUE
    assert verdict.reasons[0].code == "not_enough_evidence"
    assert sentence(verdict.reasons[0]) == (
        "5 of 9 settled ones stayed clean, so a low chance (10 %) alone flags nobody."
    )
    assert judge(Evidence(clean=5, not_clean=5), OPEN, 0.55, 5.0, low).lane is Lane.NEEDS_HUMAN


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.95])
def test_a_chance_that_no_settled_case_had_is_no_number_and_opens_nothing(probability: float) -> None:
    guess = Prediction(replace(estimate(probability), cases=0), (), "label_clean-abc")
    verdict = judge(KNOWN, OPEN, 0.55, 5.0, guess)
    assert (verdict.lane, verdict.estimate, verdict.factors) == (Lane.NORMAL_QUEUE, NO_ESTIMATE, ())
    assert sentence(verdict.reasons[0]) == "No score: nothing like it has settled yet."


def test_whoever_did_worse_than_anybody_before_is_flagged_all_the_same() -> None:
    guess = Prediction(replace(estimate(0.02), cases=0), (), "label_clean-abc")
    verdict = judge(Evidence(clean=1, not_clean=29), OPEN, 0.55, 5.0, guess)
    assert (verdict.lane, verdict.estimate.probability) == (Lane.NEEDS_HUMAN, 0.02)
    assert judge(Evidence(not_clean=4), OPEN, 0.55, 5.0, guess).lane is Lane.NORMAL_QUEUE


def test_the_reasons_come_strongest_first() -> None:
    assert codes(KNOWN, 0.95, OPEN) == ["trust_path", "track_record"]
    told = [reason.code for reason in decide_person(KNOWN, estimate(0.7), OPEN)[1]]
    assert told == ["below_fast_lane", "trust_path", "track_record", "content_not_reviewed"]
    assert codes(Evidence(not_clean=2), 0.1, OPEN) == ["low_probability", "no_trust_path", "track_record"]
    assert codes(STRANGER, 0.5, OPEN) == ["below_fast_lane", "no_trust_path", "track_record"]
    assert codes(Evidence(is_seed=True, structural_trust=1.0), 0.95, OPEN) == ["is_seed", "track_record"]
    assert codes(Evidence(structural_trust=0.2, one_account=True), 0.95, OPEN) == [
        "trust_too_low",
        "one_account_path",
        "trust_reaches",
        "track_record",
    ]


def test_an_operators_own_threshold_opens_the_lane_and_says_that_it_is_not_certified() -> None:
    own = Thresholds(t_high=0.90)
    lane, reasons = decide_change(KNOWN, estimate(0.95), CLEAR, ORDINARY, own)
    assert lane is Lane.FAST_LANE
    assert (reasons[-1].code, reasons[-1].params) == ("threshold_not_certified", {"t_high": 0.90})
    assert "threshold_not_certified" not in codes(KNOWN, 0.95, OPEN)


@pytest.mark.parametrize(("drawn", "lane"), [(False, Lane.FAST_LANE), (True, Lane.NEEDS_HUMAN)])
def test_a_lane_that_rests_on_an_estimate_says_so_also_of_what_its_audit_drew(drawn: bool, lane: Lane) -> None:
    estimated = Thresholds(t_high=0.90, estimated=(0.011, 0.091), conditions=())
    around = replace(ORDINARY, draw=Draw(drawn, 1 / 3))
    found, reasons = decide_change(KNOWN, estimate(0.95), CLEAR, around, estimated)
    assert found is lane, "drawn also where the operator left the audit out"
    told = Reason("threshold_estimated", {"t_high": 0.90, "bad_low": 0.011, "bad_high": 0.091})
    assert reasons[-1] == told
    assert "1.1\N{EN DASH}9.1 % needed work" in sentence(told)
    assert not any(letter.isdigit() for letter in plain_sentence(told))
    assert "threshold_estimated" not in codes(KNOWN, 0.85, estimated)
    by_certificate = replace(estimated, conditions=("certificate",))
    held = decide_change(KNOWN, estimate(0.95), CLEAR, around, by_certificate)[1][0]
    assert sentence(held) == "The threshold 90 % is estimated; the fast lane here needs a certificate."


@pytest.mark.parametrize(
    ("trust", "lane"), [(nextafter(0.5, 0), Lane.NORMAL_QUEUE), (0.5, Lane.FAST_LANE), (1.0, Lane.FAST_LANE)]
)
def test_the_fast_lane_asks_for_so_much_trust(trust: float, lane: Lane) -> None:
    known = replace(KNOWN, structural_trust=trust)
    assert decide_person(known, estimate(1.0), OPEN)[0] is lane
    assert decide_person(known, estimate(1.0), replace(OPEN, trust=0.0))[0] is Lane.FAST_LANE


def test_whom_the_loss_of_one_account_would_cut_off_stays_in_the_queue_unless_the_operator_wants_it() -> None:
    hanging = replace(KNOWN, structural_trust=0.9, one_account=True)
    lane, reasons = decide_person(hanging, estimate(1.0), OPEN)
    assert (lane, reasons[0].code, reasons[0].params) == (Lane.NORMAL_QUEUE, "one_account_path", {})
    assert decide_person(hanging, estimate(1.0), replace(OPEN, two_ways=False))[0] is Lane.FAST_LANE
    assert decide_person(replace(hanging, one_account=False), estimate(1.0), OPEN)[0] is Lane.FAST_LANE


def test_no_trust_at_all_is_told_alone() -> None:
    assert codes(replace(STRANGER, one_account=True), 0.95, OPEN) == ["no_trust_path", "track_record"]


def test_the_trust_path_names_the_seed_and_the_last_voucher() -> None:
    far = Evidence(structural_trust=0.1, path=("seed", "ana", "mara", "noor"))
    reasons = {reason.code: reason.params for reason in decide_person(far, estimate(0.95), OPEN)[1]}
    assert reasons["trust_path"] == {"seed": "seed", "voucher": "mara", "hops": 3}


@pytest.mark.parametrize("wrong", [nan, -0.1, 1.1])
def test_a_probability_or_trust_that_is_no_number_in_0_to_1_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match=r"P\(clean\) must be"):
        decide_person(KNOWN, estimate(wrong), OPEN)
    with pytest.raises(ValueError, match="structural trust must be"):
        decide_person(Evidence(structural_trust=wrong), estimate(0.95), OPEN)


@pytest.mark.parametrize(
    "wrong",
    [
        {"t_low": nan},
        {"t_high": nan},
        {"t_high": 1.5},
        {"t_low": 0.5, "t_high": 0.4},
        {"budget": 0.0},
        {"trust": nan},
        {"r_low": nan},
        {"r_high": 0.1},
    ],
)
def test_thresholds_that_contradict_themselves_are_refused(wrong: dict) -> None:
    with pytest.raises(ValueError, match="must"):
        Thresholds(**wrong)


evidences = st.builds(
    Evidence,
    clean=st.integers(0, 200),
    not_clean=st.integers(0, 200),
    waiting=st.integers(0, 5),
    structural_trust=st.floats(0, 1),
    denounced_by_seed=st.booleans(),
    one_account=st.booleans(),
    path=st.sampled_from([(), ("seed", "ana"), ("seed", "ana", "mara")]),
)
BETTER = (Lane.NEEDS_HUMAN, Lane.NORMAL_QUEUE, Lane.FAST_LANE)


@given(evidences, st.floats(0, 1), st.floats(0, 1))
def test_less_trust_or_less_probability_never_improves_a_lane(evidence: Evidence, less: float, lower: float) -> None:
    verdict = judge(evidence, OPEN, prior=0.55, strength=5.0)
    assert verdict.reasons
    faded = Evidence(
        clean=evidence.clean,
        not_clean=evidence.not_clean,
        structural_trust=evidence.structural_trust * less,
        denounced_by_seed=evidence.denounced_by_seed,
        one_account=evidence.one_account,
    )
    assert BETTER.index(judge(faded, OPEN, prior=0.55, strength=5.0).lane) <= BETTER.index(verdict.lane)
    if verdict.estimate.probability is not None:
        dimmed = estimate(verdict.estimate.probability * lower)
        assert BETTER.index(decide_person(evidence, dimmed, OPEN)[0]) <= BETTER.index(verdict.lane)


@given(evidences)
def test_nobody_without_history_or_enough_trust_by_more_than_one_account_is_ever_fast_laned(evidence: Evidence) -> None:
    lane = judge(evidence, OPEN, prior=0.95, strength=5.0).lane
    if not evidence.clean + evidence.not_clean or evidence.structural_trust < 0.5 or evidence.one_account:
        assert lane is not Lane.FAST_LANE


contents = st.builds(
    Content,
    risk=st.floats(0, 1),
    recommended=st.booleans(),
    coverage=st.sampled_from([0.0, 0.5, 1.0]),
    high_flags=st.integers(0, 2),
    has_verdict=st.booleans(),
)


def content_codes(content: Content | None, probability: float = 0.95, thresholds: Thresholds = OPEN) -> list[str]:
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
    assert content_codes(content, 1.0)[0] == code


def test_all_that_holds_a_change_back_is_told_and_what_the_contributor_lacks_first() -> None:
    poor = Content(risk=0.4, recommended=True, coverage=0.5, has_verdict=False)
    assert content_codes(poor, 0.5)[:5] == [
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
