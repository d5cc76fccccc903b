"""What has state refuses a bad drive in one sentence, before any file is opened; then the command runs."""

import atexit
import gc
import os
import signal
import sys

from django.conf import settings
from django.core.management import BaseCommand, ManagementUtility
from environs import EnvError

from trustsite import drive
from trustsite.bad_settings import sentence_of

# What runs until somebody stops it.
STOPPED_BY_HAND = frozenset({"demo", "dev", "replay", "web", "worker"})


class Commands(ManagementUtility):
    """Django's, whose garbage collection begins with the command."""

    def fetch_command(self, subcommand: str) -> BaseCommand:
        """The command of this name, after which nothing that is loaded by now is walked again."""
        command = super().fetch_command(subcommand)
        never_walk_again()
        gc.enable()
        return command


def never_walk_again() -> None:
    """Have collections pass over everything that is held now; it stays for as long as the process anyway."""
    gc.freeze()
    atexit.unregister(gc.unfreeze)
    atexit.register(gc.unfreeze)  # else DuckDB's binding tells at the end of what was never collected


def run(argv: list[str]) -> None:
    """Run the command in `argv`; exit 2 with one sentence on stderr where the drive or a setting is wrong."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trustsite.settings")
    os.umask(drive.PRIVATE)
    try:
        place: drive.Place = settings.PLACE
        if drive.needs_state(argv):
            drive.require(place)
            drive.require_keys(place.root)
        if argv[1:2] and argv[1] in STOPPED_BY_HAND:
            take_interrupts()
            os.environ.update(drive.child_environment(place.root))
        Commands(argv).execute()
    except drive.DriveProblem as problem:
        _refuse(str(problem))
    except EnvError as problem:
        _refuse(sentence_of(problem))


def take_interrupts() -> None:
    """Have SIGINT stop this process as Ctrl-C does: a shell without job control starts background jobs deaf to it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _refuse(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")
    sys.exit(2)
