"""Read the progress of the first reading started on /setup, and the number of cases for the next training."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np

from ingest.store.transaction import Rows
from scoring.dataset.dataset import build_cases, read_cases, read_lane
from scoring.dataset.labels import SETTLED_DAYS
from scoring.models.serving import LABEL
from scoring.training.process import next_start
from scoring.training.promotion import FEWEST_AUTHORS, FEWEST_CASES
from scoring.training.rolling_origin import Clock, Past, first_judged

LEAST_SECONDS, LEAST_ACCOUNTS = 5.0, 3  # below either a pace is noise
NEWEST = """
select b.state, b.began_clock, count(a.did) as accounts, count(*) filter (a.state <> 'waiting') as ended,
  count(*) filter (a.state in ('absent', 'failed')) as missing, coalesce(sum(a.records), 0)::bigint as records
from backfills b left join backfill_accounts a using (run_id)
where run_id = (select run_id from backfills where reason = 'setup' order by began_clock desc, run_id limit 1)
group by b.state, b.began_clock
"""
# Runs over every account; they continue after the reading started here and fill in the rest of the vouch graph.
WHOLE = """
select count(a.did) as accounts, count(*) filter (a.state <> 'waiting') as ended
from backfills b left join backfill_accounts a using (run_id)
where b.state <> 'done' and b.reason in ('first_start', 'gap') group by b.run_id order by accounts desc limit 1
"""
WAITING = """
select (select count(*) from watched_repositories) as watched,
  (select coalesce(max(cursor_us), 0) from ingest_state) as cursor_us,
  (select count(*) from watched_repositories w join repositories r using (repository_id)
    anti join fetches f on f.kind = 'push_holders' and f.subject = r.repo_key) as unasked,
  (select count(*) from pull_requests semi join watched_repositories using (repository_id)
    where deleted_at is null) as pulls
"""


@dataclass(frozen=True, slots=True)
class FirstReading:
    """The progress that /setup shows. `state` is 'none' where no reading was started.

    `accounts` counts those known so far: each answer may lead to more. `missing` could not be fetched. `seconds_left`
    is None until there is a pace. `rest` counts finished and all accounts of the run over everybody, None where none
    runs; `unasked` counts watched repositories whose knot has not yet been asked who may push.
    """

    state: Literal["none", "reading", "done"]
    is_heard: bool
    watched: int
    unasked: int
    pulls: int
    accounts: int = 0
    ended: int = 0
    missing: int = 0
    records: int = 0
    seconds_left: float | None = None
    rest: tuple[int, int] | None = None


def first_reading(rows: Rows, as_of: datetime) -> FirstReading:
    """Return the progress in this snapshot, which was published at `as_of` (naive UTC)."""
    totals, run, whole = rows.row(WAITING), rows.row(NEWEST), rows.row(WHOLE)
    assert totals is not None  # noqa: S101 - a select without a table has one row
    rest = (whole["ended"], whole["accounts"]) if whole else None
    shared_counts = (totals["cursor_us"] > 0, totals["watched"], totals["unasked"], totals["pulls"])
    if run is None:
        return FirstReading("none", *shared_counts, rest=rest)
    done = run["state"] == "done"
    left = None if done else seconds_left(run["ended"], run["accounts"], (as_of - run["began_clock"]).total_seconds())
    counts = (run["accounts"], run["ended"], run["missing"], run["records"])
    return FirstReading("done" if done else "reading", *shared_counts, *counts, seconds_left=left, rest=rest)


def seconds_left(ended: int, accounts: int, elapsed: float) -> float | None:
    """Return how long the rest takes at the pace so far; None while too little has finished to know a pace."""
    if ended < LEAST_ACCOUNTS or elapsed < LEAST_SECONDS:
        return None
    return max(accounts - ended, 0) * elapsed / ended


@dataclass(frozen=True, slots=True)
class TrainingNeed:
    """The settled pull requests that models are compared on and the number of their authors, with the minimum of both.

    Below the minimum the plain rate serves. A pull request is settled `quiet_days` after it was opened. `days` lie
    between trainings, 0: never. `due` is naive UTC; None: at once. `is_training`: one runs beside the pages.
    """

    cases: int
    authors: int
    days: int
    due: datetime | None
    fewest_cases: int = FEWEST_CASES
    fewest_authors: int = FEWEST_AUTHORS
    quiet_days: int = SETTLED_DAYS
    is_training: bool = False

    @property
    def is_enough(self) -> bool:
        return self.cases >= self.fewest_cases and self.authors >= self.fewest_authors


def training_need(snapshot: Rows, now: datetime, folder: Path, days: int, window_days: int) -> TrainingNeed:
    """Count the cases that training would compare models on, as it counts them; `folder` holds the models.

    Reading the cases takes 40 ms for 13,000 pull requests, so callers cache the result.
    """
    build_cases(snapshot, now, window_days)
    past, moment = Past(read_cases(snapshot), LABEL, read_lane(snapshot, now)), np.datetime64(now, "us")
    judged = past.judged(Clock.of(first_judged(past.cases, moment), moment).judged_from)
    began = next_start(folder, days)
    due = None if began is None else datetime.fromtimestamp(began, UTC).replace(tzinfo=None)
    authors = len(np.unique(past.cases.authors[judged]))
    return TrainingNeed(int(judged.sum()), authors, days, None if due is None or due <= now else due)
