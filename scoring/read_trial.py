"""How a new prompt or model judges the changes that an older one has read, from a snapshot."""

from dataclasses import dataclass

from ingest.transaction import Rows
from scoring.trial import READ_AGAIN

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
