"""Tables of accounts and their rights, of the log of changes, and of repositories' settings.

What the network says about people is not here: that is the worker's file. The log of what people changed here is
append-only: who and when. Settings are those that the maintainers of a watched repository chose for it, as they were
last saved here.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.db import connection, models


class Row(models.Model):
    """A row of any table here, with the manager that the type checker does not find by itself."""

    objects: ClassVar[models.Manager] = models.Manager()

    class Meta:
        abstract = True


class Person(AbstractBaseUser):
    """Someone who uses this site, known by DID alone; `handle` is for display and, where one person has it, a name.

    `password` is a hash of django.contrib.auth, "" where none was set: sessions end when it changes. One-time links
    stand in SignInMethod.
    """

    password: Any = models.CharField(max_length=128, blank=True, default="")
    did = models.CharField(max_length=2048, unique=True)
    handle = models.CharField(max_length=253, blank=True)
    is_active = models.BooleanField(default=True)
    times_reading = models.BooleanField(default=False)  # they have the time measured in which they read changes
    outcomes_asked_at: Any = models.DateTimeField(null=True)  # when they last answered the weekly question
    saved_filters: Any = models.JSONField(
        default=list
    )  # views of the inbox: name and values, in `triage.presenters.lists`

    USERNAME_FIELD = "did"

    objects = BaseUserManager()

    def __str__(self) -> str:
        """The handle where one is known, else the DID."""
        return str(self.handle or self.did)

    @property
    def has_password(self) -> bool:
        """Return whether a password was set; Django's own word takes an empty hash for one."""
        return bool(self.password) and self.has_usable_password()


class SignInMethod(Row):
    """One way in which a person may sign in. Only a hash of the secret is kept."""

    class Kind(models.TextChoices):
        """The kind of the secret."""

        LINK = "link"

    person: Any = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="sign_in_methods")
    kind = models.CharField(max_length=20, choices=Kind.choices)
    secret_hash = models.CharField(max_length=255, unique=True)
    made_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    used_at = models.DateTimeField(null=True)  # set once for what works once
    last_used_at = models.DateTimeField(null=True)


class Maintainer(Row):
    """The role of a person in a repository, or in every one and the site itself where `repo_key` is empty.

    Whoever is more than a viewer is a seed there: the worker holds these too, as its own copy. A row that is made
    without a role has the usual one: admin of the site, maintainer of a repository.
    """

    class Role(models.TextChoices):
        """Names of the roles; `triage.access.permissions.Role` orders them."""

        VIEWER = "viewer"
        MAINTAINER = "maintainer"
        ADMIN = "admin"

    person: Any = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="maintains")
    repo_key = models.CharField(max_length=2048, blank=True)
    role: Any = models.CharField(max_length=20, choices=Role.choices)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["person", "repo_key"], name="one_maintainer_row")]

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Write the row, with the usual role where none was said."""
        if not self.role:
            self.role = usual_role(str(self.repo_key))
        super().save(*args, **kwargs)


def usual_role(repo_key: str) -> Maintainer.Role:
    """The role of somebody who is added without one."""
    return Maintainer.Role.MAINTAINER if repo_key else Maintainer.Role.ADMIN


class ApiToken(Row):
    """A secret for programs, kept as its SHA-256. `scopes` is a sorted list from triage.access.tokens.SCOPES.

    `repo_key`: the one repository that it reads; "" for all. `refused`: how often it was sent after it was revoked.
    """

    secret_hash = models.CharField(max_length=64, unique=True)
    name = models.CharField(max_length=100)
    scopes: Any = models.JSONField(default=list)
    person: Any = models.ForeignKey(Person, on_delete=models.CASCADE, null=True, related_name="api_tokens")
    repo_key = models.CharField(max_length=2048, blank=True, default="")
    made_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    refused = models.PositiveIntegerField(default=0)


class Change(Row):
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


class RepositoryChoice(Row):
    """The newest settings of one repository; one that nobody changed has no row here.

    `settings` are the JSON values of `scoring.config.repository.RepositorySettings`, which says what each means;
    `version` is theirs, so that of two people who save at the same time one is told. The worker's file follows.
    """

    repo_key = models.CharField(max_length=2048, unique=True)
    version = models.PositiveIntegerField()
    settings = models.JSONField()
    changed_at = models.DateTimeField()
    changed_by: Any = models.ForeignKey(Person, on_delete=models.SET_NULL, null=True, related_name="repository_choices")


def log_change(
    person: Person | None, what: str, now: datetime, repo_key: str = "", subject: str = "", **details: Any
) -> Change:
    """Note in the caller's transaction who changed what; `details` must be JSON."""
    told: Mapping[str, Any] = details
    return Change.objects.create(
        made_at=now, person=person, what=what, repo_key=repo_key, subject=subject, details=dict(told)
    )


def is_any(query: str, *values: object) -> bool:
    """Return whether a query finds a row.

    Each `%s` in it is one of the values, which are datetimes or what SQLite takes.
    """
    with connection.cursor() as cursor:
        return cursor.execute(query, [connection.ops.adapt_unknown_value(one) for one in values]).fetchone() is not None


def among(values: Iterable[str]) -> str:
    """Many values as one, for `in (select value from json_each(%s))`: a query has its length whatever their number."""
    return json.dumps(list(values))
