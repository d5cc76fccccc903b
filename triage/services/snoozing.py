"""Hide rows from everybody's queue until a day or until they change.

Snoozes are compared with the snapshot whenever the queue is read, so no row stays hidden after a change.
"""

import secrets
from collections.abc import Collection, Sequence
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
CHANGE, DAY = "change", "day"  # form values instead of a number of days
FURTHEST = timedelta(days=365)
ANY = "select 1 from triage_snooze limit 1"
MINE = "select 1 from triage_snooze where person_id = %s and made_at >= %s limit 1"
CHANGED = "Not saved: it changed since you opened it, so it stays in the inbox. Here is the current state."
TOO_LATE = "The 10 seconds are over. Show it again from the list of snoozed rows."
_states = PerSnapshot[dict[str, RowState]](4)


def read_until(choice: str, day: str, now: datetime) -> datetime | None:
    """Return the end of a snooze from a form's values; None: only a change ends it. Raise ActionProblem otherwise."""
    today = now.astimezone(UTC).date()
    if choice == CHANGE:
        return None
    if choice in DAYS:
        return _start_of(today + timedelta(days=DAYS[choice]))
    try:
        chosen = date.fromisoformat(day) if choice == DAY and len(day) == 10 else None
    except ValueError:
        chosen = None
    if chosen is None or not today < chosen <= today + FURTHEST:
        raise ActionProblem("Choose a day after today and within a year. Nothing was snoozed.")
    return _start_of(chosen)


def _start_of(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def snooze(
    person: Person,
    snapshot: Snapshot,
    displayed: Collection[tuple[QueueRow, Seen]],
    until: datetime | None,
    now: datetime,
) -> None:
    """Hide these rows as displayed, all or none; raise Conflict where one has changed. The caller checks the role."""
    states = read.row_states(snapshot, [row.uri for row, _ in displayed])
    changed = [row.uri for row, seen in displayed if row.uri not in states or states[row.uri].seen != seen]
    if changed:
        raise Conflict(CHANGED, changed)
    with transaction.atomic():
        for row, seen in displayed:
            state = states[row.uri]
            made = {"key": secrets.token_hex(16), "repo_key": row.repository_key, "person": person, "made_at": now}
            version = {"record_cid": seen.record_cid, "round": seen.round, "patch_id": seen.patch_id}
            hides = {"until": until, "lane": state.lane, "comments": state.comments}
            Snooze.objects.update_or_create(pull_uri=row.uri, defaults={**made, **version, **hides})
            log_change(person, "row.snoozed", now, row.repository_key, row.uri, until=_until_words(until))


def show_now(person: Person, snoozed: Snooze, now: datetime) -> None:
    """Put a row back into the queue."""
    with transaction.atomic():
        if Snooze.objects.filter(pk=snoozed.pk).delete()[0]:
            log_change(person, "row.shown", now, snoozed.repo_key, snoozed.pull_uri)


def take_back(person: Person, key: str, now: datetime) -> list[str]:
    """Undo this person's snooze, with those made in the same click; raise Conflict once its 10 seconds are over.

    Returns their at-uris, [] where the key names no snooze.
    """
    snoozed = Snooze.objects.filter(person=person, key=key).first() if key else None
    if snoozed is None:
        return []
    if now > snoozed.made_at + WINDOW:
        raise Conflict(TOO_LATE, [snoozed.pull_uri])
    together = list(Snooze.objects.filter(person=person, made_at=snoozed.made_at))
    with transaction.atomic():
        for one in together:
            show_now(person, one, now)
    return [one.pull_uri for one in together]


def made_since(person: Person, moment: datetime) -> list[Snooze]:
    """Return this person's snoozes since then, newest first."""
    if not is_any(MINE, person.pk, moment):
        return []
    return list(Snooze.objects.filter(person=person, made_at__gte=moment).order_by("-pk"))


def in_force(snapshot: Snapshot, now: datetime) -> tuple[Snooze, ...]:
    """Return snoozes whose day has not come and whose row is unchanged, newest first."""
    if not is_any(ANY):
        return ()
    waiting = (
        Snooze.objects.filter(Q(until=None) | Q(until__gt=now)).select_related("person").order_by("-made_at", "-pk")
    )
    candidates = list(waiting)
    uris = tuple(sorted(candidate.pull_uri for candidate in candidates))
    states, last_actions = _states.get(snapshot, uris, lambda: read.row_states(snapshot, uris)), _last_acted(uris)
    return tuple(
        candidate
        for candidate in candidates
        if states.get(candidate.pull_uri)
        == RowState(Seen(candidate.record_cid, candidate.round, candidate.patch_id), candidate.lane, candidate.comments)
        and last_actions.get(candidate.pull_uri, candidate.made_at) <= candidate.made_at
    )


def forget_ended(snapshot: Snapshot, now: datetime) -> int:
    """Delete snoozes that hide nothing any more; return how many."""
    hiding = [snoozed.pk for snoozed in in_force(snapshot, now)]
    return Snooze.objects.exclude(pk__in=hiding).filter(made_at__lt=now - WINDOW).delete()[0]


def _last_acted(uris: Collection[str]) -> dict[str, datetime]:
    """Return the time of the last action on each of these that was not undone."""
    actions = Action.objects.filter(pull_uri__in=uris, undone_at=None).order_by()
    return dict(actions.values_list("pull_uri").annotate(newest=Max("made_at")))


def count_flagged(snoozes: Collection[Snooze]) -> int:
    """Count the flagged rows among these."""
    return sum(snoozed.lane == Lane.NEEDS_HUMAN for snoozed in snoozes)


def snooze_words(snoozed: Snooze, with_name: bool = True) -> str:
    """Say until when the row is snoozed and, to its maintainers, by whom."""
    by = f" by {visible(str(snoozed.person))}" if with_name else ""
    return f"Snoozed {_until_words(snoozed.until)}{by}"


def offer_words(snoozed: Sequence[Snooze], pull_name: str) -> str:
    """Return the toast's words for the snoozes of one click; the first is of the pull request with this name."""
    if len(snoozed) > 1:
        return f"Snoozed {len(snoozed):,} pull requests until they change."
    return f"Snoozed {pull_name} {_until_words(snoozed[0].until)}."


def _until_words(until: datetime | None) -> str:
    if until is None:
        return "until it changes"
    day = until.astimezone(UTC)
    return f"until {day.day} {day:%b %Y}"
