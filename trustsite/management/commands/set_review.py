"""`manage.py set_review`: choose the reviewer for the changes of a watched repository."""

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ingest.records.watched import REVIEWS
from trustsite.worker.handover import hand_over_job

MEANINGS = {
    "off": "only the scanners read; their findings count, and the fast lane stays shut",
    "deterministic": "only the scanners review",
    "claude": "diffs without names go to Anthropic where the cost gate allows it",
}


class Command(BaseCommand):
    """Make the owner of the store change the review of repositories; open pull requests follow within a minute."""

    help = "Choose who reads the changes of a watched repository: " + "; ".join(
        f"{name}: {meaning}" for name, meaning in MEANINGS.items()
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("review", metavar="MODE", help=", ".join(REVIEWS))
        parser.add_argument("repositories", metavar="REPO", nargs="+", help="OWNER/NAME, DID or at-uri of its record")

    def handle(self, *args: object, review: str, repositories: list[str], **options: object) -> None:
        """Print the new state. Raises CommandError, with nothing changed, if a repository is not watched."""
        if review not in REVIEWS:
            modes = f"{', '.join(REVIEWS[:-1])} or {REVIEWS[-1]}"
            raise CommandError(
                f"{review[:200]!r} is not a MODE: write {modes} first, then the repositories.", returncode=2
            )
        hand_over_job("set_review", {"repositories": repositories, "review": review})
        self.stdout.write(f"Review of {', '.join(repositories)} is {review} from now on: {MEANINGS[review]}.")
        if review == "claude" and not settings.ANTHROPIC_API_KEY:
            self.stderr.write("ANTHROPIC_API_KEY is not set: until it is, only the scanners review.")
