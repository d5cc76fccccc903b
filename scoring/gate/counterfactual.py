"""Finds each rule that, tightened alone, would have kept a change out of the fast lane, by judging it again. Pure.

Each rule is tightened just enough to stop this one change; whether that is wise is for the person who reads it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import nextafter
from typing import Any

from scoring.diff.paths import PATTERN
from scoring.gate.decide import Inputs, judge_inputs
from scoring.thresholds import CONDITIONS
from scoring.types import Draw, Lane, Param, Reason


@dataclass(frozen=True, slots=True)
class TightenedRule:
    """A rule tightened so that it would have stopped the change, its values before and after, and the reason given.

    `rule` is a field of `scoring.thresholds.Thresholds`, 'condition' (one that was switched off), 'never_fast_paths',
    'tier' or 'audit'; `after` is for T_HIGH and R_LOW the figure of the change, which the bound would have to pass.
    """

    rule: str
    before: Param
    after: Param
    reason: Reason


def what_would_hold(inputs: Inputs, paths: Sequence[str] = ()) -> tuple[TightenedRule, ...]:
    """Return each rule that, tightened alone, keeps this change out of the fast lane; () where it was not there.

    `paths` are the files that it touches.
    """
    if judge_inputs(inputs).lane is not Lane.FAST_LANE:
        return ()
    tightened = []
    for rule, before, after, changed in _variants(inputs, paths):
        verdict = judge_inputs(changed)
        if verdict.lane is not Lane.FAST_LANE:
            tightened.append(TightenedRule(rule, before, after, verdict.reasons[0]))
    return tuple(tightened)


Variant = tuple[str, Param, Param, Inputs]  # rule, before, after, the inputs under the tightened rule


def _variants(inputs: Inputs, paths: Sequence[str]) -> Iterator[Variant]:
    yield from _tighten_figures(inputs)
    yield from _tighten_account_rules(inputs)
    for name in (*CONDITIONS, "certificate"):
        if name not in inputs.thresholds.conditions:
            conditions = (*inputs.thresholds.conditions, name)
            yield "condition", None, name, _with(inputs, conditions=conditions)
    yield from _tighten_circumstances(inputs, paths)


def _tighten_figures(inputs: Inputs) -> Iterator[Variant]:
    """Move the bounds of P(clean), content risk and trust just out of reach."""
    thresholds, trust = inputs.thresholds, inputs.evidence.structural_trust
    probability = judge_inputs(inputs).estimate.probability
    if probability is not None and probability < 1:
        yield "t_high", thresholds.t_high, probability, _with(inputs, t_high=nextafter(probability, 1.0))
    if inputs.content is not None and inputs.content.risk > 0:
        risk = inputs.content.risk
        yield "r_low", thresholds.r_low, risk, _with(inputs, r_low=nextafter(risk, 0.0))
    if trust < 1:
        yield "trust", thresholds.trust, trust, _with(inputs, trust=nextafter(trust, 1.0))
    if not thresholds.two_ways:
        yield "two_ways", None, None, _with(inputs, two_ways=True)


def _tighten_account_rules(inputs: Inputs) -> Iterator[Variant]:
    """Ask for a longer wait after a change of an account, and for a shorter silence."""
    thresholds, around = inputs.thresholds, inputs.circumstances
    days = min((change.days for change in around.account_changes or ()), default=None)
    if days is not None:
        needed = days + 1
        yield (
            "account_change_days",
            thresholds.account_change_days,
            needed,
            _with(inputs, account_change_days=needed),
        )
    if around.silent_days:
        silent = around.silent_days
        yield "silent_days", thresholds.silent_days, silent, _with(inputs, silent_days=silent)


def _tighten_circumstances(inputs: Inputs, paths: Sequence[str]) -> Iterator[Variant]:
    """Apply what the maintainers could have set for this repository."""
    around = inputs.circumstances
    if paths:
        touched = tuple(PATTERN + path for path in paths)
        changed = replace(inputs, circumstances=replace(around, touched=touched))
        yield "never_fast_paths", None, ", ".join(paths[:3]), changed
    if around.tier == "public":
        yield "tier", "public", "sensitive", replace(inputs, circumstances=replace(around, tier="sensitive"))
    odds = around.draw.odds if around.draw else None
    yield "audit", odds, 1.0, replace(inputs, circumstances=replace(around, draw=Draw(True, 1.0)))


def _with(inputs: Inputs, **thresholds: Any) -> Inputs:
    return replace(inputs, thresholds=replace(inputs.thresholds, **thresholds))
