"""What was decided here and has yet to reach the worker's file."""

from typing import ClassVar

from django.db import models


class OutboxEntry(models.Model):
    """One message to the worker, written in the transaction of what it tells of.

    `kind` names who takes it (`triage.deliveries`), `key` makes it one of a kind: whoever takes it takes it once,
    however often it is brought. `due_at` is when it takes effect; `problem` is why the last attempt failed, ""
    if none did.
    """

    key = models.CharField(max_length=200, unique=True)
    kind = models.CharField(max_length=40)
    payload = models.JSONField()
    made_at = models.DateTimeField()
    due_at = models.DateTimeField(db_index=True)
    delivered_at = models.DateTimeField(null=True, db_index=True)
    tries = models.PositiveIntegerField(default=0)
    problem = models.CharField(max_length=500, blank=True)

    objects: ClassVar[models.Manager] = models.Manager()

    def __str__(self) -> str:
        """What it is and when it takes effect."""
        return f"{self.kind} {self.key} due {self.due_at:%Y-%m-%d %H:%M:%S}"
