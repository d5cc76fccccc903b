"""Decide who may do and see what in a repository, and give and take roles.

Every view and operation that changes something asks here. Maintainers may also contact contributors, and object in
their name. A role's row, its log entry and its message to the worker are written in one transaction.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from hashlib import blake2b

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.db import transaction

from ingest.store.snapshots import Snapshot
from scoring.queries import read
from triage.access.requests import Request
from triage.models import Maintainer, Person
from triage.models.accounts import log_change
from triage.models.outbox import put

SEEDS = (Maintainer.Role.MAINTAINER, Maintainer.Role.ADMIN)  # a viewer is not a seed


class Role(IntEnum):
    """A person's role in one repository; each role includes those before it."""

    NOBODY = 0
    VIEWER = 1  # reads
    MAINTAINER = 2  # acts on pull requests, sees exact thresholds
    ADMIN = 3  # changes settings and roles


class SignInNeeded(PermissionDenied):
    """Nobody is signed in: a page redirects to the sign-in, JSON answers 401."""


NOT_INVITED = "You are signed in, but nobody invited you to read here. You see your own data and pull requests."


class NotInvited(PermissionDenied):
    """Somebody is signed in who has no role anywhere: they see their own page and what anybody sees."""


@dataclass(frozen=True, slots=True)
class Roles:
    """All roles of one person, read once: `least` applies everywhere, `held` are the rows, by repo_key."""

    least: Role = Role.NOBODY
    held: Mapping[str, Role] = field(default_factory=dict)

    def role(self, repo_key: str) -> Role:
        """Return the highest role in the repository with this key; a row for the whole site ("") counts everywhere."""
        return max(self.least, self.held.get("", Role.NOBODY), self.held.get(repo_key, Role.NOBODY))

    def highest(self) -> Role:
        """Return their highest role anywhere."""
        return max(self.least, *self.held.values()) if self.held else self.least

    def keys(self, role: Role) -> frozenset[str]:
        """Return where a row gives them at least this role; "" among them: everywhere."""
        return frozenset(key for key, held_role in self.held.items() if held_role >= role)

    def within(self, repo_key: str) -> "Roles":
        """Return the person's roles limited to one repository."""
        return Roles(self.least, {repo_key: self.role(repo_key)})


def roles_of(person: Person | AnonymousUser | None) -> Roles:
    """Return a person's roles, in one query; whoever has one anywhere reads everything, and all others are nobody."""
    if not isinstance(person, Person) or not person.is_active:
        return Roles()
    rows = Maintainer.objects.filter(person=person).values_list("repo_key", "role")
    held = {key: Role[role.upper()] for key, role in rows}
    return Roles(Role.VIEWER, held) if held else Roles()


def session_roles(request: Request) -> Roles:
    """Return the roles of the signed-in person, read once for a request."""
    roles: Roles | None = getattr(request, "session_roles", None)
    if roles is None:
        roles = request.session_roles = roles_of(request.user)
    return roles


def is_invited(request: Request) -> bool:
    """Return whether the signed-in person has a role; one without any reads what an anonymous visitor reads."""
    return session_roles(request).highest() >= Role.VIEWER


def role_of(person: Person | AnonymousUser | None, repo_key: str) -> Role:
    """Return a person's highest role in the repository with this key.

    A row for the whole site ("") counts everywhere.
    """
    return roles_of(person).role(repo_key)


def sees_thresholds(roles: Roles, repo_key: str | None = None) -> bool:
    """Return whether the viewer may see exact thresholds and counterfactuals: as a maintainer of the repository.

    The author of a change is told what would lift it, without the threshold.

    Without a repository it is about the site's own figures, which any maintainer may see. Every page and operation that
    could name such a figure asks here; others get the lane's reason in words.
    """
    return (roles.highest() if repo_key is None else roles.role(repo_key)) >= Role.MAINTAINER


def signed_in(request: Request) -> Person:
    """Return the signed-in person; raise SignInNeeded where there is none."""
    if not isinstance(request.user, Person):
        raise SignInNeeded("Sign in first.")
    return request.user


def require_reader(request: Request) -> Person:
    """Return the signed-in person who has a role; raise SignInNeeded or NotInvited otherwise."""
    person = signed_in(request)
    if not is_invited(request):
        raise NotInvited(NOT_INVITED)
    return person


def require(request: Request, repo_key: str, role: Role) -> Person:
    """Return the signed-in person with at least `role`; raise SignInNeeded or PermissionDenied otherwise."""
    person = request.user
    if not isinstance(person, Person):
        raise SignInNeeded("Sign in first. Only a person can change something.")
    require_role(person, repo_key, role)
    return person


def require_role(person: Person, repo_key: str, role: Role) -> None:
    """Raise PermissionDenied for a person with less than `role` in the repository with this key."""
    if role_of(person, repo_key) < role:
        raise PermissionDenied(f"This needs the role {role.name.lower()} in {repo_key or 'the whole site'}.")


def handled_from(roles: Roles, snapshot: Snapshot | None, did: str) -> str | None:
    """Return the repository as whose maintainer somebody may contact a contributor, who sent a pull request there.

    "" for maintainers of the site, who may contact everybody; None for people who may not.
    """
    keys = roles.keys(Role.MAINTAINER)
    if "" in keys or not keys:
        return "" if keys else None
    offered = keys & read.offered_to(snapshot, did) if snapshot is not None else keys & set()
    return min(offered, default=None)


def spoken_for(roles: Roles, snapshot: Snapshot | None, did: str) -> Mapping[str, str]:
    """Return the watched repositories, name by key, about which somebody may object in a contributor's name.

    They maintain these, and the contributor sent a pull request there.
    """
    if snapshot is None:
        return {}
    offered = read.offered_to(snapshot, did)
    names = read.repository_names(snapshot)
    return {key: name for key, name in names.items() if key in offered and roles.role(key) >= Role.MAINTAINER}


def offered_roles(roles: Roles, snapshot: Snapshot | None, did: str) -> Mapping[str, str]:
    """Return the watched repositories, name by key, to which somebody may push and which they don't maintain."""
    keys = read.pushes_to(snapshot, did) if snapshot is not None else frozenset()
    names = read.repository_names(snapshot) if snapshot is not None and keys else {}
    return {key: name for key, name in names.items() if key in keys and roles.role(key) < Role.MAINTAINER}


class LastAdmin(Exception):
    """The change would remove the site's only admin; the message says what to do."""


def set_role(by: Person | None, person: Person, repo_key: str, role: str | None, now: datetime) -> bool:
    """Give a person this role in a repository, or in the site (""); None removes it. Return whether anything changed.

    `by` None: the operator, from the command line. Raises LastAdmin, with nothing changed.
    """
    with transaction.atomic():
        row = Maintainer.objects.filter(person=person, repo_key=repo_key).first()
        previous = row.role if row else None
        if previous == role:
            return False
        if not repo_key and previous == Maintainer.Role.ADMIN:
            _refuse_last_admin(person)
        _write_role(person, repo_key, role)
        change = log_change(by, "role.changed", now, repo_key, str(person.did), before=previous, since=role)
        put("role", f"role:{change.pk}", {"did": person.did, "repo_key": repo_key}, now)
    return True


def keep_watched(record: str, now: datetime) -> None:
    """Record that the operator had this repository watched, so that a new store watches it too."""
    name = blake2b(record.encode(), digest_size=16).hexdigest()  # an at-uri may be longer than an entry's key
    put("watched", f"watched:{name}", {"record": record}, now)


def is_seed(did: str, repo_key: str) -> bool:
    """Return whether somebody's role makes them a seed of the repository, or of the site ("")."""
    seed_roles = Maintainer.objects.filter(person__did=did, person__is_active=True, repo_key=repo_key, role__in=SEEDS)
    return seed_roles.exists()


def _write_role(person: Person, repo_key: str, role: str | None) -> None:
    if role is None:
        Maintainer.objects.filter(person=person, repo_key=repo_key).delete()
    else:
        Maintainer.objects.update_or_create(person=person, repo_key=repo_key, defaults={"role": role})


def has_admin(besides: Person | None = None) -> bool:
    """Return whether the site has an active admin, other than this person."""
    admins = Maintainer.objects.filter(repo_key="", role=Maintainer.Role.ADMIN, person__is_active=True)
    return admins.exclude(person=besides).exists()


def _refuse_last_admin(person: Person) -> None:
    if not has_admin(besides=person):
        raise LastAdmin("This is the only admin of the site. Make somebody else admin first.")
