"""`manage.py web`: the web process, one process with threads behind waitress."""

import errno
import signal
from types import FrameType
from typing import Any

import waitress
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

PROXY_HEADERS = ("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host")
# A request pins one snapshot and answers in milliseconds; 8 threads keep a slow page from blocking the API.
THREADS = 8


class Command(BaseCommand):
    """Serves pages and JSON on BIND until SIGTERM or Ctrl-C."""

    help = "Serve the pages and the JSON API on BIND (default 127.0.0.1:8000) until stopped."

    def handle(self, *args: object, **options: object) -> None:
        """Bring the web tables up to date, then serve; CommandError where BIND cannot be listened on."""
        server = listen(settings.BIND)  # before the tables: a second start by mistake changes nothing
        call_command("migrate", verbosity=0, interactive=False)
        signal.signal(signal.SIGTERM, _stop)
        self.stderr.write(f"Serving on http://{settings.BIND}")
        server.run()


def listen(bind: str) -> Any:
    """The waitress server that holds `bind` (host:port) and serves with `.run()`; CommandError where it cannot."""
    # WhiteNoise serves from the source folder; it warns where `collectstatic` never made this one.
    settings.STATIC_ROOT.mkdir(exist_ok=True)
    from trustsite.wsgi import application

    try:
        return waitress.create_server(application, listen=bind, threads=THREADS, ident=None, **_proxy())
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE:
            raise CommandError(
                f"BIND={bind} is in use by another program: stop that one, or set BIND to another port.", returncode=2
            ) from problem
        raise CommandError(
            f"BIND={bind} cannot be listened on ({problem.strerror}): set BIND to an address of this machine.",
            returncode=2,
        ) from problem
    except ValueError as problem:
        raise CommandError(
            f"BIND={bind} is not an address and port such as 127.0.0.1:8000: set BIND.", returncode=2
        ) from problem


def _proxy() -> dict[str, Any]:
    """Whose word on the address of a visitor counts: TRUSTED_PROXY's; what anybody else says of it is dropped."""
    trusted = {"trusted_proxy": settings.TRUSTED_PROXY, "trusted_proxy_headers": PROXY_HEADERS}
    return {"clear_untrusted_proxy_headers": True} | (trusted if settings.TRUSTED_PROXY else {})


def _stop(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)
