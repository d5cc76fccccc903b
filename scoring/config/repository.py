"""Settings of one watched repository by its maintainers: defaults, bounds, place in the store, rules in force.

What holds in a repository are the operator's thresholds and rules under what its maintainers set. Only reading the
settings of repositories asks the store; the rest is pure.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

import msgspec

from ingest.atproto.syntax import is_did
from ingest.http.sockets import is_host
from ingest.store.transaction import Rows
from scoring.diff.globs import PatternProblem, check_patterns
from scoring.thresholds import RepositoryRules, Thresholds

Mode = Literal["off", "deterministic", "claude"]


Tier = Literal["public", "sensitive"]

LISTED = 200  # patterns, DIDs or domains of one list
MOST_DAYS = 365
_LONELY = re.compile(r"[\ud800-\udfff]")  # half of a character, which no JSON can carry


class SettingsProblem(ValueError):
    """Settings that cannot be used; `problems` says why, one sentence for each field."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__(" ".join(problems.values()))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class RepositorySettings:
    """The settings of one repository; the defaults are those of a repository that is newly watched.

    `budget` is the share of false approvals in (0, 1) that its maintainers bear, `alarm_budget` the share of clean work
    that a low P(clean) may send to a person, and `window_days` the days until a merge counts as clean, None for the
    operator's. In the tier 'sensitive' the fast lane asks for a valid attestation
    of the author. The path patterns are those of `scoring.diff.globs`. `seeds_added` and `seeds_removed` are DIDs;
    `accepted_issuers` are DIDs and `organisation_domains` host names whose attestations count. In `shadow` mode a lane
    is shown as what it would be. `version` counts the changes.
    """

    budget: float | None = None
    alarm_budget: float | None = None
    window_days: int | None = None
    tier: Tier = "public"
    never_fast_paths: tuple[str, ...] = ()
    sensitive_paths: tuple[str, ...] = ()
    seeds_added: tuple[str, ...] = ()
    seeds_removed: tuple[str, ...] = ()
    accepted_issuers: tuple[str, ...] = ()
    organisation_domains: tuple[str, ...] = ()
    review: Mode = "deterministic"
    shadow: bool = True
    version: int = 0

    def told(self) -> dict[str, Any]:
        """The same as JSON values, for a message or a log."""
        return msgspec.to_builtins(asdict(self))


DEFAULTS = RepositorySettings()
PATTERNS = ("never_fast_paths", "sensitive_paths")
DIDS = ("seeds_added", "seeds_removed", "accepted_issuers")


def read_told(told: Mapping[str, Any]) -> RepositorySettings:
    """Settings from their JSON values. Raises SettingsProblem where a value cannot be used."""
    try:
        settings = msgspec.convert(dict(told), RepositorySettings)
    except msgspec.ValidationError as problem:
        raise SettingsProblem({"": f"These are not settings of a repository: {problem}."}) from problem
    check_settings(settings)
    return settings


def check_settings(settings: RepositorySettings) -> None:
    """Raises SettingsProblem with every field that cannot be used."""
    problems = {name: told for name, check in CHECKS.items() if (told := check(settings))}
    if problems:
        raise SettingsProblem(problems)


def _budget(name: str, settings: RepositorySettings) -> str:
    budget: float | None = getattr(settings, name)
    if budget is None or 0.001 <= budget <= 0.5:  # NaN is neither
        return ""
    return "The budget is a share between 0.1 % and 50 %."


def _window(settings: RepositorySettings) -> str:
    days = settings.window_days
    return "" if days is None or 0 <= days <= MOST_DAYS else f"The window is between 0 and {MOST_DAYS} days."


def _patterns(name: str, settings: RepositorySettings) -> str:
    patterns: tuple[str, ...] = getattr(settings, name)
    if len(patterns) > LISTED:
        return f"At most {LISTED} patterns, not {len(patterns):,}."
    if any(_LONELY.search(pattern) for pattern in patterns):
        return "A pattern contains an invalid character."
    try:
        check_patterns(patterns)
    except PatternProblem as problem:
        told = str(problem)
        return f"{told[0].upper()}{told[1:]}."
    return ""


def _dids(name: str, settings: RepositorySettings) -> str:
    dids: tuple[str, ...] = getattr(settings, name)
    if len(dids) > LISTED:
        return f"At most {LISTED} DIDs, not {len(dids):,}."
    wrong = next((did for did in dids if not is_did(did)), None)
    return "" if wrong is None else f"“{wrong[:100]}” is not a DID. A DID looks like did:plc:ewvi7nxzyoun6zhxrhs64oiz."


def _removed(settings: RepositorySettings) -> str:
    both = set(settings.seeds_added) & set(settings.seeds_removed)
    return f"{min(both)} is both added and removed." if both else _dids("seeds_removed", settings)


def _domains(settings: RepositorySettings) -> str:
    domains = settings.organisation_domains
    if len(domains) > LISTED:
        return f"At most {LISTED} domains, not {len(domains):,}."
    wrong = next((one for one in domains if not (is_host(one) and "." in one)), None)
    return "" if wrong is None else f"“{wrong[:100]}” is not a domain. A domain looks like example.org."


def _checked(check: Callable[[str, RepositorySettings], str], name: str) -> Callable[[RepositorySettings], str]:
    return lambda settings: check(name, settings)


CHECKS: Mapping[str, Callable[[RepositorySettings], str]] = {
    **{name: _checked(_budget, name) for name in ("budget", "alarm_budget")},
    "window_days": _window,
    "tier": lambda settings: "" if settings.tier in get_args(Tier) else "The tier is public or sensitive.",
    "review": lambda settings: "" if settings.review in get_args(Mode) else "This review mode is none of the three.",
    **{name: _checked(_patterns, name) for name in PATTERNS},
    **{name: _checked(_dids, name) for name in ("seeds_added", "accepted_issuers")},
    "seeds_removed": _removed,
    "organisation_domains": _domains,
}


def changes_between(before: RepositorySettings, after: RepositorySettings) -> dict[str, list[Any]]:
    """Each setting that differs, as [before, after] in JSON values."""
    old, new = before.told(), after.told()
    names = (one.name for one in fields(RepositorySettings) if one.name != "version")
    return {name: [old[name], new[name]] for name in names if old[name] != new[name]}


def settings_of(rows: Iterable[Mapping[str, Any]]) -> dict[int, RepositorySettings]:
    """The settings of each repository by its number, from the rows of `read_repositories.SETTINGS`."""
    return {row["repository_id"]: _of_row(row) for row in rows}


def _of_row(row: Mapping[str, Any]) -> RepositorySettings:
    """One row; what was never set there is None in it and as in DEFAULTS here."""
    told = {one.name: row[one.name] for one in fields(RepositorySettings) if row[one.name] is not None}
    listed = {name: tuple(value) for name, value in told.items() if isinstance(value, Sequence) and name in LISTS}
    return replace(DEFAULTS, **{**told, **listed})


LISTS = (*PATTERNS, *DIDS, "organisation_domains")


def thresholds_under(thresholds: Thresholds, budget: float | None) -> Thresholds:
    """The site's thresholds as they hold under a repository's own budget in (0, 1), None for the site's.

    A certificate speaks for its budget and every larger one. Under a smaller one it says nothing, so the fast lane is
    shut there until a threshold is certified that keeps it; a threshold that was set by hand stays what it is. A lane
    that was opened on an estimate has the budget of its opening.
    """
    if budget is None or budget == thresholds.budget or thresholds.estimated is not None:
        return thresholds
    if thresholds.certified and budget < thresholds.budget:
        return replace(thresholds, budget=budget, t_high=None, certified=False)
    return replace(thresholds, budget=budget)


def rules_under(default: RepositoryRules, settings: RepositorySettings) -> RepositoryRules:
    """The gate's rules of a repository: its own path patterns beside the operator's, which nothing there takes back."""
    # The last pattern that matches decides, also one that takes back.
    paths = (*settings.never_fast_paths, *default.never_fast_paths)
    return replace(default, never_fast_paths=paths, tier=settings.tier)


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
