"""The table behind questions about thresholds, as a file beside its model: whoever has it needs no training."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np

from ingest.decoding import decode_json
from ingest.durable import write_whole
from scoring.lane_offer import STEP
from scoring.learning.certificate import Digest, Label, Moment, Unit, Weight
from scoring.learning.lane_statistics import Question, QuestionProblem, Table, answer, read_question
from scoring.learning.lanes import STEPS
from scoring.learning.pointers import ModelProblem, serving_name
from scoring.serving import LABEL

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


def keep_table(folder: Path, kept: Kept) -> Path:
    """Write a table beside its model."""
    path = folder / f"{kept.model}{ENDING}"
    write_whole(path, msgspec.json.encode(kept, order="sorted"))
    return path


def read_table(folder: Path, model: str) -> Kept:
    """The table of a model. Raises QuestionProblem where there is none that can be read."""
    try:
        with (folder / f"{model}{ENDING}").open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as problem:
        raise QuestionProblem("The model that serves has no table of thresholds: train again.") from problem
    try:
        kept = decode_json(data if len(data) <= LARGEST else b"", Kept)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise QuestionProblem("The table of thresholds cannot be read: train again.") from problem
    if kept.model != model or len({len(getattr(kept, name)) for name in Table.__dataclass_fields__}) != 1:
        raise QuestionProblem("The table of thresholds is not that of the model that serves: train again.")
    return kept


def answer_query(folder: Path, query: str, delta: float) -> Told:
    """What the table of the model that serves answers; bounds hold with 1 - `delta` each.

    Raises QuestionProblem, in one sentence, for what is no question and where there is nothing to answer from.
    """
    question = read_question(query)
    try:
        model = serving_name(folder, LABEL)
    except ModelProblem as problem:
        raise QuestionProblem(f"No model serves: {problem}.") from problem
    if model is None:
        raise QuestionProblem("No model serves yet, so nothing was scored at opening: train one first.")
    return _told(question, read_table(folder, model), delta)


def _told(question: Question, kept: Kept, delta: float) -> Told:
    table = Table(*(np.array(getattr(kept, name), dtype=np.float64) for name in Table.__dataclass_fields__))
    found = answer(question, table, delta)
    threshold, statistics = (found.threshold, found.statistics) if found else (None, {})
    asked = f"{question.best} {question.wanted} at {question.given} {question.side} {question.limit:g}"
    total = kept.sizes[-1] if kept.sizes else 0.0
    return Told(asked, threshold, statistics, kept.model, kept.label, kept.window, total, delta)
