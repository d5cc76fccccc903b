"""The cost gate: whether a model is asked about a change, and why. A pure function of what is known before the call."""

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
    """The reader of a change besides the scanners.

    NOBODY: the findings count and are shown, and nobody gives a content verdict. DETERMINISTIC: the findings alone are
    the verdict. SCREEN: the small model first, which may only ask for the full reading. CLAUDE: the full reading.
    MISSING: it was asked for and cannot be paid, so there is no content verdict.
    """

    NOBODY = "nobody"
    DETERMINISTIC = "deterministic"
    SCREEN = "screen"
    CLAUDE = "claude"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Ask:
    """The facts known of one change before any call.

    `structural_trust` in [0, 1] is that of its author from the target repository's seeds, `sensitive` whether the diff
    touches a path that is always read. `spent` and `budget` are dollars of the present day for the whole site,
    `repository_spent` and `repository_budget` for the target repository. `base_stands` is false where the change is
    told from a commit that is not known to be on the target branch.
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


def decide(ask: Ask, t_low: float | None, t_high: float | None) -> tuple[Call, Reason]:
    """Return who reads, and the reason.

    Trust at or above `t_high` spares the reading, unless the diff is sensitive; without a `t_high` no trust does. Below
    `t_low` the reading gives a concrete reason; it never lifts anybody. Raises ValueError for NaN, for trust outside
    [0, 1] and for dollars below zero.
    """
    _check(ask)
    if not ask.base_stands:
        return Call.DETERMINISTIC, "base_elsewhere"
    if ask.mode == "off":
        return Call.NOBODY, "review_off"
    if ask.mode == "deterministic":
        return Call.DETERMINISTIC, "claude_off"
    if not ask.has_key:
        return Call.DETERMINISTIC, "no_key"
    reason = _reason_to_read(ask, t_low, t_high)
    spent_budget = _spent_budget(ask)
    if reason == "trusted":
        return (Call.SCREEN if ask.screens and spent_budget is None else Call.DETERMINISTIC), reason
    return (Call.CLAUDE, reason) if spent_budget is None else (Call.MISSING, spent_budget)


def _spent_budget(ask: Ask) -> Reason | None:
    """Name the budget that has no dollars left; None where both have some."""
    if ask.repository_spent >= ask.repository_budget:
        return "over_repository_budget"
    return "over_budget" if ask.spent >= ask.budget else None


def _reason_to_read(ask: Ask, t_low: float | None, t_high: float | None) -> Reason:
    if t_high is not None and ask.structural_trust >= t_high:
        return "trusted_but_sensitive" if ask.sensitive else "trusted"
    if t_low is not None and ask.structural_trust < t_low:
        return "below_t_low"
    return "fast_lane_shut" if t_high is None else "between_thresholds"


def _check(ask: Ask) -> None:
    if not 0 <= ask.structural_trust <= 1:  # also true of NaN
        raise ValueError(f"structural trust must be a number in [0, 1], not {ask.structural_trust}")
    dollars = (ask.spent, ask.budget, ask.repository_spent, ask.repository_budget)
    if not all(amount >= 0 for amount in dollars):
        raise ValueError(f"dollars must be numbers from 0 up, not {', '.join(map(str, dollars))}")
