"""What a backfill has come to: in numbers while it runs, and what could not be had and why when it is done."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from ingest.archive import read_log
from ingest.transaction import Rows

EXAMPLES, REASONS = 5, 20
SPAN_SECONDS = 60.0
NOT_HAD = """
select state, reason, count(*) as accounts, list(did order by did)[:?] as examples
from backfill_accounts where run_id = ? and reason is not null and state <> 'waiting'
group by state, reason order by accounts desc, reason
"""
STATES = """
select state, count(*) as n, sum(records)::bigint as records from backfill_accounts where run_id = ? group by state
"""
LOGGED = """
select count(*) filter (operation <> 'delete') as logged, count(*) filter (operation = 'delete') as deletes
from {events} where source = 'backfill' and loaded_clock between ? and ?
"""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands; `state` is as in `backfills`."""

    state: str
    accounts: int
    ended: int
    records: int


def progress(rows: Rows, run_id: str) -> Progress | None:
    """Where a run stands; None where there is no such run (yet)."""
    row = rows.row(
        "select b.state, count(a.did) as accounts, count(*) filter (a.state <> 'waiting') as ended, "
        "coalesce(sum(a.records), 0)::bigint as records "
        "from backfills b left join backfill_accounts a using (run_id) where run_id = ? group by b.state",
        [run_id],
    )
    return Progress(**row) if row else None


def summarize(rows: Rows, run_id: str) -> dict[str, Any]:
    """Accounts, records, and what could not be had: at most 20 reasons, with counts and up to 5 examples each."""
    run = rows.row("select * from backfills where run_id = ?", [run_id])
    if run is None:
        raise LookupError(f"there is no backfill {run_id}")
    states = {row["state"]: row for row in rows.rows(STATES, [run_id])}
    ended = run["ended_clock"] or rows.value("select max(loaded_clock) from events")
    (logged,) = read_log(rows, LOGGED, [run["began_clock"], ended])
    reasons = rows.rows(NOT_HAD, [EXAMPLES, run_id])
    others = sum(row["accounts"] for row in reasons[REASONS:])
    return {
        "run": run_id,
        "why": run["reason"],
        "state": run["state"],
        "accounts": sum(row["n"] for row in states.values()),
        **{state: states[state]["n"] if state in states else 0 for state in ("done", "absent", "failed", "waiting")},
        "records": sum(row["records"] for row in states.values()),
        **logged,
        "seconds": (run["ended_clock"] - run["began_clock"]).total_seconds() if run["ended_clock"] else None,
        "not_had": reasons[:REASONS] + ([{"reason": "other reasons", "accounts": others}] if others else []),
        "notes": run["notes"],
    }


@dataclass(slots=True)
class Estimate:
    """How long the rest takes at the rate of the last minute."""

    _seen: deque[tuple[float, int]] = field(default_factory=deque)

    def left(self, moment: float, ended: int, accounts: int) -> float | None:
        """Seconds that remain when so many have ended at this moment; None while nothing ends."""
        self._seen.append((moment, ended))
        while len(self._seen) > 2 and self._seen[0][0] < moment - SPAN_SECONDS:
            self._seen.popleft()
        first_moment, first_ended = self._seen[0]
        if ended <= first_ended or moment <= first_moment:
            return None
        return (accounts - ended) * (moment - first_moment) / (ended - first_ended)
