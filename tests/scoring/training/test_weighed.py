"""shap's summary plot of what trees weigh: drawn from LightGBM's own shares, the same each time, into the page."""

import struct

import numpy as np
import pytest

from scoring.dataset.track_record import CLEAN
from scoring.models.registry import make_estimator
from scoring.training.report import MOST_CASES, Weighed, _summary, summary_plot, weighed

DIRECTIONS = {CLEAN: 1, "lines_changed": 0, "structural_trust": 1}
ROWS = 900


@pytest.fixture(scope="module")
def found() -> Weighed:
    draw = np.random.default_rng(3)
    columns = {name: draw.random(ROWS) for name in DIRECTIONS}
    columns["lines_changed"][::5] = np.nan
    labels = (draw.random(ROWS) < columns[CLEAN]).astype(np.int8)
    model = make_estimator("lightgbm", DIRECTIONS, rounds=10).fit(columns, labels)
    told = weighed(model, columns, np.arange(ROWS) > 100, seed=1)
    assert told is not None
    return told


def test_of_many_cases_some_are_drawn_and_each_share_has_its_value(found: Weighed) -> None:
    assert found.shares.shape == found.values.shape == (MOST_CASES, len(DIRECTIONS))
    assert found.names == tuple(DIRECTIONS)
    assert abs(found.shares).mean(axis=0).argmax() == 0


def test_without_trees_or_cases_nothing_is_drawn_and_the_page_says_so() -> None:
    assert weighed(None, {}, np.ones(3, dtype=bool), 0) is None
    assert weighed(make_estimator("logistic", DIRECTIONS), {}, np.ones(3, dtype=bool), 0) is None
    assert "No trees could be fitted" in _summary(None)


def test_the_plot_is_an_image_that_is_the_same_each_time_and_moves_nobodys_random_numbers(found: Weighed) -> None:
    before = np.random.get_state()[1].tolist()  # ty: ignore[invalid-argument-type]
    first, second = summary_plot(found), summary_plot(found)
    assert np.random.get_state()[1].tolist() == before  # ty: ignore[invalid-argument-type]
    assert first == second
    assert first.startswith(b"\x89PNG\r\n")
    width, height = struct.unpack(">II", first[16:24])
    assert 400 < width < 1600
    assert 200 < height < 1200
    assert len(first) < 200_000
