"""Which repositories people had watched, brought into the worker's file: one made anew watches them again."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from ingest.backfill.runs import begin
from ingest.dids import is_did
from ingest.runtime import Runtime
from ingest.watch import watch_repository


def take_watched(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
    """A delivery for `triage.deliveries`: watch the repository of `payload["record"]`; again is harmless.

    Raises ValueError where its record is not here yet, as in a store that is made anew from the log.
    """
    watch_repository(runtime.store, payload["record"], runtime.clock.now())


def take_first_reading(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
    """A delivery: have the records of `payload["dids"]` read before anybody else's, and of whom these lead to."""
    dids = runtime.store.tombstones.without(filter(is_did, payload["dids"]))
    if dids:  # a run of nobody in particular would be one of everybody
        begin(runtime.store, "setup", dids, run_id=blake2b(key.encode(), digest_size=16).hexdigest())
