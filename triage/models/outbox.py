"""Tables of messages: to the worker, kept also for a second delivery, to the webhook, and to people's browsers.

Decisions made here are kept for the worker's file in case that file is replaced. Also kept are the states that the
webhook's receiver and browsers were told, and the messages that wait for them.

Each message goes from the web's database to the worker's file exactly once, whatever is killed in between. A message is
written in the transaction of its decision. The worker delivers what is due and marks it; a kill between the two
delivers the message again, which its handler recognises by its key.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from django.db import models, transaction

from triage.models.accounts import Row
from triage.models.push import PushSubscription


class OutboxEntry(Row):
    """One message to the worker, written in the transaction of its decision.

    `kind` names its handler (`triage.services.notifying.deliveries`), `key` makes it unique: its handler applies it
    once, however often it is delivered. `due_at` is when it takes effect; `problem` is why the last attempt failed,
    "" if none did. `known_from` is when it took effect by the worker's clock: a second delivery keeps it.
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
    """The one row with the store that gets the messages, and the number of the newest run of deliveries to it."""

    store = models.CharField(max_length=16)
    number = models.PositiveIntegerField()


class ToldState(Row):
    """The last noted state of one thing: each difference from it is told once.

    `kind` and `key` name the thing (`triage.services.notifying.webhooks`), `value` is its state, `repo_key` its
    repository ("": the whole site). `since` is when it was noted, null for what stood when the notes
    began. Written by the worker alone, in the transaction of the deliveries.
    """

    kind: Any = models.CharField(max_length=20)
    key: Any = models.CharField(max_length=2048)
    value: Any = models.CharField(max_length=100)
    repo_key: Any = models.CharField(max_length=2048, blank=True, default="")
    since: Any = models.DateTimeField(null=True, db_index=True)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["kind", "key"], name="one_told_state")]


class Delivery(Row):
    """One message to the webhook's receiver or to a browser, kept for some days after it was accepted or given up.

    `key` is unique (the webhook-id), `body` the text that is sent. `subscription` is the browser's, null for the
    webhook. `due_at` is the time of the next try, null once there is none, `ends_at` that of the last; `problem` is why
    the last try failed, "" if none did.
    """

    key: Any = models.CharField(max_length=40, unique=True)
    event: Any = models.CharField(max_length=40)
    subscription: Any = models.ForeignKey(PushSubscription, models.CASCADE, null=True, related_name="deliveries")
    body: Any = models.TextField()
    made_at: Any = models.DateTimeField(db_index=True)
    ends_at: Any = models.DateTimeField()
    due_at: Any = models.DateTimeField(null=True, db_index=True)
    tries: Any = models.PositiveIntegerField(default=0)
    delivered_at: Any = models.DateTimeField(null=True)
    given_up_at: Any = models.DateTimeField(null=True, db_index=True)
    problem: Any = models.CharField(max_length=300, blank=True)


def put(kind: str, key: str, payload: Mapping[str, Any], now: datetime, due_at: datetime | None = None) -> OutboxEntry:
    """Write a message in the caller's transaction and wake the worker once that is committed.

    A second message with a known key changes nothing. `kind` is a key of
    `triage.services.notifying.deliveries.DELIVERIES`.
    """
    entry, _ = OutboxEntry.objects.get_or_create(
        key=key, defaults={"kind": kind, "payload": dict(payload), "made_at": now, "due_at": due_at or now}
    )
    transaction.on_commit(_wake_worker)
    return entry


def withdraw(key: str) -> bool:
    """Withdraw a message that the worker has not begun to deliver; False where it is too late."""
    deleted, _ = OutboxEntry.objects.filter(key=key, delivered_at=None, tries=0).delete()
    return bool(deleted)


def next_due() -> datetime | None:
    """Return when the earliest waiting message takes effect; a failed one waits for the worker's sweep."""
    return (
        OutboxEntry.objects.filter(delivered_at=None, problem="")
        .order_by("due_at")
        .values_list("due_at", flat=True)
        .first()
    )


def _wake_worker() -> None:
    from triage.tasks import wake

    wake()
