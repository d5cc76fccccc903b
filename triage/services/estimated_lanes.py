"""Opens the fast lane of one repository on an estimate: a maintainer's decision, with a name and an undo.

The repository then leaves shadow mode, since a lane that is only shown lets nothing through, and returns to it when the
lane ends. The web heeds the end from the moment in which the button is pressed. The worker judges by both from its next
pass on; nothing goes through a new lane before, since the worker draws the audit.
"""

import json
import secrets
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import connection, transaction

from ingest.store.snapshots import PerSnapshot, Snapshot
from scoring.certificates.lane_counts import Offer, check_offer
from scoring.queries import read
from scoring.queries.read import WatchedRepository
from triage.access.permissions import Role, role_of
from triage.models import EstimatedLane, Person, outbox
from triage.models.accounts import log_change
from triage.services.actions import ActionProblem
from triage.services.lane_closures import read_reason
from triage.services.repository_settings import newest, save

OPENED, ENDED = "lane.estimated", "lane.estimate_ended"
MAY_OPEN = Role.MAINTAINER  # of that repository
UNDO = timedelta(minutes=10)  # in which whoever opened a lane takes it back without a reason
UNDONE = "opened by mistake: taken back at once"
WATCHED = "a maintainer shut the lane"
# In words of its own: every page asks, and the ORM takes 1 ms to word what SQLite answers in .02 ms.
SINCE = """
select repo_key, false as is_open from triage_estimatedlane
where ended_at is not null and key in (select value from json_each(%(openings)s))
union select c.repo_key, false from triage_repositorychoice c join json_each(%(versions)s) v on v.key = c.repo_key
where c.version > v.value and json_extract(c.settings, '$.shadow')
union select repo_key, true from triage_estimatedlane
where ended_at is null and key not in (select value from json_each(%(openings)s))
"""
CERTIFIED_ONLY = "The operator asks for a certificate (LANE_CONDITIONS), so no lane opens on an estimate here."


@dataclass(frozen=True, slots=True)
class Since:
    """The repositories whose lane a person shut, and those whose lane one opened, after a snapshot was made."""

    shut: frozenset[str]
    opened: frozenset[str]


_snapshots = PerSnapshot[dict[str, str]](1)


def open_estimated_lane(person: Person, repository: WatchedRepository, offer: Offer, now: datetime) -> EstimatedLane:
    """Open the repository's fast lane on this offer, which is kept as it was shown, and end its shadow mode.

    An opening that stood there before ends: the bet against the new one begins now. The caller checks that the offer is
    the present one. Raises PermissionDenied for a person who does not maintain the repository, and ActionProblem for an
    offer that no lane can be opened on.
    """
    _require(person, repository.key)
    _check(offer)
    with transaction.atomic():
        EstimatedLane.objects.filter(repo_key=repository.key, ended_at=None).update(
            ended_at=now, ended_by=person, ended_because=""
        )
        was_shadow = newest(repository).shadow
        made = EstimatedLane.objects.create(
            key=secrets.token_hex(16),
            repo_key=repository.key,
            **asdict(offer),
            person=person,
            opened_at=now,
            was_shadow=was_shadow,
        )
        told = {"repo_key": repository.key, **asdict(offer), "person": person.did, "made_at": now.isoformat()}
        outbox.put(OPENED, made.key, told, now)
        log_change(person, OPENED, now, repository.key, key=made.key, **asdict(offer))
        _switch_shadow(person, repository, False, now)
    return made


def end_estimated_lane(
    person: Person, opening: EstimatedLane, repository: WatchedRepository, because: str, now: datetime
) -> bool:
    """End an estimated lane and return its repository to shadow mode; False where it had ended before.

    Raises PermissionDenied for a person who does not maintain the repository, and ActionProblem without a reason.
    """
    _require(person, opening.repo_key)
    return _end(person, opening, repository, read_reason(because), True, now)


def undo_estimated_lane(person: Person, opening: EstimatedLane, repository: WatchedRepository, now: datetime) -> bool:
    """Undo one's own opening, with shadow mode as it was before; False where it had ended before.

    Raises ActionProblem for somebody else's opening, and after `UNDO`.
    """
    if opening.person != person:
        raise ActionProblem("Somebody else opened this lane: you cannot undo it, but you can end it with a reason.")
    if now > opening.opened_at + UNDO:
        minutes = int(UNDO.total_seconds() // 60)
        raise ActionProblem(f"It was opened more than {minutes} minutes ago: end it with a reason.")
    _require(person, opening.repo_key)
    return _end(person, opening, repository, UNDONE, opening.was_shadow, now)


def end_by_watching(person: Person, repository: WatchedRepository, now: datetime) -> None:
    """End the estimated lane of a repository that a person put back into shadow mode, if one stands there."""
    for opening in standing_openings():
        if opening.repo_key == repository.key:
            _end(person, opening, repository, WATCHED, True, now)


def decided_since(snapshot: Snapshot) -> Since:
    """Return where people shut or opened a lane that this snapshot shows as it was before."""
    known = _snapshots.get(snapshot, "", lambda: _known_by(snapshot))
    with connection.cursor() as cursor:
        found = cursor.execute(SINCE, known).fetchall()
    shut, opened = (frozenset(key for key, is_open in found if bool(is_open) == which) for which in (False, True))
    return Since(shut, opened)


def _known_by(snapshot: Snapshot) -> dict[str, str]:
    """Return the standing openings of a snapshot, and the versions of the settings where it has no shadow mode."""
    versions = {one.key: one.settings.version for one in read.watched_repositories(snapshot) if not one.settings.shadow}
    openings = list(read.opening_keys(snapshot, datetime.max).values())
    return {"openings": json.dumps(openings), "versions": json.dumps(versions)}


def standing_openings() -> tuple[EstimatedLane, ...]:
    """Return the openings that nobody ended, the oldest first, even where the bet shut the lane."""
    return tuple(EstimatedLane.objects.filter(ended_at=None).select_related("person").order_by("pk"))


def _end(
    person: Person, opening: EstimatedLane, repository: WatchedRepository, because: str, shadow: bool, now: datetime
) -> bool:
    with transaction.atomic():
        ended = {"ended_at": now, "ended_by": person, "ended_because": because}
        if not EstimatedLane.objects.filter(pk=opening.pk, ended_at=None).update(**ended):
            return False
        told = {"opening": opening.key, "because": because, "person": person.did, "made_at": now.isoformat()}
        outbox.put(ENDED, f"{opening.key}:ended", told, now)
        log_change(person, ENDED, now, opening.repo_key, key=opening.key, because=because)
        _switch_shadow(person, repository, shadow, now)
    return True


def _switch_shadow(person: Person, repository: WatchedRepository, shadow: bool, now: datetime) -> None:
    held = newest(repository)
    save(person, repository, replace(held, shadow=shadow), held.version, now)


def _require(person: Person, repo_key: str) -> None:
    if role_of(person, repo_key) < MAY_OPEN:
        raise PermissionDenied(f"This needs the role {MAY_OPEN.name.lower()} in {repo_key}.")


def _check(offer: Offer) -> None:
    if "certificate" in settings.LANE_CONDITIONS:
        raise ActionProblem(CERTIFIED_ONLY)
    try:
        check_offer(offer)
    except ValueError as problem:
        raise ActionProblem(f"No lane can be opened on these figures: {problem}. Nothing was changed.") from problem
