"""Writes what maintainers decide into the store: settings, roles, watched repositories and lanes.

The worker judges by the settings of maintainers. A person who may judge for a repository is a seed there. A rebuilt
store watches the same repositories again. Lanes are closed and opened again, and estimated lanes opened and ended.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b
from typing import Any

from ingest.atproto.syntax import is_did
from ingest.backfill.runs import begin
from ingest.clock import parse_time, read_moment
from ingest.records.watched import find_repository, set_maintainer, watch_repository
from ingest.store.database import Store
from ingest.store.transaction import Transaction
from ingest.worker.runtime import Runtime
from scoring.certificates.lane_counts import check_offer
from scoring.config.repository import RepositorySettings, WatchedRepository, parse_settings, watched_repository
from scoring.pipeline.lane_thresholds import FIGURES, offer_of_row
from scoring.types import REASON_LENGTH

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
    "publish",
    "time_zones",
)
# A repository that switches time zones off forgets those that were read for it.
FORGET_ZONES = """
update round_commits set zone_band = null
where pull_uri in (select pull_uri from pull_requests where repository_id = ?)
"""


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
        columns |= {"set_at": changed_at, "publish_since": _publish_since(txn, before, settings, changed_at)}
        txn.upsert("repository_settings", [{"repository_id": before.number, **columns}])
        _write_seeds(txn, before.number, settings)
        if not settings.time_zones:
            txn.execute(FORGET_ZONES, [before.number])
        txn.execute(
            "update watched_repositories set review = ? where repository_id = ?", [settings.review, before.number]
        )
        reviews_before = (before.settings.review, before.settings.sensitive_paths)
        if reviews_before != (settings.review, settings.sensitive_paths):
            txn.execute(UNREAD, [before.number])
        txn.inputs_changed()
    return True


def _publish_since(
    txn: Transaction, before: WatchedRepository, settings: RepositorySettings, changed_at: datetime
) -> datetime | None:
    """Return since when the repository publishes: nothing that was decided before is told to everybody."""
    if settings.publish == "off":
        return None
    if before.settings.publish == "off":
        return changed_at
    return txn.value("select publish_since from repository_settings where repository_id = ?", [before.number])


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


STRUCK = "(these words named an erased account)"


def take_closure(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
    close(runtime.store, key, payload, runtime.clock.now())


def take_opening(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
    """Deliver the end of `payload["closure"]`."""
    reopen(runtime.store, payload, runtime.clock.now())


def take_estimate(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
    open_on_estimate(runtime.store, key, payload, runtime.clock.now())


def take_estimate_end(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
    """Deliver the end of the estimated lane `payload["opening"]`."""
    end_estimate(runtime.store, payload, runtime.clock.now())


def close(store: Store, key: str, payload: Mapping[str, Any], now: datetime) -> bool:
    """Close the fast lane from now on and have everything judged anew; False where this key was written before.

    `payload` has repo_key, author, voucher (each "" for any), because, person ("": erased since) and made_at.
    Raises ValueError for a repository that is not known here.
    """
    with store.write() as txn:
        if txn.value("select count(*) from lane_closures where closure_key = ?", [key]):
            return False
        named = [payload[name] for name in ("author", "voucher", "person") if payload[name]]
        numbers = txn.person_ids(named)
        row = {
            "closure_key": key,
            "repository_id": _repository(txn, payload["repo_key"]),
            "author_id": numbers.get(payload["author"], 0),
            "voucher_id": numbers.get(payload["voucher"], 0),
            "actor_id": numbers.get(payload["person"]),
            "because": str(payload["because"])[:REASON_LENGTH],
            "closed_at": read_moment(payload["made_at"]),
            "known_from": now,
        }
        _append(txn, "lane_closures", row)
        txn.inputs_changed()
    return True


def reopen(store: Store, payload: Mapping[str, Any], now: datetime) -> bool:
    """Open the lane again; False where that was written before. `payload` has closure, because, person and made_at."""
    with store.write() as txn:
        return _end(txn, "lane_openings", {"closure_key": payload["closure"]}, "opened_at", payload, now)


def open_on_estimate(store: Store, key: str, payload: Mapping[str, Any], now: datetime) -> bool:
    """Open a repository's lane on an estimate from now on; False where this key was written before.

    `payload` has repo_key, the figures of the offer, person ("": erased since) and made_at. Raises ValueError for a
    repository that is not known here and for figures that no lane can be opened on.
    """
    offer = offer_of_row(payload)
    check_offer(offer)
    with store.write() as txn:
        if txn.value("select count(*) from estimated_lanes where opening_key = ?", [key]):
            return False
        row = {
            "opening_key": key,
            "repository_id": _repository(txn, payload["repo_key"]),
            **{name: getattr(offer, name) for name in FIGURES},
            "model": offer.model,
            "actor_id": _person(txn, payload),
            "opened_at": read_moment(payload["made_at"]),
            "known_from": now,
        }
        txn.append("estimated_lanes", [row])
        txn.inputs_changed()
    return True


# The draws that an opening led to. An answer that was given stays with its draw; so does what somebody approved because
# the lane let it through.
WITHDRAWN_DRAWS = """
delete from audit_draws d using estimated_lanes e
where e.opening_key = ? and d.repository_id = e.repository_id and d.estimated and d.drawn_at >= e.known_from
  and d.pull_uri not in (select pull_uri from audits)
  and (d.drawn or d.pull_uri not in (select pull_uri from approvals))
"""


def end_estimate(store: Store, payload: Mapping[str, Any], now: datetime) -> bool:
    """End an estimated lane; False where that was written before. `payload` has opening, because, person and made_at.

    With a true `undone` it also withdraws what the audit drew because of the opening. Opened anew, the lane draws the
    same rounds again. The message may come before that of the opening, which then never stands.
    """
    with store.whole, store.write() as txn:  # a pass that saw the lane open has written its draws by now
        if not _end(txn, "estimated_ends", {"opening_key": payload["opening"]}, "ended_at", payload, now):
            return False
        if payload.get("undone", False):
            txn.execute(WITHDRAWN_DRAWS, [payload["opening"]])
    return True


def _end(
    txn: Transaction, table: str, ended: Mapping[str, str], moment: str, payload: Mapping[str, Any], now: datetime
) -> bool:
    """Append the end of a closure or opening, with its key in `ended`; False where that was written before.

    `moment` names the column of the web's time.
    """
    ((column, key),) = ended.items()
    if txn.value(f"select count(*) from {table} where {column} = ?", [key]):
        return False
    row = {
        **ended,
        "actor_id": _person(txn, payload),
        "because": str(payload["because"])[:REASON_LENGTH],
        moment: read_moment(payload["made_at"]),
        "known_from": now,
    }
    _append(txn, table, row)
    txn.inputs_changed()
    return True


def _append(txn: Transaction, table: str, row: Mapping[str, object]) -> None:
    """Append a row, without its words where they name an erased person: a closure must not be lost."""
    if not txn.append_new(table, [row]):
        txn.append(table, [{**row, "because": STRUCK}])


def _person(txn: Transaction, payload: Mapping[str, Any]) -> int | None:
    """Return the number of the person who decided; None for a person who was erased since."""
    return txn.person_ids([payload["person"]]).get(payload["person"]) if payload["person"] else None


def _repository(txn: Transaction, repo_key: str) -> int:
    if not repo_key:
        return 0
    number = find_repository(txn, repo_key)
    if number is None:
        raise ValueError(f"no repository is called {repo_key[:200]!r} here")
    return number
