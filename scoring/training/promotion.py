"""Chooses the model that serves: the simplest one that is not beaten. One rule for every kind of model. Pure.

A more complex model takes the place of a simpler one only where all of this holds on the temporal validation slice: its
log-loss is lower (the lower 95 % bound of a paired bootstrap over authors lies above 0), its order of people is stable
over seeds, and nobody lifts their own probability by what they can do alone.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.formatting import bad_percent
from scoring.models.base import Floats
from scoring.thresholds import MOST_LIFT
from scoring.training.metrics import auc, interval, log_losses, mean_of

FEWEST_CASES, FEWEST_AUTHORS = 200, 30
MOST_SPREAD = 0.01  # standard deviation of the AUC over seeds


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model on the validation slice: `told` are its calibrated probabilities there, `seeds` its AUC with each seed
    (none for a model without chance), `self_lift` the most that anybody raised P by what they can do alone."""

    name: str
    told: Floats
    seeds: tuple[float, ...] = ()
    self_lift: float = 0.0


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate compared with the model that served; `why` is one sentence. Gains are of log-loss."""

    name: str
    log_loss: float | None
    auc: float | None
    gain: float | None
    gain_low: float | None
    gain_high: float | None
    seed_spread: float | None
    self_lift: float
    promoted: bool
    why: str


@dataclass(frozen=True, slots=True)
class Decision:
    """The model that serves, and every trial in the order in which they were held."""

    serves: str
    n: int
    authors: int
    trials: tuple[Trial, ...]

    def as_dict(self) -> dict[str, Any]:
        """The decision as JSON holds it."""
        return asdict(self)


def decide(
    candidates: Sequence[Candidate], came: Floats, authors: NDArray[np.int64], draws: int = 2000, seed: int = 0
) -> Decision:
    """Try the candidates from the simplest on; the first serves until another beats it.

    `came` is 1 clean and 0 not, for the n cases of the slice. Raises ValueError for no candidates.
    """
    if not candidates:
        raise ValueError("there is no model to choose from")
    people = len(np.unique(authors))
    serving, trials = candidates[0], [_first(candidates[0], came)]
    for candidate in candidates[1:]:
        trial = _try(candidate, serving, came, authors, people, draws, seed)
        trials.append(trial)
        serving = candidate if trial.promoted else serving
    return Decision(serving.name, len(came), people, tuple(trials))


def _first(candidate: Candidate, came: Floats) -> Trial:
    loss, order = _level(candidate.told, came)
    return Trial(
        candidate.name, loss, order, None, None, None, None, candidate.self_lift, True, "It is the simplest model."
    )


def _try(
    candidate: Candidate,
    serving: Candidate,
    came: Floats,
    authors: NDArray[np.int64],
    people: int,
    draws: int,
    seed: int,
) -> Trial:
    loss, order = _level(candidate.told, came)
    spread = float(np.std(candidate.seeds, ddof=1)) if len(candidate.seeds) > 1 else None
    gain = low = high = None
    if len(came):
        gains = log_losses(serving.told, came) - log_losses(candidate.told, came)
        gain, (low, high) = float(gains.mean()), interval(mean_of(gains), authors, draws, seed)
    why = _objection(candidate, serving, len(came), people, low, spread)
    return Trial(
        candidate.name,
        loss,
        order,
        gain,
        low,
        high,
        spread,
        candidate.self_lift,
        not why,
        why or f"It beats {serving.name}.",
    )


def _objection(
    candidate: Candidate, serving: Candidate, n: int, people: int, low: float | None, spread: float | None
) -> str:
    """Return why the candidate does not take the place of what serves; "" where it does."""
    if n < FEWEST_CASES or people < FEWEST_AUTHORS:
        return (
            f"{n:,} settled cases by {people:,} authors are too few to compare on: "
            f"{FEWEST_CASES} by {FEWEST_AUTHORS} are needed."
        )
    if low is None or not low > 0:
        return f"It does not beat {serving.name} for sure."
    if spread is not None and spread > MOST_SPREAD:
        return f"Its AUC differs by {spread:.3f} from seed to seed."
    if candidate.self_lift > MOST_LIFT:
        return f"A contributor can lift their own chance by {bad_percent(candidate.self_lift)}."
    return ""


def _level(told: Floats, came: Floats) -> tuple[float | None, float | None]:
    if not len(came):
        return None, None
    order = auc(told, came)
    return float(log_losses(told, came).mean()), None if np.isnan(order) else order
