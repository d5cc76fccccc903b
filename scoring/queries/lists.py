"""Read the lists behind the queue: what is settled, whose outcome nobody marked yet, and what a snooze waits for."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from ingest.store.transaction import Rows
from scoring.pipeline.approvals import ROUND_KEY
from scoring.pipeline.stored import People
from scoring.queries.approvals import Seen
from scoring.queries.contributors import outcomes_in_words
from scoring.queries.queue import KEY
from scoring.types import Person

SETTLED_PAGE = 50
SettledOutcome = Literal["", "clean", "bad", "uncounted", "closed"]
# A closed one has a label too, so its state comes first. Sorted by narrow columns before 50 are looked up.
SETTLED = """
with listed as (
  select p.pull_uri, coalesce(p.state_at, p.changed_at) as settled_at,
    case when p.state = 'closed' then 'closed' when l.clean is null then 'uncounted'
      when l.clean then 'clean' else 'bad' end as outcome
  from pull_requests p semi join watched_repositories w using (repository_id)
  anti join hidden_people h on h.contributor_id = p.author_id
  left join labels l using (pull_uri)
  left join touched_files t on t.pull_uri = p.pull_uri and t.patch_ref = p.patch_ref
  where p.state in ('merged', 'closed') and {where}
)
select pull_uri, settled_at, count(*) over () as total from listed where {outcome}
order by settled_at desc, pull_uri limit ? offset ?
"""
# One column for all paths: the search holds no line feed, so it never matches across two of them.
TEXT = """(
  contains(lower(p.title), lower(?)) or contains(lower(array_to_string(t.paths, chr(10))), lower(?))
  or p.author_id in (
    select contributor_id from contributors where did = ? or handle_verified and contains(lower(handle), lower(?)))
)"""
PULLS = """
select p.*, r.repo_key, coalesce(r.name, r.repo_key) as name, g.number, true as watched,
  case when k.pull_uri is null then l.clean else k.mined_clean end as clean, k.outcome as mark
from pull_requests p join repositories r using (repository_id) left join pull_pages g using (pull_uri)
left join labels l using (pull_uri) left join marks k using (pull_uri) where list_contains(?, p.pull_uri)
"""
WATCHED = """
select repo_key, coalesce(name, repo_key) as name from repositories semi join watched_repositories using (repository_id)
order by name, repo_key
"""
# What Git or a person answered already is not asked about; nobody marks what they sent themselves.
UNMARKED = """
select p.pull_uri, coalesce(p.merged_at, p.state_at) as landed_at
from pull_requests p join repositories r using (repository_id)
semi join watched_repositories w on w.repository_id = p.repository_id
join contributors c on c.contributor_id = p.author_id
anti join hidden_people h on h.contributor_id = p.author_id
where p.state = 'merged' and p.merge_proof = 'verified' and c.did <> $viewer
  and coalesce(p.merged_at, p.state_at) > $after and coalesce(p.merged_at, p.state_at) <= $before
  and ($everywhere or list_contains($keys, r.repo_key))
  and not exists (from maintainer_actions m where m.pull_uri = p.pull_uri and m.kind = 'outcome')
  and not exists (from pull_followups f where f.pull_uri = p.pull_uri)
order by landed_at desc, p.pull_uri limit $most
"""
ROW_STATES = f"""
select c.pull_uri, c.record_cid, c.round, c.patch_id, {KEY} as lane,
  (select count(*) from comments m where m.subject_uri = c.pull_uri) as comments
from current_decisions c where list_contains(?, c.pull_uri)
"""


@dataclass(frozen=True, slots=True)
class SettledQuery:
    """A query for settled pull requests; `text` is sought in title, author and files, `repository` is a repo_key."""

    text: str = ""
    repository: str = ""
    outcome: SettledOutcome = ""
    page: int = 1


@dataclass(frozen=True, slots=True)
class SettledRow:
    """A merged or closed pull request; `outcome` says what became of it, `number` is that on the forge."""

    uri: str
    title: str
    repository_name: str
    number: int | None
    author: Person
    outcome: str
    settled_at: datetime


@dataclass(frozen=True, slots=True)
class Settled:
    """One page of them, the newest first; `repositories` are key and name of all that are watched."""

    rows: tuple[SettledRow, ...]
    total: int
    page: int
    pages: int
    repositories: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class RowState:
    """The state of an open pull request that ends a snooze when it changes; `lane` is its group in the queue."""

    seen: Seen
    lane: str
    comments: int


def settled(rows: Rows, query: SettledQuery) -> Settled:
    """Return one page of merged and closed pull requests of watched repositories; the last one where it is too high."""
    found = _settled_page(rows, query, query.page)
    if not found and query.page > 1:
        first = _settled_page(rows, query, 1)
        last = -(-first[0]["total"] // SETTLED_PAGE) if first else 1
        return settled(rows, SettledQuery(query.text, query.repository, query.outcome, last))
    total = found[0]["total"] if found else 0
    pages = max(1, -(-total // SETTLED_PAGE))
    places = tuple((row["repo_key"], row["name"]) for row in rows.rows(WATCHED))
    return Settled(_settled_rows(rows, found), total, query.page, pages, places)


def _settled_page(rows: Rows, query: SettledQuery, page: int) -> list[dict[str, Any]]:
    where, params = ["true"], list[object]()
    if query.text:
        where.append(TEXT)
        params += [query.text] * 4
    if query.repository:
        where.append("p.repository_id in (select repository_id from repositories where repo_key = ?)")
        params.append(query.repository)
    if query.outcome:
        params.append(query.outcome)
    sql = SETTLED.replace("{where}", " and ".join(where))
    sql = sql.replace("{outcome}", "outcome = ?" if query.outcome else "true")
    return list(rows.rows(sql, [*params, SETTLED_PAGE, (page - 1) * SETTLED_PAGE]))


def _settled_rows(rows: Rows, found: Collection[Mapping[str, Any]]) -> tuple[SettledRow, ...]:
    if not found:
        return ()
    by_uri = {row["pull_uri"]: row for row in rows.rows(PULLS, [[row["pull_uri"] for row in found]])}
    authors = People(rows, (row["author_id"] for row in by_uri.values())).persons
    outcomes = outcomes_in_words(rows, list(by_uri.values()))
    return tuple(
        SettledRow(
            uri=row["pull_uri"],
            title=row["title"] or "(no title)",
            repository_name=row["name"],
            number=row["number"],
            author=authors[row["author_id"]],
            outcome=outcomes[row["pull_uri"]],
            settled_at=one["settled_at"],
        )
        for one in found
        if (row := by_uri.get(one["pull_uri"]))
    )


def unmarked_merges(
    rows: Rows, viewer: str, keys: Collection[str], after: datetime, before: datetime, most: int
) -> dict[str, datetime]:
    """Return when each was merged that was merged in that span, somebody else sent and nobody judged since.

    The newest comes first. `keys` are those of the repositories, "" among them for all.
    """
    told = {"viewer": viewer, "everywhere": "" in keys, "keys": sorted(keys)}
    found = rows.rows(UNMARKED, told | {"after": after, "before": before, "most": most})
    return {row["pull_uri"]: row["landed_at"] for row in found}


def row_states(rows: Rows, uris: Collection[str]) -> dict[str, RowState]:
    """Return those of these pull requests that are open in a watched repository, by address."""
    found = rows.rows(ROW_STATES, [list(uris)]) if uris else []
    return {
        row["pull_uri"]: RowState(Seen(*(row[name] for name in ROUND_KEY)), row["lane"], row["comments"])
        for row in found
    }
