"""No feature knows the future: what came after the opening changes none, and a planted look ahead is caught."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from ingest.history_import.pulls import import_past
from ingest.store.transaction import Rows
from scoring.dataset.dataset import QUERY, add_features, build_cases, read_cases
from tests.conftest import count
from tests.scoring.dataset.leakage import find_leaks
from tests.scoring.dataset.past_projects import (
    EMPTY,
    Case,
    case,
    day,
    histories,
    known_people,
    place,
)
from tests.stores import fresh_store


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rows]:
    with known_people(tmp_path_factory.mktemp("leaks")) as found:
        yield found


@settings(max_examples=count(5, 500))
@given(history=histories())
def test_deleting_every_event_after_opening_changes_no_feature(rows: Rows, history: list[Case]) -> None:
    place(rows, history)
    rows.rows(EMPTY)
    moments = sorted({one["opened_at"] for one in history})
    assert find_leaks(rows, QUERY, moments[len(moments) // 2 :: max(len(moments) // 3, 1)]) == {}


@pytest.mark.parametrize(
    "planted",
    ["c.merged_at is not null", "epoch(c.merged_at)", "(select count(*) from cases d where d.author_id = c.author_id)"],
)
def test_a_planted_column_of_the_future_is_caught(rows: Rows, planted: str) -> None:
    place(rows, [case(0, merged_at=3), case(1), case(5, merged_at=9)])
    rows.rows(EMPTY)
    query = f"select f.*, ({planted})::double as planted from ({QUERY}) f join cases c using (key)"
    assert set(find_leaks(rows, query, [day(1), day(5)])) == {"planted"}


def test_what_was_learned_of_a_person_later_changes_nothing_either(rows: Rows) -> None:
    place(rows, [case(4), case(10), case(30)])
    rows.rows(EMPTY)
    assert find_leaks(rows, QUERY, [day(10)]) == {}
    newest = "select max(value::double) from signals where source = 'bluesky' and key = 'followers'"
    late = f"select key, ({newest}) as f from cases"
    assert find_leaks(rows, late, [day(10)]) == {"f": 2}


def test_real_history_has_no_future_in_its_features(tmp_path: Path, shared: Path) -> None:
    store = fresh_store(tmp_path / "trust.duckdb")
    import_past(store, shared / "data" / "pr_history.parquet", None, "github")
    with store.read() as found:
        build_cases(found, day(700), 14)
        cases = add_features(found, read_cases(found))
        assert len(cases) > 13_000
        assert find_leaks(found, QUERY, [np.datetime64("2024-06-01").astype(object)]) == {}
    store.close()
    known = {name: float(np.isfinite(column).mean()) for name, column in cases.features.items()}
    assert min(known[name] for name in ("merge_rate_here", "repository_merge_rate", "merged_here")) > 0.95
    assert known["structural_trust"] == 0
