"""Web and worker in one process that is made to be killed: acts, delivers, settles and judges until it has done all.

Started once, it forks a worker for each line "go" on its input and prints the worker's number, since a start takes
1.5 s and a fork none. `DATA_ROOT` holds the SQLite file, the folder it is given the store.
"""

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import django

ACTIONS = 24
NOW = datetime(2026, 9, 21, 15, tzinfo=UTC)


def prepare() -> None:
    """The tables, and somebody who acts."""
    from django.core.management import call_command
    from django.db import connections

    from triage.models import Person

    call_command("migrate", verbosity=0, interactive=False)
    Person.objects.create(did="did:plc:" + "2" * 24)
    connections.close_all()


def work(folder: Path) -> None:
    """Act as often as is left, each time as a person would from what the store shows; deliver, settle, judge."""
    from ingest.http.fetcher import Fetcher
    from ingest.store.database import StreamClock
    from scoring.pipeline.interventions import settle_approvals
    from tests.pipeline import opened
    from triage.models import Action
    from triage.services.notifying.deliveries import deliver_due
    from trustsite.worker.handover import make_runtime

    with opened(folder) as result:
        runtime = make_runtime(result.store, Fetcher(), StreamClock(result.store))
        while True:
            made = Action.objects.count()
            deliver_due(runtime, NOW + timedelta(hours=1))
            settle_approvals(result.store, runtime.clock.now())
            if made >= ACTIONS:
                break
            act(result.store, made)
        result.judge()


def act(store: object, made: int) -> None:
    """The next action: an approval of each pull request first, then notes."""
    from ingest.store.database import Store
    from scoring.queries import read
    from tests.scoring.pipeline.offered_world import SECOND, THIRD
    from tests.scoring.small import OFFERED
    from triage.models import Person
    from triage.services import actions

    assert isinstance(store, Store)
    uri = (OFFERED, SECOND, THIRD)[made % 3]
    with store.read() as rows:
        subject = read.decided_subjects(rows, [uri])[uri]
    version = actions.versions([uri])[uri]
    kind, note = ("approve", "") if made < 3 else ("note", f"note {made}")
    wanted = actions.Wanted(kind, uri, subject.seen, version, note=note)
    actions.act(Person.objects.get(), {uri: subject}, [wanted], NOW)


def main(folder: Path) -> None:
    """Fork workers on demand; each answer is a process number, then how it ended."""
    django.setup()
    prepare()
    print("ready", flush=True)  # noqa: T201  the test that started it reads this
    for _ in sys.stdin:
        child = os.fork()
        if not child:
            work(folder)
            os._exit(0)
        print(child, flush=True)  # noqa: T201
        print(os.waitpid(child, 0)[1], flush=True)  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
