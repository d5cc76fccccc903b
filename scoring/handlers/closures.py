"""Writes people's decisions about the fast lane, made on pages or the command line, into the store, each once.

The decisions are to close the lane and to open it again, and to open and end an estimated lane.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ingest.clock import read_moment
from ingest.records.watched import find_repository
from ingest.store.database import Store
from ingest.store.transaction import Transaction
from ingest.worker.runtime import Runtime
from scoring.certificates.lane_offer import check_offer
from scoring.pipeline.lane_thresholds import FIGURES, offer_of_row
from scoring.types import REASON_LENGTH

STRUCK = "(these words named an erased account)"


def take_closure(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
    """Deliver a closure of the lane to the running worker's store."""
    close(runtime.store, key, payload, runtime.clock.now())


def take_opening(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
    """Deliver the end of `payload["closure"]`."""
    reopen(runtime.store, payload, runtime.clock.now())


def take_estimate(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
    """Deliver the opening of one repository's lane on an estimate."""
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
    return _end(store, "lane_openings", {"closure_key": payload["closure"]}, "opened_at", payload, now)


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


def end_estimate(store: Store, payload: Mapping[str, Any], now: datetime) -> bool:
    """End an estimated lane; False where that was written before. `payload` has opening, because, person and made_at.

    The message may come before that of the opening, which then never stands.
    """
    return _end(store, "estimated_ends", {"opening_key": payload["opening"]}, "ended_at", payload, now)


def _end(
    store: Store, table: str, ended: Mapping[str, str], moment: str, payload: Mapping[str, Any], now: datetime
) -> bool:
    """Append the end of a closure or opening, with its key in `ended`; False where that was written before.

    `moment` names the column of the web's time.
    """
    ((column, key),) = ended.items()
    with store.write() as txn:
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
