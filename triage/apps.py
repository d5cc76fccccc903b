"""The app that shows."""

from django.apps import AppConfig

from triage.redact import hide_links


class TriageConfig(AppConfig):
    """Pages, JSON, and the accounts of the people who use them."""

    name = "triage"

    def ready(self) -> None:
        """Before the first request can be refused and logged."""
        hide_links()
