"""Sends one webhook: writes what changed once, in one transaction, then sends it until the receiver took it.

Events say how things stand, not every step on the way: what went and came back between two looks is no event. Of what
others wrote an event holds at-uris and nothing else, of people nothing.

What is sent is signed as the Standard Webhooks specification says: symmetric, version 1. The receiver computes the same
over the headers and the body as it came, compares in constant time, and refuses a timestamp that is more than five
minutes off: so nobody else can send in our name, and nothing sent can be sent again.

At least once: a kill between an answer and the note of it sends the same webhook-id again, which the receiver knows by
its id. One that nobody takes is tried for a day. Nothing here waits for anything but the receiver, in a hop of its own.
"""

import base64
import hashlib
import hmac
import json
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from django.conf import settings
from django.db import transaction

from ingest.errors import FetchProblem
from ingest.http.fetcher import Receiver
from ingest.store.database import Store
from scoring.queries import read
from scoring.queries.read import LaneState, Standing
from triage.access.tokens import pull_address
from triage.models import LaneClosure, ToldState, WebhookDelivery

Kind = Literal["lane", "audit", "closure", "gate"]
EventName = Literal["lane.changed", "lane.closed", "lane.opened", "audit.due", "webhook.test"]
Told = Mapping[tuple[str, str], str]  # (kind, key): value
Address = Callable[[str], str]  # of a pull request's page here, by its at-uri
OPEN, CLOSED = "open", "closed"
PREFIX = "whsec_"
KEPT = timedelta(days=7)  # for which a delivery that is over is kept
OFTEN = 3  # tries in vain after which it is worth a word: 20 minutes
log = logging.getLogger(__name__)
BEGUN = "begun"  # the kind of the one row that says that what stood at first was noted
MOST_WAITING = 10_000  # beyond it changes wait untold, where they cost nothing, and are told as they then stand
AT_ONCE = 100  # tries of one run
RUN_SECONDS = 30.0  # after which a run begins no further try
FAILURES = 3  # after which a run ends: the receiver is down, and the next run comes within a minute
RETRY_SECONDS = (60, 300, 900, 3_600, 3 * 3_600, 6 * 3_600)  # then the last one again
LIFETIME = timedelta(hours=24)
Now = Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class Event:
    """An event for the receiver; `data` is JSON."""

    name: EventName
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StandingClosure:
    """A closure by a person: for what kind of thing, and in which repository ("": in all)."""

    key: str
    scope: Literal["site", "repository", "author", "voucher"]
    repository: str


@dataclass(frozen=True, slots=True)
class State:
    """The state of everything: open pull requests, the gate's lanes, closures that stand and those that were lifted."""

    pulls: tuple[Standing, ...]
    lanes: tuple[LaneState, ...]
    closures: tuple[StandingClosure, ...] = ()
    reopened: tuple[StandingClosure, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that stands otherwise than was told; `value` None: it is gone. Without an event nothing is sent."""

    kind: Kind
    key: str
    value: str | None
    event: Event | None = None


def changes(told: Told, state: State, address: Address) -> Iterator[Change]:
    """All that differs from what was told, the gate and closures first."""
    yield from _gates(told, state.lanes)
    yield from _closure_events(told, state)
    yield from _lanes(told, state.pulls, address)
    yield from _audits(told, state.pulls, address)


def _gates(told: Told, lanes: Iterable[LaneState]) -> Iterator[Change]:
    """The gate's lane of each repository; one that was never told of is only noted."""
    for one in lanes:
        before, now = told.get(("gate", one.repository)), OPEN if one.is_open else CLOSED
        if before == now:
            continue
        data: dict[str, Any] = {"by": "gate", "scope": "repository", "repository": one.repository}
        data |= {} if one.is_open else {"reasons": [one.because]}
        event = Event("lane.opened" if one.is_open else "lane.closed", data)
        yield Change("gate", one.repository, now, event if before is not None else None)


def _closure_events(told: Told, state: State) -> Iterator[Change]:
    """Closures by people. Whom one is about is not told: that is for maintainers."""
    for one in state.closures:
        if ("closure", one.key) not in told:
            yield Change("closure", one.key, CLOSED, _closure_event("lane.closed", one))
    opened = {one.key: one for one in state.reopened}
    standing = {one.key for one in state.closures}
    for kind, key in told:
        if kind == "closure" and key not in standing:
            event = _closure_event("lane.opened", opened[key]) if key in opened else None
            yield Change("closure", key, None, event)


def _closure_event(name: EventName, one: StandingClosure) -> Event:
    return Event(name, {"by": "person", "scope": one.scope, "repository": one.repository or None})


def _lanes(told: Told, pulls: Iterable[Standing], address: Address) -> Iterator[Change]:
    """Pull requests that stand in another lane, and new ones, which came from none."""
    standing = set()
    for one in pulls:
        standing.add(one.uri)
        before = told.get(("lane", one.uri))
        if before != one.lane:
            data = _named(one, address) | {"from": before, "to": one.lane, "reasons": list(one.codes)}
            yield Change("lane", one.uri, one.lane, Event("lane.changed", data))
    yield from (Change("lane", key, None) for kind, key in told if kind == "lane" and key not in standing)


def _audits(told: Told, pulls: Iterable[Standing], address: Address) -> Iterator[Change]:
    """Rounds that the audit drew and nobody answered."""
    sealed = {one.uri: one for one in pulls if one.is_sealed}
    for uri, one in sealed.items():
        if told.get(("audit", uri)) != str(one.round):
            yield Change("audit", uri, str(one.round), Event("audit.due", _named(one, address)))
    yield from (Change("audit", key, None) for kind, key in told if kind == "audit" and key not in sealed)


def _named(one: Standing, address: Address) -> dict[str, Any]:
    """Return what every event about a pull request says of it."""
    return {
        "pull_request": one.uri,
        "repository": one.repository,
        "round": one.round + 1,
        "shadow": one.shadow,
        "address": address(one.uri),
    }


def secret_of(key: str) -> str:
    """Return what the receiver is given, from the key's 64 hex digits."""
    return PREFIX + base64.b64encode(bytes.fromhex(key)).decode()


def signed_headers(key: str, message_id: str, seconds: int, body: bytes) -> Mapping[str, str]:
    """The three headers of one try of a message at `seconds` (Unix time)."""
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": signature(key, message_id, seconds, body),
    }


def signature(key: str, message_id: str, seconds: int, body: bytes) -> str:
    """`v1,` and the base64 of HMAC-SHA256 over "id.timestamp.body"."""
    signed = f"{message_id}.{seconds}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(bytes.fromhex(key), signed, hashlib.sha256)).decode()


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
        log.warning("%s was given up after %d tries: %s", f"{delivery.event} {delivery.key}", tries, problem)
    else:
        wait = max(RETRY_SECONDS[min(tries, len(RETRY_SECONDS)) - 1], after)
        kept["due_at"] = min(now + timedelta(seconds=wait), delivery.made_at + LIFETIME)
    WebhookDelivery.objects.filter(pk=delivery.pk).update(**kept)
