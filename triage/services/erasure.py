"""Remove a person from the web process's own tables: account, sign-in methods, tokens, sessions, maintainerships."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.contrib.sessions.models import Session
from django.db import connection, transaction
from django.db.models import Q, TextField
from django.db.models.functions import Cast
from django.utils import timezone

from scoring.config.repository import DIDS
from triage.access.admission import keep_refusals
from triage.models import (
    Action,
    AuditAnswer,
    Change,
    ContributorLink,
    Delivery,
    EstimatedLane,
    Label,
    LaneClosure,
    LeaderboardWish,
    Lease,
    Maintainer,
    OAuthRequest,
    Objection,
    OutboxEntry,
    OwnRecord,
    Person,
    PushChoice,
    ReadingTime,
    RepositoryChoice,
    RoleRequest,
    Snooze,
    ToldState,
)
from triage.services.publishing.labels import take_back
from triage.services.publishing.records import forget_published, records_about

ACTION = ("kind", "outcome", "note", "findings", "scanner", "pull_uri", "by_link", "made_at", "undone_at")
TOKEN = ("name", "scopes", "repo_key", "made_at", "last_used_at", "revoked_at", "refused")
OAUTH = ("issuer", "server", "scope", "browser", "made_at", "last_used_at", "ended_at", "ended_because")
OWN_RECORD = ("act", "subject", "collection", "rkey", "record", "state", "problem", "made_at", "settled_at")
ESTIMATED = ("repo_key", "threshold", "bad_low", "bad_high", "opened_at", "ended_at", "ended_because")
PUSH_CHOICE = ("events", "quiet_from", "quiet_until", "time_zone", "told_at", "pushed_at")
LANE = ("repo_key", "author", "voucher", "because", "closed_at", "opened_at")


def forget_account(did: str, handle: str | None) -> int:
    """Delete everything stored under a DID or a verified handle; return the number of rows.

    Call `clear_traces` afterwards.
    """
    owned = Q(repo_key=did) | Q(repo_key__startswith=f"at://{did}/")
    with transaction.atomic():
        person = Person.objects.filter(did=did).first()
        deleted = _end_choices(did) + (_end_sessions(person) if person else 0)
        deleted += sum(model.objects.filter(owned).delete()[0] for model in (Maintainer, RoleRequest))
        deleted += RepositoryChoice.objects.filter(owned).delete()[0]
        deleted += _forget_settings(did)
        deleted += _forget_decisions(did)
        deleted += _forget_actions(did)
        deleted += take_back(did, datetime.now(UTC).replace(tzinfo=None))
        deleted += _forget_told(did)
        deleted += forget_published(did, timezone.now())
        deleted += _strike_changes(did, person)
        deleted += sum(
            model.objects.filter(did=did).delete()[0]
            for model in (ContributorLink, Objection, LeaderboardWish, OAuthRequest)
        )
        deleted += ContributorLink.objects.filter(owned).update(repo_key="")
        deleted += LaneClosure.objects.filter(Q(author=did) | Q(voucher=did) | owned).delete()[0]
        deleted += EstimatedLane.objects.filter(owned).delete()[0]
        deleted += Snooze.objects.filter(owned).delete()[0]
        deleted += AuditAnswer.objects.filter(Q(pull_uri__startswith=f"at://{did}/") | owned).delete()[0]
        if person:
            person.handled_incidents.update(conclusion="")
            deleted += person.delete()[0]
        if handle:  # another account that had this handle before keeps its DID
            deleted += Person.objects.filter(handle__iexact=handle).update(handle="")
        deleted += _forget_filters(did, handle)
    return deleted


def _forget_filters(did: str, handle: str | None) -> int:
    """Delete everybody's saved filters that name this person or a repository of theirs."""
    deleted, names = 0, [value.lower() for value in (did, handle) if value]
    for person in Person.objects.exclude(saved_filters=[]):
        others = [value for value in person.saved_filters if not any(name in str(value).lower() for name in names)]
        deleted += len(person.saved_filters) - len(others)
        Person.objects.filter(pk=person.pk).update(saved_filters=others)
    return deleted


def _forget_decisions(did: str) -> int:
    """Remove a person from waiting messages on lanes and audit answers; their decisions stay.

    A lane that they closed stays closed, and an answer remains an unbiased outcome, even in a waiting message.
    """
    messages = OutboxEntry.objects.filter(Q(kind__startswith="lane.") | Q(kind="audit.answered"))
    deleted = messages.filter(Q(payload__author=did) | Q(payload__voucher=did)).delete()[0]
    for entry in messages.filter(payload__person=did):
        OutboxEntry.objects.filter(pk=entry.pk).update(payload={**entry.payload, "person": ""})
        deleted += 1
    return deleted


def _forget_settings(did: str) -> int:
    """Remove a person from the lists in repositories' settings, and from messages about them."""
    choices = RepositoryChoice.objects.annotate(told=Cast("settings", TextField())).filter(told__contains=did)
    for choice in choices:
        RepositoryChoice.objects.filter(pk=choice.pk).update(settings=_without(choice.settings, did))
    messages = OutboxEntry.objects.filter(kind="settings.changed").annotate(told=Cast("payload", TextField()))
    for entry in messages.filter(told__contains=did):
        payload = {**entry.payload, "settings": _without(entry.payload["settings"], did)}
        OutboxEntry.objects.filter(pk=entry.pk).update(payload=payload)
    return len(choices)


def _without(settings: Mapping[str, Any], did: str) -> dict[str, Any]:
    lists = {name: [listed for listed in settings.get(name, ()) if listed != did] for name in DIDS if name in settings}
    return {**settings, **lists}


def _forget_told(did: str) -> int:
    """Remove a person from the noted state and from the webhook's deliveries: at-uris contain DIDs."""
    about_person = Q(key=did) | Q(key__startswith=f"at://{did}/") | Q(repo_key=did)
    about_person |= Q(repo_key__startswith=f"at://{did}/")
    deleted = ToldState.objects.filter(about_person).delete()[0]
    return deleted + Delivery.objects.filter(body__contains=did).delete()[0]


def _forget_actions(did: str) -> int:
    """Remove a person's own actions, actions on their pull requests, and their name in the log.

    The log keeps that something was changed, and when.
    """
    about_pulls_or_person = Q(pull_uri__startswith=f"at://{did}/") | Q(person__did=did)
    deleted = sum(
        model.objects.filter(about_pulls_or_person).delete()[0] for model in (Action, Lease, ReadingTime, Snooze)
    )
    about_person = Q(subject=did) | Q(subject__startswith=f"at://{did}/")
    deleted += OwnRecord.objects.filter(about_person).delete()[0]
    messages = Q(payload__person=did) | Q(payload__pull_uri__startswith=f"at://{did}/")
    deleted += OutboxEntry.objects.filter(messages).delete()[0]
    deleted += keep_refusals(did)
    deleted += Change.objects.filter(about_person).update(subject="", details={})
    own_changes = Change.objects.filter(person__did=did)
    own_changes.filter(what__startswith="token.").update(subject="")  # a token's name is the person's own text
    return deleted + own_changes.update(person=None)


def clear_traces() -> None:
    """Rewrite the file and empty its WAL, so that no byte of a deleted row remains."""
    with connection.cursor() as cursor:
        cursor.execute("vacuum")
        cursor.execute("pragma wal_checkpoint(truncate)").fetchall()


def account_of(did: str) -> dict[str, Any] | None:
    """Return what is stored under a DID, without secrets and their hashes; None where there is no account."""
    person = Person.objects.filter(did=did).first()
    if person is None:
        return None
    return {
        "did": person.did,
        "handle": person.handle,
        "is_active": person.is_active,
        "last_login": person.last_login,
        "roles": list(person.maintains.values("repo_key", "role")),
        "role_requests": list(person.role_requests.values("repo_key", "made_at", "accepted", "answered_at")),
        "answered_requests": list(person.answered_requests.values("repo_key", "accepted", "answered_at")),
        "changes": list(person.changes.values("made_at", "what", "repo_key", "subject", "details")),
        "sign_in_methods": list(
            person.sign_in_methods.values("kind", "made_at", "expires_at", "used_at", "last_used_at")
        ),
        "push_choice": list(PushChoice.objects.filter(person=person).values(*PUSH_CHOICE)),
        "push_subscriptions": list(person.push_subscriptions.values("browser", "made_at")),
        "oauth_sessions": list(person.oauth_sessions.values(*OAUTH)),
        "actions": list(person.actions.values(*ACTION)),
        "own_records": list(person.own_records.values(*OWN_RECORD)),
        "api_tokens": list(person.api_tokens.values(*TOKEN)),
        "leases": list(person.leases.values("pull_uri", "expires_at")),
        "times_reading": person.times_reading,
        "outcomes_asked_at": person.outcomes_asked_at,
        "saved_filters": person.saved_filters,
        "briefing_visits": [person.briefed_before, person.briefed_at],
        "snoozes": list(person.snoozes.values("pull_uri", "made_at", "until")),
        "handled_incidents": list(person.handled_incidents.values("mark__pull_uri", "handled_at", "conclusion")),
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
        "public_records": records_about(did),
        "labels": list(Label.objects.filter(uri__startswith=f"at://{did}/").values("uri", "cid", "val", "neg")),
        "webhook_messages": list(Delivery.objects.filter(body__contains=did).values("body", "delivered_at")),
    }


def _strike_changes(did: str, person: Person | None) -> int:
    """Remove a person from the log, which keeps what was changed and when, and delete messages that name them."""
    changed = Change.objects.filter(person=person).update(person=None) if person else 0
    with_details = Change.objects.annotate(told=Cast("details", TextField()))
    naming = with_details.filter(Q(subject__contains=did) | Q(repo_key__contains=did) | Q(told__contains=did))
    changed += naming.update(subject="", repo_key="", details={})
    messages = OutboxEntry.objects.annotate(told=Cast("payload", TextField())).filter(told__contains=did)
    return changed + messages.delete()[0]


def _end_sessions(person: Person) -> int:
    """Delete a person's sessions; they name the person inside signed data, so each is read."""
    own_sessions = [row.pk for row in Session.objects.all() if row.get_decoded().get("_auth_user_id") == str(person.pk)]
    return Session.objects.filter(pk__in=own_sessions).delete()[0]


def _end_choices(did: str) -> int:
    """Delete other people's sessions in which somebody is choosing from this person's repositories."""
    sessions = [row.pk for row in Session.objects.all() if did in str(row.get_decoded().get("setup", ""))]
    return Session.objects.filter(pk__in=sessions).delete()[0]
