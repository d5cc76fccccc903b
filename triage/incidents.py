"""What every page knows of incidents: which mark opens one, and where the lane is closed."""

from django.urls import reverse

from ingest.snapshot import Snapshot
from scoring.read import Closure
from triage import closing
from triage.middleware import Request
from triage.models import Action
from triage.permissions import Role, role_of
from triage.words import visible

BAD = (Action.Outcome.NEEDED_FIX, Action.Outcome.REVERTED)


def opened_by(mark: Action) -> str | None:
    """Where the incident of an action is, where it opens one: it marks something bad that somebody had approved."""
    if mark.kind != Action.Kind.OUTCOME or mark.outcome not in BAD:
        return None
    approvals = Action.objects.filter(kind=Action.Kind.APPROVE, pull_uri=mark.pull_uri, undone_at=None)
    took_effect = approvals.filter(effective_at__lte=mark.made_at).exists()
    return reverse("incident", args=[mark.key]) if took_effect else None


def banners(request: Request, snapshot: Snapshot) -> list[tuple[Closure, str]]:
    """Closures that this viewer is told of on queue and dashboard, each with its sentence."""
    found = closing.standing_closures(snapshot)
    if not found:
        return []
    known, public = closing.names_in(snapshot, found), closing.told_to_readers(found)
    may = {key: role_of(request.user, key) >= Role.MAINTAINER for key in {one.repository for one in found}}
    told = [one for one in found if one in public or may[one.repository]]
    return [(one, visible(closing.closure_words(one, known))) for one in told]
