"""Networks whose weights are drawn: what holds of them holds whatever a fit may learn. And cases put among others."""

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from scoring.dataset.cases import Cases, Vouches
from scoring.graph.estimator import Graph, GraphSage, placed
from scoring.graph.inputs import RELATIONS, Columns, Settings, Weights
from scoring.graph.neighbours import find_neighbours
from scoring.graph.states import states_of
from scoring.models.base import Design, Floats, Scales

DIRECTIONS = {"worth": 1, "noise": 0, "repository_pace": 0, "lines_changed": 0, "repository_open": -1}
SETTINGS = Settings(most=4, hidden=6, steps=15, again=5, dropout=0.2)
DAY = np.timedelta64(1, "D")


def with_columns(cases: Cases, seed: int = 0) -> Cases:
    """The cases with a column of each node and direction; the first person's `worth` is what it was."""
    draw = np.random.default_rng(seed)
    columns = {name: draw.normal(0, 1, len(cases)) for name in DIRECTIONS}
    return replace(cases, features={**columns, "worth": cases.features["worth"], "noise": cases.features["noise"]})


def drawn_weights(widths: dict[str, int], hidden: int, seed: int) -> Weights:
    """Weights of every layer, large ones; those that signed columns pass are not negative, as a fit keeps them."""
    draw = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {}
    for name, width in (("pull_first", "pull"), ("pull_second", "pull_free")):
        shapes |= {f"{name}.weight": (hidden, widths[width]), f"{name}.bias": (hidden,)}
    for name in RELATIONS:
        seen = hidden + widths[f"facts_{name}"]
        rounds = {"second": (seen, widths[f"{name}_free"])}
        if name != "vouched":
            rounds["first"] = (widths["all"] + widths[f"facts_{name}"], widths[name])
        for step, (heard, own) in rounds.items():
            shapes |= {f"{step}.{name}.lin_l.weight": (hidden, heard), f"{step}.{name}.lin_l.bias": (hidden,)}
            shapes |= {f"{step}.{name}.lin_r.weight": (hidden, own)}
        shapes |= {f"second.{name}.lin.weight": (seen, seen), f"second.{name}.lin.bias": (seen,)}
    shapes |= {"turn.weight": (hidden, hidden), "turn.bias": (hidden,), "reach.bias": (1,), "free.weight": (1, hidden)}
    weights = {name: draw.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    monotone = {"rise.weight": (hidden, widths["signed"]), "reach.weight": (1, hidden)}
    monotone["line.weight"] = (1, widths["signed"])
    drawn = {name: np.abs(draw.normal(0, 1, shape)).astype(np.float32) for name, shape in monotone.items()}
    return {**weights, **drawn}


def drawn_net(cases: Cases, vouches: Vouches, seed: int = 0, scales: Scales | None = None) -> GraphSage:
    """A network with drawn weights over these cases, its states computed; `scales` are those of these cases if None."""
    graph = Graph(cases.features, find_neighbours(cases, vouches, SETTINGS.most, settled=False))
    net = GraphSage(DIRECTIONS, graph, SETTINGS)
    matrix = Design(tuple(DIRECTIONS)).matrix(cases.features)
    net.scales_ = scales or Scales.of(matrix, np.ones(len(cases)))
    net.columns_ = Columns.of(DIRECTIONS, net.scales_)
    inputs = net._inputs(cases.features, graph.neighbours)
    net.weights_ = drawn_weights(inputs.widths(), SETTINGS.hidden, seed)
    net.states_ = states_of(inputs, net.weights_)
    return net


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
