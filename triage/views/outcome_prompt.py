"""Asks a maintainer once a week how the changes turned out that were merged two weeks ago."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from django.conf import settings
from django.db import transaction

from ingest.store.snapshots import PerSnapshot, Snapshot
from scoring.queries import read
from scoring.queries.read import Subject
from triage.access.permissions import Role, Roles
from triage.forms.actions import read_choice, written_choice
from triage.models import Action, Person
from triage.services import actions
from triage.services.actions import ActionProblem

EVERY = timedelta(days=7)
BACK = timedelta(days=28)  # for how long after it turned old enough a merge is asked about
LOOKED_AT = 200
MOST = 5  # pull requests in one question; the oldest come first, so the others are asked about next week
GONE = "Nothing changed: somebody answered for one of these before you. Load the page again."
_due = PerSnapshot[dict[str, datetime]]()


@dataclass(frozen=True, slots=True)
class AskedMerge:
    """A merged pull request that the question names, with what its form sends."""

    subject: Subject
    merged_at: datetime
    choice: str


def question_for(
    person: Person, roles: Roles, snapshot: Snapshot, stream: datetime, now: datetime
) -> tuple[AskedMerge, ...]:
    """The merges to ask this person about; none where they answered within the week or maintain nothing.

    `stream` is the present of the data, `now` the wall clock.
    """
    if person.outcomes_asked_at is not None and now < person.outcomes_asked_at + EVERY:
        return ()
    due = _merges_due(person, roles, snapshot, stream)
    subjects = read.subjects(snapshot, due) if due else {}
    made = actions.versions(subjects)
    return tuple(
        AskedMerge(subjects[uri], merged_at, written_choice(uri, subjects[uri].seen, made[uri]))
        for uri, merged_at in due.items()
        if uri in subjects
    )


def mark_fine(
    person: Person, roles: Roles, snapshot: Snapshot, chosen: Sequence[str], stream: datetime, now: datetime
) -> None:
    """Mark these merges as clean and ask again in a week; `chosen` are what the question's form sends.

    Raises ActionProblem or Conflict, with nothing marked.
    """
    wanted = [replace(read_choice(one), kind=Action.Kind.OUTCOME, outcome=Action.Outcome.CLEAN) for one in chosen]
    uris = {one.uri for one in wanted}
    if not uris or len(uris) != len(wanted) or not uris <= _merges_due(person, roles, snapshot, stream).keys():
        raise ActionProblem(GONE)
    with transaction.atomic():
        actions.act(person, read.decided_subjects(snapshot, uris), wanted, now)
        ask_next_week(person, now)


def ask_next_week(person: Person, now: datetime) -> None:
    """Ask this person nothing for a week."""
    Person.objects.filter(pk=person.pk).update(outcomes_asked_at=now)


def _merges_due(person: Person, roles: Roles, snapshot: Snapshot, stream: datetime) -> dict[str, datetime]:
    """Return when each was merged that turned old enough lately and whose outcome nobody marked."""
    keys = roles.keys(Role.MAINTAINER)
    if not keys:
        return {}
    before = stream - timedelta(days=settings.LABEL_WINDOW_DAYS)
    span = (before - BACK, before)
    asked = (person.did, keys, before.date())
    found = _due.get(snapshot, asked, lambda: read.unmarked_merges(snapshot, str(person.did), keys, *span, LOOKED_AT))
    marks = Action.objects.filter(kind=Action.Kind.OUTCOME, undone_at=None, pull_uri__in=list(found))
    marked = set(marks.values_list("pull_uri", flat=True))  # the worker may not know of them yet
    return dict(islice((one for one in found.items() if one[0] not in marked), MOST))
