"""The draws of the audit in the store: how many there were, and those of one pass."""

from datetime import datetime

from ingest.transaction import Rows, Transaction
from scoring.audit import Ballot
from scoring.decisions import Pass
from scoring.policy import Policy
from scoring.verdict import Draw

SPAN = 14  # days over which the turnout is counted
# What an estimated lane lets through takes no turn of the others.
TURNOUT = """
select count(*) as all_time, count(*) filter (first_at > $now - to_days($span)) as lately, min(first_at) as first_at
from (select min(drawn_at) as first_at from audit_draws where estimated is null group by pull_uri)
"""
# The odds of a round are never below those of the one before it.
EARLIER = """
select pull_uri, bool_or(drawn) as drawn, max(odds) as odds
from audit_draws semi join (from pull_requests where state = 'open') using (pull_uri) group by pull_uri
"""


def read_ballot(rows: Rows, now: datetime, policy: Policy) -> Ballot | None:
    """The ballot of a pass at this moment; None without a key: what asks for a draw is not fast-laned then."""
    if not policy.audit_key:
        return None
    told = rows.row(TURNOUT, {"now": now, "span": SPAN}) or {}
    first = told.get("first_at") or now
    days = min(max((now - first).total_seconds() / 86_400, 1.0), SPAN)
    earlier = {row["pull_uri"]: Draw(row["drawn"], row["odds"]) for row in rows.rows(EARLIER)}
    return Ballot(policy.audit, policy.audit_key, told.get("all_time") or 0, (told.get("lately") or 0) / days, earlier)


def keep_draws(txn: Transaction, one: Pass) -> None:
    """Write the draws of a pass, with their odds."""
    if one.ballot is None:
        return
    txn.append_new(
        "audit_draws",
        [
            {
                **judged._asdict(),
                "repository_id": repository_id,
                "odds": draw.odds,
                "drawn": draw.drawn,
                "drawn_at": one.now,
                "drawn_clock": one.wall,
                "estimated": estimated or None,
            }
            for judged, (repository_id, draw, estimated) in one.ballot.draws.items()
        ],
    )
