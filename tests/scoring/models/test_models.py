"""Four estimators: what they learn from a made-up truth, what they refuse, and that text brings them back."""

import json

import numpy as np
import pytest

from scoring.dataset.labels import outcomes
from scoring.dataset.track_record import CLEAN, NOT_CLEAN, settled_record
from scoring.models.base import Estimator, FitProblem, Scales
from scoring.models.estimators import Logistic, ShrunkRate
from scoring.models.registry import NAMES, estimator_from_dict, make_estimator
from scoring.training.metrics import auc
from scoring.training.train import largest_lift
from tests.scoring.dataset.people import made_up

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
