"""Checks that no feature knows the future: it must be the same from all data and from the data of its moment.

Reads a cursor on which `build_cases` has run, and leaves it as it was.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from ingest.store.transaction import Rows

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
