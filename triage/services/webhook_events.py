"""Events of the webhook, from how things stand and what the receiver was told, and their signature. Pure.

Told are how things stand, not every step on the way: what went and came back between two looks is no event. Of what
others wrote an event holds at-uris and nothing else, of people nothing: who wants to know more asks the address in it.

What is sent is signed as the Standard Webhooks specification says: symmetric, version 1. The receiver computes the same
over the headers and the body as it came, compares in constant time, and refuses a timestamp that is more than five
minutes off: so nobody else can send in our name, and nothing sent can be sent again.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from scoring.queries.read import LaneState, Standing

Kind = Literal["lane", "audit", "closure", "gate"]
EventName = Literal["lane.changed", "lane.closed", "lane.opened", "audit.due", "webhook.test"]
Told = Mapping[tuple[str, str], str]  # (kind, key): value
Address = Callable[[str], str]  # of a pull request's page here, by its at-uri
OPEN, CLOSED = "open", "closed"


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
    yield from _closures(told, state)
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


def _closures(told: Told, state: State) -> Iterator[Change]:
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


PREFIX = "whsec_"


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
