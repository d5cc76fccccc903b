"""Questions about thresholds: `maximum lane share at false-approval rate <= 0.05`. Pure.

The grammar is `maximum|minimum STATISTIC at STATISTIC <=|>= NUMBER`, in any case and with % where that is handier.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring.learning.lanes import Floats, Judged, Lanes, lanes_of
from scoring.threshold import effective_counts, upper_bound

LONGEST = 200  # characters of a question
STATISTICS: Mapping[str, Callable[[Lanes, float], Floats]] = {
    "threshold": lambda lanes, delta: lanes.thresholds,
    "lane share": lambda lanes, delta: lanes.sizes / lanes.sizes[-1],
    "false-approval rate": lambda lanes, delta: lanes.rates,
    "false-approval bound": lambda lanes, delta: upper_bound(
        lanes.rates * effective_counts(lanes), effective_counts(lanes), delta
    ),
    "clean share": lambda lanes, delta: (lanes.sizes - lanes.bad) / max(lanes.sizes[-1] - lanes.bad[-1], 1e-12),
    "pull requests": lambda lanes, delta: lanes.sizes,
    "authors": lambda lanes, delta: lanes.authors.astype(np.float64),
}
BEST: Mapping[str, Callable[[Floats], int]] = {
    "maximum": lambda of: int(np.argmax(of)),
    "minimum": lambda of: int(np.argmin(of)),
}
SIDES: Mapping[str, Callable[[Floats, float], NDArray[np.bool_]]] = {
    "<=": lambda values, limit: values <= limit + 1e-12,
    ">=": lambda values, limit: values >= limit - 1e-12,
}


class QuestionProblem(ValueError):
    """A question that is none; the text is one sentence for a person."""


@dataclass(frozen=True, slots=True)
class Question:
    """`best` ('maximum' or 'minimum') of `wanted` among the thresholds where `given` is on the `side` of `limit`."""

    best: str
    wanted: str
    given: str
    side: str
    limit: float


@dataclass(frozen=True, slots=True)
class Answer:
    """The threshold that answers, and every statistic of its lane."""

    threshold: float
    statistics: Mapping[str, float]


def read_question(text: str) -> Question:
    """The question in these words. Raises QuestionProblem with what would be understood."""
    if len(text) > LONGEST:
        raise QuestionProblem(f"A question has at most {LONGEST} characters.")
    words = text.lower().replace("<=", " <= ").replace(">=", " >= ").split()
    if len(words) < 6 or words[0] not in BEST or words.count("at") != 1 or words[-2] not in SIDES:
        raise QuestionProblem("Ask for example: maximum lane share at false-approval rate <= 0.05")
    at = words.index("at")
    wanted, given = " ".join(words[1:at]), " ".join(words[at + 1 : -2])
    for name in (wanted, given):
        if name not in STATISTICS:
            raise QuestionProblem(f"“{name[:50]}” is no statistic; there are {', '.join(STATISTICS)}.")
    return Question(words[0], wanted, given, words[-2], _number(words[-1]))


def answer(question: Question, judged: Judged, delta: float) -> Answer | None:
    """What is asked of these settled cases, None where no threshold fulfils it; bounds hold with 1 - `delta` each.

    One bound holds at its own threshold. Whoever picks the best of many has no such promise: a certificate has.
    """
    if not len(judged):
        return None
    lanes = lanes_of(judged)
    within = np.flatnonzero(SIDES[question.side](STATISTICS[question.given](lanes, delta), question.limit))
    if not len(within):
        return None
    at = within[BEST[question.best](STATISTICS[question.wanted](lanes, delta)[within])]
    told = {name: float(count(lanes, delta)[at]) for name, count in STATISTICS.items()}
    return Answer(float(lanes.thresholds[at]), told)


def _number(word: str) -> float:
    """A number, or one in per cent."""
    try:
        number = float(word.removesuffix("%")) / (100 if word.endswith("%") else 1)
    except ValueError:
        number = float("nan")
    if not abs(number) < float("inf"):  # also true of NaN
        raise QuestionProblem(f"“{word[:50]}” is no number.")
    return number
