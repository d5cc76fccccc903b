"""The settings of repositories as the store holds them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ingest.transaction import Rows
from scoring.repository_settings import RepositorySettings, settings_of

# Of every watched repository; what nobody set is null.
SETTINGS = """
select w.repository_id, x.version, x.budget, x.alarm_budget, x.window_days, x.tier, x.never_fast_paths,
  x.sensitive_paths, x.accepted_issuers, x.organisation_domains, x.shadow, w.review, s.seeds_added, s.seeds_removed
from watched_repositories w
left join repository_settings x using (repository_id)
left join (
  select repository_id, list(did order by did) filter (choice = 'added') as seeds_added,
    list(did order by did) filter (choice = 'removed') as seeds_removed
  from seed_choices join contributors using (contributor_id) group by repository_id
) s using (repository_id)
"""
NAMED = """
select r.repo_key, coalesce(r.name, r.repo_key) as name, c.did as owner, r.repository_id
from repositories r semi join watched_repositories using (repository_id)
left join contributors c on c.contributor_id = r.owner_id
"""


@dataclass(frozen=True, slots=True)
class WatchedRepository:
    """A watched repository with its settings as the worker has them."""

    number: int
    key: str
    name: str
    owner: str | None  # DID
    settings: RepositorySettings


def read_settings(rows: Rows) -> dict[int, RepositorySettings]:
    """The settings of every watched repository, by its number."""
    return settings_of(rows.rows(SETTINGS))


def in_shadow(rows: Rows) -> frozenset[int]:
    """The numbers of the watched repositories in shadow mode; those of which nobody said otherwise are."""
    sql = (
        "select w.repository_id from watched_repositories w left join repository_settings x using (repository_id) "
        "where coalesce(x.shadow, true)"
    )
    return frozenset(row["repository_id"] for row in rows.rows(sql))


def watched_repositories(rows: Rows) -> tuple[WatchedRepository, ...]:
    """Every watched repository, by name."""
    settings = read_settings(rows)
    found = rows.rows(f"{NAMED} order by name, repo_key")
    return tuple(_watched(row, settings) for row in found)


def watched_repository(rows: Rows, key: str) -> WatchedRepository | None:
    """The watched repository with this key; None where there is none."""
    row = rows.row(f"{NAMED} where r.repo_key = ?", [key])
    return _watched(row, read_settings(rows)) if row else None


def _watched(row: Mapping[str, Any], settings: Mapping[int, RepositorySettings]) -> WatchedRepository:
    number = row["repository_id"]
    return WatchedRepository(number, row["repo_key"], row["name"], row["owner"], settings[number])


def sensitive_paths_of(rows: Rows, pull_uri: str) -> tuple[str, ...]:
    """The path patterns that the maintainers of a pull request's repository want read whoever changes them."""
    sql = (
        "select x.sensitive_paths from repository_settings x join pull_requests p using (repository_id) "
        "where p.pull_uri = ?"
    )
    return tuple(rows.value(sql, [pull_uri]) or ())
