"""Acts as a maintainer of a simulated network, as the pages do, and waits until the running worker has taken it.

Each action is dated 10 s ago by the network's clock, so that it takes effect at once.
"""

import time
from datetime import UTC, datetime

from django.core.management.base import CommandError
from django.utils import timezone

from scoring import read
from scoring.lane_curve import present_offer
from scoring.policy import policy_from_settings
from triage import actions, auditing
from triage.estimated import open_estimated_lane
from triage.models import OutboxEntry, Person
from trustsite.worker import Worker

TAKEN_SECONDS = 60.0  # the worker's sweep finds what its queue lost within that


def act(worker: Worker, person: Person, uri: str, kind: str, outcome: str = "", note: str = "") -> None:
    """Act on a pull request as it stands now.

    Like the other functions here, it returns once the worker has taken the action, and raises CommandError after a
    minute.
    """
    with worker.store.read() as rows:
        subjects = read.decided_subjects(rows, [uri])
    wanted = actions.Wanted(kind, uri, subjects[uri].seen, actions.versions([uri])[uri], outcome, note)
    actions.act(person, subjects, [wanted], _now(worker))
    _wait_until_taken()


def answer_audits(worker: Worker, person: Person, because: str) -> None:
    """Answer for everything that the audit drew so far that it would have been merged as sent."""
    with worker.store.read() as rows:
        drawn = [row for uri in read.audits_due(rows) if (row := read.pull(rows, uri))]
    for row in drawn:
        seen = read.Seen(row.record_cid, row.round, row.patch_id)
        auditing.answer(person, row, seen, True, because, _now(worker))
    _wait_until_taken()


def open_lane(worker: Worker, person: Person, repository: str) -> None:
    """Open the fast lane of this repository (its key) on the present offer; CommandError where there is none."""
    now, policy = worker.clock.now(), policy_from_settings()
    with worker.store.read() as rows:
        found = read.watched_repository(rows, repository)
        offer = present_offer(rows, policy, policy.thresholds.budget, now)
    if found is None or offer is None:
        raise CommandError("The simulated past was too short to offer a fast lane.")
    open_estimated_lane(person, found, offer, _now(worker))
    _wait_until_taken()


def _now(worker: Worker) -> datetime:
    # A moment after the time of this machine's own clock would wait in the outbox.
    return min(worker.clock.now().replace(tzinfo=UTC), timezone.now()) - actions.WINDOW


def _wait_until_taken() -> None:
    deadline = time.monotonic() + TAKEN_SECONDS
    while OutboxEntry.objects.filter(delivered_at=None).exists():
        if time.monotonic() > deadline:
            raise CommandError("The worker did not take what the demo's maintainer did within a minute.")
        time.sleep(0.05)
