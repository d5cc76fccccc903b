"""Settings of one watched repository by its maintainers: defaults, bounds, reading from the store, rules in force.

The operator's thresholds and rules hold in a repository as its maintainers' settings change them. Only the functions
that take `rows` read the store; the rest is pure.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

import msgspec

from ingest.atproto.syntax import is_did
from ingest.http.sockets import is_host
from ingest.store.transaction import Rows
from scoring.diff.globs import PatternProblem, check_patterns
from scoring.thresholds import RepositoryRules, Thresholds
from scoring.types import Tier

Mode = Literal["off", "deterministic", "claude"]
Publish = Literal["off", "decided", "delayed"]

LISTED = 200  # patterns, DIDs or domains of one list
MOST_DAYS = 365
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")  # half of a character, which JSON cannot hold


class SettingsProblem(ValueError):
    """Settings that cannot be used; `problems` has one sentence for each field."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__(" ".join(problems.values()))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class RepositorySettings:
    """The settings of one repository; the defaults are those of a repository that is newly watched.

    `budget` is the share of false approvals in (0, 1) that its maintainers accept, `alarm_budget` the share of clean
    work that a low P(clean) may send to a person, and `window_days` the days until a merge counts as clean; None for
    the operator's. In the tier 'sensitive' the fast lane needs a valid attestation of the author. Path patterns are
    those of `scoring.diff.globs`. `seeds_added` and `seeds_removed` are DIDs; `accepted_issuers` are DIDs and
    `organisation_domains` host names whose attestations count. In `shadow` mode lanes are shown as what they would be.
    `publish`: which lanes are told to everybody, as records and labels: none, those of decided pull requests, or also
    those of open ones that need a human, after a fixed delay. `time_zones`: commits are read with their coarse time
    zone, which is compared with the same person's alone. `version` counts the changes.
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
    publish: Publish = "off"
    time_zones: bool = False
    version: int = 0

    def as_json(self) -> dict[str, Any]:
        return msgspec.to_builtins(asdict(self))


DEFAULTS = RepositorySettings()
PATTERNS = ("never_fast_paths", "sensitive_paths")
DIDS = ("seeds_added", "seeds_removed", "accepted_issuers")


def parse_settings(values: Mapping[str, Any]) -> RepositorySettings:
    """Read settings from JSON values. Raises SettingsProblem where a value cannot be used."""
    try:
        settings = msgspec.convert(dict(values), RepositorySettings)
    except msgspec.ValidationError as problem:
        raise SettingsProblem({"": f"These are not settings of a repository: {problem}."}) from problem
    check_settings(settings)
    return settings


def check_settings(settings: RepositorySettings) -> None:
    """Raise SettingsProblem with every field that cannot be used."""
    problems = {name: problem for name, check in CHECKS.items() if (problem := check(settings))}
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
    if any(_LONE_SURROGATE.search(pattern) for pattern in patterns):
        return "A pattern contains an invalid character."
    try:
        check_patterns(patterns)
    except PatternProblem as problem:
        sentence = str(problem)
        return f"{sentence[0].upper()}{sentence[1:]}."
    return ""


def _dids(name: str, settings: RepositorySettings) -> str:
    dids: tuple[str, ...] = getattr(settings, name)
    if len(dids) > LISTED:
        return f"At most {LISTED} DIDs, not {len(dids):,}."
    wrong = next((did for did in dids if not is_did(did)), None)
    return "" if wrong is None else f"“{wrong[:100]}” is not a DID. A DID looks like did:plc:ewvi7nxzyoun6zhxrhs64oiz."


def _seeds_removed(settings: RepositorySettings) -> str:
    both = set(settings.seeds_added) & set(settings.seeds_removed)
    return f"{min(both)} is both added and removed." if both else _dids("seeds_removed", settings)


def _domains(settings: RepositorySettings) -> str:
    domains = settings.organisation_domains
    if len(domains) > LISTED:
        return f"At most {LISTED} domains, not {len(domains):,}."
    wrong = next((domain for domain in domains if not (is_host(domain) and "." in domain)), None)
    return "" if wrong is None else f"“{wrong[:100]}” is not a domain. A domain looks like example.org."


def _check_field(check: Callable[[str, RepositorySettings], str], name: str) -> Callable[[RepositorySettings], str]:
    return lambda settings: check(name, settings)


CHECKS: Mapping[str, Callable[[RepositorySettings], str]] = {
    **{name: _check_field(_budget, name) for name in ("budget", "alarm_budget")},
    "window_days": _window,
    "tier": lambda settings: "" if settings.tier in get_args(Tier) else "The tier is public or sensitive.",
    "review": lambda settings: "" if settings.review in get_args(Mode) else "This review mode is none of the three.",
    "publish": lambda settings: (
        "" if settings.publish in get_args(Publish) else "Publishing is off, decided or delayed."
    ),
    **{name: _check_field(_patterns, name) for name in PATTERNS},
    **{name: _check_field(_dids, name) for name in ("seeds_added", "accepted_issuers")},
    "seeds_removed": _seeds_removed,
    "organisation_domains": _domains,
}


def changes_between(before: RepositorySettings, after: RepositorySettings) -> dict[str, list[Any]]:
    """Return each setting that differs, as [before, after] in JSON values."""
    old, new = before.as_json(), after.as_json()
    names = (field.name for field in fields(RepositorySettings) if field.name != "version")
    return {name: [old[name], new[name]] for name in names if old[name] != new[name]}


def _settings_of_row(row: Mapping[str, Any]) -> RepositorySettings:
    """Return the settings of one row; a column that is None was never set and takes its default."""
    values = {field.name: row[field.name] for field in fields(RepositorySettings) if row[field.name] is not None}
    lists = {name: tuple(value) for name, value in values.items() if isinstance(value, Sequence) and name in LISTS}
    return replace(DEFAULTS, **{**values, **lists})


LISTS = (*PATTERNS, *DIDS, "organisation_domains")


def thresholds_under(thresholds: Thresholds, budget: float | None) -> Thresholds:
    """Return the site's thresholds under a repository's own budget in (0, 1), None for the site's.

    A certificate holds for its budget and every larger one. Under a smaller budget the fast lane is shut until a
    threshold is certified for it; a threshold that was set by hand stays. A lane that was opened on an estimate keeps
    the budget of its opening.
    """
    if budget is None or budget == thresholds.budget or thresholds.estimated is not None:
        return thresholds
    if thresholds.certified and budget < thresholds.budget:
        return replace(thresholds, budget=budget, t_high=None, certified=False)
    return replace(thresholds, budget=budget)


def rules_under(default: RepositoryRules, settings: RepositorySettings) -> RepositoryRules:
    """Return the gate's rules of a repository: its path patterns beside the operator's, which it cannot take back."""
    # The last matching pattern decides, so the operator's come last.
    paths = (*settings.never_fast_paths, *default.never_fast_paths)
    return replace(default, never_fast_paths=paths, tier=settings.tier)


# The settings of every watched repository; one that was never set is null.
SETTINGS = """
select w.repository_id, x.version, x.budget, x.alarm_budget, x.window_days, x.tier, x.never_fast_paths,
  x.sensitive_paths, x.accepted_issuers, x.organisation_domains, x.shadow, x.publish, x.time_zones, w.review,
  s.seeds_added, s.seeds_removed
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
    return {row["repository_id"]: _settings_of_row(row) for row in rows.rows(SETTINGS)}


def in_shadow(rows: Rows) -> frozenset[int]:
    """Read the numbers of the watched repositories in shadow mode, which is the default."""
    sql = (
        "select w.repository_id from watched_repositories w left join repository_settings x using (repository_id) "
        "where coalesce(x.shadow, true)"
    )
    return frozenset(row["repository_id"] for row in rows.rows(sql))


def watched_repositories(rows: Rows) -> tuple[WatchedRepository, ...]:
    settings = read_settings(rows)
    repositories = rows.rows(f"{NAMED} order by name, repo_key")
    return tuple(_watched_repository(row, settings) for row in repositories)


def watched_repository(rows: Rows, key: str) -> WatchedRepository | None:
    row = rows.row(f"{NAMED} where r.repo_key = ?", [key])
    return _watched_repository(row, read_settings(rows)) if row else None


def _watched_repository(row: Mapping[str, Any], settings: Mapping[int, RepositorySettings]) -> WatchedRepository:
    number = row["repository_id"]
    return WatchedRepository(number, row["repo_key"], row["name"], row["owner"], settings[number])


def sensitive_paths_of(rows: Rows, pull_uri: str) -> tuple[str, ...]:
    """Read the path patterns that a pull request's repository always wants reviewed, for every author."""
    sql = (
        "select x.sensitive_paths from repository_settings x join pull_requests p using (repository_id) "
        "where p.pull_uri = ?"
    )
    return tuple(rows.value(sql, [pull_uri]) or ())
