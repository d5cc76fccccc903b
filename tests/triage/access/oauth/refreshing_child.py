"""A process that is made to be killed: refreshes one session again and again."""

import sys
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import django


def main(session: str, database: str, origin: str, key: str, client_keys: str) -> None:
    """Refresh the session for as long as it lives."""
    django.setup()
    from django.conf import settings
    from django.utils import timezone

    from triage.access.oauth.client import web_sender
    from triage.access.oauth.sessions import current_grant

    settings.DATABASES["default"]["NAME"] = database
    settings.STAND_IN_ORIGIN, settings.OAUTH_KEY, settings.OAUTH_CLIENT_KEYS = origin, key, Path(client_keys)
    current_grant(UUID(session), web_sender(), clock=lambda: timezone.now() - timedelta(days=365))  # connects
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        current_grant(UUID(session), web_sender(), clock=lambda: timezone.now() + timedelta(hours=2))


if __name__ == "__main__":
    main(*sys.argv[1:])
