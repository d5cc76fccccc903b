"""Open the fast lane of one repository on an estimate: a maintainer's decision, with a name and an undo.

The repository leaves shadow mode, in which a lane lets nothing through, and returns to it when the lane ends. The web
applies the end as soon as the button is pressed. The worker applies both from its next pass on; a new lane lets nothing
through before that, since the worker draws the audit.
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
MAY_OPEN = Role.MAINTAINER  # in that repository
UNDO = timedelta(minutes=10)  # time in which the opener may undo it without a reason
UNDONE = "opened by mistake: taken back at once"
WATCHED = "a maintainer shut the lane"
# Raw SQL: every page asks, and the ORM takes 1 ms to build what SQLite answers in .02 ms.
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
    """The repositories whose lane a person shut, and those whose lane a person opened, after a snapshot was made."""

    shut: frozenset[str]
    opened: frozenset[str]


_state_cache = PerSnapshot[dict[str, str]](1)


def open_estimated_lane(person: Person, repository: WatchedRepository, offer: Offer, now: datetime) -> EstimatedLane:
    """Open the repository's fast lane on this offer, which is stored as displayed, and end its shadow mode.

    An earlier opening ends: the test of the new one begins now. The caller checks that the offer is the present one.
    Raises PermissionDenied for a person who does not maintain the repository, and ActionProblem for an offer on which
    no lane can be opened.
    """
    _require(person, repository.key)
    _check(offer)
    with transaction.atomic():
        EstimatedLane.objects.filter(repo_key=repository.key, ended_at=None).update(
            ended_at=now, ended_by=person, ended_because=""
        )
        was_shadow = newest(repository).shadow
        created = EstimatedLane.objects.create(
            key=secrets.token_hex(16),
            repo_key=repository.key,
            **asdict(offer),
            person=person,
            opened_at=now,
            was_shadow=was_shadow,
        )
        message = {"repo_key": repository.key, **asdict(offer), "person": person.did, "made_at": now.isoformat()}
        outbox.put(OPENED, created.key, message, now)
        log_change(person, OPENED, now, repository.key, key=created.key, **asdict(offer))
        _switch_shadow(person, repository, False, now)
    return created


def end_estimated_lane(
    person: Person, opening: EstimatedLane, repository: WatchedRepository, because: str, now: datetime
) -> bool:
    """End an estimated lane and return its repository to shadow mode; False where it had already ended.

    Raises PermissionDenied for a person who does not maintain the repository, and ActionProblem without a reason.
    """
    _require(person, opening.repo_key)
    return _end_lane(person, opening, repository, read_reason(because), True, now)


def undo_estimated_lane(person: Person, opening: EstimatedLane, repository: WatchedRepository, now: datetime) -> bool:
    """Undo one's own opening, restore the earlier shadow mode and withdraw the audit's draws that nobody has answered.

    Returns False where the lane had already ended.
    Raises ActionProblem for somebody else's opening, and after `UNDO`.
    """
    if opening.person != person:
        raise ActionProblem("Somebody else opened this lane: you cannot undo it, but you can end it with a reason.")
    if now > opening.opened_at + UNDO:
        minutes = int(UNDO.total_seconds() // 60)
        raise ActionProblem(f"It was opened more than {minutes} minutes ago: end it with a reason.")
    _require(person, opening.repo_key)
    return _end_lane(person, opening, repository, UNDONE, opening.was_shadow, now, undone=True)


def last_end(key: str) -> EstimatedLane | None:
    """Return a repository's newest opening where a person ended it with a reason; undone ones do not count."""
    openings = EstimatedLane.objects.filter(repo_key=key).exclude(ended_because=UNDONE).select_related("ended_by")
    newest = openings.order_by("-opened_at").first()
    return newest if newest is not None and newest.ended_because else None


def end_by_watching(person: Person, repository: WatchedRepository, now: datetime) -> None:
    """End the estimated lane, if any, of a repository that a person put back into shadow mode."""
    for opening in standing_openings():
        if opening.repo_key == repository.key:
            _end_lane(person, opening, repository, WATCHED, True, now)


def decided_since(snapshot: Snapshot) -> Since:
    """Return the lanes that people shut or opened since this snapshot."""
    snapshot_state = _state_cache.get(snapshot, "", lambda: _snapshot_state(snapshot))
    with connection.cursor() as cursor:
        rows = cursor.execute(SINCE, snapshot_state).fetchall()
    shut, opened = (frozenset(key for key, is_open in rows if bool(is_open) == wanted) for wanted in (False, True))
    return Since(shut, opened)


def _snapshot_state(snapshot: Snapshot) -> dict[str, str]:
    """Return the openings in force in a snapshot, and the settings' versions of repositories outside shadow mode."""
    versions = {
        repository.key: repository.settings.version
        for repository in read.watched_repositories(snapshot)
        if not repository.settings.shadow
    }
    openings = list(read.opening_keys(snapshot, datetime.max).values())
    return {"openings": json.dumps(openings), "versions": json.dumps(versions)}


def is_undone_since(snapshot: Snapshot, repo_key: str) -> bool:
    """Return whether an opening that stands in this snapshot was undone: the worker withdraws what the audit drew."""
    openings = read.opening_keys(snapshot, datetime.max).values()
    return EstimatedLane.objects.filter(repo_key=repo_key, ended_because=UNDONE, key__in=openings).exists()


def standing_openings() -> tuple[EstimatedLane, ...]:
    """Return the openings that nobody has ended, oldest first, even where a lane shut itself."""
    return tuple(EstimatedLane.objects.filter(ended_at=None).select_related("person").order_by("pk"))


def _end_lane(
    person: Person,
    opening: EstimatedLane,
    repository: WatchedRepository,
    because: str,
    shadow: bool,
    now: datetime,
    undone: bool = False,
) -> bool:
    with transaction.atomic():
        fields = {"ended_at": now, "ended_by": person, "ended_because": because}
        if not EstimatedLane.objects.filter(pk=opening.pk, ended_at=None).update(**fields):
            return False
        message = {"opening": opening.key, "because": because, "person": person.did, "made_at": now.isoformat()}
        message |= {"undone": True} if undone else {}
        outbox.put(ENDED, f"{opening.key}:ended", message, now)
        log_change(person, ENDED, now, opening.repo_key, key=opening.key, because=because)
        _switch_shadow(person, repository, shadow, now)
    return True


def _switch_shadow(person: Person, repository: WatchedRepository, shadow: bool, now: datetime) -> None:
    current = newest(repository)
    save(person, repository, replace(current, shadow=shadow), current.version, now)


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
