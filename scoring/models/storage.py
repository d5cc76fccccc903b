"""Stores models as text: one JSON file each, named by its content, with a pointer per label to the one that serves.

The pointer of a label is one line in a file beside the models, which a page can read without loading any.

A model's card says what it is for, what it was made of, how good it is and where it is not.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ingest.files import write_whole
from scoring.dataset.cases import LabelName
from scoring.dataset.dataset import MATERIAL_COLUMNS, Material, data_version
from scoring.models.base import Estimator, FitProblem, Floats
from scoring.models.calibration import GROUPS, Behind, CalibrationProblem, Calibrator, Steps, from_dict
from scoring.models.registry import estimator_from_dict
from scoring.training.train import Trained


class ModelProblem(Exception):
    """A kept model cannot serve, in one sentence."""


def serving_name(folder: Path, label: LabelName) -> str | None:
    """The model that a label points at; None for none, ModelProblem for a pointer that names none."""
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
class Part:
    """One scope of a model that was read back; what every answer of it rests on is put in order once."""

    model: Estimator
    calibration: Calibrator
    behind: Behind

    @cached_property
    def grounds(self) -> list[Steps]:
        """Return what its intervals rest on."""
        return self.behind.grounds()

    @cached_property
    def settled(self) -> Floats:
        """P(clean) of the cases behind it whose outcome is certain, ascending."""
        return np.sort(self.calibration.probability(self.behind.odds[self.behind.is_settled]))

    def probability(self, features: Mapping[str, Floats]) -> Floats:
        """P(clean) of each row. Raises FitProblem where a column is missing."""
        return self.calibration.probability(self.model.decision_function(features))


@dataclass(frozen=True, slots=True)
class Served:
    """A model for one label. `record` is the file as plain values, with figures and the decision."""

    name: str
    record: Mapping[str, Any]
    person: Part
    change: Part


def record_of(
    trained: Mapping[str, Trained], material: Material, label: LabelName, now: datetime, seed: int
) -> dict[str, Any]:
    """The model as its file holds it."""
    return {
        "format": FORMAT,
        "label": label,
        "made_at": now.isoformat(timespec="seconds"),
        "data": data_version(material.cases),
        "cases": len(material),
        "seed": seed,
        "features": _features(),
        "scopes": {
            scope: {
                "model": one.model.as_dict(),
                "calibration": one.calibration.as_dict(),
                "behind": {name: column.tolist() for name, column in one.behind._asdict().items()},
                "decision": one.decision.as_dict(),
                "metrics": one.figures,
                "said": list(one.said),
            }
            for scope, one in trained.items()
        },
    }


def save_model(folder: Path, record: Mapping[str, Any], card: str) -> str:
    """Write the model and its card below `folder`; the name is the hash of the content. It does not serve by that."""
    data = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    name = hashlib.sha256(data).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / f"{name}.json", data)
    write_whole(folder / f"{name}.md", card.encode())
    return name


def serve(folder: Path, label: LabelName, name: str) -> None:
    """Point a label at a model, at once or not at all."""
    write_whole(folder / f"{label}.serving", f"{name}\n".encode())


def load_model(folder: Path, name: str) -> Served:
    """A model as it was saved. Raises ModelProblem for a file that is absent, cut, changed or of other features."""
    path = folder / f"{name}.json"
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as problem:
        raise ModelProblem(f"model {name[:12]} cannot be read ({problem.strerror})") from problem
    if hashlib.sha256(data).hexdigest() != name:
        raise ModelProblem(f"model {name[:12]} is cut or was changed: its name is not the hash of its content")
    record = json.loads(data)
    if not isinstance(record, dict) or record.get("format") != FORMAT or record.get("features") != _features():
        raise ModelProblem(f"model {name[:12]} was made with other features than this version computes: train again")
    try:
        parts = {scope: _part(record["scopes"][scope]) for scope in SCOPES}
    except (CalibrationProblem, FitProblem, KeyError, TypeError, ValueError) as problem:
        raise ModelProblem(f"model {name[:12]} cannot be used: {problem}") from problem
    return Served(name, record, parts["person"], parts["change"])


class Shelf:
    """The model that serves each label, read again when the pointer changes: a worker needs no restart."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, Served] = {}

    def model(self, label: LabelName) -> Served | None:
        """Return what serves, None where nothing does. Raises ModelProblem; what served before is then let go of."""
        name = serving_name(self._folder, label)
        if name is None:
            self._held.pop(label, None)
            return None
        held = self._held.get(label)
        if held is None or held.name != name:
            self._held.pop(label, None)
            self._held[label] = load_model(self._folder, name)
        return self._held[label]


def objection(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> str:
    """Return why a new model should not take the place of the one that serves; "" where it may.

    Their slices differ, so each is compared by its gain over the shrunk rate there: the new one's must not lie below
    what the old one's was at least.
    """
    if old is None:
        return ""
    for scope in SCOPES:
        gain, kept = (record["scopes"][scope]["metrics"]["gain"] for record in (new, old))
        least = kept["log_loss_ci"][0]
        if least is not None and (gain["log_loss"] is None or gain["log_loss"] < least):
            return (
                f"Its gain over the shrunk rate ({scope}, log-loss {gain['log_loss'] or 0:.3f}) is below what the "
                f"serving model's is at least ({least:.3f})."
            )
    return ""


def _part(kept: Mapping[str, Any]) -> Part:
    return Part(estimator_from_dict(kept["model"]), from_dict(kept["calibration"]), _behind(kept["behind"]))


def _behind(kept: Mapping[str, Any]) -> Behind:
    odds, came, weights = (np.asarray(kept[name], dtype=np.float64) for name in ("odds", "came", "weights"))
    groups = np.asarray(kept["groups"], dtype=np.int64)
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
    return Behind(odds, came, weights, groups)


def _features() -> list[list[Any]]:
    """Return what the code computes: a model of other names, directions or movers would read the wrong numbers."""
    return [[one.name, one.direction, one.moved_by, one.of] for one in MATERIAL_COLUMNS]


SCOPE_NAMES = {"person": "the next change of a contributor", "change": "one pull request"}


def card_of(record: Mapping[str, Any]) -> str:
    """Markdown of the record that scoring.models.storage makes."""
    return "\n".join(_lines(record)) + "\n"


def _lines(record: Mapping[str, Any]) -> Iterator[str]:
    yield f"# {record['label']}"
    yield ""
    made = f"Made {record['made_at']} (UTC) of {record['cases']:,} pull requests"
    yield f"{made}, data {record['data']}, seed {record['seed']}."
    yield "It orders the inbox and informs maintainers. It does not judge a person and blocks nobody."
    for scope, words in SCOPE_NAMES.items():
        yield from _scope(record["scopes"][scope], words)
    yield ""
    yield "What a contributor moves alone never raises their probability. Handles, locale and texts are not used."
    yield "Measured on pull requests that people also reviewed: the true rate without review may be higher."


def _scope(part: Mapping[str, Any], words: str) -> Iterator[str]:
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
    yield from (f"- {name}: {_shown(figures[key])}" for key, name in NAMED.items())
    low, high = figures["ece_band"]
    yield f"- ECE of perfect calibration at this number: {_shown(low)} to {_shown(high)}"


NAMED = {"auc": "AUC", "brier": "Brier score", "log_loss": "log-loss", "ece": "ECE"}


def _shown(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.3f}"
