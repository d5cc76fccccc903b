"""A receiver of the webhook as a test asks it, and messages that wait for one."""

import json
import threading
from datetime import UTC, datetime
from typing import Any

from ingest.http.fetcher import Receiver
from ingest.http.sockets import Leash
from tests.ingest.peer import Peer
from triage.models import Delivery
from triage.services.notifying.webhooks import LIFETIME, send_due

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def receiver_at(url: str, seconds: float = 10.0, **how: Any) -> Receiver:
    """One that gives an answer `seconds` in all."""
    closed = threading.Event()
    return Receiver(url, lambda wanted: Leash(wanted, closed), seconds=seconds, **how)


def waiting(number: int = 1, made_at: datetime = NOW) -> list[Delivery]:
    """So many messages that wait from that moment on: msg_0, msg_1 …"""
    return [
        Delivery.objects.create(
            key=f"msg_{one}",
            event="lane.changed",
            body=f'{{"n":{one}}}',
            made_at=made_at,
            due_at=made_at,
            ends_at=made_at + LIFETIME,
        )
        for one in range(number)
    ]


def sent(receiver: Receiver, now: datetime = NOW) -> int:
    """How many of those that are due it took."""
    return send_due(receiver, lambda: now)


def said(peer: Peer) -> list[tuple[str, dict[str, Any]]]:
    """Type and data of every message that came there."""
    return [(told["type"], told["data"]) for told in (json.loads(request.body) for request in peer.requests)]


def killed(*arguments: object) -> None:
    """Stands where the process is killed."""
    raise KeyboardInterrupt
