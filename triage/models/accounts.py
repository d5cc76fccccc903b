"""Tables of accounts and their rights, the log of changes, and repositories' settings.

What the network says about people is in the worker's file. The log of people's changes is append-only. Settings are
those that a watched repository's maintainers last saved here.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.db import OperationalError, connection, models, transaction

VISIT = timedelta(hours=1)  # within it a page that is loaded again tells the same


class Row(models.Model):
    """A row of any table here, with the manager that the type checker does not find by itself."""

    objects: ClassVar[models.Manager] = models.Manager()

    class Meta:
        abstract = True


class Person(AbstractBaseUser):
    """A user of this site, identified by DID alone; `handle` is for display and, where unique, for signing in.

    `password` is a hash of django.contrib.auth, "" where none was set: sessions end when it changes. One-time links are
    in SignInMethod.
    """

    password: Any = models.CharField(max_length=128, blank=True, default="")
    did = models.CharField(max_length=2048, unique=True)
    handle = models.CharField(max_length=253, blank=True)
    is_active = models.BooleanField(default=True)
    times_reading = models.BooleanField(default=False)  # their reading times are measured
    outcomes_asked_at: Any = models.DateTimeField(null=True)  # when they last answered the weekly question
    saved_filters: Any = models.JSONField(
        default=list
    )  # views of the inbox: name and values, in `triage.presenters.lists`
    briefed_at: Any = models.DateTimeField(null=True)  # when their newest visit to the briefing began
    briefed_before: Any = models.DateTimeField(null=True)  # and the one before it

    USERNAME_FIELD = "did"

    objects = BaseUserManager()

    def __str__(self) -> str:
        """Return the handle where one is known, else the DID."""
        return str(self.handle or self.did)

    def last_visit(self, now: datetime) -> datetime | None:
        """Return when their last visit to the briefing began, before one under way; None where they had none."""
        is_under_way = self.briefed_at is not None and now - self.briefed_at < VISIT
        return self.briefed_before if is_under_way else self.briefed_at

    def note_visit(self, now: datetime) -> None:
        """Keep that they look at the briefing; the page does not depend on that, nor on a drive that takes bytes."""
        if self.briefed_at is not None and now - self.briefed_at < VISIT:
            return
        with suppress(OperationalError), transaction.atomic():
            Person.objects.filter(pk=self.pk).update(briefed_before=self.briefed_at, briefed_at=now)

    @property
    def has_password(self) -> bool:
        """Return whether a password was set; Django's own check counts an empty hash as one."""
        return bool(self.password) and self.has_usable_password()


class SignInMethod(Row):
    """One way in which a person may sign in. Only a hash of the secret is stored."""

    class Kind(models.TextChoices):
        """The kind of the secret."""

        LINK = "link"

    person: Any = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="sign_in_methods")
    kind = models.CharField(max_length=20, choices=Kind.choices)
    secret_hash = models.CharField(max_length=255, unique=True)
    made_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    used_at = models.DateTimeField(null=True)  # set once for single-use secrets
    last_used_at = models.DateTimeField(null=True)


class Maintainer(Row):
    """A person's role in a repository, or in every one and the site itself where `repo_key` is empty.

    Everybody above viewer is a seed there: the worker has its own copy of these. A row created without a role gets the
    usual one: admin of the site, maintainer of a repository.
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
        """Write the row, with the usual role where none was given."""
        if not self.role:
            self.role = usual_role(str(self.repo_key))
        super().save(*args, **kwargs)


class RoleRequest(Row):
    """A push-holder's request to maintain a repository, and an admin's answer; `accepted` is None while it is open.

    There is one for each person and repository: whoever was declined does not ask again.
    """

    person: Any = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="role_requests")
    repo_key = models.CharField(max_length=2048)
    made_at = models.DateTimeField()
    accepted = models.BooleanField(null=True)
    answered_at = models.DateTimeField(null=True)
    answered_by: Any = models.ForeignKey(Person, on_delete=models.SET_NULL, null=True, related_name="answered_requests")

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["person", "repo_key"], name="one_role_request")]


class FirstAdminCode(Row):
    """The code with which the operator becomes the first admin; deleted once it is used or another is made."""

    secret_hash = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()


def usual_role(repo_key: str) -> Maintainer.Role:
    """Return the role of somebody who is added without one."""
    return Maintainer.Role.MAINTAINER if repo_key else Maintainer.Role.ADMIN


class ApiToken(Row):
    """A secret for programs, stored as its SHA-256. `scopes` is a sorted list from triage.access.tokens.SCOPES.

    `repo_key`: the one repository that it reads; "" for all. `refused`: how often it was used after its revocation.
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
    """One change of state by a person; never altered, and never deleted while the site keeps its record.

    `what` is a code such as "settings.changed", `repo_key` the repository concerned ("" for the site), `subject` the
    object within it (an at-uri, a DID, a name), `details` JSON of the values before and after.
    """

    made_at = models.DateTimeField()
    person: Any = models.ForeignKey(Person, on_delete=models.PROTECT, null=True, related_name="changes")
    what = models.CharField(max_length=64)
    repo_key = models.CharField(max_length=2048, blank=True, db_index=True)
    subject = models.CharField(max_length=2048, blank=True, db_index=True)
    details = models.JSONField(default=dict)


class RepositoryChoice(Row):
    """The newest settings of one repository; a repository with unchanged settings has no row.

    `settings` are the JSON values of `scoring.config.repository.RepositorySettings`, which documents them; `version` is
    theirs, so that of two people who save at once one gets a message. The worker's file follows.
    """

    repo_key = models.CharField(max_length=2048, unique=True)
    version = models.PositiveIntegerField()
    settings = models.JSONField()
    changed_at = models.DateTimeField()
    changed_by: Any = models.ForeignKey(Person, on_delete=models.SET_NULL, null=True, related_name="repository_choices")


def log_change(
    person: Person | None, what: str, now: datetime, repo_key: str = "", subject: str = "", **details: Any
) -> Change:
    """Log who changed what in the caller's transaction; `details` must be JSON."""
    logged: Mapping[str, Any] = details
    return Change.objects.create(
        made_at=now, person=person, what=what, repo_key=repo_key, subject=subject, details=dict(logged)
    )


def is_any(query: str, *values: object) -> bool:
    """Return whether a query finds a row.

    Each `%s` in it is one of the values, which are datetimes or SQLite's own types.
    """
    with connection.cursor() as cursor:
        return (
            cursor.execute(query, [connection.ops.adapt_unknown_value(value) for value in values]).fetchone()
            is not None
        )


def among(values: Iterable[str]) -> str:
    """Return many values as one parameter, for `in (select value from json_each(%s))`.

    So the query's length does not depend on their number.
    """
    return json.dumps(list(values))
