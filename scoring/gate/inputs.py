"""All that a decision on a pull request is made from, as one value that is kept beside it and can be judged again."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec

from ingest.json_decoding import decode_json
from scoring.gate.decide import judge_change
from scoring.thresholds import Thresholds
from scoring.types import Circumstances, Content, Evidence, Measure, Prediction, Verdict

NOTABLE = 0.005  # a smaller change of a figure alone, as vouches age, is no event worth a row
# Until they had numbers, rules were named by a hash of their sources: those of version 1 had these names. Stored
# decisions keep what they were written with, since a decision's id is a hash of its inputs.
NUMBERED = {"27687f2edd8ccd78": "1", "1beeb51dfe147950": "1"}
# Told, and no reason to decide anew by itself: how many pull requests settled, which would touch all open ones, and the
# shares of a model's P(clean) and what would raise it, which move with every day that passes.
TOLD = frozenset({"settled", "factors", "ways"})


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of a decision on one change: its facts, the thresholds and rules, and where those came from.

    `content` is None while nobody has reviewed the change; `prior` and `strength` are those of the shrunk rate, and
    `prediction` what a trained model said in its place. A field that later rules add has a default, so that every
    stored row can be read.
    """

    evidence: Evidence
    content: Content | None
    thresholds: Thresholds
    prior: float
    strength: float
    measure: Measure = "first_passage"
    model_version: str = ""
    gate_version: str = ""  # of the rules that chose the lane
    review_version: str | None = None  # of the rules by which the change was read
    circumstances: Circumstances = field(default_factory=Circumstances)
    prediction: Prediction | None = None


def judge_inputs(inputs: Inputs) -> Verdict:
    """The whole judgement of one change; the same inputs by the same rules give the same verdict."""
    around, thresholds = inputs.circumstances, inputs.thresholds
    rate = (inputs.prior, inputs.strength)
    return judge_change(inputs.evidence, inputs.content, around, thresholds, *rate, inputs.prediction)


def write_inputs(inputs: Inputs) -> str:
    """As stored: JSON in one line, every number to its last digit."""
    return msgspec.json.encode(inputs).decode()


def read_inputs(stored: str) -> Inputs:
    """The inputs of a stored row, also of an older version; raises msgspec.ValidationError for other JSON."""
    inputs = decode_json(stored, Inputs)
    return replace(
        inputs,
        gate_version=NUMBERED.get(inputs.gate_version, inputs.gate_version),
        review_version=NUMBERED.get(inputs.review_version or "", inputs.review_version),
    )


def differ_notably(before: object, after: object) -> bool:
    """Return whether two stored inputs, decoded to plain values, differ by more than figures that drift on their
    own.
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        names = (before.keys() | after.keys()) - TOLD
        return any(differ_notably(before.get(name), after.get(name)) for name in names)
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return any(map(differ_notably, before, after))
    if isinstance(before, str) and isinstance(after, str):
        return NUMBERED.get(before, before) != after
    if isinstance(before, float) and isinstance(after, float):
        return abs(before - after) >= NOTABLE
    return before != after
