"""`manage.py check_models`: ask the API about the configured models, before a review fails."""

import time

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from scoring.review.anthropic_client import Claude
from scoring.review.settings import ModelReport, access_from_settings, check_model

ROLES = (("CLAUDE_MODEL", "reads"), ("CLAUDE_HARD_MODEL", "reads hard cases"), ("CLAUDE_SCREEN_MODEL", "screens"))


class Command(BaseCommand):
    """Ask for each model if it exists, when it retires and if it accepts the request of a review."""

    help = "Ask the Anthropic API which of the configured models exist, when they retire and what they accept (free)."
    requires_system_checks = ()

    def handle(self, *args: object, **options: object) -> None:
        """Print one line a model. Raises CommandError if one cannot review, or no key is set."""
        if not settings.ANTHROPIC_API_KEY:
            raise CommandError("ANTHROPIC_API_KEY is not set: only the scanners review.", returncode=2)
        claude = Claude(access_from_settings(), time.sleep)
        reports = [
            check_model(claude, getattr(settings, name), role) for name, role in ROLES if getattr(settings, name)
        ]
        for report in reports:
            self.stdout.write(_line(report))
        failed = [report.model for report in reports if not report.serves]
        if failed:
            raise CommandError(f"{', '.join(failed)} cannot review: set other models, or wait.", returncode=1)


def _line(report: ModelReport) -> str:
    end = f", retires {report.retires_on}" if report.retires_on else ""
    window = f", {report.input_tokens:,} tokens" if report.input_tokens else ""
    state = f"{report.lifecycle}{end}{window}" if report.lifecycle else report.problem
    accepts = "" if not report.lifecycle else f"; {report.problem or 'accepts the request of a review'}"
    return f"{report.model} ({report.role}): {state}{accepts}; {report.temperature}"
