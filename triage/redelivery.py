"""What people decided reaches whatever store the worker has: one made anew or put back from a backup gets all again.

Each run of deliveries has a number. The web's database notes it before the run, the store after it, so a store that
knows a smaller one, or another name, lacks something. Whoever takes a message takes it once for its key, so to bring
all of them again is harmless, and needed after a kill in the middle of a run too. One that is there already costs 3 to
6 ms, in runs of 500 between which the other hops have their turn.
"""

import logging
import secrets
from datetime import datetime

from django.db import transaction

from ingest.runtime import Runtime
from ingest.store import Store
from scoring.told_runs import delivered_run, note_run
from triage.deliveries import deliver_due
from triage.models import DeliveryRun, OutboxEntry

log = logging.getLogger(__name__)


def deliver(runtime: Runtime, now: datetime) -> int:
    """Deliver what is due, and first what this store lacks of all before; returns how many messages arrived."""
    _bring_back(runtime.store)
    if not OutboxEntry.objects.filter(delivered_at=None, due_at__lte=now).exists():
        return 0
    run = DeliveryRun.objects.get()
    DeliveryRun.objects.filter(pk=run.pk).update(number=run.number + 1)
    arrived = deliver_due(runtime, now)
    note_run(runtime.store, run.store, run.number + 1)
    return arrived


def _bring_back(store: Store) -> None:
    """Have everything delivered again where the store is not the one that it was delivered to, or an older copy."""
    run, held = DeliveryRun.objects.first(), delivered_run(store)
    if run is not None and held == (run.store, run.number):
        return
    name = secrets.token_hex(8)
    with transaction.atomic():
        again = OutboxEntry.objects.exclude(delivered_at=None).update(delivered_at=None)
        DeliveryRun.objects.all().delete()
        DeliveryRun.objects.create(store=name, number=0)
    note_run(store, name, 0)
    if again:
        log.warning("the store is new or older than what was decided here: %d decisions are brought to it again", again)
