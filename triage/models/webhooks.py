"""What the webhook's receiver was told, and what is on its way to it."""

from typing import Any, ClassVar

from django.db import models


class ToldState(models.Model):
    """What the receiver knows of one thing: a change is what differs from it, and is told once.

    `kind` and `key` name the thing (`triage.webhook_events`), `value` is how it stood. Written by the worker alone, in
    the transaction of the deliveries that tell of it.
    """

    kind: Any = models.CharField(max_length=20)
    key: Any = models.CharField(max_length=2048)
    value: Any = models.CharField(max_length=100)

    objects: ClassVar[models.Manager] = models.Manager()

    class Meta:
        """One thing stands one way."""

        constraints: ClassVar = [models.UniqueConstraint(fields=["kind", "key"], name="one_told_state")]

    def __str__(self) -> str:
        """What stands how."""
        return f"{self.kind} {self.key}: {self.value}"


class WebhookDelivery(models.Model):
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

    objects: ClassVar[models.Manager] = models.Manager()

    def __str__(self) -> str:
        """Which event, never its body."""
        return f"{self.event} {self.key}"
