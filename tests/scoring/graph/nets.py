"""Networks whose weights are drawn: what holds of them holds whatever a fit may learn. And cases put among others."""

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from scoring.dataset.cases import Cases, Directions, Vouches
from scoring.dataset.dataset import NAMES, Material, material_of
from scoring.dataset.track_record import settled_record
from scoring.graph.checkpoint import GraphModel, GraphScope, hash_keys
from scoring.graph.estimator import Graph, GraphSage, placed
from scoring.graph.inputs import Columns, Settings, Weights, weight_shapes
from scoring.graph.neighbours import find_neighbours
from scoring.graph.serving import DIRECTIONS as DIRECTIONS_OF_NETS
from scoring.graph.states import MONOTONE, states_of
from scoring.models.base import Design, Floats, Scales
from scoring.models.calibration import Platt
from scoring.models.serving import LABEL
from tests.scoring.dataset.people import made_up

DIRECTIONS = {"worth": 1, "noise": 0, "repository_pace": 0, "lines_changed": 0, "repository_open": -1}
SETTINGS = Settings(most=4, hidden=6, steps=15, again=5, dropout=0.2)
DAY = np.timedelta64(1, "D")


def with_columns(cases: Cases, seed: int = 0) -> Cases:
    """The cases with a column of each node and direction; the first person's `worth` is what it was."""
    draw = np.random.default_rng(seed)
    columns = {name: draw.normal(0, 1, len(cases)) for name in DIRECTIONS}
    return replace(cases, features={**columns, "worth": cases.features["worth"], "noise": cases.features["noise"]})


def whole_material(n: int = 400, seed: int = 1) -> Material:
    """Made-up cases with every column of a real material, drawn at random."""
    draw, cases = np.random.default_rng(seed), made_up(n, seed=seed)
    return material_of(replace(cases, features={name: draw.normal(0, 1, n) for name in NAMES}), {})


def drawn_weights(columns: Columns, hidden: int, seed: int) -> Weights:
    """Weights of every layer, large ones; those that signed columns pass are not negative, as a fit keeps them."""
    draw = np.random.default_rng(seed)
    shapes = weight_shapes(columns, hidden)
    signed = {name: shape for name, shape in shapes.items() if name.removesuffix(".weight") in MONOTONE}
    free = {name: shape for name, shape in shapes.items() if name not in signed}
    weights = {name: draw.normal(0, 0.5, shape).astype(np.float32) for name, shape in free.items()}
    drawn = {name: np.abs(draw.normal(0, 1, shape)).astype(np.float32) for name, shape in signed.items()}
    return {**weights, **drawn}


def drawn_net(cases: Cases, vouches: Vouches, seed: int = 0, scales: Scales | None = None) -> GraphSage:
    """A network with drawn weights over these cases, its states computed; `scales` are those of these cases if None."""
    graph = Graph(cases.features, find_neighbours(cases, vouches, SETTINGS.most, settled=False))
    return drawn_over(DIRECTIONS, graph, seed, scales)


def drawn_over(
    directions: Directions, graph: Graph, seed: int, scales: Scales | None = None, settings: Settings = SETTINGS
) -> GraphSage:
    net = GraphSage(directions, graph, settings)
    matrix = Design(tuple(directions)).matrix(graph.columns)
    net.scales_ = scales or Scales.of(matrix, np.ones(len(graph)))
    net.columns_ = Columns.of(directions, net.scales_)
    inputs = net.inputs(graph.columns, graph.neighbours)
    net.weights_ = drawn_weights(net.columns_, settings.hidden, seed)
    net.states_ = states_of(inputs, net.weights_)
    return net


def drawn_scopes(
    material: Material, seeds: int = 2, first: int = 0, settings: Settings = SETTINGS
) -> dict[str, GraphScope]:
    """Both scopes of a network of drawn weights over this material, as a training leaves them."""
    columns = {**material.cases.features, **settled_record(material.cases, LABEL)}
    graph = Graph(columns, find_neighbours(material.cases, material.vouches, settings.most, settled=False))
    return {
        scope: GraphScope(
            tuple(
                tuple(
                    drawn_over(each, graph, first + 10 * seed + place, None, settings)
                    for place, each in enumerate(directions)
                )
                for seed in range(seeds)
            ),
            Platt(0.05, 0.0),
        )
        for scope, directions in DIRECTIONS_OF_NETS.items()
    }


def drawn_model(material: Material, seeds: int = 2, first: int = 0) -> GraphModel:
    """That network as the worker has it in memory."""
    hashed = hash_keys([str(key) for key in material.cases.keys])
    order = np.argsort(hashed)
    scopes = drawn_scopes(material, seeds, first)
    for part in scopes.values():
        for net in (net for seed in part.nets for net in seed):
            net.states_ = net.states_[order]
    return GraphModel("drawn", "drawn", SETTINGS, hashed[order], scopes)


def odds_at(net: GraphSage, cases: Cases, place: int, **moved: float) -> float:
    """The log odds of one case, with some of its own columns moved."""
    rows = {name: column[place : place + 1] for name, column in placed(cases.features, cases).items()}
    return float(net.decision_function({**rows, **{name: np.array([value]) for name, value in moved.items()}})[0])


def added(cases: Cases, extra: Sequence[dict[str, object]]) -> Cases:
    """The cases with others among them, each given by its columns of `Cases`; the rest never happened."""
    count = len(extra)
    columns: dict[str, np.ndarray] = {}
    for field in fields(cases):
        if field.name == "features":
            continue
        old = getattr(cases, field.name)
        blank = (
            np.datetime64("NaT", "us") if old.dtype.kind == "M" else {"keys": "new", "as_sent": -1}.get(field.name, 0)
        )
        new = np.array([one.get(field.name, blank) for one in extra], dtype=old.dtype)
        columns[field.name] = np.concatenate([old, new])
    columns["observed_until"][-count:] = cases.observed_until.max()
    order = np.argsort(columns["opened_at"], kind="stable")
    features = {name: np.append(column, np.full(count, 9.0))[order] for name, column in cases.features.items()}
    return Cases(**{name: column[order] for name, column in columns.items()}, features=features)


def place_of(cases: Cases, key: str) -> int:
    return int(np.flatnonzero(cases.keys == key)[0])


def heard_keys(cases: Cases, net: GraphSage, place: int) -> list[list[str]]:
    """The keys of what one case hears in each relation."""
    return [[str(cases.keys[row]) for row in relation.rows[place] if row >= 0] for relation in net.graph.neighbours]


def vouches_of(pairs: Sequence[tuple[int, int, bool]], since: np.datetime64) -> Vouches:
    count = len(pairs)
    columns = np.array([pair[:2] for pair in pairs], dtype=np.int64).reshape(count, 2)
    kinds = np.array([pair[2] for pair in pairs], dtype=bool)
    return Vouches(
        columns[:, 0], columns[:, 1], kinds, np.full(count, since), np.full(count, np.datetime64("NaT", "us"))
    )


def odds_of_all(net: GraphSage, cases: Cases) -> Floats:
    return net.decision_function(placed(cases.features, cases))
