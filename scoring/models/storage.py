"""Stores models as text: one JSON file each, named by a hash of its content, and a pointer for each label.

The pointer of a label is one line in a file beside the models, which a page can read without loading a model. The card
of a model names its purpose, its data, its quality and its limits.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ingest.files import write_whole
from scoring.dataset.cases import LabelName
from scoring.dataset.dataset import MATERIAL_COLUMNS
from scoring.models.base import Estimator, FitProblem, Floats
from scoring.models.calibration import GROUPS, CalibrationCases, CalibrationProblem, Calibrator, Steps, from_dict
from scoring.models.registry import estimator_from_dict


class ModelProblem(Exception):
    """The reason, in one sentence, why a stored model cannot serve."""


def serving_name(folder: Path, label: LabelName) -> str | None:
    """Return the name of the model that a label points at; None without a pointer, ModelProblem for a wrong one."""
    try:
        name = (folder / f"{label}.serving").read_text(errors="replace").strip()
    except FileNotFoundError:
        return None
    if len(name) != 64 or not set(name) <= set("0123456789abcdef"):
        raise ModelProblem(f"the pointer of {label} names no model")
    return name


FORMAT = 2
LARGEST = 64_000_000
SCOPES = ("person", "change")


@dataclass(frozen=True)
class ScopeModel:
    """One scope of a model that was read back, with the cases behind it sorted once."""

    model: Estimator
    calibration: Calibrator
    behind: CalibrationCases

    @cached_property
    def grounds(self) -> list[Steps]:
        return self.behind.grounds()

    @cached_property
    def settled(self) -> Floats:
        """Return P(clean) of the cases behind it with a certain outcome, ascending."""
        return np.sort(self.calibration.probability(self.behind.odds[self.behind.is_settled]))

    def probability(self, features: Mapping[str, Floats]) -> Floats:
        return self.calibration.probability(self.model.decision_function(features))


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model for one label. `record` is the file as plain values, with figures and the decision to serve it."""

    name: str
    record: Mapping[str, Any]
    person: ScopeModel
    change: ScopeModel


def save_model(folder: Path, record: Mapping[str, Any], card: str) -> str:
    """Write the model and its card below `folder`; return its name, the hash of the content. `serve` makes it serve."""
    data = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    name = hashlib.sha256(data).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / f"{name}.json", data)
    write_whole(folder / f"{name}.md", card.encode())
    return name


def serve(folder: Path, label: LabelName, name: str) -> None:
    """Point a label at a model, atomically."""
    write_whole(folder / f"{label}.serving", f"{name}\n".encode())


def load_model(folder: Path, name: str) -> ServedModel:
    """Load a saved model. Raises ModelProblem for a file that is absent, cut, changed or of other features."""
    path = folder / f"{name}.json"
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as problem:
        raise ModelProblem(f"model {name[:12]} cannot be read ({problem.strerror})") from problem
    if hashlib.sha256(data).hexdigest() != name:
        raise ModelProblem(f"model {name[:12]} is cut or was changed: its name is not the hash of its content")
    record = json.loads(data)
    if not isinstance(record, dict) or record.get("format") != FORMAT or record.get("features") != features():
        raise ModelProblem(f"model {name[:12]} was made with other features than this version computes: train again")
    try:
        parts = {scope: _parse_part(record["scopes"][scope]) for scope in SCOPES}
    except (CalibrationProblem, FitProblem, KeyError, TypeError, ValueError) as problem:
        raise ModelProblem(f"model {name[:12]} cannot be used: {problem}") from problem
    return ServedModel(name, record, parts["person"], parts["change"])


class Shelf:
    """The serving model of each label, read again when the pointer changes: a worker needs no restart."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._models: dict[str, ServedModel] = {}

    def model(self, label: LabelName) -> ServedModel | None:
        """Return the serving model, None without one. Raises ModelProblem, and then drops the model before."""
        name = serving_name(self._folder, label)
        if name is None:
            self._models.pop(label, None)
            return None
        cached = self._models.get(label)
        if cached is None or cached.name != name:
            self._models.pop(label, None)
            self._models[label] = load_model(self._folder, name)
        return self._models[label]


def objection(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> str:
    """Return the reason why a new model should not replace the serving one; "" where it may.

    They were measured on different cases, so their gains over the shrunk rate are compared: the gain of the new model
    must reach the lower end of the interval of the old one's.
    """
    if old is None:
        return ""
    for scope in SCOPES:
        new_gain, old_gain = (record["scopes"][scope]["metrics"]["gain"] for record in (new, old))
        least = old_gain["log_loss_ci"][0]
        if least is not None and (new_gain["log_loss"] is None or new_gain["log_loss"] < least):
            return (
                f"Its gain over the shrunk rate ({scope}, log-loss {new_gain['log_loss'] or 0:.3f}) is below what the "
                f"serving model's is at least ({least:.3f})."
            )
    return ""


def _parse_part(stored: Mapping[str, Any]) -> ScopeModel:
    return ScopeModel(
        estimator_from_dict(stored["model"]), from_dict(stored["calibration"]), _parse_behind(stored["behind"])
    )


def _parse_behind(stored: Mapping[str, Any]) -> CalibrationCases:
    odds, came, weights = (np.asarray(stored[name], dtype=np.float64) for name in ("odds", "came", "weights"))
    groups = np.asarray(stored["groups"], dtype=np.int64)
    sound = (
        odds.ndim == 1
        and odds.shape == came.shape == weights.shape == groups.shape
        and np.isfinite(odds).all()
        and np.isin(came, (0, 1)).all()
        and np.isfinite(weights).all()
        and (weights > 0).all()
        and np.isin(groups, range(GROUPS)).all()
    )
    if not sound:
        raise FitProblem("the cases behind its map are not scores, outcomes, weights and groups")
    return CalibrationCases(odds, came, weights, groups)


def features() -> list[list[Any]]:
    """Return the features of this code: a model with other names, directions or movers would read wrong numbers."""
    return [[column.name, column.direction, column.moved_by, column.of] for column in MATERIAL_COLUMNS]


SCOPE_NAMES = {"person": "the next change of a contributor", "change": "one pull request"}


def card_of(record: Mapping[str, Any]) -> str:
    return "\n".join(_card_lines(record)) + "\n"


def _card_lines(record: Mapping[str, Any]) -> Iterator[str]:
    yield f"# {record['label']}"
    yield ""
    origin = f"Made {record['made_at']} (UTC) of {record['cases']:,} pull requests"
    yield f"{origin}, data {record['data']}, seed {record['seed']}."
    yield "It orders the inbox and informs maintainers. It does not judge a person and blocks nobody."
    for scope, words in SCOPE_NAMES.items():
        yield from _scope_lines(record["scopes"][scope], words)
    yield ""
    yield "What a contributor moves alone never raises their probability. Handles, locale and texts are not used."
    yield "Measured on pull requests that people also reviewed: the true rate without review may be higher."


def _scope_lines(part: Mapping[str, Any], words: str) -> Iterator[str]:
    figures, decision = part["metrics"], part["decision"]
    yield ""
    yield f"## Stays clean: {words}"
    yield ""
    yield f"{decision['serves']} serves, with {part['calibration']['name']} calibration."
    yield from (f"- {trial['name']}: {trial['why']}" for trial in decision["trials"])
    yield from (f"- {sentence}" for sentence in part["said"])
    yield ""
    if not figures["n"]:
        yield "There was no settled pull request to judge it on."
        return
    yield f"On the {figures['n']:,} settled ones of the newest five years, scored as they would have been then:"
    yield ""
    yield from (f"- {name}: {_format(figures[key])}" for key, name in NAMED.items())
    low, high = figures["ece_band"]
    yield f"- ECE of perfect calibration at this number: {_format(low)} to {_format(high)}"


NAMED = {"auc": "AUC", "brier": "Brier score", "log_loss": "log-loss", "ece": "ECE"}


def _format(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.3f}"
