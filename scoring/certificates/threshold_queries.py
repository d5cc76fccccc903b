"""Answers questions about thresholds, `maximum lane share at false-approval rate <= 0.05`, from a table. Pure.

The grammar is `maximum|minimum STATISTIC at STATISTIC <=|>= NUMBER`, in any case and with % where that is handier, as
Wikipedia's ORES asks for the thresholds of its models. Nothing else is understood, and nothing is evaluated.

The table is a file beside its model: whoever has it needs no training.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from ingest.files import write_whole
from ingest.json_decoding import decode_json
from scoring.certificates.certificate import Digest, Label, Moment, Unit, Weight
from scoring.certificates.lane_counts import STEPS, Floats, Judged, lanes_of
from scoring.certificates.lane_offer import STEP
from scoring.certificates.threshold import effective_counts, upper_bound
from scoring.models.serving import LABEL
from scoring.models.storage import ModelProblem, serving_name

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
        """Return how many clean ones are in each lane."""
        return self.sizes - self.bad


def table_of(judged: Judged) -> Table:
    """Return what questions about these settled cases are answered from; no row without cases."""
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
    wanted_name, given_name = " ".join(words[1:at]), " ".join(words[at + 1 : -2])
    for name in (wanted_name, given_name):
        if name not in STATISTICS:
            raise QuestionProblem(f"“{name[:50]}” is not a statistic; choose from {', '.join(STATISTICS)}.")
    return Question(words[0], wanted_name, given_name, words[-2], _parse_number(words[-1]))


def answer(question: Question, table: Table, delta: float) -> Answer | None:
    """Return what is asked of these settled cases, None where no threshold fulfils it.

    Bounds hold with 1 - `delta` each.

    One bound holds at its own threshold. Whoever picks the best of many has no such promise: a certificate has.
    """
    if not len(table):
        return None
    within = np.flatnonzero(SIDES[question.side](STATISTICS[question.given](table, delta), question.limit))
    if not len(within):
        return None
    row = within[BEST[question.best](STATISTICS[question.wanted](table, delta)[within])]
    statistics = {name: float(count(table, delta)[row]) for name, count in STATISTICS.items()}
    return Answer(float(table.thresholds[row]), statistics)


def _parse_number(word: str) -> float:
    """A number, or one in per cent."""
    try:
        number = float(word.removesuffix("%")) / (100 if word.endswith("%") else 1)
    except ValueError:
        number = float("nan")
    if not abs(number) < float("inf"):  # also true of NaN
        raise QuestionProblem(f"“{word[:50]}” is not a number.")
    return number


ENDING = ".lanes.json"
LARGEST = 4 * 1024 * 1024  # bytes of a file that is read; 10,001 thresholds need some 600 KB
Columns = Annotated[tuple[Weight, ...], msgspec.Meta(max_length=STEPS + 1)]


Counted = Annotated[tuple[Weight, ...], msgspec.Meta(min_length=STEP + 1, max_length=STEP + 1)]


class KeptGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `lane_offer.Group` as a file holds it."""

    cases: Weight
    let_through: Counted
    bad: Counted


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table as its file holds it: of which model, by which label, and of what was opened between which moments."""

    form: Literal["sunstead-lanes/1"]
    model: Digest
    label: Label
    window: tuple[Moment, Moment]
    thresholds: Annotated[tuple[Unit, ...], msgspec.Meta(max_length=STEPS + 1)]
    sizes: Columns
    bad: Columns
    authors: Columns
    effective: Columns
    newcomers: KeptGroup | None = None
    everybody: KeptGroup | None = None


class Told(msgspec.Struct, frozen=True):
    """The answer to a question, for a person or a program.

    `threshold` is None, and `statistics` empty, where no threshold fulfils what was asked. `pull_requests` is how many
    settled ones it was answered from (weights), without push-holders' own. `delta` is the chance that one bound is
    exceeded. Picking the best of many thresholds has no promise: a certificate has.
    """

    query: str
    threshold: float | None
    statistics: Mapping[str, float]
    model: str
    label: str
    window: tuple[datetime, datetime]
    pull_requests: float
    delta: float


def keep_table(folder: Path, stored: Kept) -> Path:
    """Write a table beside its model."""
    path = folder / f"{stored.model}{ENDING}"
    write_whole(path, msgspec.json.encode(stored, order="sorted"))
    return path


def read_table(folder: Path, model: str) -> Kept:
    """The table of a model. Raises QuestionProblem where there is none that can be read."""
    try:
        with (folder / f"{model}{ENDING}").open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as problem:
        raise QuestionProblem("The model that serves has no table of thresholds: train again.") from problem
    try:
        stored = decode_json(data if len(data) <= LARGEST else b"", Kept)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise QuestionProblem("The table of thresholds cannot be read: train again.") from problem
    if stored.model != model or len({len(getattr(stored, name)) for name in Table.__dataclass_fields__}) != 1:
        raise QuestionProblem("The table of thresholds is not that of the model that serves: train again.")
    return stored


def answer_query(folder: Path, query: str, delta: float) -> Told:
    """Return what the table of the model that serves answers; bounds hold with 1 - `delta` each.

    Raises QuestionProblem, in one sentence, for what is no question and where there is nothing to answer from.
    """
    question = read_question(query)
    try:
        model = serving_name(folder, LABEL)
    except ModelProblem as problem:
        raise QuestionProblem(f"No model serves: {problem}.") from problem
    if model is None:
        raise QuestionProblem("No model serves yet, so nothing was scored at opening: train one first.")
    return _answer_from(question, read_table(folder, model), delta)


def _answer_from(question: Question, stored: Kept, delta: float) -> Told:
    table = Table(*(np.array(getattr(stored, name), dtype=np.float64) for name in Table.__dataclass_fields__))
    best = answer(question, table, delta)
    threshold, statistics = (best.threshold, best.statistics) if best else (None, {})
    query = f"{question.best} {question.wanted} at {question.given} {question.side} {question.limit:g}"
    total = stored.sizes[-1] if stored.sizes else 0.0
    return Told(query, threshold, statistics, stored.model, stored.label, stored.window, total, delta)
