"""No feature knows anything of what came after the opening: everything later is deleted, and nothing changes."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from ingest.history_import.pulls import import_past
from ingest.store.transaction import Rows
from scoring.dataset.dataset import QUERY, add_features, build_cases, read_cases
from tests.conftest import count
from tests.scoring.dataset.past_projects import EMPTY, Case, case, day, histories, known_people, place
from tests.stores import fresh_store

CLOSE = 1e-9  # relative: sums of other rows are added in another order
# What became known at the moment itself was not known before it.
KNOWN = """
create or replace temp table cases as
select * replace (least(observed_until, $moment) as observed_until, {times})
from whole_cases where opened_at <= $moment order by opened_at, key
"""
TIMES = ("merged_at", "refused_at", "reverted_at", "patched_at", "patched_fix_at", "failed_at")
SEEN = {"comments": "seen_at", "ci_runs": "observed_at", "signals": "known_from"}  # table -> when a row was seen
SLICED = ("slice_dates", "trust_slices")


def find_leaks(rows: Rows, query: str, moments: Sequence[datetime]) -> dict[str, int]:
    """Columns of `query` that what happened at or after a moment changes, each with in how many cases.

    `query` selects `key` and one number a column for each case, as features.sql does. A case is compared at every one
    of `moments` that is not before its opening. ValueError where a case is missing once the future is.
    """
    whole, leaks = rows.columns(query), dict[str, int]()
    place = {key: index for index, key in enumerate(whole["key"])}
    for moment in moments:
        with _only_known(rows, moment):
            then = rows.columns(query)
        expected = sum(opened <= np.datetime64(moment) for opened in _opened(rows))
        if len(then["key"]) != expected:
            raise ValueError(f"{expected - len(then['key'])} cases have no features as of {moment}")
        same = np.array([place[key] for key in then["key"]], dtype=np.int64)
        for name in (name for name in whole if name != "key"):
            changed = int((~_equal(_floats(whole[name])[same], _floats(then[name]))).sum())
            if changed:
                leaks[name] = leaks.get(name, 0) + changed
    return leaks


@contextmanager
def _only_known(rows: Rows, moment: datetime) -> Generator[None]:
    """Within, the cursor reads only what was known before `moment`: a temporary table hides that of the store."""
    times = ", ".join(f"case when {name} < $moment then {name} end as {name}" for name in TIMES)
    rows.rows("create or replace temp table whole_cases as from cases")
    for table in SLICED:
        rows.rows(f"create or replace temp table whole_{table} as from {table}")
    rows.rows(KNOWN.format(times=times), {"moment": moment})
    for table in SLICED:
        rows.rows(f"delete from {table} where as_of >= $moment", {"moment": moment})
    for table, seen in SEEN.items():
        rows.rows(f"create temp table {table} as from {table} where {seen} < $moment", {"moment": moment})
    try:
        yield
    finally:
        for table in SEEN:
            rows.rows(f"drop table temp.{table}")
        for table in ("cases", *SLICED):
            rows.rows(f"create or replace temp table {table} as from whole_{table}")
            rows.rows(f"drop table whole_{table}")


def _opened(rows: Rows) -> NDArray[np.datetime64]:
    """Return when each case that has features was opened."""
    return rows.columns("select opened_at from cases where not is_bot")["opened_at"].astype("datetime64[us]")


def _floats(column: NDArray[np.generic]) -> NDArray[np.float64]:
    return np.ma.filled(np.ma.asarray(column).astype(np.float64), np.nan)


def _equal(before: NDArray[np.float64], after: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.isclose(before, after, rtol=CLOSE, atol=CLOSE, equal_nan=True)


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
