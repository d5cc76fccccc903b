"""The app of the pages. Keeps secret links out of the log, where Django writes the path of a refused request."""

import logging
import re

from django.apps import AppConfig

LINK_PATH = re.compile(r"(/sign-in/|/feed/|/c/[^/\s]+/(?:data|decision)/)[^/\s?]+")
LOGGERS = ("django.request", "django.security.csrf")


class HideLinks(logging.Filter):
    """Passes every record, with the secret of a link removed."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True, after removing links from the record's arguments."""
        if isinstance(record.args, tuple):
            record.args = tuple(_without_link(argument) for argument in record.args)
        return True


def _without_link(argument: object) -> object:
    return LINK_PATH.sub(r"\1(hidden)", argument) if isinstance(argument, str) else argument


def hide_links() -> None:
    """Add the filter to Django's loggers of refused requests; repeating it is harmless."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(existing, HideLinks) for existing in logger.filters):
            logger.addFilter(HideLinks())


class TriageConfig(AppConfig):
    """Pages, JSON, and the accounts of the people who use them."""

    name = "triage"

    def ready(self) -> None:
        """Install the filter before the first request can be refused and logged."""
        hide_links()
