"""Taking a person out of the web process's own tables: account, ways in, tokens, sessions, maintainerships."""

from typing import Any

from django.contrib.sessions.models import Session
from django.db import connection, transaction
from django.db.models import Q

from triage.models import Action, Change, Lease, Maintainer, OutboxEntry, Person


def forget_account(did: str, handle: str | None) -> int:
    """Delete whatever is kept under a DID or a verified handle; returns how many rows. `clear_traces` comes after."""
    owned = Q(repo_key=did) | Q(repo_key__startswith=f"at://{did}/")
    with transaction.atomic():
        person = Person.objects.filter(did=did).first()
        gone = _end_sessions(person) if person else 0
        gone += Maintainer.objects.filter(owned).delete()[0]
        gone += _forget_actions(did)
        gone += person.delete()[0] if person else 0
        if handle:  # somebody else's account that carried the same handle before keeps its DID
            gone += Person.objects.filter(handle__iexact=handle).update(handle="")
    return gone


def _forget_actions(did: str) -> int:
    """Take a person out of what was done here: their own actions, those on their pull requests, their name in the log.

    The log keeps that something was changed and when.
    """
    theirs = Q(pull_uri__startswith=f"at://{did}/")
    gone = sum(model.objects.filter(theirs | Q(person__did=did)).delete()[0] for model in (Action, Lease))
    told = Q(payload__person=did) | Q(payload__pull_uri__startswith=f"at://{did}/")
    gone += OutboxEntry.objects.filter(told).delete()[0]
    about = Q(subject=did) | Q(subject__startswith=f"at://{did}/")
    gone += Change.objects.filter(about).update(subject="", details={})
    return gone + Change.objects.filter(person__did=did).update(person=None)


def clear_traces() -> None:
    """Write the file anew and empty its WAL, so that no byte of a deleted row is left."""
    with connection.cursor() as cursor:
        cursor.execute("vacuum")
        cursor.execute("pragma wal_checkpoint(truncate)").fetchall()


def account_of(did: str) -> dict[str, Any] | None:
    """What is kept under a DID, without secrets and their hashes; None where there is no account."""
    person = Person.objects.filter(did=did).first()
    if person is None:
        return None
    return {
        "did": person.did,
        "handle": person.handle,
        "is_active": person.is_active,
        "last_login": person.last_login,
        "maintains": list(person.maintains.values_list("repo_key", flat=True)),
        "sign_in_methods": list(
            person.sign_in_methods.values("kind", "made_at", "expires_at", "used_at", "last_used_at")
        ),
        "actions": list(person.actions.values("kind", "outcome", "note", "pull_uri", "made_at", "undone_at")),
        "api_tokens": list(person.api_tokens.values("name", "scopes", "made_at", "last_used_at", "revoked_at")),
    }


def _end_sessions(person: Person) -> int:
    """Sessions name their person inside signed data, so each is read."""
    own = [row.pk for row in Session.objects.all() if row.get_decoded().get("_auth_user_id") == str(person.pk)]
    return Session.objects.filter(pk__in=own).delete()[0]
