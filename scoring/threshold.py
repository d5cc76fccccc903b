"""The threshold of the fast lane: what a budget of false approvals asks for. Pure."""

import math


def items_needed(budget: float, delta: float) -> int:
    """Settled pull requests, all of them clean, without which no threshold can be certified: ceil(ln d / ln(1 - b)).

    With fewer, a false-approval rate above `budget` would show no bad one with a chance of more than `delta` (one-sided
    Clopper-Pearson bound at no errors). Raises ValueError unless both lie strictly between 0 and 1.
    """
    for name, value in (("budget", budget), ("delta", delta)):
        if not 0 < value < 1:
            raise ValueError(f"{name} must lie between 0 and 1, not {value}")
    # 1e-9 forgives the rounding of the quotient where it is a whole number (.729 at .1 is 3, not 4).
    return max(1, math.ceil(math.log(delta) / math.log1p(-budget) - 1e-9))
