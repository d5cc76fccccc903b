"""Finds the changes for which a person closed the fast lane. Worker and web use the same functions."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ingest.store.transaction import Rows
from scoring.gate.conditions import closed_reason
from scoring.pipeline.stored import People
from scoring.types import LaneClosed, Reason

ERASED = "an erased account"
STANDING = """
select l.*, r.repo_key from lane_closures l anti join lane_openings using (closure_key)
left join repositories r using (repository_id)
where l.known_from <= $now and (l.repository_id = 0 or r.repo_key is not null)
order by l.known_from, l.closure_key
"""
# Every open pull request with its author, and all people through whose vouches its trust may come.
OPEN_PULLS = """
select p.pull_uri, r.repo_key, c.did as author,
  list_concat(coalesce(t.path[:-2], []), (
    select coalesce(list(v.voucher_id), []) from vouches v where v.subject_id = p.author_id and v.kind = 'vouch'
      and v.superseded_at is null and v.seen_at <= $now
  )) as vouchers
from pull_requests p semi join watched_repositories using (repository_id)
join repositories r using (repository_id) join contributors c on c.contributor_id = p.author_id
left join trust t on t.repository_id = p.repository_id and t.contributor_id = p.author_id
where p.state = 'open'
"""


@dataclass(frozen=True, slots=True)
class Closure:
    """A closure of the fast lane for every change that matches all fields; "" in a field matches everything.

    `repository` is a repo_key, `author` and `voucher` are DIDs, with their `name` as shown; `by` is who closed it.
    """

    key: str
    repository: str
    author: str
    voucher: str
    because: str
    by: str
    closed_at: datetime
    name: str = ""

    @property
    def scope(self) -> Literal["site", "repository", "author", "voucher"]:
        """Return the narrowest field that the closure names."""
        return "author" if self.author else "voucher" if self.voucher else "repository" if self.repository else "site"

    def covers(self, repository: str, author: str, vouchers: Collection[str]) -> bool:
        """Return whether it holds for a change by this author in this repository, trusted through these vouchers."""
        return (
            self.repository in ("", repository)
            and self.author in ("", author)
            and (not self.voucher or self.voucher in vouchers)
        )


def covering_closures(
    closures: Iterable[Closure], repository: str, author: str, vouchers: Collection[str]
) -> Iterator[LaneClosed]:
    """Yield the closures that hold for a change, as its circumstances hold them."""
    for closure in closures:
        if closure.covers(repository, author, vouchers):
            yield LaneClosed(closure.scope, closure.by, closure.name or None)


def closed_because(
    closures: Iterable[Closure], repository: str, author: str, vouchers: Collection[str]
) -> Reason | None:
    """Return the reason of the first closure that holds for a change; None where the lane is open to it. Pure."""
    first = next(covering_closures(closures, repository, author, vouchers), None)
    return closed_reason(first) if first else None


def read_closures(rows: Rows, now: datetime) -> tuple[Closure, ...]:
    """Return every closure that stands at this moment of the stream, the oldest first."""
    standing = rows.rows(STANDING, {"now": now})
    numbers = {row[name] for row in standing for name in ("author_id", "voucher_id", "actor_id") if row[name]}
    people = People(rows, numbers).persons if numbers else {}

    def did(number: int) -> str:
        return people[number].did if number else ""

    def name(number: int | None) -> str:
        return people[number].name if number else ""

    return tuple(
        Closure(
            row["closure_key"],
            row["repo_key"] or "",
            did(row["author_id"]),
            did(row["voucher_id"]),
            row["because"],
            name(row["actor_id"]) or ERASED,
            row["closed_at"],
            name(row["author_id"]) or name(row["voucher_id"]),
        )
        for row in standing
    )


def read_closed_pulls(rows: Rows, now: datetime) -> dict[str, tuple[LaneClosed, ...]]:
    """Return the closures that hold for each open pull request of a watched repository; {} where nothing is closed."""
    standing = read_closures(rows, now)
    if not standing:
        return {}
    pulls = rows.rows(OPEN_PULLS, {"now": now})
    people = People(rows, (number for row in pulls for number in row["vouchers"])).persons
    return {
        row["pull_uri"]: tuple(
            covering_closures(standing, row["repo_key"], row["author"], {people[n].did for n in row["vouchers"]})
        )
        for row in pulls
    }
