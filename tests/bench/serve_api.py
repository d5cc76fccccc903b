"""The web process with one address more: `python -m tests.bench.serve_api HOST:PORT`."""

import os
import sys

import django
from django.conf import settings


def main() -> None:
    """Serve until SIGTERM."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trustsite.settings")
    django.setup()
    settings.ROOT_URLCONF = "tests.bench.empty_operation"
    from trustsite.management.commands.web import listen

    listen(sys.argv[1]).run()


if __name__ == "__main__":
    main()
