"""A person's share of passed CI runs enters no model before enough settled cases have it."""

from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest

from scoring.dataset.dataset import Material
from scoring.dataset.labels import settled
from scoring.training.train import CHECKS, FEWEST_CHECKED, train, without_rare_checks
from tests.scoring.dataset.people import made_up

NOW = datetime(2026, 1, 1)


@pytest.mark.parametrize(("checked", "kept"), [(0, False), (FEWEST_CHECKED - 1, False), (FEWEST_CHECKED, True)])
def test_ci_is_unknown_to_a_model_until_enough_settled_cases_have_it(checked: int, kept: bool) -> None:
    cases = made_up()
    rates = np.full(len(cases), np.nan)
    rates[np.flatnonzero(settled(cases))[:checked]] = 0.5
    given = {CHECKS: rates, "other": np.ones(len(cases))}
    found = without_rare_checks(cases, given)
    assert np.count_nonzero(~np.isnan(found[CHECKS])) == (checked if kept else 0)
    assert found["other"] is given["other"]


def test_cases_that_are_not_settled_do_not_count() -> None:
    made = made_up()
    cases = replace(made, observed_until=np.where(np.arange(len(made)) < 400, made.opened_at, made.observed_until))
    rates = np.where(settled(cases), np.nan, 0.5)
    assert np.count_nonzero(~np.isnan(rates)) >= FEWEST_CHECKED
    assert np.isnan(without_rare_checks(cases, {CHECKS: rates})[CHECKS]).all()


def test_a_model_trained_on_rare_ci_runs_gives_them_no_weight() -> None:
    cases = made_up()
    rates = np.full(len(cases), np.nan)
    rates[np.flatnonzero(settled(cases))[: FEWEST_CHECKED - 1]] = 0.5
    given = replace(cases, features={**cases.features, CHECKS: rates})
    ours = Material(given, {"worth": 1, CHECKS: 1}, {"worth": 1, CHECKS: 1}, (), {-1: "one", -2: "two", -3: "three"})
    model = train(ours, "label_merge", NOW, 20, 1)["person"].model
    person = {"worth": np.full(3, 0.4), "clean_before": np.full(3, 4.0), "not_clean_before": np.ones(3)}
    told = model.decision_function({**person, CHECKS: np.array([0.0, 1.0, np.nan])})
    assert len(set(told.tolist())) == 1
