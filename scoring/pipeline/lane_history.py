"""Lists the pull requests that the fast lane let through, or would have in shadow mode, with their outcomes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from ingest.store.transaction import Rows
from scoring.pipeline.stored import People
from scoring.types import Estimate, Person

DAYS = 30  # of a report
ENOUGH = 10  # settled rows with which a shadow report offers to open the lane

# Rounds that would have been fast lane in shadow mode, and those that an estimated lane let through. A round that the
# audit drew is listed only once it is answered, since the person who answers must not know lane or score.
SHADOW = "select pull_uri, round, patch_id, repository_id, decided_at from shadow_rounds"
OPEN = """
select pull_uri, round, coalesce(patch_id, '') as patch_id, repository_id, drawn_at as decided_at from audit_draws
where estimated and not drawn
"""
# A round that landed was merged as it was sent, even if other rounds follow. Only the first round of a pull request
# counts: it would have gone through unread.
ROWS = """
with taken as (
  from ({rounds}) where repository_id = $repository and decided_at >= $since and decided_at <= $now
  qualify row_number() over (partition by pull_uri order by decided_at, round, patch_id) = 1
), given as (
  select s.pull_uri, arg_min(s.probability, s.as_of) as probability, arg_min(s.low, s.as_of) as low,
    arg_min(s.high, s.as_of) as high
  from scores s join taken t
    on t.pull_uri = s.pull_uri and t.round = coalesce(s.round, 0) and t.patch_id = coalesce(s.patch_id, '')
  where s.lane = 'fast_lane' group by s.pull_uri
)
select t.pull_uri, t.decided_at, p.title, p.author_id, p.state, g.number, v.probability, v.low, v.high, l.clean,
  p.round = t.round and (coalesce(k.patch_id, '') = t.patch_id or exists (from landings a
    where a.pull_uri = t.pull_uri and a.proven and a.round = t.round)) as as_sent
from taken t join pull_requests p using (pull_uri)
left join patches k on k.pull_uri = p.pull_uri and k.patch_ref = p.patch_ref
left join labels l on l.pull_uri = t.pull_uri
left join given v on v.pull_uri = t.pull_uri
left join pull_pages g on g.pull_uri = t.pull_uri
anti join hidden_people h on h.contributor_id = p.author_id
anti join (from audit_draws anti join audits using (pull_uri) where drawn) w on w.pull_uri = t.pull_uri
order by t.decided_at desc, t.pull_uri
"""
Happened = Literal[
    "merged_as_sent", "fixed_after_merge", "changed_and_merged", "changed_and_open", "changed_and_closed", "closed",
    "withdrawn", "open",
]  # fmt: skip
# HAPPENED names what people did with a row; AGREEMENTS, given the later outcome, what that says of the lane.
HAPPENED: tuple[Happened, ...] = get_args(Happened)
Agreement = Literal["agrees", "agrees_so_far", "stricter", "wrong", "unknown"]
AGREEMENTS: tuple[Agreement, ...] = get_args(Agreement)
SETTLED: frozenset[Agreement] = frozenset({"agrees", "stricter", "wrong"})


@dataclass(frozen=True, slots=True)
class LaneRow:
    """One pull request that the lane let through, or would have; `estimate` is P(clean) at that time, if known."""

    uri: str
    decided_at: datetime
    title: str
    number: int | None
    author: Person
    estimate: Estimate | None
    happened: Happened
    agreement: Agreement


@dataclass(frozen=True, slots=True)
class LaneHistory:
    """The rows of one repository since a moment, the newest first; `began` is when its very first row was decided."""

    rows: tuple[LaneRow, ...]
    began: datetime | None

    def count(self, agreement: Agreement) -> int:
        """Return how many rows have this agreement."""
        return sum(row.agreement == agreement for row in self.rows)

    @property
    def settled(self) -> int:
        """Return how many rows are settled: no later event changes their agreement."""
        return sum(row.agreement in SETTLED for row in self.rows)


@dataclass(frozen=True, slots=True)
class LaneSum:
    """The totals of a lane; `offered` counts every pull request of the same days except push-holders' own."""

    offered: int
    let_through: int
    clean: int
    bad: int


def read_shadow_history(rows: Rows, repository: int, now: datetime, days: int = DAYS) -> LaneHistory:
    """Read the rows that the lane of this repository would have let through in the last days of shadow mode."""
    return _read_history(rows, SHADOW, repository, now - timedelta(days=days), now)


def read_open_history(rows: Rows, repository: int, since: datetime, now: datetime) -> LaneHistory:
    """Read the rows that the estimated lane of this repository let through without a person since that moment."""
    return _read_history(rows, OPEN, repository, since, now)


def _read_history(rows: Rows, rounds: str, repository: int, since: datetime, now: datetime) -> LaneHistory:
    parameters = {"repository": repository, "since": since, "now": now}
    pulls = rows.rows(ROWS.replace("{rounds}", rounds), parameters)
    people = People(rows, (row["author_id"] for row in pulls)).persons
    began = rows.value(f"select min(decided_at) from ({rounds}) where repository_id = ?", [repository])
    return LaneHistory(tuple(_lane_row(row, people) for row in pulls), began)


def _lane_row(row: Mapping[str, Any], people: Mapping[int, Person]) -> LaneRow:
    happened = _happened(row["state"], row["as_sent"], row["clean"])
    return LaneRow(
        row["pull_uri"],
        row["decided_at"],
        row["title"] or "(no title)",
        row["number"],
        people[row["author_id"]],
        None if row["probability"] is None else Estimate(row["probability"], row["low"], row["high"], 0),
        happened,
        _agreement(happened, row["clean"]),
    )


def _happened(state: str, as_sent: bool, clean: bool | None) -> Happened:
    if state == "merged" and clean is False:
        return "fixed_after_merge"
    if state == "merged":
        return "merged_as_sent" if as_sent else "changed_and_merged"
    if state == "abandoned":
        return "withdrawn"
    if state == "closed":
        return "closed" if as_sent else "changed_and_closed"
    return "open" if as_sent else "changed_and_open"


def _agreement(happened: Happened, clean: bool | None) -> Agreement:
    """Return whether a row agrees with the lane: closed is not clean, as in every count; withdrawn is unknown."""
    if happened in ("fixed_after_merge", "closed", "changed_and_closed"):
        return "wrong"
    if happened == "changed_and_merged":
        return "stricter"
    if happened == "merged_as_sent":
        return "agrees" if clean else "agrees_so_far"
    return "unknown"


# Pull requests that lanes let through without a person, each once, by the first decision that did so. Every count of
# what a lane let through is over these; push-holders' own and those that the audit drew are not among them.
PASSED = """
select s.pull_uri, s.repository_id, min(s.as_of) as passed_at, arg_min(s.thresholds, s.as_of) as thresholds
from scores s semi join waved_through w on w.pull_uri = s.pull_uri and w.as_of = s.as_of
anti join (from audit_draws where drawn) d on d.pull_uri = s.pull_uri
anti join own_people o on o.repository_id = s.repository_id and o.contributor_id = s.contributor_id
where s.lane = 'fast_lane' group by s.pull_uri, s.repository_id
"""
# The pull requests decided on in the last days, without push-holders' own; how many of them went through, or would have
# in shadow mode; and the outcomes of those.
MONTH = f"""
with decided as (
  select distinct s.pull_uri from scores s
  join repositories r on r.repository_id = s.repository_id and list_contains($repositories, r.repo_key)
  anti join own_people o on o.repository_id = s.repository_id and o.contributor_id = s.contributor_id
  where s.pull_uri is not null and s.as_of > $since
), taken as (
  select pull_uri from ({PASSED}) where passed_at > $since and not $shadow
  union select distinct pull_uri from shadow_rounds where decided_at > $since and $shadow
)
select count(*) as offered, count(t.pull_uri) as let_through, count(t.pull_uri) filter (l.clean) as clean,
  count(t.pull_uri) filter (not l.clean) as bad
from decided d left join taken t using (pull_uri) left join labels l using (pull_uri)
"""


def lane_sum(rows: Rows, repositories: Iterable[str], shadow: bool, now: datetime, days: int = DAYS) -> LaneSum:
    """Count the pull requests that the lanes of these repositories (repo_key) let through lately, or would have in
    `shadow` mode."""
    parameters = {"repositories": sorted(repositories), "since": now - timedelta(days=days), "shadow": shadow}
    row = rows.row(MONTH, parameters) or {}
    return LaneSum(**row)
