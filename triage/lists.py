"""What waits on the lists beside the queue, for their pages and for the links that lead there."""

from dataclasses import dataclass

from django.utils import timezone

from ingest.snapshot import Snapshot
from scoring import read
from scoring.kept import PerSnapshot
from scoring.read import Seen, Subject
from triage import snoozing
from triage.access import viewing
from triage.existence import is_any
from triage.incidents import incidents_of
from triage.middleware import Request
from triage.models import AuditAnswer
from triage.permissions import Role, Roles

MARKED = "select 1 from triage_action where kind = 'outcome' and outcome <> 'clean' and undone_at is null limit 1"
_due = PerSnapshot[tuple[Subject, ...]](1)


@dataclass(frozen=True, slots=True)
class ListCounts:
    """How much is on each list; `incidents` are the open ones and `audits` those due where the viewer maintains."""

    snoozed: int
    flagged: int  # of those that are snoozed
    incidents: int
    audits: int


def count_lists(request: Request, snapshot: Snapshot) -> ListCounts:
    """The counts as this viewer is told them."""
    snoozed, roles = snoozing.in_force(snapshot, timezone.now()), viewing(request)
    is_maintainer = roles.highest() >= Role.MAINTAINER
    return ListCounts(
        len(snoozed),
        snoozing.count_flagged(snoozed),
        incidents_of(roles).filter(is_open=True).count() if is_maintainer and is_any(MARKED) else 0,
        len(audits_due(snapshot, roles)) if is_maintainer else 0,
    )


def audits_due(snapshot: Snapshot, roles: Roles) -> list[Subject]:
    """What the audit drew in repositories that somebody maintains and nobody answered, the oldest first."""
    found = _due.get(snapshot, "", lambda: _read_due(snapshot))
    mine = [one for one in found if roles.role(one.repository_key) >= Role.MAINTAINER]
    given = AuditAnswer.objects.filter(pull_uri__in=[one.uri for one in mine]) if mine else ()
    answered = {(one.pull_uri, Seen(one.record_cid or None, one.round, one.patch_id or None)) for one in given}
    return [one for one in mine if (one.uri, one.seen) not in answered]


def _read_due(snapshot: Snapshot) -> tuple[Subject, ...]:
    uris = read.audits_due(snapshot)
    found = read.subjects(snapshot, uris) if uris else {}
    return tuple(found[uri] for uri in uris if uri in found)
