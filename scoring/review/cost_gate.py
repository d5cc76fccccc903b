"""The cost gate: decides who reads a change, from the facts before the call. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Literal

from scoring.config.repository import Mode

Reason = Literal[
    "review_off",
    "claude_off",
    "no_key",
    "trusted",
    "trusted_but_sensitive",
    "between_thresholds",
    "below_t_low",
    "fast_lane_shut",
    "over_budget",
    "over_repository_budget",
    "base_elsewhere",
]


class Call(StrEnum):
    """The reader of a change beside the scanners.

    NOBODY: findings count and are shown, without a content verdict. DETERMINISTIC: the findings alone are the verdict.
    SCREEN: the small model first, which may only facts for the full reading. CLAUDE: the full reading. MISSING: a
    reading is wanted and no budget is left, so there is no content verdict.
    """

    NOBODY = "nobody"
    DETERMINISTIC = "deterministic"
    SCREEN = "screen"
    CLAUDE = "claude"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class GateFacts:
    """The facts about one change before any call.

    `structural_trust` in [0, 1] is that of its author from the target repository's seeds, `sensitive` whether the diff
    touches a path that is always read. `spent` and `budget` are dollars of the present day for the whole site,
    `repository_spent` and `repository_budget` for the target repository. `base_stands` is false where the change is
    compared with a commit that is not known to be on the target branch.
    """

    mode: Mode
    structural_trust: float
    sensitive: bool
    has_key: bool
    screens: bool = False
    spent: float = 0.0
    budget: float = 0.0
    repository_spent: float = 0.0
    repository_budget: float = inf
    base_stands: bool = True


def decide(facts: GateFacts, t_low: float | None, t_high: float | None) -> tuple[Call, Reason]:
    """Return the reader and the reason.

    Trust at or above `t_high` makes a reading unnecessary, unless the diff is sensitive; without a `t_high` no trust
    does. Below `t_low` a reading gives a concrete reason; it never raises a change. Raises ValueError for NaN, for
    trust outside [0, 1] and for dollars below zero.
    """
    _check(facts)
    if not facts.base_stands:
        return Call.DETERMINISTIC, "base_elsewhere"
    if facts.mode == "off":
        return Call.NOBODY, "review_off"
    if facts.mode == "deterministic":
        return Call.DETERMINISTIC, "claude_off"
    if not facts.has_key:
        return Call.DETERMINISTIC, "no_key"
    reason = _reason_to_read(facts, t_low, t_high)
    spent_budget = _spent_budget(facts)
    if reason == "trusted":
        return (Call.SCREEN if facts.screens and spent_budget is None else Call.DETERMINISTIC), reason
    return (Call.CLAUDE, reason) if spent_budget is None else (Call.MISSING, spent_budget)


def _spent_budget(facts: GateFacts) -> Reason | None:
    """Return the reason of the budget that is used up; None if both have dollars left."""
    if facts.repository_spent >= facts.repository_budget:
        return "over_repository_budget"
    return "over_budget" if facts.spent >= facts.budget else None


def _reason_to_read(facts: GateFacts, t_low: float | None, t_high: float | None) -> Reason:
    if t_high is not None and facts.structural_trust >= t_high:
        return "trusted_but_sensitive" if facts.sensitive else "trusted"
    if t_low is not None and facts.structural_trust < t_low:
        return "below_t_low"
    return "fast_lane_shut" if t_high is None else "between_thresholds"


def _check(facts: GateFacts) -> None:
    if not 0 <= facts.structural_trust <= 1:  # also true of NaN
        raise ValueError(f"structural trust must be a number in [0, 1], not {facts.structural_trust}")
    dollars = (facts.spent, facts.budget, facts.repository_spent, facts.repository_budget)
    if not all(amount >= 0 for amount in dollars):
        raise ValueError(f"dollars must be numbers from 0 up, not {', '.join(map(str, dollars))}")
