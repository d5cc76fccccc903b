"""Each rule is tried on the stored inputs, and each that is named would have held the change by itself."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.gate.counterfactual import holds_too, what_would_hold
from scoring.gate.decide import ORDINARY, Inputs, judge_inputs, read_inputs
from scoring.pipeline.decisions import to_json
from scoring.queries.read import Hold
from scoring.thresholds import CONDITIONS, Thresholds
from scoring.types import AccountChange, Content, Draw, Evidence, Lane
from triage.presenters.text import hold_words

KNOWN = Evidence(clean=40, structural_trust=0.8, path=("ana.test", "mara.test"), distance=1)
CLEAR = Content(risk=0.1, recommended=False)
OPEN = Thresholds(t_high=0.6, conditions=CONDITIONS)
FAST = Inputs(KNOWN, CLEAR, OPEN, 0.5, 5.0, circumstances=ORDINARY)


def rules(inputs: Inputs, paths: tuple[str, ...] = ()) -> dict[str, str]:
    """What would have held it, each with the reason that it would have had."""
    return {one.rule: one.reason.code for one in what_would_hold(inputs, paths)}


def test_what_was_fast_laned_names_every_rule_that_would_have_held_it() -> None:
    assert judge_inputs(FAST).lane is Lane.FAST_LANE
    assert rules(FAST, ("a.py", "b.py")) == {
        "t_high": "below_fast_lane",
        "r_low": "content_risk_above",
        "trust": "trust_too_low",
        "condition": "certificate_required",
        "never_fast_paths": "never_fast_path",
        "tier": "attestation_missing",
        "audit": "audit_drawn",
    }


def test_what_was_not_fast_laned_has_none() -> None:
    assert what_would_hold(replace(FAST, circumstances=replace(ORDINARY, silent_days=100)), ("a.py",)) == ()


def test_a_rule_that_could_not_have_held_it_is_not_named() -> None:
    spotless = replace(FAST, content=replace(CLEAR, risk=0.0), evidence=replace(KNOWN, structural_trust=1.0))
    named = rules(spotless)
    assert "r_low" not in named
    assert "trust" not in named
    assert "never_fast_paths" not in named


def test_a_rule_holds_another_change_only_where_its_figures_are_no_better() -> None:
    better = replace(FAST, evidence=replace(KNOWN, clean=400, structural_trust=0.95), content=replace(CLEAR, risk=0.0))
    held = {one.rule: holds_too(one, better) for one in what_would_hold(FAST, ("a.py",))}
    assert held == {
        "t_high": False,
        "r_low": False,
        "trust": False,
        "condition": True,
        "never_fast_paths": False,
        "tier": True,
        "audit": True,
    }
    (paths,) = (one for one in what_would_hold(FAST, ("a.py",)) if one.rule == "never_fast_paths")
    assert holds_too(paths, better, ("a.py",))


def test_the_price_of_a_rule_stands_beside_it() -> None:
    (tier,) = (one for one in what_would_hold(FAST) if one.rule == "tier")
    words = "the repository in the sensitive tier, which asks for an attestation"
    assert hold_words(Hold(tier, 21, 1033)) == f"{words}: 21 of 1,033 others"
    assert hold_words(Hold(tier, 0, 0)) == words, "nothing to compare with"


def test_a_condition_that_was_switched_off_is_named_only_where_it_was_not_met() -> None:
    off = replace(OPEN, conditions=("certificate", "audit", "tier"), certified=True)
    blind = replace(FAST, thresholds=off, content=replace(CLEAR, coverage=0.5))
    held = [one.after for one in what_would_hold(blind) if one.rule == "condition"]
    assert held == ["coverage"]


@pytest.mark.parametrize(
    ("around", "rule", "after"),
    [
        (replace(ORDINARY, account_changes=(AccountChange("author", "pds_moves", 20),)), "account_change_days", 21),
        (replace(ORDINARY, silent_days=60), "silent_days", 60),
    ],
)
def test_a_longer_wait_or_a_shorter_silence_is_named_with_its_days(around: object, rule: str, after: int) -> None:
    found = {one.rule: one.after for one in what_would_hold(replace(FAST, circumstances=around))}
    assert found[rule] == after


def test_one_account_that_trust_hung_on_would_have_been_held_by_asking_for_two_ways() -> None:
    lone = replace(FAST, evidence=replace(KNOWN, one_account=True), thresholds=replace(OPEN, two_ways=False))
    assert rules(lone)["two_ways"] == "one_account_path"
    assert "two_ways" not in rules(replace(FAST, thresholds=replace(OPEN, two_ways=False)))


@given(
    clean=st.integers(8, 500),
    risk=st.floats(0, 0.2),
    trust=st.floats(0.5, 1),
    silent=st.integers(0, 89),
    odds=st.floats(0, 1),
)
def test_whatever_was_fast_laned_stored_inputs_give_the_same_answer_in_words(
    clean: int, risk: float, trust: float, silent: int, odds: float
) -> None:
    inputs = replace(
        FAST,
        evidence=replace(KNOWN, clean=clean, structural_trust=trust),
        content=replace(CLEAR, risk=risk),
        circumstances=replace(ORDINARY, silent_days=silent, draw=Draw(False, odds)),
    )
    stored = read_inputs(to_json(inputs))
    found = what_would_hold(stored, ("a.py",))
    assert found == what_would_hold(inputs, ("a.py",))
    assert {"audit", "tier", "never_fast_paths"} <= {one.rule for one in found}
    assert all(hold_words(Hold(one, 0, 0)) for one in found)
    assert all(holds_too(one, stored, ("a.py",)) for one in found), "what holds a change holds its like"
