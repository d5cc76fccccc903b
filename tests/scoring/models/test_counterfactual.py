"""The change that is said to bring P(clean) to the next lane does, and it is the least: for every model."""

from collections.abc import Mapping

import numpy as np
import pytest

from scoring.dataset.dataset import MATERIAL_COLUMNS
from scoring.dataset.track_record import CLEAN, NOT_CLEAN
from scoring.models.base import Estimator, Floats
from scoring.models.calibration import Platt
from scoring.models.registry import NAMES, make_estimator
from scoring.models.serving import LEVERS, MOST_MERGES, Columns, Part, find_ways
from scoring.types import Needed

PERSON = {one.name: one.direction for one in MATERIAL_COLUMNS if one.of == "person"}
SHARES = {one.name for one in MATERIAL_COLUMNS if one.unit in ("0 to 1", "yes or no")}
ROWS = 300


def people(rows: int = ROWS) -> dict[str, Floats]:
    """Rows whose every seventh has no merge yet, and so no rate of any."""
    draw = np.random.default_rng(7)
    columns = {
        name: draw.random(rows) if name in SHARES else draw.poisson(3, rows).astype(np.float64) for name in PERSON
    }
    for name in ("merged_here", "merged_pr_count", CLEAN):
        columns[name][::7] = 0
    for name in ("revert_rate", "close_without_merge_ratio"):
        columns[name][::7] = np.nan
    return columns


@pytest.fixture(scope="module", params=NAMES)
def fitted(request: pytest.FixtureRequest) -> Estimator:
    """Each estimator, fitted on people whose clean rate follows record, trust and denounces."""
    columns, draw = people(), np.random.default_rng(11)
    odds = 0.6 * (columns[CLEAN] - columns[NOT_CLEAN]) + 2 * columns["structural_trust"] - columns["denounce_count"]
    labels = (draw.random(ROWS) < 1 / (1 + np.exp(-odds))).astype(np.int8)
    return make_estimator(request.param, PERSON).fit(columns, labels)


def says(model: Estimator, offset: float = 0.0) -> Part:
    """What a model says of all rows."""
    return (lambda columns: Platt(1.0, offset).probability(model.decision_function(columns))), people()


def moved(columns: Columns, row: int, way: Needed, needed: float) -> Mapping[str, Floats]:
    """One row after somebody did that much."""
    lever = next(one for one in LEVERS if one.name == way.name)
    return lever.move({name: column[row : row + 1] for name, column in columns.items()}, np.array([needed]))


def test_what_is_said_to_do_does_and_the_amount_before_it_does_not(fitted: Estimator) -> None:
    part, columns = says(fitted), people()
    now = part[0](columns)
    targets = np.minimum(now + 0.02, 1.0)
    found = find_ways([part], targets)
    assert sum(map(bool, found)) > ROWS / 4
    for row, ways in enumerate(found):
        for way in ways:
            lever = next(one for one in LEVERS if one.name == way.name)
            tried = list(lever.tries(way.value))
            before = tried[: tried.index(way.needed)]
            assert part[0](moved(columns, row, way, way.needed))[0] >= targets[row]
            assert all(part[0](moved(columns, row, way, one))[0] < targets[row] for one in before)


def test_where_two_models_speak_the_lower_one_has_to_be_brought_there_too(fitted: Estimator) -> None:
    parts = [says(fitted, 5.0), says(fitted)]
    alone, targets = says(fitted), parts[1][0](people()) + 0.02
    assert find_ways(parts, targets) == find_ways([alone], targets)


def test_nothing_is_said_where_the_target_is_reached_or_none(fitted: Estimator) -> None:
    part = says(fitted)
    now = part[0](people())
    assert not any(find_ways([part], now))
    assert not any(find_ways([part], np.full(ROWS, np.nan)))
    assert find_ways([(part[0], {name: column[:0] for name, column in part[1].items()})], np.empty(0)) == []


def test_nothing_is_promised_that_nothing_would_bring(fitted: Estimator) -> None:
    assert not any(find_ways([says(fitted)], np.full(ROWS, 1.1)))


def test_what_is_unknown_is_moved_by_nobody() -> None:
    columns = people(3) | {name: np.full(3, np.nan) for name in ("merged_here", "structural_trust", "denounce_count")}
    asked: list[int] = []

    def refuses(rows: Columns) -> Floats:
        asked.append(len(rows[CLEAN]))
        return np.zeros(len(rows[CLEAN]))

    assert find_ways([(refuses, columns)], np.full(3, 0.5)) == [()] * 3
    assert asked == [3]


def test_no_way_is_one_that_its_author_goes_alone() -> None:
    """Rule 9 of docs/threat-model.md: what a lever moves directly is moved by a push-holder or a voucher."""
    movers = {one.name: one.moved_by for one in MATERIAL_COLUMNS}
    assert {movers[lever.column] for lever in LEVERS} <= {"push-holder", "voucher"}


def test_more_clean_merges_move_every_rate_that_follows_from_them() -> None:
    columns = people() | {name: np.zeros(ROWS) for name in ("merged_pr_count", "merged_here", "refused_here")}
    columns |= {name: np.full(ROWS, np.nan) for name in ("revert_rate", "close_without_merge_ratio")}
    columns["merge_rate_here"] = np.full(ROWS, 0.65)
    after = LEVERS[0].move(columns, np.full(ROWS, 8.0))
    assert after["merged_here"].tolist() == [8.0] * ROWS
    assert after["revert_rate"].tolist() == after["close_without_merge_ratio"].tolist() == [0.0] * ROWS
    assert np.allclose(after["merge_rate_here"], (8 + 2 * 0.65) / 10)
    assert (after["lately_rate"] > columns["lately_rate"]).mean() > 0.5
    assert all(np.isfinite(after[name]).all() for name in after if np.isfinite(columns[name]).all())


def test_everything_is_tried_at_once_and_of_a_row_little() -> None:
    """One question whatever the number of rows, and few rows tried for each: it runs in every pass."""
    asked: list[int] = []

    def refuses(rows: Columns) -> Floats:
        asked.append(len(rows[CLEAN]))
        return np.zeros(len(rows[CLEAN]))

    find_ways([(refuses, people())], np.full(ROWS, 0.5))
    assert len(asked) == 1
    assert asked[0] < (MOST_MERGES + 23) * ROWS


def test_the_words_of_every_column_stand_alone() -> None:
    """They are shown in the order of their effect, so that none can refer to the one before it."""
    assert not [one.words for one in MATERIAL_COLUMNS if one.words.startswith(("the same", "those", "it "))]
