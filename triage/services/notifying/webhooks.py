"""Send one webhook: write each change once, in one transaction, then send it until the receiver accepts it.

Events describe the state, not every step: a change undone between two looks is no event. Of other people's texts an
event holds only at-uris, and about people nothing.

Messages are signed by the Standard Webhooks specification: symmetric, version 1. The receiver computes the signature
over the headers and the received body, compares in constant time, and refuses a timestamp more than five minutes off:
so nobody else can send in our name, and no message can be replayed.

Delivery is at least once: a kill between an answer and its note sends the same webhook-id again, by which the receiver
recognises it. A message that is not accepted is tried for a day. Sending waits only for the receiver, in its own hop.
The noted state serves people's browsers too (`triage.services.notifying.push`).
"""

import base64
import hashlib
import hmac
import json
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
from triage.models import Delivery, LaneClosure, ToldState
from triage.services.notifying.sending import KEPT, Now, new_id, send_waiting

Kind = Literal["lane", "audit", "closure", "gate"]
EventName = Literal["lane.changed", "lane.closed", "lane.opened", "audit.due", "webhook.test"]
Told = Mapping[tuple[str, str], str]  # (kind, key): value
Address = Callable[[str], str]  # returns the address of a pull request's page here from its at-uri
OPEN, CLOSED = "open", "closed"
PREFIX = "whsec_"
OFTEN = 3  # failed tries before a notice: 20 minutes
BEGUN = "begun"  # the kind of the one row which says that the initial state was noted
# beyond it changes wait unsent, where they cost nothing, and are sent in their state at that time
MOST_WAITING = 10_000
FAILURES = 3  # failures that end a run: the receiver is down
LIFETIME = timedelta(hours=24)
TO_RECEIVER = Delivery.objects.filter(subscription=None)


@dataclass(frozen=True, slots=True)
class Event:
    """An event for the receiver; `data` is JSON."""

    name: EventName
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StandingClosure:
    """A closure by a person: its kind of scope, and its repository ("": all)."""

    key: str
    scope: Literal["site", "repository", "author", "voucher"]
    repository: str


@dataclass(frozen=True, slots=True)
class State:
    """The present state: open pull requests, the gate's lanes, closures in force and lifted closures."""

    pulls: tuple[Standing, ...]
    lanes: tuple[LaneState, ...]
    closures: tuple[StandingClosure, ...] = ()
    reopened: tuple[StandingClosure, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """One difference from what was noted; `value` None: it is gone. Without an event nothing is sent.

    `repository` is the key of the repository that it is about, "" for the whole site.
    """

    kind: Kind
    key: str
    value: str | None
    event: Event | None = None
    repository: str = ""


def changes(told: Told, state: State, address: Address) -> Iterator[Change]:
    """Yield all differences from what was sent, the gate and closures first."""
    yield from _gate_changes(told, state.lanes)
    yield from _closure_events(told, state)
    yield from _lane_changes(told, state.pulls, address)
    yield from _audit_changes(told, state.pulls, address)


def _gate_changes(told: Told, lanes: Iterable[LaneState]) -> Iterator[Change]:
    """Yield changes of the gate's lane in each repository; a repository seen for the first time is only noted."""
    for lane in lanes:
        before, state = told.get(("gate", lane.repository)), OPEN if lane.is_open else CLOSED
        if before == state:
            continue
        data: dict[str, Any] = {"by": "gate", "scope": "repository", "repository": lane.repository}
        data |= {} if lane.is_open else {"reasons": [lane.because]}
        event = Event("lane.opened" if lane.is_open else "lane.closed", data)
        yield Change("gate", lane.repository, state, event if before is not None else None, lane.repository)


def _closure_events(told: Told, state: State) -> Iterator[Change]:
    """Yield changes of closures by people. The person concerned is not sent: that is for maintainers."""
    for closure in state.closures:
        if ("closure", closure.key) not in told:
            event = _closure_event("lane.closed", closure)
            yield Change("closure", closure.key, closure.scope, event, closure.repository)
    lifted = {closure.key: closure for closure in state.reopened}
    in_force = {closure.key for closure in state.closures}
    for kind, key in told:
        if kind == "closure" and key not in in_force:
            event = _closure_event("lane.opened", lifted[key]) if key in lifted else None
            yield Change("closure", key, None, event)


def _closure_event(name: EventName, closure: StandingClosure) -> Event:
    return Event(name, {"by": "person", "scope": closure.scope, "repository": closure.repository or None})


def _lane_changes(told: Told, pulls: Iterable[Standing], address: Address) -> Iterator[Change]:
    """Yield pull requests whose lane changed, and new ones, which come from none."""
    open_uris = set()
    for pull in pulls:
        open_uris.add(pull.uri)
        before = told.get(("lane", pull.uri))
        if before != pull.lane:
            data = _pull_fields(pull, address) | {"from": before, "to": pull.lane, "reasons": list(pull.codes)}
            yield Change("lane", pull.uri, pull.lane, Event("lane.changed", data), pull.repository)
    yield from (Change("lane", key, None) for kind, key in told if kind == "lane" and key not in open_uris)


def _audit_changes(told: Told, pulls: Iterable[Standing], address: Address) -> Iterator[Change]:
    """Yield rounds drawn for audit without an answer."""
    sealed = {pull.uri: pull for pull in pulls if pull.is_sealed}
    for uri, pull in sealed.items():
        if told.get(("audit", uri)) != str(pull.round):
            event = Event("audit.due", _pull_fields(pull, address))
            yield Change("audit", uri, str(pull.round), event, pull.repository)
    yield from (Change("audit", key, None) for kind, key in told if kind == "audit" and key not in sealed)


def _pull_fields(pull: Standing, address: Address) -> dict[str, Any]:
    """Return the fields of every event about a pull request."""
    return {
        "pull_request": pull.uri,
        "repository": pull.repository,
        "round": pull.round + 1,
        "shadow": pull.shadow,
        "address": address(pull.uri),
    }


def secret_of(key: str) -> str:
    """Return the receiver's secret from the key's 64 hex digits."""
    return PREFIX + base64.b64encode(bytes.fromhex(key)).decode()


def signed_headers(key: str, message_id: str, seconds: int, body: bytes) -> Mapping[str, str]:
    """Return the three headers of one try of a message at `seconds` (Unix time)."""
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": signature(key, message_id, seconds, body),
    }


def signature(key: str, message_id: str, seconds: int, body: bytes) -> str:
    """Return `v1,` and the base64 of HMAC-SHA256 over "id.timestamp.body"."""
    signed = f"{message_id}.{seconds}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(bytes.fromhex(key), signed, hashlib.sha256)).decode()


def webhook_notes(now: datetime) -> tuple[str, ...]:
    """Return a sentence on messages that were given up, and one on messages that keep failing."""
    if not settings.WEBHOOK_URL:
        return ()
    lost = TO_RECEIVER.filter(given_up_at__gte=now - KEPT).count()
    waiting = TO_RECEIVER.filter(due_at__isnull=False, tries__gte=OFTEN).count()
    notes = (
        (
            lost,
            f"The webhook's receiver did not accept {lost:,} of the last messages within a day: they were given up.",
        ),
    )
    notes += (
        (waiting, f"The webhook's receiver is not taking messages: {waiting:,} were tried {OFTEN} times or more."),
    )
    return tuple(sentence for count, sentence in notes if count)


def note_changes(store: Store, now: datetime, has_receiver: bool = True) -> int:
    """Note what changed, and write a message for each change once; return how many. The first run only notes the state.

    Without a receiver nothing is written, and what waited for one is deleted.
    """
    with store.read() as rows:
        pulls, lanes = read.standings(rows), read.lane_states(rows)
    with transaction.atomic():
        told = {(kind, key): value for kind, key, value in ToldState.objects.values_list("kind", "key", "value")}
        standing, reopened = _read_closures(key for kind, key in told if kind == "closure")
        differences = list(changes(told, State(pulls, lanes, standing, reopened), pull_address))
        if (BEGUN, "") not in told:
            _save_told_state(differences, None)
            ToldState.objects.create(kind=BEGUN, key="", value=now.isoformat())
            return 0
        if not has_receiver:
            TO_RECEIVER.exclude(due_at=None).delete()
            _save_told_state(differences, now)
            return 0
        room = max(MOST_WAITING - TO_RECEIVER.exclude(due_at=None).count(), 0)
        fitting = _fit_into(differences, room)
        _save_told_state(fitting, now)
        return len(_write([change.event for change in fitting if change.event], now))


def forget() -> None:
    """Forget the noted state where nobody is told: nothing waits, and a later receiver starts from then."""
    if ToldState.objects.exists():
        with transaction.atomic():
            ToldState.objects.all().delete()
            TO_RECEIVER.exclude(due_at=None).delete()


def send_due(receiver: Receiver, now: Now) -> int:
    """Send the receiver's due messages; return how many were accepted."""
    return send_waiting(TO_RECEIVER.all(), lambda one, at: send(receiver, one.key, one.body, at), now, FAILURES)


def keep_fresh(now: datetime) -> tuple[int, int]:
    """Return, after a restore, how many messages wait and are sent, and how many are older than a day and are not.

    Waiting messages may have been accepted after the backup was made; they keep their webhook-id, by which a receiver
    drops them. It need not remember an id for longer than a day, and gets the later changes as new messages. A browser
    remembers none, so what waited for one is deleted.
    """
    Delivery.objects.exclude(subscription=None).delete()
    waiting = TO_RECEIVER.exclude(due_at=None)
    fields = {"due_at": None, "given_up_at": now, "problem": "older than a day when a backup was restored"}
    old = waiting.filter(made_at__lt=now - LIFETIME).update(**fields)
    return waiting.count(), old


def send(receiver: Receiver, message_id: str, body: str, now: datetime) -> tuple[str, float]:
    """Try one message.

    Return why it was not accepted ("": it was), and the least delay in seconds that the receiver asks for.

    Raises FetchProblem where this process is stopping: that is not a try.
    """
    text = body.encode()
    headers = signed_headers(str(settings.WEBHOOK_KEY), message_id, int(now.timestamp()), text)
    try:
        response = receiver.post(text, headers)
    except FetchProblem as problem:
        if problem.closed:
            raise
        return str(problem)[:300], 0.0
    return ("" if response.is_taken else f"{receiver.host} answered {response.status}"), response.after or 0.0


def body_of(event: Event, now: datetime) -> str:
    """Return the text of an event's message."""
    message = {"type": event.name, "timestamp": now.astimezone(UTC).isoformat(), "data": dict(event.data)}
    return json.dumps(message, separators=(",", ":"))


def _read_closures(keys: Iterable[str]) -> tuple[tuple[StandingClosure, ...], tuple[StandingClosure, ...]]:
    """Return the closures by people in force, and those of `keys` that were lifted since."""
    in_force = tuple(map(_closure, LaneClosure.objects.filter(opened_at=None).order_by("pk")))
    lifted = LaneClosure.objects.filter(key__in=list(keys)).exclude(opened_at=None)
    return in_force, tuple(map(_closure, lifted.order_by("pk")))


def _closure(row: LaneClosure) -> StandingClosure:
    scope = "author" if row.author else "voucher" if row.voucher else "repository" if row.repo_key else "site"
    return StandingClosure(row.key, scope, row.repo_key)


def _fit_into(differences: list[Change], room: int) -> list[Change]:
    """Return the changes that send nothing, and as many others as there is room for."""
    silent = [change for change in differences if change.event is None]
    return silent + [change for change in differences if change.event is not None][:room]


def _save_told_state(differences: Iterable[Change], now: datetime | None) -> None:
    """Store the present state of these as told; `now` None: it stood before the notes began, as what has no event."""
    states = [
        ToldState(
            kind=change.kind,
            key=change.key,
            value=change.value,
            repo_key=change.repository,
            since=now if change.event else None,
        )
        for change in differences
        if change.value is not None
    ]
    unique, fields = ["kind", "key"], ["value", "repo_key", "since"]
    ToldState.objects.bulk_create(
        states, batch_size=150, update_conflicts=True, unique_fields=unique, update_fields=fields
    )
    for change in differences:
        if change.value is None:
            ToldState.objects.filter(kind=change.kind, key=change.key).delete()


def _write(events: list[Event], now: datetime) -> list[Delivery]:
    times = {"made_at": now, "due_at": now, "ends_at": now + LIFETIME}
    deliveries = [Delivery(key=new_id(), event=event.name, body=body_of(event, now), **times) for event in events]
    return Delivery.objects.bulk_create(deliveries, batch_size=80)
