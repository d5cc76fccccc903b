"""Read what one viewer sees of their own: list counts, due audits, saved filters, people without hidden chances.

The chance of a person whose audit is unanswered is hidden from everybody else. An answer by somebody who knows the
chance would follow it, and so measure nothing.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from urllib.parse import parse_qsl

from django.db import transaction
from django.utils import timezone

from ingest.store.snapshots import PerSnapshot, Snapshot
from scoring.formatting import visible
from scoring.queries import read
from scoring.queries.read import (
    ContributorPage,
    Leaderboard,
    LeaderboardSort,
    QueueQuery,
    Quiet,
    Subject,
)
from triage.access.permissions import Role, Roles
from triage.access.requests import Request
from triage.access.sign_in import person_of, viewer_did, viewing
from triage.forms.filters import QueueFilters, read_queue
from triage.models import Person
from triage.models.accounts import is_any
from triage.presenters.queue import row_actions
from triage.presenters.queue.queue import approved
from triage.services import snoozing
from triage.services.actions import ActionProblem
from triage.services.audit import due_audits, hiding_audits
from triage.services.lane_closures import incidents_of
from triage.services.objections import list_open

MARKED = "select 1 from triage_action where kind = 'outcome' and outcome <> 'clean' and undone_at is null limit 1"
QUIET_AFTER = timedelta(days=180)
MOST_SAVED, NAME_LENGTH = 12, 40  # saved filters of one person, and characters of a name


_quiet = PerSnapshot[tuple[Quiet, ...]](1)


@dataclass(frozen=True, slots=True)
class SavedFilter:
    """A saved view of the inbox: its displayed name, its stored name, and its query string."""

    words: str
    name: str
    search: str
    is_shown: bool


@dataclass(frozen=True, slots=True)
class ListCounts:
    """Sizes of the lists; of incidents, audits and objections those that the viewer is to settle."""

    approved: int  # open and not merged yet
    snoozed: int
    flagged: int  # snoozed rows that are flagged
    incidents: int
    audits: int
    objections: int

    @property
    def due(self) -> int:
        """Return how many items wait for an action."""
        return self.incidents + self.audits + self.objections


def count_lists(request: Request, snapshot: Snapshot) -> ListCounts:
    """Return the counts that this viewer may see."""
    snoozed, roles = snoozing.in_force(snapshot, timezone.now()), viewing(request)
    is_maintainer = roles.highest() >= Role.MAINTAINER
    return ListCounts(
        row_actions.left_out(QueueQuery(), snapshot, timezone.now())[0],
        len(snoozed),
        snoozing.count_flagged(snoozed),
        incidents_of(roles, snapshot).filter(is_open=True).count() if is_maintainer and is_any(MARKED) else 0,
        len(audits_due(snapshot, roles)) if is_maintainer else 0,
        objections_due(snapshot, roles, viewer_did(request)) if is_maintainer else 0,
    )


def audits_due(snapshot: Snapshot, roles: Roles) -> list[Subject]:
    """Return the unanswered audits in repositories that the viewer maintains, oldest first."""
    return [subject for subject, _ in due_audits(snapshot) if roles.role(subject.repository_key) >= Role.MAINTAINER]


def objections_due(snapshot: Snapshot, roles: Roles, viewer: str | None) -> int:
    """Count the open objections that the viewer may answer; nobody answers their own."""
    return sum(roles.role(key) >= Role.MAINTAINER and did != viewer for key, did, _ in list_open(snapshot))


def quiet_pulls(snapshot: Snapshot, roles: Roles, now: datetime) -> list[Quiet]:
    """Return the rows of the inbox that nobody touched for half a year, in repositories that the viewer maintains."""
    if roles.highest() < Role.MAINTAINER:
        return []
    since = now - QUIET_AFTER
    found = _quiet.get(snapshot, since.date(), lambda: read.quiet(snapshot, since))
    aside = {one.pull_uri for one in snoozing.in_force(snapshot, timezone.now())}
    aside |= {one.subject.uri for one in approved(snapshot)}
    return [one for one in found if one.uri not in aside and roles.role(one.repository_key) >= Role.MAINTAINER]


def saved_filters(viewer: object, filters: QueueFilters) -> tuple[SavedFilter, ...]:
    """Return this viewer's saved filters in order, with the selected one marked."""
    saved = viewer.saved_filters if isinstance(viewer, Person) else ()
    views = [(values["name"], read_queue(values).of_list) for values in saved]
    return tuple(SavedFilter(visible(name), name, search, search == filters.of_list) for name, search in views)


def save_filter(person: Person, name: str, filters: QueueFilters) -> None:
    """Save a view under a name, replacing one with that name; raise ActionProblem where that is not possible."""
    name = " ".join(name.split())
    values = dict(parse_qsl(replace(filters, since="").of_list.removeprefix("?")))  # "new" names one moment
    if not values:
        raise ActionProblem("Nothing is filtered here, so there is nothing to save.")
    if not name.isprintable() or not 0 < len(name) <= NAME_LENGTH:
        raise ActionProblem(f"Give the filter a name of at most {NAME_LENGTH} characters. Nothing was saved.")
    with transaction.atomic():
        others = [saved for saved in _read_saved(person) if saved["name"] != name]
        if len(others) >= MOST_SAVED:
            raise ActionProblem(f"You have {MOST_SAVED} saved filters. Delete one first; nothing was saved.")
        Person.objects.filter(pk=person.pk).update(saved_filters=[*others, {"name": name, **values}])


def drop_filter(person: Person, name: str) -> None:
    """Delete a saved filter; do nothing where there is none with that name."""
    with transaction.atomic():
        others = [saved for saved in _read_saved(person) if saved["name"] != name]
        Person.objects.filter(pk=person.pk).update(saved_filters=others)


def _read_saved(person: Person) -> list[dict[str, str]]:
    return Person.objects.values_list("saved_filters", flat=True).get(pk=person.pk)


def contributor(request: Request, snapshot: Snapshot, did: str) -> ContributorPage | None:
    """Return `read.contributor` for this viewer."""
    page = read.contributor(snapshot, did, viewer_did(request))
    audit = hiding_audits(snapshot, person_of(request), (did,)).get(did)
    return read.hide_chance(page, audit) if page and audit else page


def leaderboard(
    request: Request, snapshot: Snapshot, sort: LeaderboardSort, descending: bool, page: int
) -> Leaderboard:
    """Return `read.leaderboard` for this viewer."""
    return read.leaderboard(snapshot, sort, descending, page, hiding_audits(snapshot, person_of(request)))
