"""Computes P(clean) as a clean rate shrunk towards the prior, and makes the models that replace it. Pure.

Libraries that learn are imported where they are used: the gate needs only the rate.
"""

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from scoring.models.base import FitProblem
from scoring.models.estimators import Blended, Boosted, Logistic, Lowered, ShrunkRate, without_alone
from scoring.types import Estimate, Evidence, Factor

if TYPE_CHECKING:
    from scoring.dataset.cases import Directions
    from scoring.models.base import Estimator

SHRUNK_RATE = "shrunk-rate-1"  # the model that needs no training


@lru_cache(maxsize=65_536)  # the same few counts occur for thousands of people
def shrunk_rate(clean: int, not_clean: int, prior: float, strength: float) -> Estimate:
    """Return mean and central 95 % interval of Beta(prior * strength + clean, (1 - prior) * strength + not_clean).

    The mean of a very skewed distribution lies outside its central interval, which is then widened to hold it.
    Without a settled pull request the probability is None ("not enough evidence"); the interval then describes the
    prior. Raises ValueError for a negative count, a prior outside (0, 1) or a strength that is not above 0.
    """
    from scipy.special import betaincinv  # takes .15 s, which commands that judge nobody save

    mean = _mean(clean, not_clean, prior, strength)
    a, b = prior * strength + clean, (1 - prior) * strength + not_clean
    low, high = float(betaincinv(a, b, 0.025)), float(betaincinv(a, b, 0.975))
    cases = clean + not_clean
    return Estimate(mean if cases else None, min(low, mean), max(high, mean), cases)


def factors(evidence: Evidence, prior: float, strength: float) -> tuple[Factor, ...]:
    """Return the factors of P(clean): first the two counts with their effects, then facts that are only shown.

    The effects sum to P - prior; they are the Shapley values of the clean and the not clean count, which do not depend
    on the order of the two. The larger effect comes first.
    """
    clean, not_clean = evidence.clean, evidence.not_clean
    total = _mean(clean, not_clean, prior, strength) - prior
    clean_alone = _mean(clean, 0, prior, strength) - prior
    not_clean_alone = _mean(0, not_clean, prior, strength) - prior
    raised = (clean_alone + total - not_clean_alone) / 2
    moving = [Factor("clean", clean, raised), Factor("not_clean", not_clean, total - raised)]
    return (
        *sorted(moving, key=lambda factor: -abs(factor.effect or 0.0)),
        Factor("structural_trust", evidence.structural_trust, None),
        Factor("eigentrust", evidence.eigentrust, None),
        Factor("distance", evidence.distance, None),
        Factor("waiting", evidence.waiting, None),
        Factor("trusted_denouncers", evidence.trusted_denouncers, None),
    )


def clean_needed(evidence: Evidence, prior: float, strength: float, target: float) -> int | None:
    """Return how many more clean contributions alone bring the shrunk rate to `target`, 0 where it is reached.

    None for a target of 1 or more, which no number reaches.
    """
    if target >= 1:
        return None
    clean, not_clean = evidence.clean, evidence.not_clean
    missing = target * (strength + clean + not_clean) - prior * strength - clean
    more = max(0, math.ceil(missing / (1 - target)))
    while more and _mean(clean + more - 1, not_clean, prior, strength) >= target:  # rounding can cost one
        more -= 1
    while _mean(clean + more, not_clean, prior, strength) < target:
        more += 1
    return more


def _mean(clean: int, not_clean: int, prior: float, strength: float) -> float:
    """Return the shrunk clean rate; ValueError for numbers that give no Beta distribution."""
    if clean < 0 or not_clean < 0:
        raise ValueError(f"counts must be 0 or more, not {clean} and {not_clean}")
    if not 0 < prior < 1:
        raise ValueError(f"the prior clean rate must lie between 0 and 1, not {prior}")
    if not 0 < strength < float("inf"):
        raise ValueError(f"the strength of the prior must be above 0, not {strength}")
    cases = clean + not_clean
    return prior + (clean - prior * cases) / (strength + cases)  # exactly the prior where there are no cases


NAMES = ("beta", "logistic", "lightgbm", "blend")  # the simplest first: promotion tries them in this order


def make_estimator(
    name: str, directions: "Directions", seed: int = 0, alone: tuple[str, ...] = (), rounds: int | None = None
) -> "Estimator":
    """Make an estimator to be fitted, by one of NAMES. `directions` name its columns (the shrunk rate has its own two).

    Columns that a person moves `alone` can only lower P(clean). `rounds` fixes the number of trees.
    """
    if name == "blend":
        return Blended(*(make_estimator(part, directions, seed, alone, rounds) for part in ("logistic", "lightgbm")))
    if name != "beta" and any(column in directions for column in alone):
        less = make_estimator(name, without_alone(directions, alone), seed, rounds=rounds)
        return Lowered(less, make_estimator(name, directions, seed, rounds=rounds))

    makers: dict[str, Callable[[], Estimator]] = {
        "beta": ShrunkRate,
        "logistic": lambda: Logistic(directions),
        "lightgbm": lambda: Boosted(directions, rounds=rounds, seed=seed),
    }
    return makers[name]()


def estimator_from_dict(stored: Mapping[str, Any]) -> "Estimator":
    """Read a fitted estimator that `as_dict` returned. Raises FitProblem for anything else."""
    kinds: dict[object, Callable[[Mapping[str, Any]], Estimator]] = {
        "beta": ShrunkRate.from_dict,
        "logistic": Logistic.from_dict,
        "lightgbm": Boosted.from_dict,
        "blend": lambda both: Blended(estimator_from_dict(both["line"]), estimator_from_dict(both["trees"])),
        "lowered": lambda both: Lowered(estimator_from_dict(both["without"]), estimator_from_dict(both["whole"])),
    }
    try:
        return kinds[stored["name"]](stored)
    except FitProblem:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise FitProblem("the kept model cannot be read") from problem
