"""Answers questions about thresholds, `maximum lane share at false-approval rate <= 0.05`, from a table. Pure.

The grammar is `maximum|minimum STATISTIC at STATISTIC <=|>= NUMBER`, in upper or lower case, with an optional % after
the number, as in Wikipedia's ORES. Any other text is refused, and nothing is evaluated.

The table is a file beside its model.
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
from scoring.certificates.lane_counts import STEP, STEPS, Floats, ScoredCases, count_lanes
from scoring.certificates.threshold import effective_counts, upper_bound
from scoring.models.serving import LABEL
from scoring.models.storage import ModelProblem, serving_name

QUESTION_LENGTH = 200  # characters of a question


@dataclass(frozen=True, slots=True)
class Table:
    """The lane under each threshold that some score makes, from the strictest to the loosest: columns of one length.

    Columns are those of `lane_counts.Lanes`; `effective` is the effective number of independent cases with authors as
    clusters. It names no person and no pull request.
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
        return self.bad / self.sizes

    @property
    def clean(self) -> Floats:
        return self.sizes - self.bad


def table_of(judged: ScoredCases) -> Table:
    if not len(judged):
        return Table(*(np.zeros(0) for _ in range(5)))
    lanes = count_lanes(judged)
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
    """A question that cannot be answered; the text is one sentence for a person."""


@dataclass(frozen=True, slots=True)
class Question:
    """The `best` ('maximum' or 'minimum') of `wanted` among thresholds with `given` on this `side` of `limit`."""

    best: str
    wanted: str
    given: str
    side: str
    limit: float


@dataclass(frozen=True, slots=True)
class BestThreshold:
    """The threshold that answers a question, with all its statistics.

    For the lane from it upwards: its share of all cases, the rate of bad ones, an upper bound of the rate, and its
    share of all clean ones. For lower scores: their share of all cases, of all clean ones, and of all bad ones.
    """

    threshold: float
    statistics: Mapping[str, float]


def read_question(text: str) -> Question:
    """Parse a question. Raises QuestionProblem with an example of a valid one."""
    if len(text) > QUESTION_LENGTH:
        raise QuestionProblem(f"A question has at most {QUESTION_LENGTH} characters.")
    words = text.lower().replace("<=", " <= ").replace(">=", " >= ").split()
    if len(words) < 6 or words[0] not in BEST or words.count("at") != 1 or words[-2] not in SIDES:
        raise QuestionProblem("Ask for example: maximum lane share at false-approval rate <= 0.05")
    at = words.index("at")
    wanted_name, given_name = " ".join(words[1:at]), " ".join(words[at + 1 : -2])
    for name in (wanted_name, given_name):
        if name not in STATISTICS:
            raise QuestionProblem(f"“{name[:50]}” is not a statistic; choose from {', '.join(STATISTICS)}.")
    return Question(words[0], wanted_name, given_name, words[-2], _parse_number(words[-1]))


def find_best(question: Question, table: Table, delta: float) -> BestThreshold | None:
    """Return the best threshold of a table, None if no threshold meets the condition.

    Each bound holds with confidence 1 - `delta` at its own threshold alone. The best of many has no such promise; a
    certificate has.
    """
    if not len(table):
        return None
    within = np.flatnonzero(SIDES[question.side](STATISTICS[question.given](table, delta), question.limit))
    if not len(within):
        return None
    row = within[BEST[question.best](STATISTICS[question.wanted](table, delta)[within])]
    statistics = {name: float(count(table, delta)[row]) for name, count in STATISTICS.items()}
    return BestThreshold(float(table.thresholds[row]), statistics)


def _parse_number(word: str) -> float:
    try:
        number = float(word.removesuffix("%")) / (100 if word.endswith("%") else 1)
    except ValueError:
        number = float("nan")
    if not abs(number) < float("inf"):  # also true of NaN
        raise QuestionProblem(f"“{word[:50]}” is not a number.")
    return number


ENDING = ".lanes.json"
FILE_LIMIT = 4 * 1024 * 1024  # bytes of a file that is read; 10,001 thresholds need some 600 KB
Columns = Annotated[tuple[Weight, ...], msgspec.Meta(max_length=STEPS + 1)]


GroupColumn = Annotated[tuple[Weight, ...], msgspec.Meta(min_length=STEP + 1, max_length=STEP + 1)]


class StoredGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `lane_counts.Group` as a file stores it."""

    cases: Weight
    let_through: GroupColumn
    bad: GroupColumn


class StoredTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table as its file stores it, with its model, its label and the window of its cases."""

    form: Literal["sunstead-lanes/1"]
    model: Digest
    label: Label
    window: tuple[Moment, Moment]
    thresholds: Annotated[tuple[Unit, ...], msgspec.Meta(max_length=STEPS + 1)]
    sizes: Columns
    bad: Columns
    authors: Columns
    effective: Columns
    newcomers: StoredGroup | None = None
    everybody: StoredGroup | None = None


class QueryAnswer(msgspec.Struct, frozen=True):
    """The answer to a question, for a person or a program.

    `threshold` is None, and `statistics` empty, if no threshold meets the condition. `pull_requests` counts the settled
    cases behind it (weights), without push-holders' own. `delta` is the chance that one bound is exceeded. The best of
    many thresholds has no promise; a certificate has.
    """

    query: str
    threshold: float | None
    statistics: Mapping[str, float]
    model: str
    label: str
    window: tuple[datetime, datetime]
    pull_requests: float
    delta: float


def write_table(folder: Path, stored: StoredTable) -> Path:
    path = folder / f"{stored.model}{ENDING}"
    write_whole(path, msgspec.json.encode(stored, order="sorted"))
    return path


def read_table(folder: Path, model: str) -> StoredTable:
    """Read the table of a model. Raises QuestionProblem without a readable one."""
    try:
        with (folder / f"{model}{ENDING}").open("rb") as file:
            data = file.read(FILE_LIMIT + 1)
    except OSError as problem:
        raise QuestionProblem("The model that serves has no table of thresholds: train again.") from problem
    try:
        stored = decode_json(data if len(data) <= FILE_LIMIT else b"", StoredTable)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise QuestionProblem("The table of thresholds cannot be read: train again.") from problem
    if stored.model != model or len({len(getattr(stored, name)) for name in Table.__dataclass_fields__}) != 1:
        raise QuestionProblem("The table of thresholds is not that of the model that serves: train again.")
    return stored


def answer_query(folder: Path, query: str, delta: float) -> QueryAnswer:
    """Answer a question from the serving model's table; each bound holds with confidence 1 - `delta`.

    Raises QuestionProblem for a malformed question and without a table.
    """
    question = read_question(query)
    try:
        model = serving_name(folder, LABEL)
    except ModelProblem as problem:
        raise QuestionProblem(f"No model serves: {problem}.") from problem
    if model is None:
        raise QuestionProblem("No model serves yet, so nothing was scored at opening: train one first.")
    return _answer_from(question, read_table(folder, model), delta)


def _answer_from(question: Question, stored: StoredTable, delta: float) -> QueryAnswer:
    table = Table(*(np.array(getattr(stored, name), dtype=np.float64) for name in Table.__dataclass_fields__))
    best = find_best(question, table, delta)
    threshold, statistics = (best.threshold, best.statistics) if best else (None, {})
    query = f"{question.best} {question.wanted} at {question.given} {question.side} {question.limit:g}"
    total = stored.sizes[-1] if stored.sizes else 0.0
    return QueryAnswer(query, threshold, statistics, stored.model, stored.label, stored.window, total, delta)
