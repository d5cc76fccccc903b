"""Sends one webhook: writes what changed once, in one transaction, then sends it until the receiver took it.

At least once: a kill between an answer and the note of it sends the same webhook-id again, which the receiver knows by
its id. One that nobody takes is tried for a day. Nothing here waits for anything but the receiver, in a hop of its own.

It also words what pages say of a receiver that takes nothing; there is nothing to say where there is none or all is
well.
"""

import json
import logging
import secrets
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import transaction

from ingest.errors import FetchProblem
from ingest.http.fetcher import Receiver
from ingest.store.database import Store
from scoring.queries import read
from triage.access.links import pull_address
from triage.models import LaneClosure, ToldState, WebhookDelivery
from triage.services.webhook_events import Change, Event, StandingClosure, State, changes, signed_headers

KEPT = timedelta(days=7)  # for which a delivery that is over is kept
OFTEN = 3  # tries in vain after which it is worth a word: 20 minutes


def webhook_notes(now: datetime) -> tuple[str, ...]:
    """A sentence on messages that were given up, and one on those that wait in vain."""
    if not settings.WEBHOOK_URL:
        return ()
    lost = WebhookDelivery.objects.filter(given_up_at__gte=now - KEPT).count()
    waiting = WebhookDelivery.objects.filter(due_at__isnull=False, tries__gte=OFTEN).count()
    told = (
        (
            lost,
            f"The webhook's receiver did not accept {lost:,} of the last messages within a day: they were given up.",
        ),
    )
    told += (
        (waiting, f"The webhook's receiver is not taking messages: {waiting:,} were tried {OFTEN} times or more."),
    )
    return tuple(sentence for count, sentence in told if count)


log = logging.getLogger(__name__)
BEGUN = "begun"  # the kind of the one row that says that what stood at first was noted
MOST_WAITING = 10_000  # beyond it changes wait untold, where they cost nothing, and are told as they then stand
AT_ONCE = 100  # tries of one run
RUN_SECONDS = 30.0  # after which a run begins no further try
FAILURES = 3  # after which a run ends: the receiver is down, and the next run comes within a minute
RETRY_SECONDS = (60, 300, 900, 3_600, 3 * 3_600, 6 * 3_600)  # then the last one again
LIFETIME = timedelta(hours=24)
Now = Callable[[], datetime]


def note_changes(store: Store, now: datetime) -> int:
    """Write down what is to be sent, each change once; returns how many. The first run only notes how all stands."""
    with store.read() as rows:
        pulls, lanes = read.standings(rows), read.lane_states(rows)
    with transaction.atomic():
        told = {(kind, key): value for kind, key, value in ToldState.objects.values_list("kind", "key", "value")}
        is_first = (BEGUN, "") not in told
        standing, reopened = _closures(key for kind, key in told if kind == "closure")
        found = list(changes(told, State(pulls, lanes, standing, reopened), pull_address))
        if is_first:
            _note(found)
            ToldState.objects.create(kind=BEGUN, key="", value=now.isoformat())
            return 0
        room = max(MOST_WAITING - WebhookDelivery.objects.exclude(due_at=None).count(), 0)
        taken = _fitting(found, room)
        _note(taken)
        return len(_write([one.event for one in taken if one.event], now))


def forget() -> None:
    """There is no receiver: nothing waits, and one that is named later is told from then on."""
    if ToldState.objects.exists():
        with transaction.atomic():
            ToldState.objects.all().delete()
            WebhookDelivery.objects.exclude(due_at=None).delete()


def send_due(receiver: Receiver, now: Now) -> int:
    """Send what is due, the longest due first; returns how many messages were taken."""
    WebhookDelivery.objects.filter(due_at=None, made_at__lt=now() - KEPT).delete()
    ends, taken, failed = time.monotonic() + RUN_SECONDS, 0, 0
    for delivery in WebhookDelivery.objects.filter(due_at__lte=now()).order_by("due_at", "pk")[:AT_ONCE]:
        if failed >= FAILURES or time.monotonic() >= ends:
            break
        try:
            problem, after = send(receiver, delivery.key, delivery.body, now())
        except FetchProblem as stopped:
            log.info("%s", stopped)
            break
        failed, taken = failed + bool(problem), taken + (not problem)
        _keep(delivery, problem, after, now())
    return taken


def keep_fresh(now: datetime) -> tuple[int, int]:
    """After a restore: how many messages wait and are sent, and how many are older than a day and are not.

    Those that wait may have been taken after the backup was made; they keep their webhook-id, by which a receiver drops
    them. It need not remember an id for longer than a day, and is told anew how what changed since then stands.
    """
    waiting = WebhookDelivery.objects.exclude(due_at=None)
    told = {"due_at": None, "given_up_at": now, "problem": "older than a day when a backup was restored"}
    old = waiting.filter(made_at__lt=now - LIFETIME).update(**told)
    return waiting.count(), old


def send(receiver: Receiver, message_id: str, body: str, now: datetime) -> tuple[str, float]:
    """Try one message: why it was not taken ("": it was), and how many seconds the receiver asks for at least.

    Raises FetchProblem where this process is stopping: that was no try.
    """
    text = body.encode()
    headers = signed_headers(str(settings.WEBHOOK_KEY), message_id, int(now.timestamp()), text)
    try:
        answered = receiver.post(text, headers)
    except FetchProblem as problem:
        if problem.closed:
            raise
        return str(problem)[:300], 0.0
    return ("" if answered.is_taken else f"{receiver.host} answered {answered.status}"), answered.after or 0.0


def body_of(event: Event, now: datetime) -> str:
    """The text that is sent of an event."""
    told = {"type": event.name, "timestamp": now.astimezone(UTC).isoformat(), "data": dict(event.data)}
    return json.dumps(told, separators=(",", ":"))


def new_id() -> str:
    """A webhook-id that no other message has."""
    return f"msg_{secrets.token_hex(16)}"


def _closures(told: Iterable[str]) -> tuple[tuple[StandingClosure, ...], tuple[StandingClosure, ...]]:
    """The closures by people that stand, and those of `told` that were lifted since."""
    standing = tuple(map(_closure, LaneClosure.objects.filter(opened_at=None).order_by("pk")))
    lifted = LaneClosure.objects.filter(key__in=list(told)).exclude(opened_at=None)
    return standing, tuple(map(_closure, lifted.order_by("pk")))


def _closure(one: LaneClosure) -> StandingClosure:
    about = "author" if one.author else "voucher" if one.voucher else "repository" if one.repo_key else "site"
    return StandingClosure(one.key, about, one.repo_key)


def _fitting(found: list[Change], room: int) -> list[Change]:
    """As many as there is room for, and all that send nothing."""
    silent = [one for one in found if one.event is None]
    return silent + [one for one in found if one.event is not None][:room]


def _note(found: Iterable[Change]) -> None:
    """Keep how these things stand now as what was told."""
    stand = [ToldState(kind=one.kind, key=one.key, value=one.value) for one in found if one.value is not None]
    unique, fields = ["kind", "key"], ["value"]
    ToldState.objects.bulk_create(
        stand, batch_size=300, update_conflicts=True, unique_fields=unique, update_fields=fields
    )
    for one in found:
        if one.value is None:
            ToldState.objects.filter(kind=one.kind, key=one.key).delete()


def _write(events: list[Event], now: datetime) -> list[WebhookDelivery]:
    made = [
        WebhookDelivery(key=new_id(), event=one.name, body=body_of(one, now), made_at=now, due_at=now) for one in events
    ]
    return WebhookDelivery.objects.bulk_create(made, batch_size=100)


def _keep(delivery: WebhookDelivery, problem: str, after: float, now: datetime) -> None:
    """Note how a try ended, and when the next one is: none once it was taken, nor a day after it was made."""
    tries = delivery.tries + 1
    kept = {"tries": tries, "problem": problem, "due_at": None}
    if not problem:
        kept["delivered_at"] = now
    elif now >= delivery.made_at + LIFETIME:
        kept["given_up_at"] = now
        log.warning("%s was given up after %d tries: %s", delivery, tries, problem)
    else:
        wait = max(RETRY_SECONDS[min(tries, len(RETRY_SECONDS)) - 1], after)
        kept["due_at"] = min(now + timedelta(seconds=wait), delivery.made_at + LIFETIME)
    WebhookDelivery.objects.filter(pk=delivery.pk).update(**kept)
