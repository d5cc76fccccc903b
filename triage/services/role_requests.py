"""Requests of people who may push to a watched repository to become its maintainers, and the answers of admins."""

from datetime import datetime
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction

from ingest.store.snapshots import Snapshot
from triage.access.permissions import Role, Roles, offered_roles, require_role, roles_of, set_role
from triage.models import Maintainer, Person, RoleRequest
from triage.models.accounts import log_change

SHOWN = 200


class NoPushRight(PermissionDenied):
    """The person who asks may not push there, or maintains it already."""


def ask(person: Person, repo_key: str, snapshot: Snapshot | None, now: datetime) -> bool:
    """Save a request to maintain a repository; return False where it was asked, or answered, before.

    Raises NoPushRight where they may not push there.
    """
    if repo_key not in offered_roles(roles_of(person), snapshot, str(person.did)):
        raise NoPushRight("Only people who may push to a watched repository can ask to maintain it.")
    with transaction.atomic():
        _, is_new = RoleRequest.objects.get_or_create(person=person, repo_key=repo_key, defaults={"made_at": now})
        if is_new:
            log_change(person, "role.asked", now, repo_key, str(person.did))
    return is_new


def open_requests(roles: Roles) -> list[Any]:
    """Return the unanswered requests that somebody with these roles may answer, oldest first."""
    requests = RoleRequest.objects.filter(accepted=None, person__is_active=True)
    administered = roles.keys(Role.ADMIN)
    own = requests if "" in administered else requests.filter(repo_key__in=administered)
    return list(own.select_related("person").order_by("made_at", "pk")[:SHOWN])


def answer(by: Person, request: RoleRequest, accepted: bool, snapshot: Snapshot | None, now: datetime) -> bool:
    """Accept or decline a request as an admin of its repository; return False where somebody answered it before.

    Raises NoPushRight, with nothing changed, where the right to push ended meanwhile.
    """
    key, person = str(request.repo_key), request.person
    require_role(by, key, Role.ADMIN)
    with transaction.atomic():
        if not RoleRequest.objects.filter(pk=request.pk, accepted=None).update(
            accepted=accepted, answered_at=now, answered_by=by
        ):
            return False
        if not accepted:
            log_change(by, "role.declined", now, key, str(person.did))
        elif key in offered_roles(roles_of(person), snapshot, str(person.did)):
            set_role(by, person, key, Maintainer.Role.MAINTAINER, now)
        elif roles_of(person).role(key) < Role.MAINTAINER:
            raise NoPushRight("They may not push there any more. Decline the request, or give the role by hand.")
    return True
