"""Who may do what in which repository. Every view and operation that changes something asks here."""

from enum import IntEnum

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied

from triage.middleware import Request
from triage.models import Maintainer, Person


class Role(IntEnum):
    """What a person may do in one repository; each role may do what those before it may."""

    NOBODY = 0
    VIEWER = 1  # reads
    MAINTAINER = 2  # acts on pull requests, sees exact thresholds
    ADMIN = 3  # changes settings and roles


class SignInNeeded(PermissionDenied):
    """Nobody is signed in: a page sends to the sign-in, JSON answers 401."""


def role_of(person: Person | AnonymousUser, repo_key: str) -> Role:
    """The highest role of a person in the repository with this key; a row for the whole site ("") counts everywhere."""
    if not isinstance(person, Person) or not person.is_active:
        return Role.NOBODY
    keys = set(Maintainer.objects.filter(person=person, repo_key__in=("", repo_key)).values_list("repo_key", flat=True))
    if "" in keys:
        return Role.ADMIN
    return Role.MAINTAINER if keys else Role.VIEWER


def require(request: Request, repo_key: str, role: Role) -> Person:
    """The person who asks, where they have at least `role`; SignInNeeded or PermissionDenied otherwise."""
    person = request.user
    if not isinstance(person, Person):
        raise SignInNeeded("Sign in first: what changes something needs a person.")
    if role_of(person, repo_key) < role:
        raise PermissionDenied(f"This needs the role {role.name.lower()} in {repo_key or 'the whole site'}.")
    return person
