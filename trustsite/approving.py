"""An approval by a maintainer of a simulated network, made as on a page and taken by the running worker."""

import time

from django.core.management.base import CommandError
from django.utils import timezone

from scoring import read
from triage import actions
from triage.models import Person
from trustsite.worker import Worker

TAKEN_SECONDS = 60.0  # the worker's sweep finds what its queue lost within that


def approve(worker: Worker, person: Person, uri: str) -> None:
    """Approve what stands now, as of 10 s ago, so that it takes effect at once; returns when the worker took it.

    Raises CommandError where that takes more than a minute.
    """
    with worker.store.read() as rows:
        subjects = read.decided_subjects(rows, [uri])
    wanted = actions.Wanted("approve", uri, subjects[uri].seen, version=0)
    (made,) = actions.act(person, subjects, [wanted], timezone.now() - actions.WINDOW)
    deadline = time.monotonic() + TAKEN_SECONDS
    while not _is_taken(worker, made.key):
        if time.monotonic() > deadline:
            raise CommandError("The worker did not take the demo's approval within a minute.")
        time.sleep(0.05)


def _is_taken(worker: Worker, key: str) -> bool:
    with worker.store.read() as rows:
        return key in read.taken_keys(rows, [key])
