"""`manage.py dev`: run worker and web together, with one Ctrl-C for both."""

import signal
import subprocess
import sys
import time
from types import FrameType

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

STOP_SECONDS = 12.0


class Command(BaseCommand):
    """Run both processes as children and stop both when either ends or a signal comes."""

    help = "Run worker and web together until Ctrl-C."

    def handle(self, *args: object, **options: object) -> None:
        """Start, watch, stop. Raises CommandError with the child's name if one ends by itself."""
        signal.signal(signal.SIGTERM, _interrupt)
        manage = str(settings.BASE_DIR / "manage.py")
        # Each in its own session, so that Ctrl-C reaches only this process and each child is stopped once.
        children = {
            name: subprocess.Popen([sys.executable, manage, name], start_new_session=True) for name in ("worker", "web")
        }
        try:
            ended = _wait_for_end(children)
        except KeyboardInterrupt:
            ended = None
        finally:
            _stop_children(children)
        if ended:
            raise CommandError(told(ended, children[ended].returncode))


def told(name: str, status: int) -> str:
    """Return in one sentence why both were stopped. A child that a signal killed (`status` below 0) left no message."""
    if status < 0:
        return (
            f"The {name} was killed by signal {-status}, so both were stopped. Start again; nothing is lost. If "
            "nobody sent that signal, the kernel's log says whether memory ran out."
        )
    return f"The {name} ended, so both were stopped. Its message is above."


def _wait_for_end(children: dict[str, subprocess.Popen[bytes]]) -> str:
    """Return the name of the child that ends first."""
    while True:
        for name, child in children.items():
            if child.poll() is not None:
                return name
        time.sleep(0.2)


def _stop_children(children: dict[str, subprocess.Popen[bytes]]) -> None:
    for child in children.values():
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
    for child in children.values():
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
