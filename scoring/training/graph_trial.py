"""Tries GraphSAGE beside the other candidates, over several seeds, and the same net without neighbours.

A fit takes minutes, so the scores of a run are cached below PYG_ROOT, named by all that they depend on; files there
hold no names. Everything here needs PyTorch only where nothing is cached.
"""

import hashlib
import importlib.util
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scoring.dataset.cases import Directions
from scoring.dataset.dataset import Material, data_version
from scoring.graph.checkpoint import net_directions
from scoring.graph.estimator import Graph, GraphSage, placed
from scoring.graph.inputs import Settings
from scoring.graph.neighbours import find_neighbours
from scoring.models.base import Floats
from scoring.models.estimators import Lowered, without_alone_of
from scoring.training.promotion import largest_lift
from scoring.training.rolling_origin import Clock, Past, Scored, Tell, fit_as_of, score_quarters
from scoring.training.summary import GRAPH

UNHEARD = "without neighbours"  # the same net, to compare the candidate with
GRAPH_NAMES = (GRAPH, UNHEARD)
SEEDS = 3  # the candidate is the mean of the log odds of so many nets
# The lowest mean log-loss of three labels among 88 settings on 3,074 pull requests settled before the first judged
# quarter: docs/method.md.
SETTINGS = Settings(most=16, hidden=64, steps=60, again=20, rate=0.01, decay=3.0, dropout=0.7)
FORM = "1"  # another one where the network changes: what was cached then no longer counts
MOST_LIFTED = 300  # cases on which the self-lift is measured
HOW = "GraphSAGE was not tried: it needs PyTorch. With it: pip install -r requirements/gnn.txt"


def is_installed() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("safetensors", "torch", "torch_geometric"))


class Chain:
    """Makes the models of successive origins; each goes on from the weights of the one before."""

    def __init__(self, directions: Directions, graph: Graph, settings: Settings, seed: int) -> None:
        self.directions = directions
        self.graph = graph
        self.settings = settings
        self.seed = seed
        self._last: GraphSage | None = None

    def make(self, as_of: np.datetime64) -> GraphSage:
        self._last = GraphSage(self.directions, self.graph, self.settings, self.seed, self._last)
        return self._last


class GraphTrial:
    """Scores and lifts of the graph network on one material; `folder` is PYG_ROOT."""

    def __init__(self, folder: Path, settings: Settings = SETTINGS, seeds: int = SEEDS) -> None:
        self.folder = folder
        self.settings = settings
        self.seeds = seeds
        self._data = ""

    def chains(self) -> int:
        """Return how many chains of fits one label takes: with the change one, of the person two, with and without."""
        return 2 * self.seeds * 3

    def score(
        self,
        past: Past,
        columns: Mapping[str, Floats],
        material: Material,
        clock: Clock,
        scope: str,
        name: str,
        seed: int,
        tell: Tell,
    ) -> Scored:
        """Return the log odds of one seed, without a map.

        Of a person the lower of two nets counts: one without the columns that they move alone, and one with them.
        """
        scored = [
            self._chain(past, columns, material, clock, directions, name, seed, tell)
            for directions in directions_of(material, scope)
        ]
        said = list(dict.fromkeys(words for part in scored for words in part.said))
        odds = np.min([part.odds for part in scored], axis=0)
        return Scored(odds, np.full(len(odds), np.nan), said)

    def lift(
        self, past: Past, columns: Mapping[str, Floats], material: Material, clock: Clock, judged: NDArray[np.bool_]
    ) -> float:
        """Return the most that a person of the `judged` rows gains alone, by the model fitted before all of them."""
        return lift_alone(past, columns, material, clock, judged, self.settings)

    def _chain(
        self,
        past: Past,
        columns: Mapping[str, Floats],
        material: Material,
        clock: Clock,
        directions: Directions,
        name: str,
        seed: int,
        tell: Tell,
    ) -> Scored:
        path = self.folder / f"odds-{self._key(past, material, clock, directions, name, seed)}.npy"
        if path.is_file():
            odds = np.load(path, allow_pickle=False)
            for start in clock.quarters[:-1]:
                tell(str(start.astype("datetime64[D]")))
            return Scored(odds, np.full(len(odds), np.nan))
        graph = graph_of(columns, material, self.settings)
        graph = graph if name == GRAPH else Graph(columns, graph.neighbours.without())
        chain = Chain(directions, graph, self.settings, seed)
        scored = score_quarters(past, placed(columns, past.cases), chain.make, clock, tell)
        if not scored.said:
            self.folder.mkdir(parents=True, exist_ok=True)
            np.save(path, scored.odds, allow_pickle=False)
        return scored

    def _key(self, past: Past, material: Material, clock: Clock, directions: Directions, name: str, seed: int) -> str:
        self._data = self._data or data_version(material.cases)
        digest = hashlib.sha256()
        parts = (FORM, self._data, past.label, list(directions.items()), name == GRAPH, seed, self.settings)
        answers = sorted((key, *answer) for key, answer in material.lane.audited.items())
        digest.update(repr((*parts, answers, sorted(material.lane.addresses))).encode())
        for column in (clock.quarters, *material.vouches.columns()):
            digest.update(np.ascontiguousarray(column).tobytes())
        return digest.hexdigest()[:32]


def graph_of(columns: Mapping[str, Floats], material: Material, settings: Settings) -> Graph:
    return Graph(columns, find_neighbours(material.cases, material.vouches, settings.most, settings.settled))


def lift_alone(
    past: Past,
    columns: Mapping[str, Floats],
    material: Material,
    clock: Clock,
    judged: NDArray[np.bool_],
    settings: Settings = SETTINGS,
) -> float:
    """Return the most that a person of the `judged` rows gains alone, by the model fitted before all of them."""
    start = clock.judged_from
    graph = graph_of(columns, material, settings)
    both = [GraphSage(directions, graph, settings) for directions in directions_of(material, "person")]
    with_places = placed(columns, past.cases)
    model = fit_as_of(past.at(start), with_places, Lowered(*both), start, [])
    rows = {name: column[judged][:MOST_LIFTED] for name, column in with_places.items()}
    without = without_alone_of(model)
    return largest_lift(
        lambda moved: model.predict_proba(moved)[:, 1],
        rows,
        material.alone,
        None if without is None else without.predict_proba(rows)[:, 1],
    )


def directions_of(material: Material, scope: str) -> list[Directions]:
    """Return the columns of each net of a scope."""
    return [*net_directions(material.person, material.change, material.alone)[scope]]
