"""From the web's database to the worker's file, each message exactly once whatever is killed in between.

A message is written with what it tells of, in one transaction. The worker delivers what is due and marks it; a kill
between the two brings the same message again, which its taker knows by its key.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from triage.models.outbox import OutboxEntry


def put(kind: str, key: str, payload: Mapping[str, Any], now: datetime, due_at: datetime | None = None) -> OutboxEntry:
    """Leave a message in the caller's transaction and wake the worker once that is committed.

    A second message with the same key is the first one. `kind` is a key of `triage.deliveries.DELIVERIES`.
    """
    entry, _ = OutboxEntry.objects.get_or_create(
        key=key, defaults={"kind": kind, "payload": dict(payload), "made_at": now, "due_at": due_at or now}
    )
    transaction.on_commit(_wake_worker)
    return entry


def withdraw(key: str) -> bool:
    """Take back a message that the worker has not begun to deliver; False where it is too late."""
    deleted, _ = OutboxEntry.objects.filter(key=key, delivered_at=None, tries=0).delete()
    return bool(deleted)


def next_due() -> datetime | None:
    """When the earliest message that waits takes effect; one that failed waits for the worker's sweep."""
    return (
        OutboxEntry.objects.filter(delivered_at=None, problem="")
        .order_by("due_at")
        .values_list("due_at", flat=True)
        .first()
    )


def _wake_worker() -> None:
    from triage.tasks import wake

    wake()
