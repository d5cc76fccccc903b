"""Features of 1,000,000 pull requests: `python -m tests.bench.bench_features [PULLS]`, with DATA_ROOT a marked folder.

One line of JSON a way: seconds of wall time, the best of three, and of CPU. Goal: all features in 5 s on 2 cores.
pandas and the self-join compute only four of them (FOUR): pandas by `merge_asof` on running counts, the self-join by
comparing each pull request with all earlier ones of its author. Last comes the sample of whole people for training.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ingest.store.database import Store
from ingest.store.transaction import Rows
from scoring.dataset.dataset import NAMES, add_features, build_cases, draw_people, prepare_slices, read_cases
from tests.scoring.dataset.past_projects import UNTIL
from trustsite.settings import DATA_ROOT

PULLS = 1_000_000
THREADS = 2
FOUR = ("merged_here", "refused_here", "merged_pr_count", "days_since_merge_here")
# Half of all pull requests are by an eighth of 200,000 people, and half go to a quarter of 500 repositories.
WORLD = """
insert into cases by name
with drawn as (
  select i, (200000 * random() ** 3)::bigint + 1 as author_id, (500 * random() ** 2)::bigint + 1 as repository_id,
    timestamp '2016-01-01' + to_seconds((315360000 * random())::bigint) as opened_at, random() as fate,
    random() as wait, random() as size
  from range($pulls) t(i)
)
select concat('at://', i) as key, author_id, repository_id, opened_at, timestamp '2027-01-01' as observed_until,
  case when fate < .65 then opened_at + to_minutes((130000 * wait ** 3)::bigint) end as merged_at,
  case when fate >= .7 then opened_at + interval 180 day end as refused_at,
  case when fate < .01 then opened_at + interval 100 day end as reverted_at,
  case when fate < .15 then opened_at + interval 95 day end as patched_at,
  case when fate < .04 then opened_at + interval 95 day end as patched_fix_at,
  false as push_holder, false as checks_known, -1 as as_sent, (500 * size ** 2)::bigint as additions,
  (200 * size * wait)::bigint as deletions, 1 + (10 * wait)::bigint as files_touched, size < .3 as touches_tests,
  size > .9 as docs_only, false as touches_sensitive, false as is_bot, 'merged' as state
from drawn
"""
SELF_JOIN = """
select c.key,
  count(*) filter (e.merged_at < c.opened_at and e.repository_id = c.repository_id) as merged_here,
  count(*) filter (e.refused_at < c.opened_at and e.repository_id = c.repository_id) as refused_here,
  count(*) filter (e.merged_at < c.opened_at) as merged_pr_count,
  epoch(c.opened_at - max(e.merged_at) filter (e.merged_at < c.opened_at and e.repository_id = c.repository_id)) / 86400
    as days_since_merge_here
from cases c left join cases e on e.author_id = c.author_id and e.opened_at < c.opened_at
group by c.key, c.opened_at
"""


def with_pandas(cases: pd.DataFrame) -> pd.DataFrame:
    """The four features by sorted joins on running sums."""
    merged = cases.dropna(subset=["merged_at"]).sort_values("merged_at")
    refused = cases.dropna(subset=["refused_at"]).sort_values("refused_at")
    here = ["author_id", "repository_id"]
    ways = (
        (merged, "merged_at", here, "merged_here"),
        (refused, "refused_at", here, "refused_here"),
        (merged, "merged_at", ["author_id"], "merged_pr_count"),
    )
    found = cases.sort_values("opened_at")
    for events, when, keys, name in ways:
        told = events[[*keys, when]].rename(columns={when: "moment"})
        told[name] = told.groupby(keys).cumcount() + 1
        told[f"{name}_at"] = told["moment"]
        found = pd.merge_asof(
            found, told, left_on="opened_at", right_on="moment", by=keys, allow_exact_matches=False
        ).drop(columns="moment")
    found["days_since_merge_here"] = (found["opened_at"] - found["merged_here_at"]).dt.total_seconds() / 86_400
    return found


def measure(way: str, work: Callable[[], Any], columns: int, times: int = 3) -> None:
    """Print the best wall time of `work` and its CPU."""
    best, used = np.inf, 0.0
    for _ in range(times):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        seconds, cpu = time.perf_counter() - wall, time.process_time() - cpu
        if seconds < best:
            best, used = seconds, cpu
    print(json.dumps({"features": way, "columns": columns, "s": round(best, 2), "cpu_s": round(used, 2)}), flush=True)


def main(pulls: int) -> None:
    """Build the world in a store, then compute its features in three ways."""
    with tempfile.TemporaryDirectory(dir=DATA_ROOT) as folder:
        store = Store.open(Path(folder) / "trust.duckdb", memory_mb=4096)
        with store.read() as rows:
            _run(rows, pulls)
        store.close()


def fill_world(rows: Rows, pulls: int) -> None:
    """Let the cases of this cursor be so many, drawn from WORLD, for two threads."""
    rows.rows(f"set threads = {THREADS}")
    build_cases(rows, UNTIL, 14)
    prepare_slices(rows)
    rows.rows("select setseed(.5)")
    rows.rows(WORLD, {"pulls": pulls})
    rows.rows("create or replace temp table cases as from cases order by opened_at, key")


def _run(rows: Rows, pulls: int) -> None:
    fill_world(rows, pulls)
    cases = read_cases(rows)
    measure("one query", lambda: add_features(rows, cases), len(NAMES))
    columns = rows.columns("select author_id, repository_id, opened_at, merged_at, refused_at from cases")
    frame = pd.DataFrame({name: np.ma.filled(column) for name, column in columns.items()})
    for name in ("merged_at", "refused_at"):
        frame.loc[np.ma.getmaskarray(columns[name]), name] = pd.NaT
    measure("pandas", lambda: with_pandas(frame)[list(FOUR)], len(FOUR))
    measure("self-join", lambda: rows.columns(SELF_JOIN), len(FOUR), times=1)
    measure("a tenth drawn for training", lambda: draw_people(rows, pulls // 10), 0, times=1)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else PULLS)
