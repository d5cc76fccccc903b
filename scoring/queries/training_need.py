"""How much the next training has to learn from, counted on a snapshot, and when the worker starts it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ingest.store.transaction import Rows
from scoring.dataset.labels import SETTLED_DAYS
from scoring.training.process import next_start
from scoring.training.promotion import FEWEST_AUTHORS, FEWEST_CASES

YEARS = 5  # before the year of the newest settled one: what models are compared on, as in scoring.training.train
SETTLED = f"""
with settled as (
  select p.author_id, p.seen_at as opened_at from pull_requests p semi join labels using (pull_uri)
  where p.seen_at + to_days({SETTLED_DAYS}) <= $now
  union all
  select author_id, opened_at from imported_pulls
  where usable and coalesce(merged_at, refused_at) is not null
    and opened_at + to_days({SETTLED_DAYS}) <= observed_until
)
select count(*) as cases, count(distinct author_id) as authors from settled
where opened_at >= (select date_trunc('year', max(opened_at)) - to_years({YEARS}) from settled)
"""


@dataclass(frozen=True, slots=True)
class TrainingNeed:
    """Settled pull requests that models are compared on and how many people sent them, with the least of both.

    Below the least the plain rate serves. One is settled `quiet_days` after it was opened. `days` lie between
    trainings, 0: never. `due` is naive UTC; None: at once.
    """

    cases: int
    authors: int
    days: int
    due: datetime | None
    fewest_cases: int = FEWEST_CASES
    fewest_authors: int = FEWEST_AUTHORS
    quiet_days: int = SETTLED_DAYS


def training_need(snapshot: Rows, now: datetime, folder: Path, days: int) -> TrainingNeed:
    """Count what is settled and read when the worker trains next; `folder` holds the models."""
    row = snapshot.row(SETTLED, {"now": now})
    began = next_start(folder, days)
    due = None if began is None else datetime.fromtimestamp(began, UTC).replace(tzinfo=None)
    found = row or {"cases": 0, "authors": 0}
    return TrainingNeed(found["cases"], found["authors"], days, None if due is None or due <= now else due)
