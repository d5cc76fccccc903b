"""Tables of the messages to the worker and to the webhook, kept until each is delivered, and to be sent again.

Decisions made here are kept for the worker's file in case that file must be told again. Also kept are what the
webhook's receiver was told, and what is on its way to it.

Each message goes from the web's database to the worker's file exactly once, whatever is killed in between. A message is
written with what it tells of, in one transaction. The worker delivers what is due and marks it; a kill between the two
brings the same message again, which its taker knows by its key.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from django.db import models, transaction

from triage.models.accounts import Row


class OutboxEntry(Row):
    """One message to the worker, written in the transaction of what it tells of.

    `kind` names who takes it (`triage.services.deliveries`), `key` makes it one of a kind: whoever takes it takes it
    once, however often it is brought. `due_at` is when it takes effect; `problem` is why the last attempt failed, "" if
    none did. `known_from` is when it took effect by the worker's clock: a store that is told again keeps to it.
    """

    key = models.CharField(max_length=200, unique=True)
    kind = models.CharField(max_length=40)
    payload = models.JSONField()
    made_at = models.DateTimeField()
    due_at = models.DateTimeField(db_index=True)
    delivered_at = models.DateTimeField(null=True, db_index=True)
    known_from = models.DateTimeField(null=True)
    tries = models.PositiveIntegerField(default=0)
    problem = models.CharField(max_length=500, blank=True)


class DeliveryRun(Row):
    """The one row that says to which store messages went, and the number of the newest run of deliveries to it."""

    store = models.CharField(max_length=16)
    number = models.PositiveIntegerField()


class ToldState(Row):
    """The receiver's knowledge of one thing: a change is what differs from it, and is told once.

    `kind` and `key` name the thing (`triage.services.webhooks`), `value` is how it stood. Written by the worker
    alone, in the transaction of the deliveries that tell of it.
    """

    kind: Any = models.CharField(max_length=20)
    key: Any = models.CharField(max_length=2048)
    value: Any = models.CharField(max_length=100)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["kind", "key"], name="one_told_state")]


class WebhookDelivery(Row):
    """One message to the receiver, kept for some days after it was taken or given up.

    `key` is its webhook-id, `body` the exact text that is signed and sent. `due_at` is when it is tried next, null once
    that is over; `problem` is why the last try failed, "" if none did.
    """

    key: Any = models.CharField(max_length=40, unique=True)
    event: Any = models.CharField(max_length=40)
    body: Any = models.TextField()
    made_at: Any = models.DateTimeField(db_index=True)
    due_at: Any = models.DateTimeField(null=True, db_index=True)
    tries: Any = models.PositiveIntegerField(default=0)
    delivered_at: Any = models.DateTimeField(null=True)
    given_up_at: Any = models.DateTimeField(null=True, db_index=True)
    problem: Any = models.CharField(max_length=300, blank=True)


def put(kind: str, key: str, payload: Mapping[str, Any], now: datetime, due_at: datetime | None = None) -> OutboxEntry:
    """Leave a message in the caller's transaction and wake the worker once that is committed.

    A second message with the same key is the first one. `kind` is a key of `triage.services.deliveries.DELIVERIES`.
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
    """Return when the earliest message that waits takes effect; one that failed waits for the worker's sweep."""
    return (
        OutboxEntry.objects.filter(delivered_at=None, problem="")
        .order_by("due_at")
        .values_list("due_at", flat=True)
        .first()
    )


def _wake_worker() -> None:
    from triage.tasks import wake

    wake()
