"""The commands of one real site as processes that a test may kill: each is forked from this one once it is warm.

A start of `manage.py` takes 1.5 s of CPU and a fork none. A line on the input is a command with its arguments; the
answer is its process number, and then whatever it prints.
"""

import os
import signal
import sys
from datetime import timedelta

import django


def main(origin: str, undo_seconds: float) -> None:
    """Fork a process for each line; the network that all of them see answers at `origin`."""
    django.setup()
    from django.conf import settings
    from django.core.management import call_command

    from triage.services import actions

    actions.WINDOW = timedelta(seconds=undo_seconds)  # before the modules that take it from there
    import trustsite.worker.worker
    import trustsite.wsgi  # noqa: F401
    from tests.ingest.stream.frames import SOURCE

    settings.STREAM_SOURCE, settings.STAND_IN_ORIGIN = SOURCE, origin
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who is killed is gone at once
    for line in sys.stdin:
        child = os.fork()
        if not child:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            call_command(*line.split())
            sys.stdout.flush()
            os._exit(0)
        print(child, flush=True)  # noqa: T201  the test that started this reads it


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
