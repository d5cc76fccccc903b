"""Giving and taking roles, and what is watched for them: the web's own row, the log, the message, all or none."""

from datetime import datetime
from hashlib import blake2b

from django.db import transaction

from triage.models import Maintainer, Person
from triage.models.change_log import log_change
from triage.models.outbox import put

SEEDS = (Maintainer.Role.MAINTAINER, Maintainer.Role.ADMIN)  # a viewer is no seed


class LastAdmin(Exception):
    """The site's only admin would be none any more; the message says what to do."""


def set_role(by: Person | None, person: Person, repo_key: str, role: str | None, now: datetime) -> bool:
    """Give a person this role in a repository, or in the site (""); None takes it. Returns whether anything changed.

    `by` None: the operator, from the command line. Raises LastAdmin, with nothing changed.
    """
    with transaction.atomic():
        row = Maintainer.objects.filter(person=person, repo_key=repo_key).first()
        before = row.role if row else None
        if before == role:
            return False
        if not repo_key and before == Maintainer.Role.ADMIN:
            _refuse_the_last(person)
        _write(person, repo_key, role)
        change = log_change(by, "role.changed", now, repo_key, str(person.did), before=before, since=role)
        put("role", f"role:{change.pk}", {"did": person.did, "repo_key": repo_key}, now)
    return True


def keep_watched(record: str, now: datetime) -> None:
    """Keep that the operator had the repository of this record watched, so that a store made anew watches it too."""
    name = blake2b(record.encode(), digest_size=16).hexdigest()  # an at-uri may be longer than an entry's key
    put("watched", f"watched:{name}", {"record": record}, now)


def is_seed(did: str, repo_key: str) -> bool:
    """Return whether somebody's role makes them a seed of the repository, or of the site ("")."""
    held = Maintainer.objects.filter(person__did=did, person__is_active=True, repo_key=repo_key, role__in=SEEDS)
    return held.exists()


def _write(person: Person, repo_key: str, role: str | None) -> None:
    if role is None:
        Maintainer.objects.filter(person=person, repo_key=repo_key).delete()
    else:
        Maintainer.objects.update_or_create(person=person, repo_key=repo_key, defaults={"role": role})


def _refuse_the_last(person: Person) -> None:
    others = Maintainer.objects.filter(repo_key="", role=Maintainer.Role.ADMIN, person__is_active=True)
    if not others.exclude(person=person).exists():
        raise LastAdmin("This is the only admin of the site. Make somebody else admin first.")
