"""The process that publishes, made to be killed: writes down what should be public and sends it, step by step.

Started once, it forks a publisher for each line "go" on its input and prints the publisher's number and how it ended.
`DATA_ROOT` holds the SQLite file; its arguments are the network's origin, the account's DID, an app password and how
many steps there are.
"""

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import django

PULLS = 30
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def wanted(step: int) -> list[Any]:
    """What may be told at this step: a third of the pull requests changes with each, and one is missing."""
    from scoring.queries.read import PUBLIC_LANES
    from tests.triage.worlds.publishing_site import lane

    numbers = [number for number in range(PULLS) if number != step % PULLS]
    return [lane(number, PUBLIC_LANES[(step + number) // 3 % 3], outcome=None) for number in numbers]


def work(origin: str, steps: int) -> None:
    """Go on from the step at which the last one was killed; a step is noted before it is taken."""
    from ingest.files import write_whole
    from ingest.http.fetcher import Fetcher
    from ingest.oauth.dpop import DpopSender
    from triage.models import ServiceAccount
    from triage.services.publishing.publisher import Publisher
    from triage.services.publishing.records import note_lanes

    step_file = Path(os.environ["DATA_ROOT"]) / "step"
    step = int(step_file.read_text()) if step_file.exists() else 0
    now = NOW + timedelta(minutes=step)
    publisher = Publisher(DpopSender(Fetcher(origin)), lambda: now)
    while step < steps:
        step += 1
        now = NOW + timedelta(minutes=step)
        write_whole(step_file, str(step).encode())  # a kill in the middle leaves the step before
        note_lanes(wanted(step), "decided", now)
        publisher.send_waiting()
    account = ServiceAccount.objects.get()
    now += timedelta(hours=2)
    publisher.send_waiting()
    assert not account.failures, account.problem


def main(origin: str, did: str, password: str, steps: int) -> None:
    """Connect, then fork on demand."""
    django.setup()
    from django.core.management import call_command
    from django.db import connections

    from ingest.http.fetcher import Fetcher
    from ingest.oauth.dpop import DpopSender
    from triage.services.publishing.service_account import connect_password

    call_command("migrate", verbosity=0, interactive=False)
    connect_password(did, password, DpopSender(Fetcher(origin)), NOW)
    connections.close_all()
    print("ready", flush=True)  # noqa: T201  the test that started it reads this
    for _ in sys.stdin:
        child = os.fork()
        if not child:
            work(origin, steps)
            os._exit(0)
        print(child, flush=True)  # noqa: T201
        print(os.waitpid(child, 0)[1], flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))
