"""Finds the changes for which a person closed the fast lane. Worker and web ask the same function."""

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
# Of every open pull request: who sends it, and all whose vouch its trust may come through.
REACHED = """
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
    """The fast lane closed for every change that is all of this; "" in a field: whatever it is.

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
        """Return what it is about, the narrowest first."""
        return "author" if self.author else "voucher" if self.voucher else "repository" if self.repository else "site"

    def covers(self, repository: str, author: str, vouchers: Collection[str]) -> bool:
        """Return whether it holds for a change by this author in this repository, trusted through these vouchers."""
        return (
            self.repository in ("", repository)
            and self.author in ("", author)
            and (not self.voucher or self.voucher in vouchers)
        )


def closing(
    closures: Iterable[Closure], repository: str, author: str, vouchers: Collection[str]
) -> Iterator[LaneClosed]:
    """Yield which of these closures hold for a change, as its circumstances keep them."""
    for one in closures:
        if one.covers(repository, author, vouchers):
            yield LaneClosed(one.scope, one.by, one.name or None)


def closed_because(
    closures: Iterable[Closure], repository: str, author: str, vouchers: Collection[str]
) -> Reason | None:
    """Return why a change is not fast-laned: the first closure that holds for it; None where the lane is open to
    it. Pure.
    """
    found = next(closing(closures, repository, author, vouchers), None)
    return closed_reason(found) if found else None


def closures(rows: Rows, now: datetime) -> tuple[Closure, ...]:
    """Every closure that stands at this moment of the stream, the oldest first."""
    found = rows.rows(STANDING, {"now": now})
    numbers = {row[name] for row in found for name in ("author_id", "voucher_id", "actor_id") if row[name]}
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
        for row in found
    )


def closed_pulls(rows: Rows, now: datetime) -> dict[str, tuple[LaneClosed, ...]]:
    """The closures that hold for each open pull request of a watched repository, where there is one."""
    standing = closures(rows, now)
    if not standing:
        return {}
    reached = rows.rows(REACHED, {"now": now})
    people = People(rows, (number for row in reached for number in row["vouchers"])).persons
    return {
        row["pull_uri"]: tuple(
            closing(standing, row["repo_key"], row["author"], {people[one].did for one in row["vouchers"]})
        )
        for row in reached
    }
