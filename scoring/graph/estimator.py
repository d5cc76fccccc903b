"""The graph network as an estimator of P(clean) like every other: fitted with PyTorch, answering with NumPy alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scoring.dataset.cases import Cases, Directions
from scoring.graph.inputs import Columns, Floats32, Inputs, Settings, Weights
from scoring.graph.neighbours import Neighbours, no_neighbours
from scoring.graph.states import log_odds_from, states_of
from scoring.models.base import Design, Floats, Labels, Scales, checked_labels, probabilities

PLACE = "place_in_graph"  # the column that says which pull request of the graph a row is


@dataclass(frozen=True, slots=True)
class Graph:
    """The columns of all cases in the order of opening, and their neighbours."""

    columns: Mapping[str, Floats]
    neighbours: Neighbours

    def __len__(self) -> int:
        return len(self.neighbours.authored.rows)


NOBODY = Graph({}, no_neighbours())


def placed(features: Mapping[str, Floats], cases: Cases) -> dict[str, Floats]:
    """Return the columns of all cases with the one that a graph network finds their neighbours by."""
    return {**features, PLACE: np.arange(len(cases), dtype=np.float64)}


class GraphSage:
    """Log odds of clean by two rounds of SAGEConv. Learned: `scales_`, `columns_`, `weights_`, `states_`.

    `graph` holds every row that may be heard; a target is given by its columns and its place. `start` is the model of
    the quarter before, from whose weights a fit goes on where they still belong to these columns.
    """

    name = "graphsage"

    def __init__(
        self,
        directions: Directions,
        graph: Graph,
        settings: Settings,
        seed: int = 0,
        start: "GraphSage | None" = None,
        device: str = "cpu",
    ) -> None:
        self.directions = directions
        self.graph = graph
        self.settings = settings
        self.seed = seed
        self.start = start
        self.device = device

    def fit(
        self,
        features: Mapping[str, Floats],
        labels: Labels,
        graph: object = None,
        as_of: object = None,
        weights: Floats | None = None,
    ) -> Self:
        """Learn from rows with their places; arguments and errors as those of every estimator (`Logistic.fit`)."""
        labels, weights = checked_labels(labels, weights)
        from scoring.graph.net import fit

        places = np.asarray(features[PLACE], dtype=np.int64)
        count = int(places.max()) + 1
        design, names = Design(tuple(self.directions)), tuple(self.directions)
        self.scales_ = Scales.of(design.matrix({name: features[name] for name in names}, len(labels)), weights)
        self.columns_ = Columns.of(self.directions, self.scales_)
        inputs = self.inputs(self.graph.columns, self.graph.neighbours)
        target, weight = _per_row(places, labels, weights, count)
        start = self.start
        fits = start is not None and hasattr(start, "weights_") and start.columns_ == self.columns_
        self.weights_ = fit(
            Inputs(inputs.values[:count], self.columns_, self.graph.neighbours.first(count)),
            target,
            weight,
            self.settings,
            self.seed,
            start.weights_ if start is not None and fits else None,
            self.device,
        )
        self.states_: Floats32 = states_of(inputs, self.weights_)
        self.start = None  # one chain of models would keep them all
        return self

    def decision_function(self, features: Mapping[str, Floats]) -> Floats:
        return self.log_odds(features, self.graph.neighbours.at(np.asarray(features[PLACE], dtype=np.int64)))

    def log_odds(self, features: Mapping[str, Floats], neighbours: Neighbours) -> Floats:
        """Return the log odds of n rows from their columns and neighbours, which are rows of `states_`."""
        return self.log_odds_of(self.inputs(features, neighbours))

    def log_odds_of(self, inputs: Inputs) -> Floats:
        return log_odds_from(self.states_, inputs, self.weights_)

    def predict_proba(self, features: Mapping[str, Floats]) -> Floats:
        return probabilities(self.decision_function(features))

    @classmethod
    def stored(cls, directions: Directions, scales: Scales, weights: Weights, states: Floats32) -> Self:
        """Return a fitted network from its parts; it answers by `log_odds`, to whoever knows the neighbours."""
        net = cls(directions, NOBODY, Settings())
        net.scales_, net.columns_ = scales, Columns.of(directions, scales)
        net.weights_, net.states_ = weights, states
        return net

    def as_dict(self) -> dict[str, Any]:
        """Return its name alone: the weights lie in a file of their own (`scoring.graph.checkpoint`)."""
        return {"name": self.name}

    def inputs(self, columns: Mapping[str, Floats], neighbours: Neighbours) -> Inputs:
        """Return what every network of these columns and scales hears, whatever its weights."""
        values = self.scales_.apply(Design(tuple(self.directions)).matrix(columns))
        return Inputs(np.ascontiguousarray(values, dtype=np.float32), self.columns_, neighbours)


def _per_row(
    places: NDArray[np.int64], labels: Labels, weights: Floats, count: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the chance of clean and the weight of each of the first `count` rows; a waiting case has two labels."""
    total = np.bincount(places, weights, count)
    clean = np.bincount(places, weights * labels, count)
    return np.divide(clean, total, out=np.zeros(count), where=total > 0).astype(np.float32), total.astype(np.float32)
