"""Questions about thresholds: `maximum lane share at false-approval rate <= 0.05`. Pure.

The grammar is `maximum|minimum STATISTIC at STATISTIC <=|>= NUMBER`, in any case and with % where that is handier, as
Wikipedia's ORES asks for the thresholds of its models. Nothing else is understood, and nothing is evaluated.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring.learning.lanes import Floats, Judged, lanes_of
from scoring.threshold import effective_counts, upper_bound

LONGEST = 200  # characters of a question


@dataclass(frozen=True, slots=True)
class Table:
    """The lane under each threshold that some score makes, from the strictest to the loosest: columns of one length.

    As in `lanes.Lanes`; `effective` is for how many independent cases each lane stands with authors as clusters. It
    names nobody and no pull request.
    """

    thresholds: Floats
    sizes: Floats
    bad: Floats
    authors: Floats
    effective: Floats

    def __len__(self) -> int:
        return len(self.thresholds)

    @property
    def rates(self) -> Floats:
        """The share of bad ones in each lane."""
        return self.bad / self.sizes

    @property
    def clean(self) -> Floats:
        """How many clean ones are in each lane."""
        return self.sizes - self.bad


def table_of(judged: Judged) -> Table:
    """What questions about these settled cases are answered from; no row without cases."""
    if not len(judged):
        return Table(*(np.zeros(0) for _ in range(5)))
    lanes = lanes_of(judged)
    return Table(lanes.thresholds, lanes.sizes, lanes.bad, lanes.authors.astype(np.float64), effective_counts(lanes))


def _share(part: Floats, whole: Floats | float) -> Floats:
    return part / np.maximum(whole, 1e-12)


STATISTICS: Mapping[str, Callable[[Table, float], Floats]] = {
    "threshold": lambda table, delta: table.thresholds,
    "lane share": lambda table, delta: _share(table.sizes, table.sizes[-1]),
    "false-approval rate": lambda table, delta: table.rates,
    "false-approval bound": lambda table, delta: upper_bound(table.rates * table.effective, table.effective, delta),
    "clean share": lambda table, delta: _share(table.clean, table.clean[-1]),
    "flagged share": lambda table, delta: 1 - _share(table.sizes, table.sizes[-1]),
    "false-alarm rate": lambda table, delta: 1 - _share(table.clean, table.clean[-1]),
    "caught share": lambda table, delta: 1 - _share(table.bad, table.bad[-1]),
    "pull requests": lambda table, delta: table.sizes,
    "authors": lambda table, delta: table.authors,
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
    """The threshold that answers, and every statistic of it.

    Of the lane from it upwards: its share of all, the rate of bad ones, an upper bound of that, and the share of all
    clean ones that are in it. Of what scores lower: its share of all, how much of all clean work is there, and how much
    of all that is bad.
    """

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
            raise QuestionProblem(f"“{name[:50]}” is not a statistic; choose from {', '.join(STATISTICS)}.")
    return Question(words[0], wanted, given, words[-2], _number(words[-1]))


def answer(question: Question, table: Table, delta: float) -> Answer | None:
    """What is asked of these settled cases, None where no threshold fulfils it; bounds hold with 1 - `delta` each.

    One bound holds at its own threshold. Whoever picks the best of many has no such promise: a certificate has.
    """
    if not len(table):
        return None
    within = np.flatnonzero(SIDES[question.side](STATISTICS[question.given](table, delta), question.limit))
    if not len(within):
        return None
    at = within[BEST[question.best](STATISTICS[question.wanted](table, delta)[within])]
    told = {name: float(count(table, delta)[at]) for name, count in STATISTICS.items()}
    return Answer(float(table.thresholds[at]), told)


def _number(word: str) -> float:
    """A number, or one in per cent."""
    try:
        number = float(word.removesuffix("%")) / (100 if word.endswith("%") else 1)
    except ValueError:
        number = float("nan")
    if not abs(number) < float("inf"):  # also true of NaN
        raise QuestionProblem(f"“{word[:50]}” is not a number.")
    return number
