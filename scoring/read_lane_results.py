"""What became of what the fast lane itself let through, month by month, read from a snapshot."""

from dataclasses import dataclass
from math import sqrt

from ingest.transaction import Rows
from scoring.estimated_lanes import OUTCOMES
from scoring.lane_certificates import LANE

MONTHS = 13  # the newest: a year and the month under way
SIGMAS = 1.959964  # of a normal distribution on either side of a 95 % interval
BY_MONTH = f"""
select strftime(known_from, '%Y-%m') as month, count(*) as n, count(*) filter (bad) as bad
from ({LANE} union {OUTCOMES}) group by month order by month desc limit {MONTHS}
"""


@dataclass(frozen=True, slots=True)
class LaneMonth:
    """Of `n` >= 1 pull requests of the lane whose outcome became known in one month ("2026-03"), `bad` were not clean.

    `low` and `high` are a 95 % interval of their share that takes each for itself; those whom the lane would have let
    through but for the audit are among them.
    """

    month: str
    n: int
    bad: int
    low: float
    high: float


def lane_results(rows: Rows) -> tuple[LaneMonth, ...]:
    """The newest months in which outcomes of the fast lane became known, the oldest first; empty where none has."""
    now = rows.value("select max(as_of) from current_scores")
    found = rows.rows(BY_MONTH, {"now": now}) if now else []
    return tuple(
        LaneMonth(row["month"], row["n"], row["bad"], *share_interval(row["bad"], row["n"])) for row in reversed(found)
    )


def share_interval(bad: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of n >= 1, within [0, 1]; it needs no SciPy, of which pages are spared."""
    share, spread = bad / n, SIGMAS**2 / n
    middle = share + spread / 2
    half = SIGMAS * sqrt(share * (1 - share) / n + spread / (4 * n))
    low, high = (middle - half) / (1 + spread), (middle + half) / (1 + spread)
    return max(0.0, round(low, 9)), min(1.0, round(high, 9))
