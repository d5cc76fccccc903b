"""Reads the fast lanes that maintainers opened on an estimate, and the outcomes of what each let through since."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ingest.store.transaction import Rows
from scoring.certificates.in_force import LaneOutcome, Opening
from scoring.certificates.lane_offer import Offer
from scoring.pipeline.stored import People
from scoring.types import Person

FIGURES = ("threshold", "source", "cases", "let_through", "bad", "bad_low", "bad_high")
# The newest opening of each repository by the web's clock, in whatever order messages came, unless it was ended.
STANDING = """
select * from (
  from estimated_lanes where known_from <= $now
  qualify row_number() over (partition by repository_id order by opened_at desc, opening_key desc) = 1
) e anti join (from estimated_ends where known_from <= $now) using (opening_key)
"""
NAMED = f"""
select e.*, r.repo_key from ({STANDING}) e join repositories r using (repository_id) order by opened_at, opening_key
"""
# Answers of the audit about what estimated lanes let through. Those from before a lane was opened anew do not count
# against it. Both are compared by the web's clock, since the stream's may stand still between them.
AUDITED = """
select e.repository_id, 'audited' as what, a.answered_at as at, not a.would_merge as bad
from audits a join standing e on a.repository_id = e.repository_id and a.answered_at >= e.opened_at
where a.estimated and a.known_from <= $now
"""
# Outcomes of what such a lane let through or its audit drew: all of it has a row in audit_draws. Push-holders' own
# pull requests do not count.
OUTCOMES = """
select l.pull_uri, l.repository_id, l.known_from, not l.clean as bad
from labels l semi join (from audit_draws where estimated) d using (pull_uri)
anti join own_people o on o.repository_id = l.repository_id and o.contributor_id = l.author_id
where l.known_from <= $now
"""
# Answers of the audit, and outcomes, since the standing lanes were opened.
SINCE = f"""
with standing as ({STANDING})
{AUDITED}
union all
select e.repository_id, 'outcomes', o.known_from, o.bad
from ({OUTCOMES}) o join standing e on o.repository_id = e.repository_id and o.known_from > e.known_from
"""


@dataclass(frozen=True, slots=True)
class EstimatedLane:
    """A standing estimated lane: who opened it, on which offer, and the counts since.

    `opener` is None where they were erased; `audited` counts answers of the audit, `settled` outcomes of what the lane
    let through.
    """

    key: str
    repository: str  # repo_key
    offer: Offer
    opener: Person | None
    opened_at: datetime
    audited: int
    audited_bad: int
    settled: int
    settled_bad: int


def openings(rows: Rows, now: datetime) -> dict[int, Opening]:
    """Return the standing opening of each repository by its number, with its outcomes since."""
    standing = rows.rows(STANDING, {"now": now})
    known = _since(rows, now) if standing else {}
    return {
        row["repository_id"]: Opening(offer_of_row(row), row["opened_at"], **known.get(row["repository_id"], {}))
        for row in standing
    }


def estimated_lanes(rows: Rows, now: datetime) -> tuple[EstimatedLane, ...]:
    """Return every standing opening, the oldest first, even where the bet has shut the lane since."""
    standing = rows.rows(NAMED, {"now": now})
    if not standing:
        return ()
    known = _since(rows, now)
    people = People(rows, (row["actor_id"] for row in standing if row["actor_id"])).persons
    return tuple(_shown(row, known.get(row["repository_id"], {}), people) for row in standing)


def opening_keys(rows: Rows, now: datetime) -> dict[str, str]:
    """Return the key of the standing opening of each repository by its repo_key."""
    return {row["repo_key"]: row["opening_key"] for row in rows.rows(NAMED, {"now": now})}


def offer_of_row(row: Mapping[str, Any]) -> Offer:
    """Return the figures on which an opening was made."""
    return Offer(**{name: row[name] for name in FIGURES}, model=row.get("model") or "")


def _since(rows: Rows, now: datetime) -> dict[int, dict[str, tuple[LaneOutcome, ...]]]:
    found: dict[int, dict[str, list[LaneOutcome]]] = {}
    for row in rows.rows(SINCE, {"now": now}):
        kind = found.setdefault(row["repository_id"], {}).setdefault(row["what"], [])
        kind.append(LaneOutcome(row["at"], row["bad"]))
    return {number: {what: tuple(some) for what, some in kinds.items()} for number, kinds in found.items()}


def _shown(
    row: Mapping[str, Any], known: Mapping[str, tuple[LaneOutcome, ...]], people: Mapping[int, Person]
) -> EstimatedLane:
    audited, settled = known.get("audited", ()), known.get("outcomes", ())
    return EstimatedLane(
        row["opening_key"],
        row["repo_key"],
        offer_of_row(row),
        people.get(row["actor_id"]),
        row["opened_at"],
        len(audited),
        sum(one.bad for one in audited),
        len(settled),
        sum(one.bad for one in settled),
    )
