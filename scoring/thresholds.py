"""Settings of the gate: the operator's, and those of a repository's maintainers. Pure data.

Every condition of the fast lane has a name here; the conditions that hold are a setting, and so are their numbers. The
sentences for them are in `scoring.explain.sentences`.
"""

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from scoring.types import Reason, Tier


def items_needed(budget: float, delta: float) -> int:
    """Return how many settled and clean pull requests a certificate needs at least: ceil(ln d / ln(1 - b)).

    With fewer, a false-approval rate above `budget` could still show no bad one with a chance of more than `delta`
    (one-sided Clopper-Pearson bound at no errors). Raises ValueError unless both lie strictly between 0 and 1.
    """
    for name, value in (("budget", budget), ("delta", delta)):
        if not 0 < value < 1:
            raise ValueError(f"{name} must lie between 0 and 1, not {value}")
    # 1e-9 forgives the rounding of the quotient where it is a whole number (.729 at .1 is 3, not 4).
    return max(1, math.ceil(math.log(delta) / math.log1p(-budget) - 1e-9))


MOST_LIFT = 0.02  # the most by which a person alone may raise P(clean) under a serving model
LARGE = 1000  # changed lines with which a change is large: nobody should approve it unread
# The weight from which a peer's word sends a change to a person; a lighter one is only shown.
PEER_WEIGHT = 0.5
# Days for which a signing key must have been declared, and for which a habit of signing looks back: a month, in which
# the owner of a stolen account may notice it.
KEY_DAYS = 30
AWAY_DAYS = 30  # of silence after which another time zone beside another key is worth a look: holidays are shorter

Condition = Literal[
    "certificate",
    "verdict",
    "coverage",
    "newest_round",
    "account_changes",
    "silence",
    "signing",
    "never_fast_paths",
    "enrichment",
    "tier",
    "audit",
]

# All but 'certificate': until one exists an operator's own T_HIGH opens the lane, and every page names it as such.
CONDITIONS: tuple[Condition, ...] = (
    *("verdict", "coverage", "newest_round", "account_changes", "silence", "signing"),
    *("never_fast_paths", "enrichment", "tier", "audit"),
)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The bounds of the lanes, and other conditions of the fast lane. `t_high` None: the fast lane is shut.

    `certified`: a certificate stands behind `t_high`; an operator's own value has none. `budget` is the allowed rate of
    false approvals, `delta` the chance that it is exceeded all the same. `low_certified`: a certificate stands behind
    `t_low`, by which at most `low_budget` of all clean work by people with a record is sent to a person; at a `t_low`
    of 0 a low P(clean) sends nobody. `settled` is how many settled pull requests could count towards a certificate so
    far, None where unknown. `shut` is the reason why an open lane was shut (`scoring.certificates.in_force`).
    `estimated` is the 95 % interval of the share of bad ones where `t_high` is an estimate, of a lane that a maintainer
    opened or could open. `since` is the moment of the certificate, opening or shutting; None where unknown. `trust` is
    the s that the fast lane needs; with `two_ways` no single account but a seed may be able to end that trust. `r_low`
    is the highest content risk of the fast lane, `r_high` the lowest that needs a person. `conditions` are those of
    `scoring.gate.conditions` that hold; for `account_change_days` after a change of an account, and for as long after
    `silent_days` without a sign of its author, a change is not fast-laned. Raises ValueError for NaN, for values
    outside their range, for a `t_high` below `t_low` and for an `r_high` at or below `r_low`.
    """

    t_low: float = 0.30
    t_high: float | None = None
    certified: bool = False
    budget: float = 0.05
    delta: float = 0.05
    settled: int | None = None
    shut: Reason | None = None
    estimated: tuple[float, float] | None = None
    since: datetime | None = None
    low_certified: bool = False
    low_budget: float = 0.05
    trust: float = 0.5
    two_ways: bool = True
    r_low: float = 0.20
    r_high: float = 0.60
    account_change_days: int = 14
    silent_days: int = 90
    conditions: tuple[Condition, ...] = CONDITIONS

    def __post_init__(self) -> None:
        check_unit("T_LOW", self.t_low)
        check_unit("TRUST_FAST_LANE", self.trust)
        check_unit("R_LOW", self.r_low)
        check_unit("R_HIGH", self.r_high)
        if self.r_high <= self.r_low:
            raise ValueError(f"R_HIGH ({self.r_high}) must be above R_LOW ({self.r_low})")
        if self.t_high is not None:
            check_unit("T_HIGH", self.t_high)
            if self.t_high < self.t_low:
                raise ValueError(f"T_HIGH ({self.t_high}) must not be below T_LOW ({self.t_low})")
        if self.account_change_days < 0 or self.silent_days < 1:
            raise ValueError("ACCOUNT_CHANGE_DAYS must be 0 or more and SILENT_DAYS 1 or more")
        if self.estimated is not None:
            for end in self.estimated:
                check_unit("an end of the interval of an estimate", end)
        items_needed(self.budget, self.delta)
        items_needed(self.low_budget, self.delta)


@dataclass(frozen=True, slots=True)
class RepositoryRules:
    """The rules that the maintainers of one watched repository set for it.

    `never_fast_paths` are path patterns (`scoring.diff.globs`) beside those that hold everywhere
    (`scoring.diff.paths.NEVER_FAST`). In the tier 'sensitive' a change needs its author's valid attestation.
    """

    never_fast_paths: tuple[str, ...] = ()
    tier: Tier = "public"


def check_unit(name: str, value: float) -> None:
    """Raise ValueError unless the value is a number in [0, 1]."""
    if not 0 <= value <= 1:  # also true of NaN
        raise ValueError(f"{name} must be a number in [0, 1], not {value}")
