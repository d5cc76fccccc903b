"""Opens the fast lane of one repository on an estimate: a maintainer's decision, with a name and an undo.

The repository then leaves shadow mode, since a lane that is only shown lets nothing through, and returns to it when the
lane ends. The worker judges by it from its next pass on.
"""

import secrets
from dataclasses import asdict, replace
from datetime import datetime, timedelta

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import transaction

from scoring.lane_offer import Offer, check_offer
from scoring.read import WatchedRepository
from triage import outbox
from triage.actions import ActionProblem
from triage.changes import log_change
from triage.closing import read_reason
from triage.models import EstimatedLane, Person
from triage.permissions import Role, role_of
from triage.repository_choices import newest, save

OPENED, ENDED = "lane.estimated", "lane.estimate_ended"
MAY_OPEN = Role.MAINTAINER  # of that repository
UNDO = timedelta(minutes=10)  # in which whoever opened a lane takes it back without a reason
UNDONE = "opened by mistake: taken back at once"
CERTIFIED_ONLY = "The operator asks for a certificate (LANE_CONDITIONS), so no lane opens on an estimate here."


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
