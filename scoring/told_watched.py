"""Which repositories the operator had watched, brought into the worker's file: one made anew watches them again."""

from collections.abc import Mapping
from typing import Any

from ingest.runtime import Runtime
from ingest.watch import watch_repository


def take_watched(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
    """A delivery for `triage.deliveries`: watch the repository of `payload["record"]`; again is harmless.

    Raises ValueError where its record is not here yet, as in a store that is made anew from the log.
    """
    watch_repository(runtime.store, payload["record"], runtime.clock.now())
