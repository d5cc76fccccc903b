"""A pass takes the model that serves: its words are kept, capped by the author, and replaced without a restart."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingest.store.database import StreamClock
from scoring.config.policy import Policy
from scoring.dataset.dataset import MATERIAL_COLUMNS
from scoring.explain.sentences import factor_label
from scoring.explain.what_would_change import WAYS
from scoring.gate.decide import judge_inputs, read_inputs
from scoring.models.calibration import CalibrationCases, Platt
from scoring.models.estimators import Boosted, Logistic
from scoring.models.registry import NAMES, SHRUNK_RATE
from scoring.models.serving import LABEL, Predictions, _predict_scope, _ways, _widen, predict, read_columns, version_of
from scoring.models.storage import FORMAT, ServedModel, features, load_model, save_model, serve
from scoring.pipeline.score import score
from scoring.pipeline.stored import read_verdict
from scoring.queries import read
from scoring.queries.past_decisions import judge_again
from scoring.thresholds import Thresholds
from scoring.types import Lane
from tests.ingest.stream.frames import ANA, at
from tests.pipeline import Result
from tests.scoring.pipeline.offered_world import offered_world

WARNINGS = frozenset({"denounced_by_seed", "high_flag", "content_risk_high", "low_probability"})
PERSON = {one.name: one.direction for one in MATERIAL_COLUMNS if one.of == "person"}
CHANGE = {one.name: one.direction for one in MATERIAL_COLUMNS}
ROWS = 200
SHUT = Thresholds()


def made_up_model(
    seed: int,
    offset: float = 0.0,
    names: tuple[str, str] = ("logistic", "logistic"),
    alone: float = 0.0,
    rounds: int = 5,
) -> dict[str, Any]:
    """The record of a model that was fitted to columns drawn at random.

    `offset` lifts what it says of changes, and `alone` of people.
    """
    draw = np.random.default_rng(seed)
    columns = {name: draw.lognormal(0, 1, ROWS) for name in CHANGE}
    labels = (draw.random(ROWS) < 0.7).astype(np.int8)
    parts = {}
    for (scope, directions), name in zip({"person": PERSON, "change": CHANGE}.items(), names, strict=True):
        made = Boosted(directions, seed=seed, rounds=rounds) if name == "lightgbm" else Logistic(directions)
        model = made.fit(columns, labels)
        odds = model.decision_function(columns)
        behind = CalibrationCases.of(odds, labels, np.ones(ROWS), np.arange(ROWS))
        parts[scope] = {
            "model": model.as_dict(),
            "calibration": Platt(1.0, offset if scope == "change" else alone).as_dict(),
            "behind": {name: column.tolist() for name, column in behind._asdict().items()},
        }
    return {"format": FORMAT, "features": features(), "scopes": parts, "seed": seed}


def shrunk(prior: float) -> dict[str, Any]:
    """A kept shrunk rate."""
    counts = {"clean": "clean_before", "not_clean": "not_clean_before"}
    return {"name": "beta", **counts, "strength": 5.0, "prior": prior}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Result]:
    with offered_world(tmp_path / "store") as result:
        yield result


@pytest.fixture
def judge(world: Result, tmp_path: Path) -> Callable[[dict[str, Any] | None], dict[str, dict[str, Any]]]:
    """Lets a model serve (None: what serves goes on), runs a pass and returns the decisions by address."""
    folder = tmp_path / "models"

    def judged(record: dict[str, Any] | None, thresholds: Thresholds = SHUT) -> dict[str, dict[str, Any]]:
        if record is not None:
            serve(folder, LABEL, save_model(folder, record, ""))
        score(world.store, StreamClock(world.store), Policy(thresholds=thresholds, models=folder))
        with world.store.read() as rows:
            return {row["pull_uri"]: row for row in rows.rows("select * from current_decisions")}

    return judged


def people(world: Result) -> list[dict[str, Any]]:
    with world.store.read() as rows:
        return rows.rows("select * from current_scores order by contributor_id, repository_id")


@pytest.mark.parametrize("names", [("logistic", "logistic"), ("lightgbm", "lightgbm"), ("logistic", "beta")])
def test_what_the_model_says_stands_in_every_judgement_with_its_interval(
    world: Result, judge: Callable, names: tuple[str, str]
) -> None:
    record = made_up_model(1, names=(names[0], "logistic" if names[1] == "beta" else names[1]))
    if names[1] == "beta":
        record["scopes"]["change"]["model"] = shrunk(0.6)
    for row in [*judge(record).values(), *people(world)]:
        assert row["model_version"].startswith(LABEL)
        assert 0 <= row["low"] <= row["probability"] <= row["high"] <= 1
        assert 0 <= row["cases"] <= ROWS
        effects = [factor.effect for factor in read_verdict(row).factors]
        assert all(effect for effect in effects)
        assert effects == sorted(effects, key=lambda effect: -abs(effect or 0))


@pytest.mark.parametrize(
    ("similar", "low", "high"), [(1, 0.0, 0.8), (5, 0.02, 0.56), (45, 0.08, 0.29), (10_000, 0.1, 0.2)]
)
def test_an_interval_is_as_wide_as_the_cases_behind_it_are_few(similar: int, low: float, high: float) -> None:
    widened = _widen(np.array([0.1]), np.array([0.2]), np.array([0.16]), np.array([similar]))
    found = [float(end[0]) for end in widened]
    assert found[0] <= low + 0.01
    assert found[1] >= high - 0.01
    assert found[0] <= 0.1
    assert found[1] >= 0.2
    certain = _widen(np.array([0.0]), np.array([1.0]), np.array([0.0]), np.array([similar]))
    assert [float(end[0]) for end in certain] == [0.0, 1.0]


def test_a_chance_that_no_settled_case_had_is_no_number_and_no_other_takes_its_place(
    world: Result, judge: Callable
) -> None:
    """Not even a high one: an author would choose a change that a model never saw."""
    record = made_up_model(1)
    record["scopes"]["person"]["behind"]["odds"] = [9.0] * ROWS  # near 1, where nobody of this world is
    record["scopes"]["person"]["calibration"] = Platt(1.0, -4.0).as_dict()
    for row in [*judge(record).values(), *people(world)]:
        verdict = read_verdict(row)
        assert (row["probability"], row["cases"], verdict.factors) == (None, 0, ())
        assert verdict.lane is not Lane.FAST_LANE
        assert row["model_version"].startswith(LABEL)


def test_a_change_that_has_gone_quiet_does_not_lower_its_own_author(world: Result, tmp_path: Path) -> None:
    """It counts as refused from then on, also of its author's next change, and of nobody before it came."""
    record = made_up_model(1, alone=-3.0)  # what is said of the author alone is lower
    served = load_model(tmp_path, save_model(tmp_path, record, ""))
    late = at(400 * 86_400)
    with world.store.read() as rows:
        pulls = rows.rows("select pull_uri, author_id, repository_id from pull_requests where state = 'open'")
        changes = {row["pull_uri"]: (row["author_id"], row["repository_id"]) for row in pulls}
        now, later = (predict(rows, served, changes.values(), changes, {}, moment, 14) for moment in (at(30), late))
        columns, places, _ = read_columns(rows, sorted(set(changes.values())), list(changes), late, 14)
    as_opened = _predict_scope(served.person, columns)
    for uri, author in changes.items():
        assert columns["refused_here"][places[author]] > columns["refused_here"][places[uri]]
        assert later.changes[uri].estimate == as_opened.at(places[uri])[0]
        assert later.people[author].estimate == as_opened.at(places[author])[0]
        assert now.changes[uri].estimate == now.people[author].estimate, "as long as it waits"


def test_every_factor_has_words(judge: Callable) -> None:
    for row in judge(made_up_model(1)).values():
        for factor in read_verdict(row).factors:
            assert factor_label(factor.name) != factor.name.replace("_", " ").capitalize()


@pytest.mark.parametrize("name", ["logistic", "lightgbm"])
def test_where_nobody_is_to_be_judged_a_model_says_nothing(world: Result, tmp_path: Path, name: str) -> None:
    served = load_model(tmp_path, save_model(tmp_path, made_up_model(1, names=(name, name)), ""))
    with world.store.read() as rows:
        assert predict(rows, served, [], {}, {}, at(30), 14) == Predictions(version_of(served))


@pytest.mark.parametrize("name", ["logistic", "lightgbm"])
def test_a_model_says_the_same_after_it_was_kept_and_read_again(tmp_path: Path, name: str) -> None:
    draw = np.random.default_rng(1)
    columns = {one: draw.lognormal(0, 1, ROWS) for one in CHANGE}
    record = made_up_model(1, names=(name, name))
    labels = np.array(record["scopes"]["change"]["behind"]["came"], dtype=np.int8)
    served = load_model(tmp_path, save_model(tmp_path, record, ""))
    for part, directions in ((served.person, PERSON), (served.change, CHANGE)):
        fitted = Boosted(directions, seed=1, rounds=5) if name == "lightgbm" else Logistic(directions)
        told = fitted.fit(columns, labels).decision_function(columns)
        assert np.allclose(part.model.decision_function(columns), told, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["logistic", "lightgbm"])
def test_what_a_model_says_of_a_change_does_not_depend_on_those_it_is_asked_about_with_it(
    tmp_path: Path, name: str
) -> None:
    """So changes may be judged in any parts, on any number of machines, and in every bit the same comes out."""
    served = load_model(tmp_path, save_model(tmp_path, made_up_model(3, names=(name, name), rounds=20), ""))
    draw, asked = np.random.default_rng(4), 40
    columns = {column: np.where(draw.random(asked) < 0.1, np.nan, draw.lognormal(0, 1, asked)) for column in CHANGE}
    together = _said(served, columns, 0, asked)
    assert any(ways for *_, ways in together)
    for size in (1, 7):
        parts = [_said(served, columns, begin, begin + size) for begin in range(0, asked, size)]
        assert [one for part in parts for one in part] == together


def _said(served: ServedModel, columns: dict[str, Any], begin: int, end: int) -> list[Any]:
    """Chances with intervals and factors of the rows of both scopes, and what would bring them to .7."""
    part = {name: column[begin:end] for name, column in columns.items()}
    places = [*range(len(part["merged_here"]))]
    ways = _ways(served, part, {"change": places, "person": places}, np.full(len(places), 0.7))
    scopes = [_predict_scope(scope, part) for scope in (served.person, served.change)]
    return [(*(scope.at(place) for scope in scopes), ways[place]) for place in places]


def test_the_same_verdict_follows_from_what_was_kept(judge: Callable) -> None:
    for row in judge(made_up_model(1)).values():
        inputs = read_inputs(row["inputs"])
        assert inputs.prediction is not None
        assert inputs.prediction.model == inputs.model_version == row["model_version"]
        assert judge_inputs(inputs).estimate.probability == row["probability"]
        assert judge_again(row).is_same


def test_whatever_somebody_sends_says_no_more_of_it_than_of_its_author(world: Result, judge: Callable) -> None:
    decisions = judge(made_up_model(1, offset=9.0))
    alone = {(row["contributor_id"], row["repository_id"]): row["probability"] for row in people(world)}
    assert decisions
    for row in decisions.values():
        assert row["probability"] == alone[row["contributor_id"], row["repository_id"]]
    lowered = judge(made_up_model(1, offset=-9.0))
    assert all(row["probability"] < decisions[uri]["probability"] for uri, row in lowered.items())


@pytest.mark.parametrize("name", NAMES)
def test_whatever_model_serves_and_however_low_it_says_nobody_needs_a_person_for_lack_of_history(
    world: Result, judge: Callable, name: str
) -> None:
    fitted = "logistic" if name == "beta" else name
    record = made_up_model(1, -40.0, (fitted, fitted), -40.0)
    if name == "beta":
        for scope in record["scopes"].values():
            scope["model"] = shrunk(0.01)
    decisions = judge(record).values()
    rows = [(row, {one.code: one.params for one in read_verdict(row).reasons}) for row in [*people(world), *decisions]]
    unknown = [(row, told) for row, told in rows if not told["track_record"]["cases"]]
    assert len(unknown) >= 3
    for row, told in unknown:
        assert row["lane"] == Lane.NORMAL_QUEUE or told.keys() & WARNINGS - {"low_probability"}
        assert "low_probability" not in told
    known = [row for row, told in rows if told["track_record"]["cases"]]
    assert name == "beta" or all(row["lane"] == Lane.NEEDS_HUMAN for row in known)


def test_the_next_lane_is_told_with_what_would_bring_it_there_and_it_would(world: Result, judge: Callable) -> None:
    before = judge(made_up_model(1))
    high = max(row["probability"] for row in before.values()) + 0.002
    after = judge(None, Thresholds(t_low=0.0, t_high=high))
    predicted = {uri: read_inputs(row["inputs"]).prediction for uri, row in after.items()}
    ways = {uri: said.ways for uri, said in predicted.items() if said}
    assert ways.keys() == after.keys()
    assert any(ways.values())
    assert {way.name for found in ways.values() for way in found} <= set(WAYS)
    with world.store.read() as rows:
        told = {row.uri: row.would_change for row in read.pulls(rows, list(ways))}
    for uri, found in ways.items():
        assert ("Any one of these would reach it" in told[uri]) == bool(found)


def test_of_the_site_it_is_unknown_what_is_usual_in_a_repository(world: Result) -> None:
    with world.store.read() as rows:
        ana = rows.value("select contributor_id from contributors where did = ?", [ANA])
        here = rows.value("select any_value(repository_id) from pull_requests")
        columns, places, _ = read_columns(rows, [(ana, 0), (ana, here)], [], at(30), 14)
    assert np.isnan(columns["repository_pace"][places[ana, 0]])
    assert np.isfinite(columns["repository_pace"][places[ana, here]])


def test_a_new_model_serves_with_the_next_pass_and_every_decision_is_made_anew(world: Result, judge: Callable) -> None:
    first, second = judge(made_up_model(1)), judge(made_up_model(2))
    assert {row["model_version"] for row in first.values()}.isdisjoint(row["model_version"] for row in second.values())
    with world.store.read() as rows:
        before = rows.value("select count(*) from scores")
    judge(None)
    with world.store.read() as rows:
        assert rows.value("select count(*) from scores") == before


def test_a_model_that_is_cut_is_told_and_the_shrunk_rate_serves(
    world: Result, judge: Callable, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "models"
    name = save_model(folder, made_up_model(1), "")
    serve(folder, LABEL, name)
    kept = folder / f"{name}.json"
    kept.write_bytes(kept.read_bytes()[:-1])
    with caplog.at_level(logging.WARNING):
        assert {row["model_version"] for row in judge(None).values()} == {SHRUNK_RATE}
        judge(None)
    assert [one.getMessage() for one in caplog.records if one.name == "scoring.models.serving"] == [
        f"The shrunk rate serves: model {name[:12]} is cut or was changed: its name is not the hash of its content."
    ]


def test_without_a_model_the_version_is_that_of_the_shrunk_rate() -> None:
    assert version_of(None) == SHRUNK_RATE
