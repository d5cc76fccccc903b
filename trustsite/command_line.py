"""Refuse a bad drive in one sentence before any file is opened, then run the command.

An unusable setting is also reported in one sentence: its name, the problem, the place of its description. A command
accepts a person as a DID, or as a handle that its own domain confirmed.
"""

import atexit
import gc
import os
import re
import signal
import sys

from django.conf import settings
from django.core.management import BaseCommand, ManagementUtility
from django.core.management.base import CommandError
from environs import EnvError, EnvValidationError

from ingest.atproto.syntax import MalformedDid, parse_did, parse_handle
from ingest.store.snapshots import Snapshot
from trustsite import drive

_NAMED = re.compile(r'Environment variable "(\w+)" ')


def sentence_of(problem: EnvError) -> str:
    match = _NAMED.match(str(problem))
    if match is None or not isinstance(problem, EnvValidationError):
        return str(problem)
    messages = problem.error_messages
    words = "; ".join(str(message).rstrip(".") for message in messages) if isinstance(messages, list) else str(messages)
    return f"{match[1]} cannot be used: {words[:1].lower()}{words[1:]}. See .env.example."


# Commands that run until somebody stops them.
STOPPED_BY_HAND = frozenset({"demo", "dev", "replay", "web", "worker"})


class Commands(ManagementUtility):
    """Django's commands, with garbage collection off until the command begins."""

    def fetch_command(self, subcommand: str) -> BaseCommand:
        """Return the command of this name, and exclude everything loaded by now from garbage collection."""
        command = super().fetch_command(subcommand)
        never_walk_again()
        gc.enable()
        return command


def never_walk_again() -> None:
    """Exclude all present objects from garbage collection; they stay as long as the process anyway."""
    gc.freeze()
    atexit.unregister(gc.unfreeze)
    atexit.register(gc.unfreeze)  # otherwise DuckDB's binding reports uncollected objects at exit


def run(argv: list[str]) -> None:
    """Run the command in `argv`; exit 2 with one sentence on stderr if the drive or a setting is wrong."""
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
    """Let SIGINT stop this process like Ctrl-C: a shell without job control starts background jobs that ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _refuse(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")
    sys.exit(2)


def known_did(handle: str, snapshot: Snapshot | None) -> str | None:
    """Return the DID that verified this handle, if exactly one did: a handle may have moved since."""
    if snapshot is None:
        return None
    rows = snapshot.rows("select did from contributors where handle_verified and lower(handle) = ?", [handle])
    return rows[0]["did"] if len(rows) == 1 else None


def held_did(text: str, snapshot: Snapshot | None) -> str:
    """Return the DID of a person known here. Raises CommandError (2) if it is neither a DID nor a known handle.

    The network is not asked: a person to erase or export was proven here before, or is named by DID.
    """
    if text.startswith("did:"):
        try:
            return parse_did(text)
        except MalformedDid as problem:
            raise CommandError(str(problem), returncode=2) from problem
    handle = parse_handle(text)
    if handle is None:
        raise CommandError(f"{text!r} is not a handle (such as ana.example.com) or a DID.", returncode=2)
    did = known_did(handle, snapshot)
    if did is None:
        raise CommandError(f"Nobody here has proven the handle {handle}: give the DID.", returncode=2)
    return did
