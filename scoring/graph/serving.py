"""Computes the graph network's chances of open changes, by NumPy from stored states; nothing decides by them.

A pull request that was merged since the training has no state yet, and is heard from the next training on.
"""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import numpy as np

from ingest.store.transaction import Rows
from scoring.dataset.cases import Cases, LabelName, Vouches
from scoring.dataset.dataset import ALONE, OF_CHANGE, OF_PERSON, read_vouches
from scoring.graph.checkpoint import CheckpointProblem, GraphModel, load_checkpoint, net_directions, path_of, pointed
from scoring.graph.neighbours import Neighbours, find_neighbours
from scoring.models.calibration import CalibrationProblem
from scoring.models.serving import LABEL, read_columns
from scoring.types import Pair

DIRECTIONS = net_directions(OF_PERSON, OF_CHANGE, ALONE)
logger = logging.getLogger(__name__)


class GraphShelf:
    """The network that a label points at, read again when the pointer changes; one that cannot be used is logged once.

    `folder` holds checkpoints, `states` the states of pull requests. Once an erasure took these, the network is dropped
    from memory too.
    """

    def __init__(self, folder: Path, states: Path, label: LabelName = LABEL) -> None:
        self._folder = folder
        self._states = states
        self._label = label
        self._model: GraphModel | None = None
        self._logged = ""

    def model(self) -> GraphModel | None:
        """Return the network, None without one that can be used."""
        try:
            self._model, problem = self._find(), ""
        except CheckpointProblem as refused:
            self._model, problem = None, str(refused)
        if problem and problem != self._logged:
            logger.warning("GraphSAGE says nothing: %s.", problem)
        self._logged = problem
        return self._model

    def _find(self) -> GraphModel | None:
        name, known = pointed(self._folder, self._label), self._model
        if name is None:
            return None
        if known is not None and known.name == name and path_of(self._states, known.states).is_file():
            return known
        self._model = None  # before the next is read: both together may be large
        return load_checkpoint(self._folder, self._states, name, self._label, DIRECTIONS)


def graph_chances(
    rows: Rows, model: GraphModel | None, changes: Mapping[str, Pair], now: datetime, window_days: int
) -> dict[str, float]:
    """Return P(clean) of open changes by their addresses: the lower of the change's and of its author's alone.

    {} where a network makes one no number, which is logged: it decides nothing, so it must not stop a pass.
    """
    if model is None or not changes:
        return {}
    people, vouches = sorted(set(changes.values())), read_vouches(rows, now)
    heard = _vouching(vouches, people)
    columns, places, cases = read_columns(rows, people, list(changes), now, window_days, heard)
    uris = [uri for uri in changes if uri in places]
    at = {"change": [places[uri] for uri in uris], "person": [places[changes[uri]] for uri in uris]}
    neighbours = _neighbours(model, cases, vouches, uris, [changes[uri] for uri in uris], now)
    inputs = {scope: {name: column[rows] for name, column in columns.items()} for scope, rows in at.items()}
    try:
        chances = [part.probability(inputs[scope], neighbours[scope]) for scope, part in model.scopes.items()]
    except CalibrationProblem as problem:
        logger.warning("GraphSAGE says nothing: %s.", problem)
        return {}
    return dict(zip(uris, np.min(chances, axis=0).tolist(), strict=True)) if uris else {}


def _vouching(vouches: Vouches, people: Sequence[Pair]) -> list[Pair]:
    """Return who vouched for or denounced these people, each with a repository of theirs."""
    repository_of = dict(people)
    known = np.isin(vouches.subjects, list(repository_of))
    pairs = zip(vouches.vouchers[known].tolist(), vouches.subjects[known].tolist(), strict=True)
    return sorted({(voucher, repository_of[subject]) for voucher, subject in pairs})


def _neighbours(
    model: GraphModel, cases: Cases, vouches: Vouches, uris: Sequence[str], authors: Sequence[Pair], now: datetime
) -> dict[str, Neighbours]:
    """Return what each change hears, as of its opening, and what its author hears now, as rows of stored states."""
    row_of = {str(key): row for row, key in enumerate(cases.keys)}
    people, repositories = np.array(authors, dtype=np.int64).reshape(len(authors), 2).T
    graph = cases.and_people(people, repositories, np.datetime64(now, "us"))
    targets = {
        "change": np.array([row_of[uri] for uri in uris], dtype=np.int64),
        "person": np.arange(len(cases), len(graph)),
    }
    stored = model.rows_of([str(key) for key in graph.keys])
    return {
        scope: find_neighbours(graph, vouches, model.settings.most, model.settings.settled, rows).moved(stored)
        for scope, rows in targets.items()
    }
