"""What every page knows of incidents: which mark opens one, which are open, and where the lane is closed."""

from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.urls import reverse

from ingest.snapshot import Snapshot
from scoring.figures import visible
from scoring.read import Closure
from triage import closing
from triage.changes import log_change
from triage.models import Action, HandledIncident, Person
from triage.permissions import Role, Roles, role_of
from triage.requests import Request

BAD = (Action.Outcome.NEEDED_FIX, Action.Outcome.REVERTED)


def opened_by(mark: Action) -> str | None:
    """Where the incident of an action is, where it opens one: it marks something bad that somebody had approved."""
    if mark.kind != Action.Kind.OUTCOME or mark.outcome not in BAD:
        return None
    approvals = Action.objects.filter(kind=Action.Kind.APPROVE, pull_uri=mark.pull_uri, undone_at=None)
    took_effect = approvals.filter(effective_at__lte=mark.made_at).exists()
    return reverse("incident", args=[mark.key]) if took_effect else None


def incidents_of(roles: Roles) -> Any:
    """The marks that open incidents in the repositories that somebody maintains: open ones first, then by age.

    A pull request has one incident, that of its newest bad mark. It `is_open` until somebody marks the pull request as
    clean or says that the incident is handled. Returns a query set.
    """
    keys = roles.keys(Role.MAINTAINER)
    where = Q() if "" in keys else Q(repo_key__in=keys)
    same = Action.objects.filter(pull_uri=OuterRef("pull_uri"), undone_at=None)
    approved = same.filter(kind=Action.Kind.APPROVE, effective_at__lte=OuterRef("made_at"))
    later = same.filter(kind=Action.Kind.OUTCOME, pk__gt=OuterRef("pk"))
    marks = Action.objects.filter(where, Exists(approved), kind=Action.Kind.OUTCOME, outcome__in=BAD, undone_at=None)
    told = marks.exclude(Exists(later.filter(outcome__in=BAD))).select_related("person", "handled__person")
    is_open = ~Exists(later.filter(outcome=Action.Outcome.CLEAN)) & Q(handled=None)
    return told.annotate(is_open=is_open).order_by("-is_open", "-made_at", "-pk")


def handle(person: Person, mark: Action, is_handled: bool, now: datetime) -> None:
    """Keep that nothing is left to do about an incident, or that something is again."""
    known = HandledIncident.objects.filter(mark=mark)
    with transaction.atomic():
        if known.exists() == is_handled:
            return
        if is_handled:
            HandledIncident.objects.create(mark=mark, person=person, handled_at=now)
        else:
            known.delete()
        what = "incident.handled" if is_handled else "incident.reopened"
        log_change(person, what, now, mark.repo_key, mark.pull_uri)


def banners(request: Request, snapshot: Snapshot) -> list[tuple[Closure, str]]:
    """Closures that this viewer is told of on queue and dashboard, each with its sentence."""
    found = closing.standing_closures(snapshot)
    if not found:
        return []
    known, public = closing.names_in(snapshot, found), closing.told_to_readers(found)
    may = {key: role_of(request.user, key) >= Role.MAINTAINER for key in {one.repository for one in found}}
    told = [one for one in found if one in public or may[one.repository]]
    return [(one, visible(closing.closure_words(one, known))) for one in told]
