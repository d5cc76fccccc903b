"""`manage.py why`: print a past decision on a pull request with its inputs, and judge it again from them."""

import sys
from datetime import UTC, datetime
from json import dumps

import msgspec
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.store.snapshots import SnapshotReader
from scoring.queries.past_decisions import Replayed, replay_decision, why_json, why_lines


class Command(BaseCommand):
    """Read the newest snapshot of the drive's store, of the demo's or of a replay's; change nothing."""

    help = (
        "Print the decision on a pull request with all its inputs, and judge it again from them. "
        "Exit status 0: the same lane and reasons come out; 1: not; 2: there is no such decision."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("uri", metavar="PULL_URI", help="at:// address of its record")
        parser.add_argument(
            "--as-of", type=_moment, metavar="TIME", help="for example 2026-11-20T12:00Z (default: now)"
        )
        parser.add_argument("--json", action="store_true", help="one JSON document instead of text")
        group = parser.add_mutually_exclusive_group()
        group.add_argument("--demo", action="store_true", help="the demo's store")
        group.add_argument("--replay", metavar="DIR", help="the store that a replay of DIR keeps")

    def handle(self, *args: object, uri: str, as_of: datetime | None, json: bool, **options: object) -> None:
        """Print it. Raises CommandError (2) if nothing was decided by that time."""
        replayed = _replay(uri, as_of or datetime.max)  # a recording's present may lie anywhere
        if json:
            document = msgspec.to_builtins(why_json(replayed))
            self.stdout.write(dumps(document, indent=2))  # in ASCII: names come from the network
        else:
            self.stdout.write("\n".join(why_lines(replayed)))
        if not replayed.is_same:
            sys.exit(1)


def _replay(uri: str, moment: datetime) -> Replayed:
    with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
        if snapshot is None:
            raise CommandError("Nothing was published there yet: run the worker, demo or replay first.", returncode=2)
        replayed = replay_decision(snapshot, uri, moment)
    if replayed is None:
        raise CommandError(f"Nothing had been decided about {uri[:300]!r} by then.", returncode=2)
    return replayed


def _moment(text: str) -> datetime:
    """Parse an ISO 8601 date or time as naive UTC; without a zone it is UTC. Raises ValueError, shown by argparse."""
    moment = datetime.fromisoformat(text)
    try:
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    except OverflowError as error:
        raise ValueError(f"{text} lies outside the calendar") from error
