"""Where what serves lies below the shrunk rate: told for each split, and never for sure on real history."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from scoring.labels import outcomes
from scoring.learning.backtest import Plan, Study, _clock, _study, maker
from scoring.learning.backtest_words import _below
from scoring.learning.cases import LABELS
from scoring.learning.material import Material
from scoring.learning.past_material import material_of_file
from scoring.learning.records import settled_record
from scoring.learning.rolling import calibrate_quarters, score_quarters
from scoring.learning.splits import gains_by_split, splits_of
from scoring.policy import Policy
from tests.scoring.learning.people import made_up

CASES = made_up()
CAME = (outcomes(CASES, "label_merge").clean == 1).astype(float)
EVERY = np.ones(len(CASES), dtype=bool)
QUARTERS = np.array(["2020-01-01", "2021-01-01", "2022-01-01"], dtype="datetime64[us]")


def test_each_quarter_and_repository_newcomers_and_outsiders_are_splits() -> None:
    found = splits_of(CASES, QUARTERS, {-1: "one", -2: "two", -9: "none of it"}, ~EVERY, EVERY)
    assert list(found) == ["from 2020-01-01", "from 2021-01-01", "two", "one", "without push-holders"]
    assert not (found["one"] & found["two"]).any()
    assert not CASES.push_holder[found["without push-holders"]].any()


@pytest.mark.parametrize(("told", "worse"), [(0.9, True), (0.7, False)])
def test_a_model_that_is_too_sure_is_worse_for_sure_than_the_rate(told: float, worse: bool) -> None:
    rate = np.full(len(CASES), CAME.mean())
    sure = np.where(CAME == 1, 1 - told, told) if worse else np.where(CAME == 1, told, 1 - told)
    found = gains_by_split(sure, rate, CAME, CASES.authors, {"all": EVERY}, 50, 0)["all"]
    assert found["worse"] is worse
    assert (found["log_loss"] < 0) is worse
    assert len(list(_below({"all": found}))) == worse


def test_of_few_cases_and_authors_nothing_is_sure() -> None:
    sure, rate = np.where(CAME == 1, 0.1, 0.9), np.full(len(CASES), 0.5)
    one = CASES.authors == CASES.authors[0]
    few = np.cumsum(EVERY) <= 29
    found = gains_by_split(sure, rate, CAME, CASES.authors, {"one author": one, "few": few}, 50, 0)
    assert [split["worse"] for split in found.values()] == [False, False]


def test_on_real_history_what_serves_is_worse_than_the_shrunk_rate_in_no_split_for_sure(
    shared: Path, tmp_path: Path, prove: bool
) -> None:
    file = shared / "data" / "pr_history.parquet"
    material = material_of_file(file, tmp_path, datetime(2026, 11, 20), Policy())
    clock, splits = _clock(replace(Plan(), quarters=None if prove else 2), material), 0
    for label in LABELS if prove else ("label_clean_fix",):
        study = _study(material, label, clock)
        parts = splits_of(material.cases, clock.quarters, material.repositories, study.newcomers, study.tested)
        plain, person, change = (
            told(study, material, *model)
            for model in (("person", "beta"), ("person", "logistic"), ("change", "logistic"))
        )
        for served in (person, change, np.minimum(person, change)):
            found = gains_by_split(served, plain, study.came.astype(float), material.cases.authors, parts, 200, 0)
            assert [name for name, one in found.items() if one["worse"]] == []
            splits += len(found)
    assert splits >= 20


def told(study: Study, material: Material, scope: str, name: str) -> np.ndarray:
    """The calibrated probabilities of a model, quarter by quarter."""
    features = {**material.cases.features, **settled_record(material.cases, study.label)}
    with threadpool_limits(1):
        scored = score_quarters(study.past, features, maker(name, material, scope, 0), study.clock, lambda words: None)
    calibrate_quarters(study.past, scored, study.clock)
    return scored.told
