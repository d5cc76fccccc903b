"""Deliver the outbox in the worker; DELIVERIES names the handler of each kind of message.

People's decisions reach any store that the worker has: a new store, or one restored from a backup, gets all of them
again. Each run of deliveries has a number. The web's database records it before the run, the store after it, so a store
with a smaller number, or another name, lacks messages. Handlers ignore a key that they have already written, so a
second delivery is harmless, and it is needed after a kill in the middle of a run. A repeated message costs 3 to 6 ms;
runs of 500 leave time for the other hops.
"""

import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.db.models import Case, F, When

from ingest.errors import StoreProblem
from ingest.store.database import Store
from ingest.worker.runtime import Runtime
from scoring.handlers.actions import delivered_run, draw_of, note_run, take_action, take_answer
from scoring.handlers.settings import (
    set_role,
    take_closure,
    take_estimate,
    take_estimate_end,
    take_first_reading,
    take_opening,
    take_settings,
    take_watched,
)
from scoring.pipeline.interventions import write_objection, write_wish
from triage.access.permissions import is_seed
from triage.models import DeliveryRun, LeaderboardWish, OutboxEntry
from triage.services.objections import naive, to_tell

log = logging.getLogger(__name__)
AT_ONCE = 500  # messages of one run


def deliver_role(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
    """Update the worker's copy of a role from the present state, so that the newest state wins."""
    did, repo_key = payload["did"], payload["repo_key"]
    set_role(runtime.store, did, repo_key, is_seed(did, repo_key))


def deliver_objection(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
    """Update the worker's row of an objection from the present state; do nothing where its author was erased since."""
    objection = to_tell(payload["key"])
    if objection is not None:
        write_objection(runtime.store, payload["key"], objection)


def deliver_leaderboard_wish(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
    """Update the worker's copy of a wish from the present state."""
    wish = LeaderboardWish.objects.filter(did=payload["did"]).first()
    if wish is not None:
        write_wish(runtime.store, wish.did, wish.left_out, naive(wish.told_at))


def deliver_answer(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
    """Deliver an answer, and store the odds of its draw with the message: a new store has not drawn it."""
    take_answer(runtime, key, payload)
    draw = draw_of(runtime.store, key)
    if draw and "draw" not in payload:
        OutboxEntry.objects.filter(key=key).update(payload={**payload, "draw": draw})


# Each handler gets the worker's runtime, the entry's key and its payload; it writes in one transaction, and nothing
# where that key was written before. A StoreProblem or ValueError is stored as the entry's problem.
Deliver = Callable[[Runtime, str, Mapping[str, Any]], None]
DELIVERIES: Mapping[str, Deliver] = {
    "action": take_action,
    "settings.changed": take_settings,
    "watched": take_watched,
    "first_reading": take_first_reading,
    "role": deliver_role,
    "objection": deliver_objection,
    "leaderboard_wish": deliver_leaderboard_wish,
    "audit.answered": deliver_answer,
    "lane.closed": take_closure,
    "lane.opened": take_opening,
    "lane.estimated": take_estimate,
    "lane.estimate_ended": take_estimate_end,
}


def deliver_due(runtime: Runtime, now: datetime, takers: Mapping[str, Deliver] = DELIVERIES) -> int:
    """Deliver due messages in the order of their creation; return how many arrived.

    A failed message keeps its problem and is tried again after the others; it does not block them.
    """
    due = OutboxEntry.objects.filter(delivered_at=None, due_at__lte=now)
    failed = Case(When(problem="", then=0), default=1)
    due = due.order_by(failed, "due_at", "pk")[:AT_ONCE]
    return sum(_deliver(entry, runtime, now, takers) for entry in due)


def _deliver(entry: Any, runtime: Runtime, now: datetime, takers: Mapping[str, Deliver]) -> bool:
    # Count the try first: from then on `withdraw` is too late, and a message withdrawn before is not delivered.
    if not OutboxEntry.objects.filter(pk=entry.pk, delivered_at=None).update(tries=F("tries") + 1):
        return False
    runtime = replace(runtime, clock=_FixedClock(naive(entry.known_from))) if entry.known_from else runtime
    known_from = runtime.clock.now()
    try:
        takers[entry.kind](runtime, entry.key, entry.payload)
    except (StoreProblem, ValueError, KeyError) as problem:
        log.error("%s %s could not be delivered and is tried again: %s", entry.kind, entry.key, problem)
        OutboxEntry.objects.filter(pk=entry.pk).update(problem=str(problem)[:500])
        return False
    result = {"delivered_at": now, "known_from": known_from.replace(tzinfo=UTC), "problem": ""}
    OutboxEntry.objects.filter(pk=entry.pk).update(**result)
    return True


@dataclass(frozen=True, slots=True)
class _FixedClock:
    """The clock of a repeated message: it was known since it first took effect."""

    moment: datetime

    def now(self) -> datetime:
        """Return that moment, naive UTC."""
        return self.moment


def deliver(runtime: Runtime, now: datetime) -> int:
    """Deliver what is due, after any earlier messages that this store lacks; return how many arrived."""
    _mark_undelivered(runtime.store)
    if not OutboxEntry.objects.filter(delivered_at=None, due_at__lte=now).exists():
        return 0
    run = DeliveryRun.objects.get()
    DeliveryRun.objects.filter(pk=run.pk).update(number=run.number + 1)
    arrived = deliver_due(runtime, now)
    note_run(runtime.store, run.store, run.number + 1)
    return arrived


def _mark_undelivered(store: Store) -> None:
    """Mark everything for a new delivery where the store is another one, or an older copy."""
    run, delivered = DeliveryRun.objects.first(), delivered_run(store)
    if run is not None and delivered == (run.store, run.number):
        return
    name = secrets.token_hex(8)
    with transaction.atomic():
        marked = OutboxEntry.objects.exclude(delivered_at=None).update(delivered_at=None)
        DeliveryRun.objects.all().delete()
        DeliveryRun.objects.create(store=name, number=0)
    note_run(store, name, 0)
    if marked:
        log.warning(
            "the store is new or older than what was decided here: %d decisions are brought to it again", marked
        )
