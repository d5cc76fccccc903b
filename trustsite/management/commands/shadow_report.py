"""`manage.py shadow_report`: print pull requests that would have been fast lane, and how people decided on them."""

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.store.snapshots import Snapshot, SnapshotReader
from scoring.formatting import visible
from scoring.pipeline.lane_history import DAYS
from scoring.queries import read

HEADING = f"{'day':<12}{'would be fast':>14}{'merged as sent':>16}{'changed':>9}{'closed':>8}{'open':>6}"


class Command(BaseCommand):
    """Print the report of each watched repository, or of one, from the newest snapshot."""

    help = "Print pull requests that would have been fast lane while the lane is shut, by day and outcome."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--repo", metavar="KEY", help="only the watched repository with this key")
        parser.add_argument("--days", type=int, default=DAYS, help=f"how many days up to the newest (default {DAYS})")

    def handle(self, *args: object, repo: str | None, days: int, **options: object) -> None:
        """Print. Raises CommandError if nothing was published yet or that repository is not watched."""
        if days < 1:
            raise CommandError("--days must be 1 or more.", returncode=2)
        with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
            if snapshot is None:
                raise CommandError("Nothing is published yet: run the worker first.")
            keys = [repo] if repo else [repository.key for repository in read.watched_repositories(snapshot)]
            if not keys:
                self.stdout.write(
                    "No repository is watched yet: name one at /setup or with `manage.py add_maintainer`."
                )
            for key in keys:
                self._print(snapshot, key, days)

    def _print(self, snapshot: Snapshot, key: str, days: int) -> None:
        report = read.shadow_report(snapshot, key, days)
        if report is None:
            raise CommandError(f"No watched repository has the key {key[:200]}.")
        state = "watching: the lane is shut" if report.shadow else "the lane is not shut"
        self.stdout.write(f"{visible(report.name)} ({report.key}), {state}")
        if not report.days:
            self.stdout.write("  nothing would have been fast lane so far")
            return
        self.stdout.write(HEADING)
        for row in (*report.days, report.total):
            name = row.day.isoformat() if row.day else "all"
            counts = f"{row.would:>14,}{row.merged_as_sent:>16,}{row.changed:>9,}{row.closed:>8,}{row.still_open:>6,}"
            self.stdout.write(f"{name:<12}{counts}")
