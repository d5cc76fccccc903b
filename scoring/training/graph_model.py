"""Tries the graph network in a training, as the fifth candidate by the same rule, and stores it with its card.

A trial takes many times as long as the other models: nine chains of fits, each through every quarter of the judged
years. So it begins once the model of a training serves; killed in between, it leaves everything as it was.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain as joined
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ingest.files import write_whole
from scoring.dataset.cases import Cases, Directions, LabelName
from scoring.dataset.dataset import Material
from scoring.graph.checkpoint import (
    CheckpointProblem,
    GraphScope,
    path_of,
    point,
    pointed,
    remove_checkpoint,
    save_checkpoint,
)
from scoring.graph.estimator import Graph, GraphSage, placed
from scoring.graph.inputs import Settings
from scoring.models.base import Floats
from scoring.training.graph_card import card_text, rings
from scoring.training.graph_trial import SEEDS, SETTINGS, Chain, directions_of, graph_of, lift_alone
from scoring.training.metrics import auc
from scoring.training.promotion import Candidate, Decision, decide
from scoring.training.rolling_origin import Scored, calibrate_quarters, fit_as_of, map_at, score_quarters
from scoring.training.summary import (
    ENDING,
    GRAPH,
    GRAPH_FORM,
    Group,
    ShownGraph,
    ShownTimes,
    ShownTrial,
    shown_trial,
    write_summary,
)
from scoring.training.summary import Scope as ScopeName
from scoring.training.train import Scope, Slice, Tell, Trained, scopes_of

MOST_CASES = 150_000  # nine nets keep 64 numbers of each: 345 MB
ONE_MORE = 20  # calls of one pull request, timed


class GraphProblem(Exception):
    """The reason, in one sentence, why there is no graph network to try."""


@dataclass(frozen=True, slots=True)
class TrainedGraph:
    """Both scopes of a fitted network, the rule's decision for each scope and group, and its times."""

    scopes: Mapping[str, GraphScope]
    trials: tuple[ShownTrial, ...]
    fit_seconds: float
    one_ms: float


def try_graph(
    material: Material,
    label: LabelName,
    now: datetime,
    trained: Mapping[str, Trained],
    draws: int,
    seed: int,
    tell: Tell = lambda words: None,
    clock: Callable[[], float] = time.perf_counter,
) -> TrainedGraph:
    """Fit the network as of every judged quarter and of `now`, and try it against what `trained` tried.

    Raises GraphProblem where nothing can be learned.
    """
    if not 0 < len(material) <= MOST_CASES:
        raise GraphProblem(f"GraphSAGE is tried on 1 to {MOST_CASES:,} pull requests, not on {len(material):,}.")
    settings = SETTINGS
    scopes, trials, seconds = {}, list[ShownTrial](), list[float]()
    for scope in scopes_of(material, label, now, draws, seed):
        fitted = _fit_scope(scope, settings, tell, clock, seconds)
        part = trained[scope.name]
        scopes[scope.name] = GraphScope(fitted.nets, map_at(scope.past, fitted.scored, scope.moment)[0])
        candidate = _candidate(scope, part.validation, fitted, settings)
        trials += _trials(scope, part, candidate, label, material.cases)
    return TrainedGraph(scopes, tuple(trials), max(seconds), _time_one(scopes, material, label, now, settings, clock))


@dataclass(frozen=True, slots=True)
class _Fitted:
    nets: tuple[tuple[GraphSage, ...], ...]
    by_seed: tuple[Floats, ...]
    scored: Scored


def _fit_scope(
    scope: Scope, settings: Settings, tell: Tell, clock: Callable[[], float], seconds: list[float]
) -> _Fitted:
    graph = graph_of(scope.features, scope.material, settings)
    nets, by_seed = [], []
    for seed in range(scope.seed, scope.seed + SEEDS):
        parts = [
            _fit_chain(scope, graph, directions, settings, seed, tell, clock, seconds)
            for directions in directions_of(scope.material, scope.name)
        ]
        nets.append(tuple(net for net, _ in parts))
        by_seed.append(np.min([odds for _, odds in parts], axis=0))
    odds = np.mean(by_seed, axis=0)
    scored = Scored(odds, np.full(len(odds), np.nan))
    calibrate_quarters(scope.past, scored, scope.clock)
    return _Fitted(tuple(nets), tuple(by_seed), scored)


def _fit_chain(
    scope: Scope,
    graph: Graph,
    directions: Directions,
    settings: Settings,
    seed: int,
    tell: Tell,
    clock: Callable[[], float],
    seconds: list[float],
) -> tuple[GraphSage, Floats]:
    """Return the network as of now, which goes on from the last quarter's, and the log odds of every case."""
    columns, chain = placed(scope.features, scope.past.cases), Chain(directions, graph, settings, seed)
    scored = score_quarters(scope.past, columns, chain.make, scope.clock, tell)
    began = clock()
    net = fit_as_of(scope.past.at(scope.moment), columns, chain.make(scope.moment), scope.moment, scored.said)
    seconds.append(clock() - began)
    if not isinstance(net, GraphSage):
        raise GraphProblem(f"GraphSAGE was not tried: {scored.said[-1]}.")
    return net, scored.odds


def _candidate(scope: Scope, validation: Slice, fitted: _Fitted, settings: Settings) -> Candidate:
    which, observed = validation.which, validation.observed
    aucs = tuple(auc(odds[which], observed) for odds in fitted.by_seed) if which.any() else ()
    lift = 0.0  # of a change, which the gate caps
    if scope.name == "person" and which.any():
        lift = lift_alone(scope.past, scope.features, scope.material, scope.clock, which, settings)
    return Candidate(GRAPH, fitted.scored.predicted[which], tuple(value for value in aucs if not np.isnan(value)), lift)


def _trials(scope: Scope, part: Trained, graph: Candidate, label: LabelName, cases: Cases) -> list[ShownTrial]:
    """Return the trial on all judged cases, on which the rule decides, and on those of people who may not push."""
    everybody = np.ones(len(part.validation.observed), dtype=bool)
    groups: dict[Group, NDArray[np.bool_]] = {
        "all": everybody,
        "outside": ~cases.push_holder[part.validation.which],
    }
    name: ScopeName = "person" if scope.name == "person" else "change"
    tried = (
        shown_trial(_decide(scope, part, graph, mask).as_dict(), label, name, group) for group, mask in groups.items()
    )
    return [trial for trial in tried if trial is not None]


def _decide(scope: Scope, part: Trained, graph: Candidate, mask: NDArray[np.bool_]) -> Decision:
    candidates = [replace(one, predicted=one.predicted[mask]) for one in (*part.candidates, graph)]
    observed, authors = part.validation.observed[mask], part.validation.authors[mask]
    return decide(candidates, observed, authors, scope.draws, scope.seed)


def _time_one(
    scopes: Mapping[str, GraphScope],
    material: Material,
    label: LabelName,
    now: datetime,
    settings: Settings,
    clock: Callable[[], float],
) -> float:
    """Return the milliseconds that the newest pull request takes from its columns, neighbours and stored states."""
    scope = scopes_of(material, label, now, 1, 0)[0]
    row = {name: column[-1:] for name, column in scope.features.items()}
    neighbours = graph_of(scope.features, material, settings).neighbours.at(np.array([len(material) - 1]))
    began = clock()
    for part in joined.from_iterable([scopes.values()] * ONE_MORE):
        part.probability(row, neighbours)
    return (clock() - began) / ONE_MORE * 1_000


def store_graph(
    folder: Path,
    states_folder: Path,
    graph: TrainedGraph,
    material: Material,
    label: LabelName,
    now: datetime,
    is_current: Callable[[], bool],
) -> ShownGraph:
    """Write states, checkpoint and card, point the label at them and remove what it pointed at; return the card.

    `is_current`: nobody was erased since the material was read. Raises GraphProblem if somebody was, since states of
    theirs were just written; then they are removed again. Raises OSError.
    """
    keys = [str(key) for key in material.cases.keys]
    name = save_checkpoint(folder, states_folder, label, keys, graph.scopes, SETTINGS)
    if not is_current():  # asked after writing: an erasure from now on finds the file
        remove_checkpoint(folder, states_folder, name)
        raise GraphProblem("GraphSAGE was not stored: somebody was erased meanwhile. The next training tries it again.")
    size = path_of(folder, name).stat().st_size
    size += sum(net.states_.nbytes for part in graph.scopes.values() for seed in part.nets for net in seed)
    times = ShownTimes(round(graph.fit_seconds, 1), round(graph.one_ms, 2), size)
    moment = now.replace(microsecond=0)
    card = ShownGraph(GRAPH_FORM, moment, len(material), SEEDS, graph.trials, rings(), name, times)
    write_summary(folder / f"{name}{ENDING}", card)
    write_whole(folder / f"{name}.md", card_text(card).encode())
    try:
        replaced = pointed(folder, label)
    except CheckpointProblem:
        replaced = None
    point(folder, label, name)
    if replaced is not None and replaced != name:
        remove_checkpoint(folder, states_folder, replaced, name)
        for ending in (ENDING, ".md"):
            (folder / f"{replaced}{ending}").unlink(missing_ok=True)
    return card
