"""Stores a trained graph network in two safetensors files, each named by a hash of its content: no pickle. Pure.

The checkpoint holds weights, scales and maps and knows nobody; it lies beside the models. The states of pull requests
lie below PYG_ROOT, by hashes of their keys: an erasure empties that folder, and the next training fills it. Which
columns a network reads comes from this code and never from a file, so that no file lets anybody raise themselves.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ingest.files import write_whole
from scoring.dataset.cases import Directions, LabelName
from scoring.graph.estimator import GraphSage
from scoring.graph.inputs import Columns, Settings, weight_shapes
from scoring.graph.neighbours import Neighbours
from scoring.graph.states import MONOTONE
from scoring.models.base import FitProblem, Floats, Scales
from scoring.models.calibration import CalibrationProblem, Calibrator, from_dict
from scoring.models.estimators import without_alone
from scoring.models.storage import features

FORMAT = 1
LARGEST = 512_000_000  # bytes of a file that is read: nine nets of 150,000 pull requests
MOST_SEEDS, MOST_HIDDEN, MOST_HEARD = 9, 256, 64
HIGHEST = 1e6  # of a weight or state: log odds of such stay below 3e38, where float32 ends; a fit gives below 100
POINTER_BYTES = 100
ENDING = ".safetensors"
Arrays = Mapping[str, NDArray[Any]]
NetDirections = Mapping[str, Sequence[Directions]]  # by scope: the columns of each net of a seed


class CheckpointProblem(Exception):
    """The reason, in one sentence, why a stored network cannot be used."""


@dataclass(frozen=True, slots=True)
class GraphScope:
    """One scope: by seed the nets of which the lowest log odds count, and the map of the mean over seeds.

    The nets of one place have one set of scales in every seed, since they learned from the same rows.
    """

    nets: tuple[tuple[GraphSage, ...], ...]
    calibration: Calibrator

    def probability(self, columns: Mapping[str, Floats], neighbours: Neighbours) -> Floats:
        """Return P(clean) of n rows from their columns and what they hear, as rows of the stored states.

        Raises CalibrationProblem where the weights or the map make it no number.
        """
        inputs = [net.inputs(columns, neighbours) for net in self.nets[0]]  # half of the time of one pull request
        with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is told below
            seeds = [
                np.min([net.log_odds_of(its) for net, its in zip(seed, inputs, strict=True)], axis=0)
                for seed in self.nets
            ]
            chances = self.calibration.probability(np.mean(seeds, axis=0))
        if np.isnan(chances).any():
            raise CalibrationProblem("a chance is not a number")
        return chances


@dataclass(frozen=True, slots=True)
class GraphModel:
    """A network for one label: `keys` are the ascending hashes of the pull requests whose states it has.

    `states` names the file that these came from.
    """

    name: str
    states: str
    settings: Settings
    keys: NDArray[np.uint64]
    scopes: Mapping[str, GraphScope]

    def rows_of(self, keys: Sequence[str]) -> NDArray[np.int64]:
        """Return the row of each pull request's state; -1 without one, as of a merge since the training."""
        hashed = hash_keys(keys)
        rows = np.minimum(np.searchsorted(self.keys, hashed), len(self.keys) - 1)
        return np.where(self.keys[rows] == hashed, rows, -1)


def net_directions(person: Directions, change: Directions, alone: tuple[str, ...]) -> NetDirections:
    """Return the columns of each net: of the person alone one net does not see what they move alone."""
    return {"person": (without_alone(person, alone), person), "change": (change,)}


def hash_keys(keys: Sequence[str]) -> NDArray[np.uint64]:
    digests = b"".join(hashlib.blake2b(str(key).encode(), digest_size=8).digest() for key in keys)
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64)


def path_of(folder: Path, name: str) -> Path:
    return folder / f"{name}{ENDING}"


def save_checkpoint(
    folder: Path,
    states_folder: Path,
    label: LabelName,
    keys: Sequence[str],
    scopes: Mapping[str, GraphScope],
    settings: Settings,
) -> str:
    """Write the states and then the weights, each whole; return the name of the checkpoint. `point` shows it.

    `keys` name the rows of the nets' states. Raises OSError.
    """
    from safetensors.numpy import save

    hashed = hash_keys(keys)
    order = np.argsort(hashed, kind="stable")
    states: dict[str, NDArray[Any]] = {"keys": hashed[order]}
    weights: dict[str, NDArray[Any]] = {}
    for place, net in _nets(scopes):
        states[place] = np.ascontiguousarray(net.states_[order])
        weights |= {f"{place}/{name}": np.ascontiguousarray(array) for name, array in net.weights_.items()}
    about = {
        "format": FORMAT,
        "features": features(),
        "label": label,
        "settings": {"most": settings.most, "settled": settings.settled},
        "states": _write(states_folder, save(states)),
        "scopes": {
            scope: {
                "calibration": part.calibration.as_dict(),
                "seeds": len(part.nets),
                "scales": [net.scales_.as_dict() for net in part.nets[0]],
            }
            for scope, part in scopes.items()
        },
    }
    return _write(folder, save(weights, {"about": json.dumps(about, sort_keys=True, allow_nan=False)}))


def load_checkpoint(
    folder: Path, states_folder: Path, name: str, label: LabelName, directions: NetDirections
) -> GraphModel:
    """Load a saved network. Raises CheckpointProblem for a file that is absent, cut, changed or of another version."""
    data = _read(path_of(folder, name), name, "checkpoint")
    weights = _arrays(data)
    try:
        about = json.loads(_metadata(data)["about"])
        if about["format"] != FORMAT or about["features"] != features() or about["label"] != label:
            raise CheckpointProblem("the checkpoint was made by another version: run manage.py train")
        settings = Settings(most=about["settings"]["most"], settled=about["settings"]["settled"])
        if type(settings.most) is not int or not 0 < settings.most <= MOST_HEARD or type(settings.settled) is not bool:
            raise CheckpointProblem("the checkpoint does not say how many neighbours are heard")
        states_name = about["states"]
        states = _arrays(_read(path_of(states_folder, states_name), states_name, "file of states"))
        keys = states["keys"]
        scopes = {
            scope: _scope(scope, about["scopes"][scope], weights, states, directions[scope]) for scope in directions
        }
    except (CalibrationProblem, FitProblem, KeyError, OverflowError, RecursionError, TypeError, ValueError) as problem:
        raise CheckpointProblem("the checkpoint does not hold a network and its map") from problem
    if keys.dtype != np.uint64 or keys.ndim != 1 or not len(keys) or np.any(keys[1:] < keys[:-1]):
        raise CheckpointProblem("the states do not name their pull requests")
    return GraphModel(name, states_name, settings, keys, scopes)


def point(folder: Path, label: LabelName, name: str) -> None:
    """Point a label at a checkpoint, atomically."""
    write_whole(folder / f"{label}.graph", f"{name}\n".encode())


def pointed(folder: Path, label: LabelName) -> str | None:
    """Return the name of the checkpoint that a label points at, None without one; CheckpointProblem for a wrong one."""
    try:
        with (folder / f"{label}.graph").open("rb") as file:
            name = file.read(POINTER_BYTES).decode(errors="replace").strip()
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise CheckpointProblem(f"the pointer cannot be read ({problem.strerror})") from problem
    if not _is_name(name):
        raise CheckpointProblem("the pointer names no checkpoint")
    return name


def remove_checkpoint(folder: Path, states_folder: Path, name: str, kept: str | None = None) -> None:
    """Remove a stored network, and its states unless those of `kept` lie in the same file. Raises OSError."""
    states = _name_of_states(folder, name)
    if states is not None and (kept is None or states != _name_of_states(folder, kept)):
        path_of(states_folder, states).unlink(missing_ok=True)
    path_of(folder, name).unlink(missing_ok=True)


def _name_of_states(folder: Path, name: str) -> str | None:
    try:
        states = json.loads(_metadata(_read(path_of(folder, name), name, "checkpoint"))["about"])["states"]
    except (CheckpointProblem, KeyError, RecursionError, TypeError, ValueError):
        return None
    return states if _is_name(states) else None


def _nets(scopes: Mapping[str, GraphScope]) -> Iterator[tuple[str, GraphSage]]:
    for scope, part in scopes.items():
        for seed, nets in enumerate(part.nets):
            yield from ((f"{scope}.{seed}.{place}", net) for place, net in enumerate(nets))


def _scope(
    scope: str, stored: Mapping[str, Any], weights: Arrays, states: Arrays, directions: Sequence[Directions]
) -> GraphScope:
    seeds, scales = stored["seeds"], [Scales.from_dict(one) for one in stored["scales"]]
    if type(seeds) is not int or not 0 < seeds <= MOST_SEEDS or len(scales) != len(directions):
        raise CheckpointProblem(f"the checkpoint has not the nets of {scope}")
    parts = [(_checked_scales(one, len(its)), its) for one, its in zip(scales, directions, strict=True)]
    nets = tuple(
        tuple(_net(f"{scope}.{seed}.{place}", *part, weights, states) for place, part in enumerate(parts))
        for seed in range(seeds)
    )
    return GraphScope(nets, from_dict(stored["calibration"]))


def _net(place: str, scales: Scales, directions: Directions, weights: Arrays, states: Arrays) -> GraphSage:
    hidden = weights[f"{place}/turn.bias"].size
    if not 0 < hidden <= MOST_HIDDEN:
        raise CheckpointProblem(f"the network is {hidden} wide, above {MOST_HIDDEN}")
    shapes = weight_shapes(Columns.of(directions, scales), hidden)
    own = {name: weights[f"{place}/{name}"] for name in shapes}
    for name, array in own.items():
        _check(f"{place}/{name}", array, shapes[name], is_positive=name.removesuffix(".weight") in MONOTONE)
    _check(place, states[place], (len(states["keys"]), hidden), is_positive=True)
    return GraphSage.stored(directions, scales, own, states[place])


def _checked_scales(scales: Scales, count: int) -> Scales:
    columns = (scales.median, scales.mean, scales.deviation, scales.flagged)
    if any(column.shape != (count,) for column in columns):
        raise CheckpointProblem("the scales are those of other columns")
    if not (np.isfinite(scales.median).all() and np.isfinite(scales.mean).all() and (scales.deviation > 0).all()):
        raise CheckpointProblem("the scales are not numbers")
    return scales


def _check(name: str, array: NDArray[Any], shape: tuple[int, ...], is_positive: bool) -> None:
    if array.dtype != np.float32 or array.shape != shape:
        raise CheckpointProblem(f"{name} has the shape {array.shape}, not {shape}")
    if not np.isfinite(array).all():
        raise CheckpointProblem(f"{name} holds what is not a number")
    if (np.abs(array) > HIGHEST).any():
        raise CheckpointProblem(f"{name} holds what is above {HIGHEST:,.0f}")
    if is_positive and (array < 0).any():
        raise CheckpointProblem(f"{name} is negative, which would let a person raise themselves")


def _write(folder: Path, data: bytes) -> str:
    name = hashlib.sha256(data).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(path_of(folder, name), data)
    return name


def _read(path: Path, name: object, what: str) -> bytes:
    if not _is_name(name):
        raise CheckpointProblem(f"nothing names the {what}")
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as problem:
        raise CheckpointProblem(f"the {what} cannot be read ({problem.strerror}): run manage.py train") from problem
    if len(data) > LARGEST:
        raise CheckpointProblem(f"the {what} has more than {LARGEST / 1e6:g} MB")
    if hashlib.sha256(data).hexdigest() != name:
        raise CheckpointProblem(f"the {what} is cut or was changed: its name is not the hash of its content")
    return data


def _is_name(name: object) -> bool:
    return isinstance(name, str) and len(name) == 64 and set(name) <= set("0123456789abcdef")


def _arrays(data: bytes) -> dict[str, NDArray[Any]]:
    try:
        from safetensors import SafetensorError
        from safetensors.numpy import load
    except ImportError as problem:
        raise CheckpointProblem("safetensors is not installed: pip install -r requirements/gnn.txt") from problem
    try:
        return load(data)
    except (SafetensorError, KeyError, TypeError, ValueError) as problem:
        raise CheckpointProblem("a file is not one of safetensors") from problem


def _metadata(data: bytes) -> Mapping[str, str]:
    """Return the metadata in the header of a file that `_arrays` has read: the library gives it only of a path."""
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length])["__metadata__"]
