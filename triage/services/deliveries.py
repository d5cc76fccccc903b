"""Delivers the outbox in the worker: one line names the taker of each kind of message.

What people decided reaches whatever store the worker has: one made anew or put back from a backup gets all again. Each
run of deliveries has a number. The web's database notes it before the run, the store after it, so a store that knows a
smaller one, or another name, lacks something. Whoever takes a message takes it once for its key, so to bring all of
them again is harmless, and needed after a kill in the middle of a run too. One that is there already costs 3 to 6 ms,
in runs of 500 between which the other hops have their turn.
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
    """Bring the worker's copy to what stands here now: in whatever order messages come, it ends with the newest."""
    did, repo_key = payload["did"], payload["repo_key"]
    set_role(runtime.store, did, repo_key, is_seed(did, repo_key))


def deliver_objection(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
    """Bring the worker's row of an objection to what stands here now; nothing where its author was erased since."""
    told = to_tell(payload["key"])
    if told is not None:
        write_objection(runtime.store, payload["key"], told)


def deliver_leaderboard_wish(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
    """Bring the worker's copy of a wish to what stands here now."""
    wish = LeaderboardWish.objects.filter(did=payload["did"]).first()
    if wish is not None:
        write_wish(runtime.store, wish.did, wish.left_out, naive(wish.told_at))


def deliver_answer(runtime: Runtime, key: str, payload: Mapping[str, Any]) -> None:
    """Take an answer, and keep the odds of its draw with the message: a store made anew has not drawn it."""
    take_answer(runtime, key, payload)
    draw = draw_of(runtime.store, key)
    if draw and "draw" not in payload:
        OutboxEntry.objects.filter(key=key).update(payload={**payload, "draw": draw})


# Each is given the worker's runtime, the entry's key and its payload; it writes in one transaction, and nothing where
# that key was written before. What it raises of StoreProblem or ValueError is kept as the entry's problem.
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
    """Deliver what is due, in the order in which it was made; returns how many messages arrived.

    One that fails stays with its problem and is tried again after the others; it holds none back.
    """
    due = OutboxEntry.objects.filter(delivered_at=None, due_at__lte=now)
    failed = Case(When(problem="", then=0), default=1)
    due = due.order_by(failed, "due_at", "pk")[:AT_ONCE]
    return sum(_deliver(entry, runtime, now, takers) for entry in due)


def _deliver(entry: Any, runtime: Runtime, now: datetime, takers: Mapping[str, Deliver]) -> bool:
    # The try is counted first: from then on `withdraw` is too late, and what it took back meanwhile is not delivered.
    if not OutboxEntry.objects.filter(pk=entry.pk, delivered_at=None).update(tries=F("tries") + 1):
        return False
    runtime = replace(runtime, clock=_Then(naive(entry.known_from))) if entry.known_from else runtime
    known_from = runtime.clock.now()
    try:
        takers[entry.kind](runtime, entry.key, entry.payload)
    except (StoreProblem, ValueError, KeyError) as problem:
        log.error("%s %s could not be delivered and is tried again: %s", entry.kind, entry.key, problem)
        OutboxEntry.objects.filter(pk=entry.pk).update(problem=str(problem)[:500])
        return False
    told = {"delivered_at": now, "known_from": known_from.replace(tzinfo=UTC), "problem": ""}
    OutboxEntry.objects.filter(pk=entry.pk).update(**told)
    return True


@dataclass(frozen=True, slots=True)
class _Then:
    """The clock of a message that comes again: it was known since it took effect first."""

    moment: datetime

    def now(self) -> datetime:
        """Return that moment, naive UTC."""
        return self.moment


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
