"""What the maintainers of a watched repository chose for it, as it was last saved here."""

from typing import Any, ClassVar

from django.db import models

from triage.models.accounts import Person


class RepositoryChoice(models.Model):
    """The newest settings of one repository; one that nobody changed has no row here.

    `settings` are the JSON values of `scoring.repository_settings.RepositorySettings`, which says what each means;
    `version` is theirs, so that of two people who save at the same time one is told. The worker's file follows.
    """

    repo_key = models.CharField(max_length=2048, unique=True)
    version = models.PositiveIntegerField()
    settings = models.JSONField()
    changed_at = models.DateTimeField()
    changed_by: Any = models.ForeignKey(Person, on_delete=models.SET_NULL, null=True, related_name="repository_choices")

    objects: ClassVar[models.Manager] = models.Manager()

    def __str__(self) -> str:
        """Which repository, and which version."""
        return f"{self.repo_key} version {self.version}"
