"""The real worker, told by lines on stdin that an hour or a minute has passed.

`python -m tests.trustsite.worker.training_worker`, with DATA_ROOT a marked drive, prints the process that trains after
each "hour". Nothing here imports the ground of the tests, which would put a folder of its own for DATA_ROOT.
"""

import os
import sys
import threading
from typing import Any


def main() -> None:
    """Run the worker until it is killed or stdin ends."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trustsite.settings")
    import django

    django.setup()
    from huey.signals import SIGNAL_COMPLETE, SIGNAL_ERROR

    from ingest.tasks import sweep
    from ingest.worker.runtime import huey
    from scoring import tasks
    from trustsite.worker.worker import Worker, stream_from_settings

    worker = Worker(stream_from_settings())
    asked = set[str]()

    @huey.signal(SIGNAL_COMPLETE, SIGNAL_ERROR)
    def tell(signal: str, task: Any, *arguments: Any) -> None:
        if task.id in asked:  # and is not the worker's own, which comes where the minute 41 of an hour passes
            child = tasks._training[0]._child if tasks._training else None
            sys.stdout.write(f"{child.pid if child else 0}\n")
            sys.stdout.flush()

    def follow() -> None:
        for line in sys.stdin:
            if line == "hour\n":
                task = tasks.train_again.s()
                asked.add(task.id)
                huey.enqueue(task)
            else:
                sweep()
        worker.finish()

    threading.Thread(target=follow, daemon=True).start()
    worker.run()


if __name__ == "__main__":
    main()
