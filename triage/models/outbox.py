"""What was decided here, on its way to the worker's file and kept in case that file must be told again."""

from typing import ClassVar

from django.db import models


class OutboxEntry(models.Model):
    """One message to the worker, written in the transaction of what it tells of.

    `kind` names who takes it (`triage.deliveries`), `key` makes it one of a kind: whoever takes it takes it once,
    however often it is brought. `due_at` is when it takes effect; `problem` is why the last attempt failed, ""
    if none did. `known_from` is when it took effect by the worker's clock: a store that is told again keeps to it.
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

    objects: ClassVar[models.Manager] = models.Manager()

    def __str__(self) -> str:
        """What it is and when it takes effect."""
        return f"{self.kind} {self.key} due {self.due_at:%Y-%m-%d %H:%M:%S}"


class DeliveryRun(models.Model):
    """The one row that says to which store messages went, and the number of the newest run of deliveries to it."""

    store = models.CharField(max_length=16)
    number = models.PositiveIntegerField()

    objects: ClassVar[models.Manager] = models.Manager()

    def __str__(self) -> str:
        """Which run to which store."""
        return f"run {self.number} to {self.store}"
