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
    found = []
    for rule, before, after in _find_rules(inputs, paths):
        verdict = judge_inputs(_tighten(inputs, rule, after, paths))
        if verdict.lane is not Lane.FAST_LANE:
            found.append(TightenedRule(rule, before, after, verdict.reasons[0]))
    return tuple(found)


def holds_too(tightened: TightenedRule, inputs: Inputs, same_paths: Sequence[str] = ()) -> bool:
    """Return whether that rule keeps another change out of the fast lane too.

    `same_paths` are the files that both touch.
    """
    if tightened.rule == "never_fast_paths" and not same_paths:
        return False
    return judge_inputs(_tighten(inputs, tightened.rule, tightened.after, same_paths)).lane is not Lane.FAST_LANE


def _find_rules(inputs: Inputs, paths: Sequence[str]) -> Iterator[tuple[str, Param, Param]]:
    """Yield each rule with its value and a value that may stop this change."""
    yield from _find_figures(inputs)
    yield from _find_account_rules(inputs)
    for name in (*CONDITIONS, "certificate"):
        if name not in inputs.thresholds.conditions:
            yield "condition", None, name
    if paths:
        more = f" and {len(paths) - 3:,} more" if len(paths) > 3 else ""
        yield "never_fast_paths", None, ", ".join(paths[:3]) + more
    if inputs.circumstances.tier == "public":
        yield "tier", "public", "sensitive"
    draw = inputs.circumstances.draw
    yield "audit", draw.odds if draw else None, 1.0


def _find_figures(inputs: Inputs) -> Iterator[tuple[str, Param, Param]]:
    """Yield the bounds of P(clean), content risk and trust, which can move just out of reach."""
    thresholds, trust = inputs.thresholds, inputs.evidence.structural_trust
    probability = judge_inputs(inputs).estimate.probability
    if probability is not None and probability < 1:
        yield "t_high", thresholds.t_high, probability
    if inputs.content is not None and inputs.content.risk > 0:
        yield "r_low", thresholds.r_low, inputs.content.risk
    if trust < 1:
        yield "trust", thresholds.trust, trust
    if not thresholds.two_ways:
        yield "two_ways", None, None


def _find_account_rules(inputs: Inputs) -> Iterator[tuple[str, Param, Param]]:
    """Yield a longer wait after a change of an account, and a shorter silence."""
    thresholds, around = inputs.thresholds, inputs.circumstances
    days = min((change.days for change in around.account_changes or ()), default=None)
    if days is not None:
        yield "account_change_days", thresholds.account_change_days, days + 1
    if around.silent_days:
        yield "silent_days", thresholds.silent_days, around.silent_days


def _tighten(inputs: Inputs, rule: str, after: Any, paths: Sequence[str]) -> Inputs:
    """Return the inputs under the tightened rule; `paths` are those that the maintainers would have listed."""
    around = inputs.circumstances
    match rule:
        case "t_high" | "trust":
            return _with(inputs, **{rule: nextafter(after, 1.0)})
        case "r_low":
            return _with(inputs, r_low=nextafter(after, 0.0))
        case "two_ways":
            return _with(inputs, two_ways=True)
        case "account_change_days" | "silent_days":
            return _with(inputs, **{rule: after})
        case "condition":
            return _with(inputs, conditions=(*inputs.thresholds.conditions, after))
        case "never_fast_paths":
            touched = tuple(PATTERN + path for path in paths)
            return replace(inputs, circumstances=replace(around, touched=touched))
        case "tier":
            return replace(inputs, circumstances=replace(around, tier="sensitive"))
        case _:
            return replace(inputs, circumstances=replace(around, draw=Draw(True, 1.0)))


def _with(inputs: Inputs, **thresholds: Any) -> Inputs:
    return replace(inputs, thresholds=replace(inputs.thresholds, **thresholds))
