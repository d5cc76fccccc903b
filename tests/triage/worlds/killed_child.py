"""Processes that are made to be killed: each refreshes one session again and again, or clicks "Merge" once.

Started once, it forks one for each line of its input, the name of a job and what it needs, and prints its number, then
how it ended, since a start takes 1.5 s and a fork none.
"""

import json
import os
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import django


def refresh_forever(session: str) -> None:
    """Take the tokens for expired each time."""
    from django.utils import timezone

    from triage.access.oauth.client import web_sender
    from triage.access.oauth.sessions import current_grant

    while True:
        current_grant(UUID(session), web_sender(), clock=lambda: timezone.now() + timedelta(hours=2))


def merge_once(host: str, cookie: str, now: str, form: dict[str, str]) -> None:
    """Send the form as a browser does, at this time of the clock."""
    from django.conf import settings
    from django.test import Client
    from django.utils import timezone

    timezone.now = lambda: datetime.fromisoformat(now)  # ty: ignore[invalid-assignment]
    client = Client(headers={"host": host})
    client.cookies[settings.SESSION_COOKIE_NAME] = cookie
    client.post("/act/merge", form)


JOBS = {"refresh": refresh_forever, "merge": merge_once}


def main(given: dict[str, Any]) -> None:
    """Fork for as long as there is input; `given` are the settings of the site that the test plays."""
    django.setup()
    from django.conf import settings

    settings.DATABASES["default"]["NAME"] = given.pop("DATABASE")
    for name, value in given.items():
        setattr(settings, name, Path(value) if name.endswith(("_DIR", "_KEYS")) else value)
    import triage.urls  # noqa: F401 - loaded once, before the forks

    for line in sys.stdin:
        job, *arguments = json.loads(line)
        worker = os.fork()
        if worker == 0:
            JOBS[job](*arguments)
            os._exit(0)
        print(worker, flush=True)  # noqa: T201 - what the test reads
        print(os.WTERMSIG(os.waitpid(worker, 0)[1]), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
