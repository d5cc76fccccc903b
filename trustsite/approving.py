"""What a maintainer of a simulated network does, made as on a page and taken by the running worker."""

import time
from datetime import UTC

from django.core.management.base import CommandError
from django.utils import timezone

from scoring import read
from triage import actions
from triage.models import Person
from trustsite.worker import Worker

TAKEN_SECONDS = 60.0  # the worker's sweep finds what its queue lost within that


def approve(worker: Worker, person: Person, uri: str) -> None:
    """Approve what stands now; see `act`."""
    act(worker, person, uri, "approve")


def mark(worker: Worker, person: Person, uri: str, outcome: str, note: str) -> str:
    """Mark how a change turned out; returns the mark's key, which names its incident. See `act`."""
    return act(worker, person, uri, "outcome", outcome, note)


def act(worker: Worker, person: Person, uri: str, kind: str, outcome: str = "", note: str = "") -> str:
    """Act on what stands now, as of 10 s ago by the network's clock, so that it takes effect at once.

    Returns the action's key when the worker took it; CommandError where that takes more than a minute.
    """
    with worker.store.read() as rows:
        subjects = read.decided_subjects(rows, [uri])
    # A clock of this machine that stands before the network's would keep it in the outbox.
    now = min(worker.clock.now().replace(tzinfo=UTC), timezone.now()) - actions.WINDOW
    wanted = actions.Wanted(kind, uri, subjects[uri].seen, actions.versions([uri])[uri], outcome, note)
    (made,) = actions.act(person, subjects, [wanted], now)
    deadline = time.monotonic() + TAKEN_SECONDS
    while not _is_taken(worker, made.key):
        if time.monotonic() > deadline:
            raise CommandError("The worker did not take what the demo's maintainer did within a minute.")
        time.sleep(0.05)
    return made.key


def _is_taken(worker: Worker, key: str) -> bool:
    with worker.store.read() as rows:
        return key in read.taken_keys(rows, [key])
