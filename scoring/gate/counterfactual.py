"""Finds each rule that alone would have kept a change out of the fast lane: judged again, one rule tightened. Pure.

Every change is the smallest that holds this one change; whether it is wise is for the person who reads it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import nextafter
from typing import Any

from scoring.diff.paths import PATTERN
from scoring.gate.inputs import Inputs, judge_inputs
from scoring.thresholds import CONDITIONS
from scoring.types import Draw, Lane, Param, Reason


@dataclass(frozen=True, slots=True)
class Tightened:
    """One change of a rule that would have held it: which, what it was, what it would have to be, and the reason given.

    `rule` is a field of `scoring.thresholds.Thresholds`, 'condition' (one that was switched off), 'never_fast_paths',
    'tier' or 'audit'; `after` is for T_HIGH and R_LOW the figure that it would have to pass.
    """

    rule: str
    before: Param
    after: Param
    reason: Reason


def what_would_hold(inputs: Inputs, paths: Sequence[str] = ()) -> tuple[Tightened, ...]:
    """Each rule that, tightened alone, sends this change elsewhere than the fast lane; () where it was not there.

    `paths` are the files that it touches.
    """
    if judge_inputs(inputs).lane is not Lane.FAST_LANE:
        return ()
    found = []
    for rule, before, after, changed in _changes(inputs, paths):
        verdict = judge_inputs(changed)
        if verdict.lane is not Lane.FAST_LANE:
            found.append(Tightened(rule, before, after, verdict.reasons[0]))
    return tuple(found)


Change = tuple[str, Param, Param, Inputs]


def _changes(inputs: Inputs, paths: Sequence[str]) -> Iterator[Change]:
    yield from _of_figures(inputs)
    yield from _of_accounts(inputs)
    for name in (*CONDITIONS, "certificate"):
        if name not in inputs.thresholds.conditions:
            conditions = (*inputs.thresholds.conditions, name)
            yield "condition", None, name, _with(inputs, conditions=conditions)
    yield from _of_circumstances(inputs, paths)


def _of_figures(inputs: Inputs) -> Iterator[Change]:
    """P(clean), content risk and trust, each just out of reach."""
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


def _of_accounts(inputs: Inputs) -> Iterator[Change]:
    """Longer waits after a change of an account, shorter silences."""
    thresholds, around = inputs.thresholds, inputs.circumstances
    days = min((change.days for change in around.account_changes or ()), default=None)
    if days is not None:
        wanted = days + 1
        yield (
            "account_change_days",
            thresholds.account_change_days,
            wanted,
            _with(inputs, account_change_days=wanted),
        )
    if around.silent_days:
        silent = around.silent_days
        yield "silent_days", thresholds.silent_days, silent, _with(inputs, silent_days=silent)


def _of_circumstances(inputs: Inputs, paths: Sequence[str]) -> Iterator[Change]:
    """Yield what the maintainers could have asked of this repository."""
    around = inputs.circumstances
    if paths:
        touched = tuple(PATTERN + path for path in paths)
        held = replace(inputs, circumstances=replace(around, touched=touched))
        yield "never_fast_paths", None, ", ".join(paths[:3]), held
    if around.tier == "public":
        yield "tier", "public", "sensitive", replace(inputs, circumstances=replace(around, tier="sensitive"))
    odds = around.draw.odds if around.draw else None
    yield "audit", odds, 1.0, replace(inputs, circumstances=replace(around, draw=Draw(True, 1.0)))


def _with(inputs: Inputs, **thresholds: Any) -> Inputs:
    return replace(inputs, thresholds=replace(inputs.thresholds, **thresholds))
