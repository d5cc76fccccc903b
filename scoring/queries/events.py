"""Read the events of one pull request in order, and how it was judged when it was decided."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ingest.store.transaction import Rows
from scoring.pipeline.stored import People, read_verdict
from scoring.types import Person, Verdict

MOST = 50  # the newest events: anybody can add a round to their own pull request every second
# A status counts only from people with authority over it. An author without push access cannot declare their own merge.
# A patch may be replaced within its round: then both have that round's number, and the later one is 'replaced'.
EVENTS = f"""
with sent as (
  select *, row_number() over (partition by round order by seen_at, patch_ref) as place
  from pull_rounds where pull_uri = $uri
)
select what, happened_at, person_id, round, patch_id from (
  select 'opened' as what, p.opened_at as happened_at, p.author_id as person_id, 0 as round, s.patch_ref
  from pull_requests p left join sent s on s.round = 0 and s.place = 1 where p.pull_uri = $uri
  union all
  select if(s.place = 1, 'sent', 'replaced'), s.seen_at, p.author_id, s.round, s.patch_ref
  from sent s join pull_requests p using (pull_uri) where s.round > 0 or s.place > 1
  union all
  select s.status, s.seen_at, s.actor_id, null, null from statuses s
  where s.pull_uri = $uri and s.deleted_at is null and s.status in ('open', 'merged', 'closed')
    and (s.authority in ('push_holder', 'author_push_holder') or (s.authority = 'author' and s.status <> 'merged'))
) left join (from patches where pull_uri = $uri) using (patch_ref)
order by happened_at desc, round desc nulls first limit {MOST}
"""
# The judgement in force when it was decided. Lane and score of an unanswered audit stay hidden.
JUDGED = """
select s.*, exists (from shadow_rounds h where h.pull_uri = s.pull_uri and h.round = s.round) as shadow
from scores s join pull_requests p on p.pull_uri = s.pull_uri
where list_contains(?, s.pull_uri) and p.state in ('merged', 'closed') and s.as_of <= coalesce(p.state_at, p.changed_at)
  and not exists (
    from audit_draws d where d.pull_uri = s.pull_uri and d.drawn and not exists (
      from audits a where a.pull_uri = d.pull_uri and a.round = d.round and coalesce(a.patch_id, '') = d.patch_id))
qualify row_number() over (
  partition by s.pull_uri order by s.data_version desc nulls last, s.as_of desc, s.decided_clock desc) = 1
"""
HIDDEN = "select contributor_id from hidden_people where list_contains(?, contributor_id)"


@dataclass(frozen=True, slots=True)
class PullEvent:
    """One event of a pull request; `person` is None where the account is hidden, `round` counts from 0.

    `patch_id` is that of the patch that came with it, None where none came or it could not be read.
    """

    what: Literal["opened", "sent", "replaced", "merged", "closed", "reopened"]
    at: datetime
    person: Person | None
    round: int | None = None
    patch_id: str | None = None


@dataclass(frozen=True, slots=True)
class PastJudgement:
    """The judgement in force when a pull request was decided; with `shadow` the lane is hypothetical."""

    verdict: Verdict
    as_of: datetime
    shadow: bool
    round: int


def events(rows: Rows, uri: str) -> tuple[PullEvent, ...]:
    """Return the newest events of a pull request, oldest first."""
    event_rows = rows.rows(EVENTS, {"uri": uri})[::-1]
    numbers = sorted({row["person_id"] for row in event_rows})
    hidden = {row["contributor_id"] for row in rows.rows(HIDDEN, [numbers])}
    people = People(rows, numbers).persons
    shown: list[PullEvent] = []
    state = "open"
    for row in event_rows:
        kind = "reopened" if row["what"] == "open" else row["what"]
        if kind in ("reopened", "merged", "closed"):
            if row["what"] == state:
                continue  # a repeated status
            state = row["what"]
        person = None if row["person_id"] in hidden else people[row["person_id"]]
        shown.append(PullEvent(kind, row["happened_at"], person, row["round"], row["patch_id"]))
    return tuple(shown)


def judged_when_decided(rows: Rows, uris: Sequence[str]) -> dict[str, PastJudgement]:
    """Return the judgements of merged or closed pull requests at that time, by at-uri.

    One that never was or that an audit hides is left out.
    """
    return {
        row["pull_uri"]: PastJudgement(read_verdict(row), row["as_of"], row["shadow"], row["round"] or 0)
        for row in rows.rows(JUDGED, [list(uris)])
    }
