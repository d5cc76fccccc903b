"""Estimators learn what is there and nothing that a person moves alone, and come back from their files."""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from scoring.dataset.dataset import MATERIAL_COLUMNS
from scoring.dataset.labels import outcomes
from scoring.dataset.track_record import CLEAN, NOT_CLEAN, settled_record
from scoring.models import storage as model_files
from scoring.models.base import Estimator, FitProblem, Scales
from scoring.models.estimators import Logistic, ShrunkRate
from scoring.models.registry import NAMES, estimator_from_dict, make_estimator
from scoring.models.storage import ModelProblem, Shelf, card_of, load_model, objection, save_model, serve
from scoring.training.metrics import auc
from scoring.training.train import largest_lift, record_of, train
from tests.scoring.dataset.people import made_up, material

CASES = made_up()
CAME = outcomes(CASES, "label_merge").clean
FEATURES = {**CASES.features, **settled_record(CASES, "label_merge")}
DIRECTIONS = {"worth": 1, "noise": 0}


def fitted(name: str, alone: tuple[str, ...] = (), **directions: int) -> Estimator:
    return make_estimator(name, directions or DIRECTIONS, alone=alone, rounds=30).fit(FEATURES, CAME)


@pytest.mark.parametrize("name", NAMES)
def test_every_estimator_tells_people_apart_and_comes_back_from_text(name: str) -> None:
    model = fitted(name)
    odds = model.decision_function(FEATURES)
    assert auc(odds, CAME.astype(float)) > 0.65
    assert model.predict_proba(FEATURES).sum(axis=1) == pytest.approx(np.ones(len(CASES)))
    kept = estimator_from_dict(json.loads(json.dumps(model.as_dict())))
    assert np.array_equal(kept.decision_function(FEATURES), odds)


@pytest.mark.parametrize("name", ["logistic", "lightgbm", "blend"])
def test_more_of_what_never_speaks_against_a_person_never_lowers_them(name: str) -> None:
    model = fitted(name)
    steps = np.linspace(-6, 6, 60)
    odds = model.decision_function({"worth": steps, "noise": np.zeros(60)})
    assert (np.diff(odds) >= -1e-12).all()


def test_a_direction_against_the_data_leaves_the_column_without_effect() -> None:
    assert fitted("logistic", worth=-1, noise=0).as_dict()["coefficients"][0] == 0


def test_the_logistic_model_is_the_optimum_of_its_penalised_loss() -> None:
    from sklearn.linear_model import LogisticRegression

    features = {name: np.nan_to_num(FEATURES[name]) for name in DIRECTIONS}
    ours = Logistic(dict.fromkeys(DIRECTIONS, 0), penalty=2.0).fit(features, CAME)
    columns = ours.scales_.apply(np.column_stack(list(features.values())))
    theirs = LogisticRegression(C=1 / 4.0, tol=1e-10, max_iter=1000).fit(columns, CAME)
    assert ours.coefficients_ == pytest.approx(theirs.coef_[0], abs=1e-5)
    assert ours.intercept_ == pytest.approx(theirs.intercept_[0], abs=1e-5)


@pytest.mark.parametrize("name", ["logistic", "lightgbm", "blend"])
def test_what_a_person_moves_alone_only_lowers(name: str) -> None:
    lowered = fitted(name, alone=("own",), worth=1, own=0)
    without = fitted(name, worth=1)
    assert (lowered.decision_function(FEATURES) <= without.decision_function(FEATURES)).all()


def test_the_blend_is_halfway_between_its_two_models() -> None:
    line, trees, blend = (fitted(name).decision_function(FEATURES) for name in ("logistic", "lightgbm", "blend"))
    assert np.allclose(blend, (line + trees) / 2)


def test_the_self_lift_of_a_model_that_trusts_a_persons_own_column_is_found() -> None:
    rows = {name: column[:50] for name, column in FEATURES.items()}
    trusting = fitted("logistic", worth=1, own=0)
    assert largest_lift(lambda moved: trusting.predict_proba(moved)[:, 1], rows, ("own",)) > 0.2
    without = fitted("logistic", worth=1)
    assert largest_lift(lambda moved: without.predict_proba(moved)[:, 1], rows, ("own",)) == 0
    lowered = fitted("logistic", alone=("own",), worth=1, own=0)
    held = without.predict_proba(rows)[:, 1]
    assert largest_lift(lambda moved: lowered.predict_proba(moved)[:, 1], rows, ("own",), held) == 0


def test_unknown_and_absurd_values_give_a_number_all_the_same() -> None:
    odd = {"worth": np.array([np.nan, np.inf, -np.inf, 1e300, -1e300]), "noise": np.full(5, np.nan)}
    for name in NAMES[1:]:
        assert np.isfinite(fitted(name).decision_function(odd)).all()
    empty = {"worth": FEATURES["worth"], "noise": np.full(len(CASES), np.nan)}
    assert np.isfinite(make_estimator("logistic", DIRECTIONS).fit(empty, CAME).decision_function(empty)).all()


@pytest.mark.parametrize("name", ["logistic", "lightgbm", "blend"])
@pytest.mark.parametrize(
    ("rows", "labels", "words"),
    [
        (0, [], "no history"),
        (2, [1, 1], "all 2 outcomes are the same \\(clean\\)"),
        (2, [0, 0], "all 2 outcomes are the same \\(not clean\\)"),
        (2, [0, 2], "0 or 1"),
    ],
)
def test_what_cannot_be_learned_from_is_said_in_one_sentence(
    name: str, rows: int, labels: list[int], words: str
) -> None:
    features = {column: values[:rows] for column, values in FEATURES.items()}
    with pytest.raises(FitProblem, match=words):
        make_estimator(name, DIRECTIONS).fit(features, np.array(labels))


def test_a_missing_column_is_named() -> None:
    with pytest.raises(FitProblem, match="missing: noise"):
        make_estimator("logistic", DIRECTIONS).fit({"worth": FEATURES["worth"]}, CAME)


def test_the_shrunk_rate_serves_whatever_the_history() -> None:
    none = {CLEAN: np.array([0.0, 3.0, np.nan]), NOT_CLEAN: np.array([0.0, 1.0, np.nan])}
    model = ShrunkRate().fit({}, np.array([], dtype=np.int8))
    assert model.predict_proba(none)[:, 1] == pytest.approx([0.5, 5.5 / 9, 0.5])


@pytest.mark.parametrize(
    "change",
    [
        {"name": "magic"},
        {"coefficients": [1.0]},
        {"coefficients": [float("nan"), 0.0, 0.0]},
        {"scales": {}},
        {"intercept": None},
    ],
)
def test_a_kept_model_that_was_damaged_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(FitProblem):
        estimator_from_dict({**fitted("logistic").as_dict(), **change})


def test_cut_trees_are_refused_before_lightgbm_reads_them() -> None:
    kept = fitted("lightgbm").as_dict()
    for trees in ("", kept["trees"][: len(kept["trees"]) // 2], "tree\nnonsense\nend of trees\n"):
        with pytest.raises(FitProblem):
            estimator_from_dict({**kept, "trees": trees})


def test_a_record_holds_what_was_known_before_the_opening_and_nothing_later() -> None:
    found = outcomes(CASES, "label_merge")
    for place in range(0, len(CASES), 97):
        mine = (CASES.authors == CASES.authors[place]) & (found.known_from < CASES.opened_at[place])
        assert FEATURES[CLEAN][place] == np.count_nonzero(mine & (found.clean == 1))
        assert FEATURES[NOT_CLEAN][place] == np.count_nonzero(mine & (found.clean == 0))


def test_a_column_that_never_moved_has_no_effect() -> None:
    scales = Scales.of(np.full((4, 1), 7.0), np.ones(4))
    assert (scales.apply(np.array([[7.0], [900.0]])) == 0).all()


NOW = datetime(2024, 6, 1)
LABEL = "label_merge"


@pytest.fixture(scope="module")
def record() -> dict:
    ours = material(made_up(n=500, years=1.5))
    return record_of(train(ours, LABEL, NOW, 50, 1), ours, LABEL, NOW, 1)


@pytest.fixture
def kept(record: dict, tmp_path: Path) -> tuple[Path, str]:
    return tmp_path, save_model(tmp_path, record, card_of(record))


def test_a_model_comes_back_as_it_was_trained(kept: tuple[Path, str]) -> None:
    served = load_model(*kept)
    cases = made_up()
    told = served.person.probability({**cases.features, **settled_record(cases, LABEL)})
    assert ((told > 0) & (told < 1)).all()
    assert served.record["scopes"]["person"]["decision"]["serves"] in ("beta", "logistic", "lightgbm")


def test_training_twice_gives_the_same_file(record: dict) -> None:
    ours = material(made_up(n=500, years=1.5))
    again = record_of(train(ours, LABEL, NOW, 50, 1), ours, LABEL, NOW, 1)
    assert json.dumps(again, sort_keys=True) == json.dumps(record, sort_keys=True)


def test_the_card_says_what_it_is_made_of_and_what_it_is_not(record: dict) -> None:
    card = card_of(record)
    assert f"data {record['data']}" in card
    assert "does not judge a person and blocks nobody" in card


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-10], lambda data: data.replace(b"0", b"1", 1), lambda data: b""]
)
def test_a_cut_or_changed_model_is_refused(kept: tuple[Path, str], damage: Callable[[bytes], bytes]) -> None:
    path = kept[0] / f"{kept[1]}.json"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ModelProblem, match="cut or was changed"):
        load_model(*kept)


def test_a_model_of_other_features_is_refused(kept: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_files, "MATERIAL_COLUMNS", MATERIAL_COLUMNS[1:])
    with pytest.raises(ModelProblem, match="other features"):
        load_model(*kept)


def test_a_new_model_serves_without_a_restart(kept: tuple[Path, str], record: dict) -> None:
    folder, name = kept
    shelf = Shelf(folder)
    assert shelf.model(LABEL) is None
    serve(folder, LABEL, name)
    first = shelf.model(LABEL)
    assert first is not None
    assert shelf.model(LABEL) is first
    other = save_model(folder, {**record, "seed": 2}, "")
    serve(folder, LABEL, other)
    second = shelf.model(LABEL)
    assert second is not None
    assert second.name == other


@pytest.mark.parametrize("words", ["../../etc/passwd", "", "x" * 64])
def test_a_pointer_that_names_no_model_is_refused(tmp_path: Path, words: str) -> None:
    (tmp_path / f"{LABEL}.serving").write_text(words)
    with pytest.raises(ModelProblem, match="names no model"):
        Shelf(tmp_path).model(LABEL)


def test_a_worse_model_is_objected_to_and_an_equal_one_is_not(record: dict) -> None:
    worse = json.loads(json.dumps(record))
    worse["scopes"]["person"]["metrics"]["gain"]["log_loss"] = -0.5
    assert "below what the serving model's is at least" in objection(worse, record)
    assert objection(record, record) == objection(worse, None) == ""


@pytest.mark.parametrize("n", [0, 1, 40])
def test_a_poor_history_trains_a_shrunk_rate_and_says_so(n: int) -> None:
    ours = material(made_up(n=60).select(np.arange(n)))
    trained = train(ours, LABEL, NOW, 20, 1)
    assert {part.decision.serves for part in trained.values()} == {"beta"}
    assert "too few to compare on" in trained["person"].decision.trials[1].why
    told = trained["person"].model.predict_proba({"clean_before": np.zeros(1), "not_clean_before": np.zeros(1)})
    assert 0 < told[0, 1] < 1
