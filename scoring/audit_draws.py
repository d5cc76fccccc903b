"""The draws of the audit in the store: how many there were, and those of one pass."""

from datetime import datetime

from ingest.transaction import Rows, Transaction
from scoring.audit import Ballot
from scoring.decisions import Pass
from scoring.policy import Policy

SPAN = 14  # days over which the turnout is counted
TURNOUT = """
select count(*) as all_time, count(*) filter (drawn_at > $now - to_days($span)) as lately, min(drawn_at) as first_at
from audit_draws
"""


def read_ballot(rows: Rows, now: datetime, policy: Policy) -> Ballot | None:
    """The ballot of a pass at this moment; None without a key: what asks for a draw is not fast-laned then."""
    if not policy.audit_key:
        return None
    told = rows.row(TURNOUT, {"now": now, "span": SPAN}) or {}
    first = told.get("first_at") or now
    days = min(max((now - first).total_seconds() / 86_400, 1.0), SPAN)
    return Ballot(policy.audit, policy.audit_key, told.get("all_time") or 0, (told.get("lately") or 0) / days)


def keep_draws(txn: Transaction, one: Pass) -> None:
    """Write the draws of a pass, with their odds."""
    if one.ballot is None:
        return
    txn.append_new(
        "audit_draws",
        [
            {
                "pull_uri": pull_uri,
                "repository_id": repository_id,
                "odds": draw.odds,
                "drawn": draw.drawn,
                "drawn_at": one.now,
                "drawn_clock": one.wall,
            }
            for pull_uri, (repository_id, draw) in one.ballot.draws.items()
        ],
    )
