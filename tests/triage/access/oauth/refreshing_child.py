"""Processes that are made to be killed: each refreshes one session again and again.

Started once, it forks one for each session that its input names and prints its number, then how it ended, since a start
takes 1.5 s and a fork none.
"""

import os
import sys
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import django


def refresh_forever(session: UUID) -> None:
    """Take the tokens for expired each time."""
    from django.utils import timezone

    from triage.access.oauth.client import web_sender
    from triage.access.oauth.sessions import current_grant

    while True:
        current_grant(session, web_sender(), clock=lambda: timezone.now() + timedelta(hours=2))


def main(database: str, origin: str, key: str, client_keys: str) -> None:
    """Fork for as long as there is input."""
    django.setup()
    from django.conf import settings

    import triage.access.oauth.sessions  # noqa: F401 - loaded once, before the forks

    settings.DATABASES["default"]["NAME"] = database
    settings.STAND_IN_ORIGIN, settings.OAUTH_KEY, settings.OAUTH_CLIENT_KEYS = origin, key, Path(client_keys)
    for line in sys.stdin:
        worker = os.fork()
        if worker == 0:
            refresh_forever(UUID(line.strip()))
        print(worker, flush=True)  # noqa: T201 - what the test reads
        print(os.WTERMSIG(os.waitpid(worker, 0)[1]), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
