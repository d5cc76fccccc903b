"""Writes settings, roles and watched repositories from the pages into the store.

The worker judges by the settings of maintainers. A person who may judge for a repository is a seed there. A rebuilt
store watches the same repositories again.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b
from typing import Any

from ingest.atproto.syntax import is_did
from ingest.backfill.runs import begin
from ingest.clock import parse_time
from ingest.records.watched import set_maintainer, watch_repository
from ingest.store.database import Store
from ingest.store.transaction import Transaction
from ingest.worker.runtime import Runtime
from scoring.config.repository import RepositorySettings, WatchedRepository, parse_settings, watched_repository

# Reviews by other rules are made anew; a review that a model was paid for is found again by its content.
UNREAD = """
delete from content_reviews where pull_uri in (
  select pull_uri from pull_requests where repository_id = ? and state = 'open'
)
"""
COLUMNS = (
    "version",
    "budget",
    "alarm_budget",
    "window_days",
    "tier",
    "never_fast_paths",
    "sensitive_paths",
    "accepted_issuers",
    "organisation_domains",
    "shadow",
)


def take_settings(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
    """Deliver one message {repo_key, changed_at, settings}; an older version than the stored one changes nothing.

    Every open pull request of the repository is decided anew. Raises ValueError where the repository is not watched or
    the settings cannot be used.
    """
    changed_at = parse_time(payload["changed_at"])
    if changed_at is None:
        raise ValueError(f"{key} does not say when the settings were changed")
    key = _key_now(runtime.store, payload["repo_key"])
    write_settings(runtime.store, key, parse_settings(payload["settings"]), changed_at)


def _key_now(store: Store, repo_key: str) -> str:
    """Return the present key of a repository by a former one: the key changes once the operator names its owner."""
    sql = "select repo_key from repositories join repository_aliases using (repository_id) where alias = ?"
    with store.read() as rows:
        return rows.value(sql, [repo_key]) or repo_key


def switch_shadow(store: Store, repo_key: str, shadow: bool, now: datetime) -> None:
    """Set shadow mode without a person, as `manage.py demo` does; ValueError for a repository that is not watched."""
    with store.read() as rows:
        current = _watched(watched_repository(rows, repo_key), repo_key).settings
    write_settings(store, repo_key, replace(current, shadow=shadow, version=current.version + 1), now)


def write_settings(store: Store, repo_key: str, settings: RepositorySettings, changed_at: datetime) -> bool:
    """Write the settings unless this version or a newer one is stored; return whether they were written."""
    with store.write() as txn:
        before = _watched(watched_repository(txn, repo_key), repo_key)
        if settings.version <= before.settings.version:
            return False
        columns = {name: getattr(settings, name) for name in COLUMNS}
        txn.upsert("repository_settings", [{"repository_id": before.number, "set_at": changed_at, **columns}])
        _write_seeds(txn, before.number, settings)
        txn.execute(
            "update watched_repositories set review = ? where repository_id = ?", [settings.review, before.number]
        )
        reviews_before = (before.settings.review, before.settings.sensitive_paths)
        if reviews_before != (settings.review, settings.sensitive_paths):
            txn.execute(UNREAD, [before.number])
        txn.inputs_changed()
    return True


def _watched(repository: WatchedRepository | None, repo_key: str) -> WatchedRepository:
    if repository is None:
        raise ValueError(f"no watched repository has the key {repo_key[:200]}")
    return repository


def _write_seeds(txn: Transaction, number: int, settings: RepositorySettings) -> None:
    chosen = dict.fromkeys(settings.seeds_added, "added") | dict.fromkeys(settings.seeds_removed, "removed")
    numbers = txn.person_ids(chosen)
    txn.execute("delete from seed_choices where repository_id = ?", [number])
    rows = [
        {"repository_id": number, "contributor_id": numbers[did], "choice": choice} for did, choice in chosen.items()
    ]
    txn.append("seed_choices", rows)


def set_role(store: Store, did: str, repo_key: str, is_maintainer: bool) -> None:
    """Make a person a seed of the repository, or of the site (""), or take that back; everybody is judged anew.

    A repetition is harmless. Raises ValueError where the repository is not known.
    """
    set_maintainer(store, did, repo_key, is_maintainer)


def take_watched(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
    """Watch the repository of `payload["record"]`; a repetition is harmless.

    Raises ValueError where its record is not here yet, as in a store that is rebuilt from the log.
    """
    watch_repository(runtime.store, payload["record"], runtime.clock.now())


def take_first_reading(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
    """Have the records of `payload["dids"]`, and of people whom these lead to, read before all others."""
    dids = runtime.store.tombstones.without(filter(is_did, payload["dids"]))
    if dids:  # a run without names would read everybody
        begin(runtime.store, "setup", dids, run_id=blake2b(key.encode(), digest_size=16).hexdigest())
