"""The graph network among the candidates of a backtest: one rule decides, and every reason of a refusal is told."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scoring.dataset.cases import LabelName
from scoring.dataset.dataset import Material
from scoring.graph.estimator import Graph, GraphSage
from scoring.graph.neighbours import find_neighbours
from scoring.models.base import Floats
from scoring.models.registry import NAMES
from scoring.training.backtest import SCOPES, Plan, Study, _clock, _decide, _study, _try_graph, run, steps
from scoring.training.graph_trial import SETTINGS, UNHEARD, Chain, GraphTrial, directions_of
from scoring.training.promotion import Trial
from scoring.training.report import page, table
from scoring.training.rolling_origin import Clock, Past, Scored, Tell, calibrate_quarters
from scoring.training.summary import GRAPH
from tests.scoring.dataset.people import made_up, material

LABEL: LabelName = "label_merge"


class Told(GraphTrial):
    """A network that was fitted before: its odds are the truth behind noise, and worse with every seed."""

    def __init__(self, folder: Path, noise: float, by_seed: float = 0.0, lift: float = 0.0) -> None:
        super().__init__(folder)
        self.noise, self.by_seed, self.lifted = noise, by_seed, lift

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
        noise = np.random.default_rng(7).normal(0, self.noise, len(past.cases))
        noise += np.random.default_rng(seed).normal(0, 0.1 + self.by_seed * seed, len(past.cases))
        for start in clock.quarters[:-1]:
            for _ in directions_of(material, scope):
                tell(str(start))
        odds = 2.0 * past.observed() - 1 + noise
        return Scored(odds, np.full(len(odds), np.nan))

    def lift(
        self, past: Past, columns: Mapping[str, Floats], material: Material, clock: Clock, judged: np.ndarray
    ) -> float:
        return self.lifted


@pytest.fixture(scope="module", name="study")
def study_fixture() -> Study:
    """A history in which every other model is a guess, so that the network alone may be right."""
    known = material(made_up(3_000, years=6.0))
    plan = Plan((LABEL,), 11, 200)
    study = _study(known, LABEL, _clock(plan, known))
    guess = Scored(np.random.default_rng(0).normal(0.5, 0.1, len(known)), np.full(len(known), np.nan))
    calibrate_quarters(study.past, guess, study.clock)
    study.scored = {(scope, name): guess for scope in SCOPES for name in NAMES}
    return study


def decided(study: Study, trial: GraphTrial, scope: str, told: list[str] | None = None) -> Trial:
    known = replace(study, scored=dict(study.scored), seeds={})
    _try_graph(known, material(study.past.cases), trial, (told if told is not None else []).append)
    plan = Plan((LABEL,), 11, 200, 0, trial)
    decision = _decide(known, scope, plan, known.judged, graph=True)
    assert _decide(known, scope, plan, known.judged).serves == "beta"  # nothing serves the network
    assert known.names[-2:] == (GRAPH, UNHEARD)
    assert (decision.serves == GRAPH) is decision.trials[-1].promoted
    return decision.trials[-1]


def test_a_better_network_is_promoted_by_the_same_rule(study: Study, tmp_path: Path) -> None:
    told: list[str] = []
    trial = Told(tmp_path, noise=1.5)
    made = decided(study, trial, "change", told)
    assert (made.name, made.why) == (GRAPH, "It beats beta.")
    assert made.gain_low is not None
    assert made.gain_low > 0
    assert made.seed_spread is not None
    assert made.seed_spread < 0.01
    assert len(told) == trial.chains() * (len(study.clock.quarters) - 1)


def test_a_network_that_knows_nothing_is_refused_with_the_reason(study: Study, tmp_path: Path) -> None:
    made = decided(study, Told(tmp_path, noise=50.0), "change")
    assert not made.promoted
    assert made.why == "It does not beat beta for sure."


@pytest.mark.parametrize(("by_seed", "lift", "why"), [(1.5, 0.0, "from seed to seed"), (0.0, 0.05, "lift their own")])
def test_a_better_network_is_refused_where_seeds_differ_or_somebody_lifts_themselves(
    study: Study, tmp_path: Path, by_seed: float, lift: float, why: str
) -> None:
    made = decided(study, Told(tmp_path, 1.5, by_seed, lift), "person")
    assert not made.promoted
    assert why in made.why


def test_the_table_and_the_json_show_the_network_twice_with_what_it_gains(tmp_path: Path) -> None:
    told: list[str] = []
    known, plan = material(made_up()), Plan((LABEL,), 1, 20, 0, Told(tmp_path, noise=1.5))
    results, extras = run(known, plan, told.append)
    figures = json.loads(json.dumps(results, allow_nan=False))["labels"][LABEL]
    for group in (figures, figures["without_push_holders"]):
        assert list(group["models"]) == ["beta", "logistic", "lightgbm", "blend", GRAPH, UNHEARD]
        assert group["trials"]["trials"][-1]["name"] == GRAPH
        assert set(group["graph_gain"]) == {"blend", UNHEARD}
    assert len(told) == steps(plan, known)
    lines = list(table(results))
    assert sum(line.startswith("    graphsage: ") for line in lines) == 4  # two scopes, with and without push-holders
    assert sum("gain of graphsage over blend" in line for line in lines) == 4
    assert GRAPH in page(results, extras)


def test_scores_are_read_again_for_the_same_data_seed_and_settings_and_for_nothing_else(tmp_path: Path) -> None:
    known = material(made_up(400, years=2.0))
    clock = _clock(Plan((LABEL,), 2), known)
    past = _study(known, LABEL, clock).past
    trial = GraphTrial(tmp_path / "pyg")
    keys = {
        trial._key(past, known, clock, directions, name, seed)
        for directions in directions_of(known, "person")
        for name in (GRAPH, UNHEARD)
        for seed in (0, 1)
    }
    assert len(keys) == 8
    changed = GraphTrial(tmp_path)._key(past, material(made_up(400, seed=2, years=2.0)), clock, known.person, GRAPH, 0)
    assert changed not in keys
    (tmp_path / "pyg").mkdir()
    for number, directions in enumerate(directions_of(known, "person")):
        odds = np.arange(400.0) * (1 - 2 * number)
        np.save(tmp_path / "pyg" / f"odds-{trial._key(past, known, clock, directions, GRAPH, 0)}.npy", odds)
    told: list[str] = []
    scored = trial.score(past, known.cases.features, known, clock, "person", GRAPH, 0, told.append)
    assert scored.odds.tolist() == (-np.arange(400.0)).tolist()  # the lower of the two
    assert len(told) == 2 * (len(clock.quarters) - 1)


def test_each_model_of_a_chain_begins_where_the_one_before_ended() -> None:
    known = material(made_up(60))
    graph = Graph(known.cases.features, find_neighbours(known.cases, known.vouches, 2, settled=False))
    chain = Chain(known.person, graph, SETTINGS, seed=3)
    first, second = (chain.make(np.datetime64("2024-01-01")) for _ in range(2))
    assert isinstance(second, GraphSage)
    assert first.start is None
    assert second.start is first
