"""What an operator may set about judging, in one value that is passed down."""

from dataclasses import dataclass, field

from scoring.gate import Thresholds
from scoring.trust import Parameters


@dataclass(frozen=True, slots=True)
class Policy:
    """Settings of the judgement; defaults are the measured ones of facts/trust.md §1.2 and facts/numbers.md."""

    parameters: Parameters = field(default_factory=Parameters)
    half_life_days: float = 730.0
    window_days: int = 14
    prior: float = 0.53
    strength: float = 5.0
    thresholds: Thresholds = field(default_factory=Thresholds)
