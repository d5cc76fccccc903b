"""Splits in which the serving model lies below the shrunk rate are named, each of them."""

import numpy as np
import pytest

from scoring.dataset.labels import outcomes
from scoring.training.metrics import gains_by_split, splits_of
from scoring.training.report import _lines_below_rate
from tests.scoring.dataset.people import made_up

CASES = made_up()
CAME = (outcomes(CASES, "label_merge").clean == 1).astype(float)
EVERY = np.ones(len(CASES), dtype=bool)
QUARTERS = np.array(["2020-01-01", "2021-01-01", "2022-01-01"], dtype="datetime64[us]")


def test_each_quarter_and_repository_newcomers_and_outsiders_are_splits() -> None:
    found = splits_of(CASES, QUARTERS, {-1: "one", -2: "two", -9: "none of it"}, ~EVERY, EVERY)
    assert list(found) == ["from 2020-01-01", "from 2021-01-01", "two", "one", "who cannot push"]
    assert not (found["one"] & found["two"]).any()
    assert not CASES.push_holder[found["who cannot push"]].any()


@pytest.mark.parametrize(("told", "worse"), [(0.9, True), (0.7, False)])
def test_a_model_that_is_too_sure_is_worse_for_sure_than_the_rate(told: float, worse: bool) -> None:
    rate = np.full(len(CASES), CAME.mean())
    sure = np.where(CAME == 1, 1 - told, told) if worse else np.where(CAME == 1, told, 1 - told)
    found = gains_by_split(sure, rate, CAME, CASES.authors, {"all": EVERY}, 50, 0)["all"]
    assert found["worse"] is worse
    assert (found["log_loss"] < 0) is worse
    assert len(list(_lines_below_rate({"all": found}))) == worse


def test_of_few_cases_and_authors_nothing_is_sure() -> None:
    sure, rate = np.where(CAME == 1, 0.1, 0.9), np.full(len(CASES), 0.5)
    one = CASES.authors == CASES.authors[0]
    few = np.cumsum(EVERY) <= 29
    found = gains_by_split(sure, rate, CAME, CASES.authors, {"one author": one, "few": few}, 50, 0)
    assert [split["worse"] for split in found.values()] == [False, False]
