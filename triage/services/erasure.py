"""Taking a person out of the web process's own tables: account, ways in, tokens, sessions, maintainerships."""

from collections.abc import Mapping
from typing import Any

from django.contrib.sessions.models import Session
from django.db import connection, transaction
from django.db.models import Q, TextField
from django.db.models.functions import Cast

from scoring.config.repository import DIDS
from triage.models import (
    Action,
    AuditAnswer,
    Change,
    ContributorLink,
    EstimatedLane,
    LaneClosure,
    LeaderboardWish,
    Lease,
    Maintainer,
    Objection,
    OutboxEntry,
    Person,
    ReadingTime,
    RepositoryChoice,
    Snooze,
    ToldState,
    WebhookDelivery,
)

ACTION = ("kind", "outcome", "note", "findings", "scanner", "pull_uri", "made_at", "undone_at")
TOKEN = ("name", "scopes", "repo_key", "made_at", "last_used_at", "revoked_at", "refused")
ESTIMATED = ("repo_key", "threshold", "bad_low", "bad_high", "opened_at", "ended_at", "ended_because")
LANE = ("repo_key", "author", "voucher", "because", "closed_at", "opened_at")


def forget_account(did: str, handle: str | None) -> int:
    """Delete whatever is kept under a DID or a verified handle; returns how many rows. `clear_traces` comes after."""
    owned = Q(repo_key=did) | Q(repo_key__startswith=f"at://{did}/")
    with transaction.atomic():
        person = Person.objects.filter(did=did).first()
        gone = _end_choices(did) + (_end_sessions(person) if person else 0)
        gone += Maintainer.objects.filter(owned).delete()[0]
        gone += RepositoryChoice.objects.filter(owned).delete()[0]
        gone += _forget_settings(did)
        gone += _forget_decisions(did)
        gone += _forget_actions(did)
        gone += _forget_told(did)
        gone += _strike_changes(did, person)
        gone += sum(kind.objects.filter(did=did).delete()[0] for kind in (ContributorLink, Objection, LeaderboardWish))
        gone += ContributorLink.objects.filter(owned).update(repo_key="")
        gone += LaneClosure.objects.filter(Q(author=did) | Q(voucher=did) | owned).delete()[0]
        gone += EstimatedLane.objects.filter(owned).delete()[0]
        gone += Snooze.objects.filter(owned).delete()[0]
        gone += AuditAnswer.objects.filter(Q(pull_uri__startswith=f"at://{did}/") | owned).delete()[0]
        gone += person.delete()[0] if person else 0
        if handle:  # somebody else's account that carried the same handle before keeps its DID
            gone += Person.objects.filter(handle__iexact=handle).update(handle="")
        gone += _forget_filters(did, handle)
    return gone


def _forget_filters(did: str, handle: str | None) -> int:
    """Take saved filters that name a person, or a repository of theirs, from everybody who keeps one."""
    gone, named = 0, [one.lower() for one in (did, handle) if one]
    for person in Person.objects.exclude(saved_filters=[]):
        kept = [one for one in person.saved_filters if not any(name in str(one).lower() for name in named)]
        gone += len(person.saved_filters) - len(kept)
        Person.objects.filter(pk=person.pk).update(saved_filters=kept)
    return gone


def _forget_decisions(did: str) -> int:
    """Remove a person from waiting messages on lanes and audit answers: what they decided stays.

    What they closed stays closed and what they answered is still the unbiased outcome, also where it waits.
    """
    told = OutboxEntry.objects.filter(Q(kind__startswith="lane.") | Q(kind="audit.answered"))
    gone = told.filter(Q(payload__author=did) | Q(payload__voucher=did)).delete()[0]
    for entry in told.filter(payload__person=did):
        OutboxEntry.objects.filter(pk=entry.pk).update(payload={**entry.payload, "person": ""})
        gone += 1
    return gone


def _forget_settings(did: str) -> int:
    """Take a person out of the lists that maintainers set for their repositories, and out of what tells of them."""
    choices = RepositoryChoice.objects.annotate(told=Cast("settings", TextField())).filter(told__contains=did)
    for choice in choices:
        RepositoryChoice.objects.filter(pk=choice.pk).update(settings=_without(choice.settings, did))
    sent = OutboxEntry.objects.filter(kind="settings.changed").annotate(told=Cast("payload", TextField()))
    for entry in sent.filter(told__contains=did):
        payload = {**entry.payload, "settings": _without(entry.payload["settings"], did)}
        OutboxEntry.objects.filter(pk=entry.pk).update(payload=payload)
    return len(choices)


def _without(settings: Mapping[str, Any], did: str) -> dict[str, Any]:
    kept = {name: [one for one in settings.get(name, ()) if one != did] for name in DIDS if name in settings}
    return {**settings, **kept}


def _forget_told(did: str) -> int:
    """Take a person out of what the webhook's receiver was told and of what is on its way: at-uris hold DIDs."""
    theirs = Q(key=did) | Q(key__startswith=f"at://{did}/")
    gone = ToldState.objects.filter(theirs).delete()[0]
    return gone + WebhookDelivery.objects.filter(body__contains=did).delete()[0]


def _forget_actions(did: str) -> int:
    """Take a person out of what was done here: their own actions, those on their pull requests, their name in the log.

    The log keeps that something was changed and when.
    """
    theirs = Q(pull_uri__startswith=f"at://{did}/") | Q(person__did=did)
    gone = sum(model.objects.filter(theirs).delete()[0] for model in (Action, Lease, ReadingTime, Snooze))
    told = Q(payload__person=did) | Q(payload__pull_uri__startswith=f"at://{did}/")
    gone += OutboxEntry.objects.filter(told).delete()[0]
    about = Q(subject=did) | Q(subject__startswith=f"at://{did}/")
    gone += Change.objects.filter(about).update(subject="", details={})
    done = Change.objects.filter(person__did=did)
    done.filter(what__startswith="token.").update(subject="")  # what they called a token are their own words
    return gone + done.update(person=None)


def clear_traces() -> None:
    """Write the file anew and empty its WAL, so that no byte of a deleted row is left."""
    with connection.cursor() as cursor:
        cursor.execute("vacuum")
        cursor.execute("pragma wal_checkpoint(truncate)").fetchall()


def account_of(did: str) -> dict[str, Any] | None:
    """Return what is kept under a DID, without secrets and their hashes; None where there is no account."""
    person = Person.objects.filter(did=did).first()
    if person is None:
        return None
    return {
        "did": person.did,
        "handle": person.handle,
        "is_active": person.is_active,
        "last_login": person.last_login,
        "roles": list(person.maintains.values("repo_key", "role")),
        "changes": list(person.changes.values("made_at", "what", "repo_key", "subject", "details")),
        "sign_in_methods": list(
            person.sign_in_methods.values("kind", "made_at", "expires_at", "used_at", "last_used_at")
        ),
        "actions": list(person.actions.values(*ACTION)),
        "api_tokens": list(person.api_tokens.values(*TOKEN)),
        "leases": list(person.leases.values("pull_uri", "expires_at")),
        "times_reading": person.times_reading,
        "outcomes_asked_at": person.outcomes_asked_at,
        "saved_filters": person.saved_filters,
        "snoozes": list(person.snoozes.values("pull_uri", "made_at", "until")),
        "handled_incidents": list(person.handled_incidents.values("mark__pull_uri", "handled_at")),
        "reading_times": list(person.reading_times.values("pull_uri", "opened_at", "seconds")),
        "lane_closures": list(person.closures.values(*LANE)),
        "lane_openings": list(person.openings.values(*LANE, "opened_because")),
        "estimated_lanes": list(person.estimated_lanes.values(*ESTIMATED)),
        "ended_lanes": list(person.ended_lanes.values(*ESTIMATED)),
        "audit_answers": list(person.audit_answers.values("pull_uri", "round", "would_merge", "because", "made_at")),
        "settings": list(person.repository_choices.values("repo_key", "version", "settings", "changed_at")),
        "links_made": list(ContributorLink.objects.filter(made_by=person).values("did", "purpose", "made_at")),
        "objections_answered": list(
            Objection.objects.filter(answered_by=person).values("did", "pull_uri", "state", "answer", "answered_at")
        ),
    }


def said_by(did: str) -> dict[str, Any]:
    """Return what a contributor was handed, objected to and wished here, without secrets and their hashes.

    With snoozes of what they offer and the webhook's messages about it.
    """
    answered = ("pull_uri", "text", "source", "made_at", "due_at", "state", "answer", "answered_at")
    return {
        "links": list(
            ContributorLink.objects.filter(did=did).values("purpose", "pull_uri", "made_at", "expires_at", "revoked_at")
        ),
        "objections": list(Objection.objects.filter(did=did).values(*answered)),
        "leaderboard": list(LeaderboardWish.objects.filter(did=did).values("left_out", "source", "told_at")),
        "snoozes": list(
            Snooze.objects.filter(pull_uri__startswith=f"at://{did}/").values("pull_uri", "made_at", "until")
        ),
        "webhook_messages": list(WebhookDelivery.objects.filter(body__contains=did).values("body", "delivered_at")),
    }


def _strike_changes(did: str, person: Person | None) -> int:
    """The log keeps what was changed and when: not by this person, and not what names them; messages go."""
    changed = Change.objects.filter(person=person).update(person=None) if person else 0
    told = Change.objects.annotate(told=Cast("details", TextField()))
    named = told.filter(Q(subject__contains=did) | Q(repo_key__contains=did) | Q(told__contains=did))
    changed += named.update(subject="", repo_key="", details={})
    sent = OutboxEntry.objects.annotate(told=Cast("payload", TextField())).filter(told__contains=did)
    return changed + sent.delete()[0]


def _end_sessions(person: Person) -> int:
    """Sessions name their person inside signed data, so each is read."""
    own = [row.pk for row in Session.objects.all() if row.get_decoded().get("_auth_user_id") == str(person.pk)]
    return Session.objects.filter(pk__in=own).delete()[0]


def _end_choices(did: str) -> int:
    """Sessions of others in which somebody is about to choose from this person's repositories."""
    named = [row.pk for row in Session.objects.all() if did in str(row.get_decoded().get("setup", ""))]
    return Session.objects.filter(pk__in=named).delete()[0]
