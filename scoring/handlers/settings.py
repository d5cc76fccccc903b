"""Takes settings, roles and watched repositories from the pages into the worker's file.

The worker judges by what maintainers set on a page. Whoever judges for a repository is a seed there. A file made anew
watches the repositories again that people had watched.
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
from scoring.config.repository import RepositorySettings, WatchedRepository, read_told, watched_repository

# What was read by other rules is read anew; a reading that a model was paid for is found again by its content.
UNREAD = """
delete from content_reviews where pull_uri in (
  select pull_uri from pull_requests where repository_id = ? and state = 'open'
)
"""
KEPT = (
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
    """Take one message {repo_key, changed_at, settings}; nothing where this version or a newer one is here already.

    Every open pull request of the repository is decided anew. Raises ValueError where the repository is not watched or
    the settings cannot be used.
    """
    changed_at = parse_time(payload["changed_at"])
    if changed_at is None:
        raise ValueError(f"{key} does not say when the settings were changed")
    key = _key_now(runtime.store, payload["repo_key"])
    write_settings(runtime.store, key, read_told(payload["settings"]), changed_at)


def _key_now(store: Store, repo_key: str) -> str:
    """The key of the repository that had this one: it has another once the operator said whose it is."""
    sql = "select repo_key from repositories join repository_aliases using (repository_id) where alias = ?"
    with store.read() as rows:
        return rows.value(sql, [repo_key]) or repo_key


def switch_shadow(store: Store, repo_key: str, shadow: bool, now: datetime) -> None:
    """Set shadow mode as `manage.py demo` does, without a person; ValueError where the repository is not watched."""
    with store.read() as rows:
        held = _watched(watched_repository(rows, repo_key), repo_key).settings
    write_settings(store, repo_key, replace(held, shadow=shadow, version=held.version + 1), now)


def write_settings(store: Store, repo_key: str, settings: RepositorySettings, changed_at: datetime) -> bool:
    """Write the settings unless this version or a newer one stands; returns whether they were written."""
    with store.write() as txn:
        held = _watched(watched_repository(txn, repo_key), repo_key)
        if settings.version <= held.settings.version:
            return False
        kept = {name: getattr(settings, name) for name in KEPT}
        txn.upsert("repository_settings", [{"repository_id": held.number, "set_at": changed_at, **kept}])
        _write_seeds(txn, held.number, settings)
        txn.execute(
            "update watched_repositories set review = ? where repository_id = ?", [settings.review, held.number]
        )
        if _is_read_otherwise(held.settings, settings):
            txn.execute(UNREAD, [held.number])
        txn.inputs_changed()
    return True


def _watched(found: WatchedRepository | None, repo_key: str) -> WatchedRepository:
    if found is None:
        raise ValueError(f"no watched repository has the key {repo_key[:200]}")
    return found


def _write_seeds(txn: Transaction, number: int, settings: RepositorySettings) -> None:
    chosen = dict.fromkeys(settings.seeds_added, "added") | dict.fromkeys(settings.seeds_removed, "removed")
    numbers = txn.person_ids(chosen)
    txn.execute("delete from seed_choices where repository_id = ?", [number])
    rows = [
        {"repository_id": number, "contributor_id": numbers[did], "choice": choice} for did, choice in chosen.items()
    ]
    txn.append("seed_choices", rows)


def _is_read_otherwise(before: RepositorySettings, after: RepositorySettings) -> bool:
    return (before.review, before.sensitive_paths) != (after.review, after.sensitive_paths)


def tell_role(store: Store, did: str, repo_key: str, is_maintainer: bool) -> None:
    """Make a person a seed of the repository, or of the site (""), or take it back; everybody is judged anew.

    Again is harmless. Raises ValueError where the repository is not known.
    """
    set_maintainer(store, did, repo_key, is_maintainer)


def take_watched(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
    """A delivery for `triage.services.deliveries`: watch the repository of `payload["record"]`; again is harmless.

    Raises ValueError where its record is not here yet, as in a store that is made anew from the log.
    """
    watch_repository(runtime.store, payload["record"], runtime.clock.now())


def take_first_reading(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
    """A delivery: have the records of `payload["dids"]` read before anybody else's, and of whom these lead to."""
    dids = runtime.store.tombstones.without(filter(is_did, payload["dids"]))
    if dids:  # a run of nobody in particular would be one of everybody
        begin(runtime.store, "setup", dids, run_id=blake2b(key.encode(), digest_size=16).hexdigest())
