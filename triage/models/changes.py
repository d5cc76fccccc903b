"""The log of what people changed here: append-only, who and when."""

from typing import Any, ClassVar

from django.db import models

from triage.models.accounts import Person


class Change(models.Model):
    """One change of state by a person; never altered and never deleted while the site keeps its record.

    `what` is a code such as "settings.changed", `repo_key` the repository it concerns ("" for the site), `subject` what
    was changed within it (an at-uri, a DID, a name), `details` JSON of what it was before and is since.
    """

    made_at = models.DateTimeField()
    person: Any = models.ForeignKey(Person, on_delete=models.PROTECT, null=True, related_name="changes")
    what = models.CharField(max_length=64)
    repo_key = models.CharField(max_length=2048, blank=True, db_index=True)
    subject = models.CharField(max_length=2048, blank=True, db_index=True)
    details = models.JSONField(default=dict)

    objects: ClassVar[models.Manager] = models.Manager()

    def __str__(self) -> str:
        """What happened, and when."""
        return f"{self.what} at {self.made_at:%Y-%m-%d %H:%M}"
