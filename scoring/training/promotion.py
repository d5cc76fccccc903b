"""Chooses the model that serves: the simplest one that no other beats, by one rule for all kinds of models. Pure.

A more complex model replaces a simpler one only if all of this holds on the temporal validation slice: its log-loss is
lower (the lower 95 % bound of a paired bootstrap over authors is above 0), its ranking is stable over seeds, and nobody
can raise their own probability alone, which this module measures too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.formatting import bad_bound
from scoring.models.base import Floats
from scoring.thresholds import MOST_LIFT
from scoring.training.metrics import auc, interval, log_losses, mean_of

FEWEST_CASES, FEWEST_AUTHORS = 200, 30
MOST_SPREAD = 0.01  # standard deviation of the AUC over seeds
LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)  # quantiles of the values of others
ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model on the validation slice.

    `predicted` are its calibrated probabilities there, `seeds` its AUC by seed (empty for a deterministic model),
    `self_lift` the most by which anybody raised their own P alone.
    """

    name: str
    predicted: Floats
    seeds: tuple[float, ...] = ()
    self_lift: float = 0.0


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate compared with the serving model; `why` is one sentence, gains are in log-loss."""

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
    """The model that serves, and all trials in their order."""

    serves: str
    n: int
    authors: int
    trials: tuple[Trial, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def decide(
    candidates: Sequence[Candidate], observed: Floats, authors: NDArray[np.int64], draws: int = 2000, seed: int = 0
) -> Decision:
    """Try the candidates from the simplest on; the first serves until another beats it.

    `observed` is 1 clean and 0 not, for the n cases of the slice. Raises ValueError without candidates.
    """
    if not candidates:
        raise ValueError("there is no model to choose from")
    people = len(np.unique(authors))
    serving, trials = candidates[0], [_trial_of_first(candidates[0], observed)]
    for candidate in candidates[1:]:
        trial = _try_candidate(candidate, serving, observed, authors, people, draws, seed)
        trials.append(trial)
        serving = candidate if trial.promoted else serving
    return Decision(serving.name, len(observed), people, tuple(trials))


def _trial_of_first(candidate: Candidate, observed: Floats) -> Trial:
    loss, order = _loss_and_auc(candidate.predicted, observed)
    return Trial(
        candidate.name, loss, order, None, None, None, None, candidate.self_lift, True, "It is the simplest model."
    )


def _try_candidate(
    candidate: Candidate,
    serving: Candidate,
    observed: Floats,
    authors: NDArray[np.int64],
    people: int,
    draws: int,
    seed: int,
) -> Trial:
    loss, order = _loss_and_auc(candidate.predicted, observed)
    spread = float(np.std(candidate.seeds, ddof=1)) if len(candidate.seeds) > 1 else None
    gain = low = high = None
    if len(observed):
        gains = log_losses(serving.predicted, observed) - log_losses(candidate.predicted, observed)
        gain, (low, high) = float(gains.mean()), interval(mean_of(gains), authors, draws, seed)
    objection = _objection(candidate, serving, len(observed), people, low, spread)
    return Trial(
        candidate.name,
        loss,
        order,
        gain,
        low,
        high,
        spread,
        candidate.self_lift,
        not objection,
        objection or f"It beats {serving.name}.",
    )


def _objection(
    candidate: Candidate, serving: Candidate, n: int, people: int, low: float | None, spread: float | None
) -> str:
    """Return why the candidate does not replace the serving model; "" if it does."""
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
        return f"A contributor can lift their own chance by {bad_bound(candidate.self_lift)}."
    return ""


def _loss_and_auc(predicted: Floats, observed: Floats) -> tuple[float | None, float | None]:
    if not len(observed):
        return None, None
    ranking = auc(predicted, observed)
    return float(log_losses(predicted, observed).mean()), None if np.isnan(ranking) else ranking


def largest_lift(
    probability: Callable[[Mapping[str, Floats]], Floats],
    features: Mapping[str, Floats],
    alone: Sequence[str],
    without: Floats | None = None,
) -> float:
    """Return the largest gain of any of n rows when its `alone` columns take the best seen value or become unknown.

    Columns are tried one after the other, ROUNDS times; each row keeps a value that raises it. 0 if nobody gains.
    `without` are the probabilities without those columns: a model that they only lower never gives more.
    """
    moved_features = dict(features)
    best = probability(moved_features)
    start = best if without is None else np.maximum(best, without)
    for _ in range(ROUNDS):
        for name in (name for name in alone if name in features):
            for value in _values_to_try(features[name]):
                trial = {**moved_features, name: np.full(len(start), value)}
                predicted = probability(trial)
                better = predicted > best + 1e-12
                moved_features = {**moved_features, name: np.where(better, value, moved_features[name])}
                best = np.maximum(best, predicted)
    return float((best - start).max(initial=0.0))


def _values_to_try(column: Floats) -> list[float]:
    finite = column[np.isfinite(column)]
    return [*(np.unique(np.quantile(finite, LEVELS)).tolist() if len(finite) else []), float("nan")]
