"""Reads from a snapshot the findings in a pull request's content, and trials of a new prompt or model.

It also compares how a new prompt or model judges the changes that an older one has read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ingest.store.transaction import Rows
from scoring.queries.types import ContentReview
from scoring.review.pending import READ_AGAIN
from scoring.review.store import shown_findings, shown_flags
from scoring.types import ShownFinding

# What the decision which is shown was made from.
STANDS = "select patch_ref, md5(concat_ws(chr(31), title, body)) as said from pull_requests where pull_uri = ?"
# The reviews of one round. The newest of these few is found in Python: to plan "order by … limit 1" takes DuckDB as
# long as all the rest, and so does a join with what stands.
OF_ROUND = """
select content_risk, recommended, coverage, state, missing, reviewer, asked_because, summary, flags, findings, dollars,
  reviewed_clock, rules
from content_reviews where pull_uri = ? and patch_ref = ? and state <> 'running'
"""

OF_STANDING = """
select r.pull_uri, r.findings, r.reviewed_clock from content_reviews r join pull_requests p
  on p.pull_uri = r.pull_uri and p.patch_ref = r.patch_ref and r.said = md5(concat_ws(chr(31), p.title, p.body))
where list_contains(?, p.pull_uri) and r.state <> 'running' order by r.rules
"""


def content_review(rows: Rows, uri: str) -> ContentReview | None:
    """The newest review of the round that stands; None where nobody has read it yet."""
    stands = rows.row(STANDS, [uri])
    if stands is None:
        return None
    return _newest(rows.rows(f"{OF_ROUND} and said = ?", [uri, stands["patch_ref"], stands["said"]]))


def standing_findings(rows: Rows, uris: Sequence[str]) -> dict[str, tuple[ShownFinding, ...]]:
    """The findings of the rounds that stand, by at-uri, strongest first; only where there are any."""
    newest: dict[str, Mapping[str, Any]] = {}
    for row in rows.rows(OF_STANDING, [list(uris)]) if uris else ():
        before = newest.get(row["pull_uri"])
        if before is None or (row["reviewed_clock"] or datetime.min) > (before["reviewed_clock"] or datetime.min):
            newest[row["pull_uri"]] = row
    return {uri: found for uri, row in newest.items() if (found := shown_findings(row))}


def round_review(rows: Rows, uri: str, patch_ref: str) -> ContentReview | None:
    """The newest review of the round with this patch; None where nobody read it."""
    return _newest(rows.rows(OF_ROUND, [uri, patch_ref]))


def _newest(found: list[dict[str, Any]]) -> ContentReview | None:
    """The one that was made last, of several at once the first by its rules."""
    by_rules = sorted(found, key=lambda row: row["rules"])
    return _review(max(by_rules, key=lambda row: row["reviewed_clock"] or datetime.min)) if found else None


def _review(row: Mapping[str, Any]) -> ContentReview:
    return ContentReview(
        risk=row["content_risk"],
        recommended=row["recommended"],
        coverage=row["coverage"],
        has_verdict=row["state"] == "content verdict",
        missing=row["missing"],
        reviewer=row["reviewer"],
        asked_because=row["asked_because"],
        summary=row["summary"],
        flags=shown_flags(row),
        findings=shown_findings(row),
        dollars=row["dollars"],
    )


# Of each change the newest reading by the prompt and model that read last, beside the newest one by any other.
BOTH = f"""
with judged as (
  select pull_uri, prompt_version, model, started_clock,
    list_max(list_transform(cast(verdict -> '$.assessments[*].content_risk' as json[]), lambda x: x::double)) as risk
  from reviews where pull_uri is not null and state = 'content verdict'
), newest as (
  select prompt_version, model from judged order by started_clock desc limit 1
), sorted as (
  select j.*, (j.prompt_version, j.model) = (n.prompt_version, n.model) as is_new from judged j, newest n
), pairs as (
  select pull_uri, arg_max(risk, started_clock) filter (is_new) as risk_new,
    arg_max(risk, started_clock) filter (not is_new) as risk_old, max(started_clock) filter (is_new) as read_clock
  from sorted where risk is not null group by pull_uri
  having risk_new is not null and risk_old is not null order by read_clock desc, pull_uri limit {READ_AGAIN}
)
select count(*) as changes, avg(risk_old) as before, avg(risk_new) as since,
  count(*) filter ((risk_old <= $low) <> (risk_new <= $low) or (risk_old >= $high) <> (risk_new >= $high)) as moved
from pairs
"""


@dataclass(frozen=True, slots=True)
class Reread:
    """Changes that two prompts or models have read: how many, the mean risk in [0, 1] before and since.

    `moved` counts those whose risk went across R_LOW or R_HIGH, so that another lane may follow.
    """

    changes: int
    before: float
    since: float
    moved: int


def reread(rows: Rows, r_low: float, r_high: float) -> Reread | None:
    """The newest 200 changes that the newest prompt and model and another one have read; None where there are none."""
    row = rows.row(BOTH, {"low": r_low, "high": r_high})
    if row is None or not row["changes"]:
        return None
    return Reread(row["changes"], row["before"], row["since"], row["moved"])
