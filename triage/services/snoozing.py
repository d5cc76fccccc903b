"""Hides rows from the queue until a day or until they change, for everybody who reads it.

A snooze is compared with the snapshot whenever the queue is read, so that no row stays hidden after a change.
"""

import secrets
from collections.abc import Collection
from datetime import UTC, date, datetime, time, timedelta

from django.db import transaction
from django.db.models import Max, Q

from ingest.store.snapshots import PerSnapshot, Snapshot
from scoring.formatting import visible
from scoring.queries import read
from scoring.queries.read import QueueRow, RowState, Seen
from scoring.types import Lane
from triage.models import Action, Person, Snooze
from triage.models.accounts import is_any, log_change
from triage.services.actions import WINDOW, ActionProblem, Conflict

DAYS = {"tomorrow": 1, "3days": 3, "week": 7}
CHANGE, DAY = "change", "day"  # what a form says instead of a number of days
FURTHEST = timedelta(days=365)
ANY = "select 1 from triage_snooze limit 1"
MINE = "select 1 from triage_snooze where person_id = %s and made_at >= %s limit 1"
CHANGED = "Not saved: it changed since you opened it, so it stays in the inbox. Here is the current state."
TOO_LATE = "The 10 seconds are over. Show it again from the list of snoozed rows."
_states = PerSnapshot[dict[str, RowState]](4)


def read_until(choice: str, day: str, now: datetime) -> datetime | None:
    """The moment when a snooze ends, from what a form says; None: only a change ends it. ActionProblem otherwise."""
    today = now.astimezone(UTC).date()
    if choice == CHANGE:
        return None
    if choice in DAYS:
        return _start_of(today + timedelta(days=DAYS[choice]))
    try:
        wanted = date.fromisoformat(day) if choice == DAY and len(day) == 10 else None
    except ValueError:
        wanted = None
    if wanted is None or not today < wanted <= today + FURTHEST:
        raise ActionProblem("Choose a day after today and within a year. Nothing was snoozed.")
    return _start_of(wanted)


def _start_of(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def snooze(
    person: Person, snapshot: Snapshot, row: QueueRow, seen: Seen, until: datetime | None, now: datetime
) -> None:
    """Hide a row as it was seen; Conflict where it is another one by now. Asking for the role is the caller's part."""
    state = read.row_states(snapshot, [row.uri]).get(row.uri)
    if state is None or state.seen != seen:
        raise Conflict(CHANGED, [row.uri])
    told = {"key": secrets.token_hex(16), "repo_key": row.repository_key, "person": person, "made_at": now}
    named = {"record_cid": seen.record_cid, "round": seen.round, "patch_id": seen.patch_id}
    what = {"until": until, "lane": state.lane, "comments": state.comments}
    with transaction.atomic():
        Snooze.objects.update_or_create(pull_uri=row.uri, defaults={**told, **named, **what})
        log_change(person, "row.snoozed", now, row.repository_key, row.uri, until=_until_words(until))


def show_now(person: Person, found: Snooze, now: datetime) -> None:
    """Put a row back into the queue."""
    with transaction.atomic():
        if Snooze.objects.filter(pk=found.pk).delete()[0]:
            log_change(person, "row.shown", now, found.repo_key, found.pull_uri)


def take_back(person: Person, key: str, now: datetime) -> list[str]:
    """Undo a snooze of this person's and return its at-uri; Conflict once its 10 seconds are over.

    [] where the key names no snooze.
    """
    found = Snooze.objects.filter(person=person, key=key).first() if key else None
    if found is None:
        return []
    if now > found.made_at + WINDOW:
        raise Conflict(TOO_LATE, [found.pull_uri])
    show_now(person, found, now)
    return [found.pull_uri]


def made_since(person: Person, moment: datetime) -> list[Snooze]:
    """Snoozes that this person made since then, the newest first."""
    if not is_any(MINE, person.pk, moment):
        return []
    return list(Snooze.objects.filter(person=person, made_at__gte=moment).order_by("-pk"))


def in_force(snapshot: Snapshot, now: datetime) -> tuple[Snooze, ...]:
    """Snoozes whose day has not come and whose row is as it was, the newest first."""
    if not is_any(ANY):
        return ()
    waiting = (
        Snooze.objects.filter(Q(until=None) | Q(until__gt=now)).select_related("person").order_by("-made_at", "-pk")
    )
    found = list(waiting)
    uris = tuple(sorted(one.pull_uri for one in found))
    states, acted = _states.get(snapshot, uris, lambda: read.row_states(snapshot, uris)), _last_acted(uris)
    return tuple(
        one
        for one in found
        if states.get(one.pull_uri) == RowState(Seen(one.record_cid, one.round, one.patch_id), one.lane, one.comments)
        and acted.get(one.pull_uri, one.made_at) <= one.made_at
    )


def forget_ended(snapshot: Snapshot, now: datetime) -> int:
    """Delete the snoozes that hide nothing any more; returns how many."""
    hiding = [one.pk for one in in_force(snapshot, now)]
    return Snooze.objects.exclude(pk__in=hiding).filter(made_at__lt=now - WINDOW).delete()[0]


def _last_acted(uris: Collection[str]) -> dict[str, datetime]:
    """Return when somebody last did something with each of these that was not undone."""
    done = Action.objects.filter(pull_uri__in=uris, undone_at=None).order_by()
    return dict(done.values_list("pull_uri").annotate(newest=Max("made_at")))


def count_flagged(found: Collection[Snooze]) -> int:
    """Return how many of these rows are flagged."""
    return sum(one.lane == Lane.NEEDS_HUMAN for one in found)


def snooze_words(one: Snooze) -> str:
    """Until when, and who snoozed it."""
    return f"Snoozed {_until_words(one.until)} by {visible(str(one.person))}"


def offer_words(one: Snooze, named: str) -> str:
    """Words for the toast of a snooze of the pull request that is `named` so."""
    return f"Snoozed {named} {_until_words(one.until)}."


def _until_words(until: datetime | None) -> str:
    if until is None:
        return "until it changes"
    day = until.astimezone(UTC)
    return f"until {day.day} {day:%b %Y}"
