"""`manage.py thresholds`: print how a threshold of the fast lane would have done on settled pull requests."""

import msgspec
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from scoring.certificates.threshold_queries import QuestionProblem, answer_query
from scoring.formatting import percent_in_full


class Command(BaseCommand):
    """Read the serving model and its table; change nothing."""

    help = (
        "Answer a question about thresholds from the settled pull requests that the serving model scored, for example: "
        "maximum lane share at false-approval rate <= 0.05. Exit status 2: not a question, or no model yet."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "query", nargs="+", metavar="QUERY", help="maximum|minimum STATISTIC at STATISTIC <=|>= NUMBER"
        )
        parser.add_argument("--json", action="store_true", help="the answer as one JSON object")

    def handle(self, *args: object, query: list[str], json: bool, **options: object) -> None:
        """Print the answer. Raises CommandError (2) with a sentence if there is none."""
        try:
            answer = answer_query(settings.MODEL_DIR, " ".join(query), settings.FALSE_APPROVAL_DELTA)
        except QuestionProblem as problem:
            raise CommandError(str(problem), returncode=2) from problem
        if json:
            self.stdout.write(msgspec.json.encode(answer).decode())
            return
        if answer.threshold is None:
            self.stdout.write(f"No threshold: of {answer.pull_requests:,.0f} settled pull requests none meets it.")
            return
        self.stdout.write(
            f"{percent_in_full(answer.threshold)} by {answer.label}, "
            f"on {answer.pull_requests:,.0f} settled pull requests"
        )
        for name, value in answer.statistics.items():
            self.stdout.write(f"  {name:<22}{value:,.4g}")
        self.stdout.write("The best of many thresholds promises nothing; only a certificate does.")
