"""What a page depends on beside its address: the snapshot, what people did, and who looks, in sixteen characters."""

from datetime import datetime
from hashlib import blake2s
from secrets import token_hex

from django.db.models import Count, Max
from django.utils import timezone

from ingest.snapshot import Snapshot
from triage.access import viewing
from triage.middleware import Request
from triage.models import Change, Lease, Person

STARTED = token_hex(8)  # a web that was started anew may run other code and other settings


def page_state(request: Request, snapshot: Snapshot) -> str:
    """Changes with the snapshot, the last change by anybody, the leases of others, the viewer and their roles.

    Every action, undo, closure, objection and setting is in the log of changes. Asked once for a request.
    """
    known = getattr(request, "page_state", None)
    if known is None:
        roles = viewing(request)
        viewer = (request.user.pk, str(request.user), roles.least, sorted(roles.held.items()))
        last = Change.objects.aggregate(last=Max("pk"))["last"]
        parts = (STARTED, snapshot.number, snapshot.published_at, last, _leases(request, timezone.now()), viewer)
        known = request.page_state = digest(parts)
    return known


def digest(parts: tuple[object, ...]) -> str:
    """Sixteen characters that stand for these values; says nothing of them."""
    return blake2s(repr(parts).encode(), digest_size=8, key=STARTED.encode()).hexdigest()


def _leases(request: Request, now: datetime) -> tuple[int, datetime | None]:
    """How many other people look at something, and until when: their coming, staying and going all change it."""
    held = Lease.objects.filter(expires_at__gt=now)
    if isinstance(request.user, Person):
        held = held.exclude(person=request.user)
    found = held.aggregate(count=Count("pk"), until=Max("expires_at"))
    return found["count"], found["until"]
