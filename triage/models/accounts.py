"""Accounts, and what they may do. What the network says about people is not here: that is the worker's file."""

from typing import Any, ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.db import models


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
    saved_filters: Any = models.JSONField(default=list)  # views of the inbox: name and values, in `triage.lists`

    USERNAME_FIELD = "did"

    objects = BaseUserManager()

    def __str__(self) -> str:
        """The handle where one is known, else the DID."""
        return str(self.handle or self.did)

    @property
    def has_password(self) -> bool:
        """Whether a password was set; Django's own word takes an empty hash for one."""
        return bool(self.password) and self.has_usable_password()


class SignInMethod(models.Model):
    """One way in which a person may sign in. Only a hash of the secret is kept."""

    class Kind(models.TextChoices):
        """What the secret is."""

        LINK = "link"

    person: Any = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="sign_in_methods")
    kind = models.CharField(max_length=20, choices=Kind.choices)
    secret_hash = models.CharField(max_length=255, unique=True)
    made_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    used_at = models.DateTimeField(null=True)  # set once for what works once
    last_used_at = models.DateTimeField(null=True)

    objects: ClassVar[models.Manager] = models.Manager()

    def __str__(self) -> str:
        """The kind and the person, never the secret."""
        return f"{self.kind} of {self.person}"


class Maintainer(models.Model):
    """The role of a person in a repository, or in every one and the site itself where `repo_key` is empty.

    Whoever is more than a viewer is a seed there: the worker holds these too, as its own copy. A row that is made
    without a role has the usual one: admin of the site, maintainer of a repository.
    """

    class Role(models.TextChoices):
        """What a role is called; `triage.permissions.Role` orders them."""

        VIEWER = "viewer"
        MAINTAINER = "maintainer"
        ADMIN = "admin"

    person: Any = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="maintains")
    repo_key = models.CharField(max_length=2048, blank=True)
    role: Any = models.CharField(max_length=20, choices=Role.choices)

    objects: ClassVar[models.Manager] = models.Manager()

    class Meta:
        """One row for a person and a repository."""

        constraints: ClassVar = [models.UniqueConstraint(fields=["person", "repo_key"], name="one_maintainer_row")]

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Write the row, with the usual role where none was said."""
        if not self.role:
            self.role = usual_role(str(self.repo_key))
        super().save(*args, **kwargs)

    def __str__(self) -> str:
        """Who has which role where."""
        return f"{self.person}, {self.role} of {self.repo_key or 'the site'}"


def usual_role(repo_key: str) -> Maintainer.Role:
    """The role of somebody who is added without one."""
    return Maintainer.Role.MAINTAINER if repo_key else Maintainer.Role.ADMIN


class ApiToken(models.Model):
    """A secret for programs, kept as its SHA-256. `scopes` is a sorted list from triage.tokens.SCOPES.

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

    objects: ClassVar[models.Manager] = models.Manager()

    def __str__(self) -> str:
        """The name that its maker gave it."""
        return str(self.name)
