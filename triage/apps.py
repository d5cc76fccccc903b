"""The app of the pages. Keeps secret links out of the log, where Django writes the path of a refused request."""

import logging
import re

from django.apps import AppConfig

LINK_PATH = re.compile(r"(/sign-in/|/feed/|/c/[^/\s]+/(?:data|decision)/)[^/\s?]+")
LOGGERS = ("django.request", "django.security.csrf")


class HideLinks(logging.Filter):
    """Lets every record through, with the secret of a link struck out."""

    def filter(self, record: logging.LogRecord) -> bool:
        """True; the record's arguments are replaced where a link is among them."""
        if isinstance(record.args, tuple):
            record.args = tuple(_hidden(argument) for argument in record.args)
        return True


def _hidden(argument: object) -> object:
    return LINK_PATH.sub(r"\1(hidden)", argument) if isinstance(argument, str) else argument


def hide_links() -> None:
    """Put the filter before Django's loggers of refused requests; again is harmless."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(each, HideLinks) for each in logger.filters):
            logger.addFilter(HideLinks())


class TriageConfig(AppConfig):
    """Pages, JSON, and the accounts of the people who use them."""

    name = "triage"

    def ready(self) -> None:
        """Before the first request can be refused and logged."""
        hide_links()
