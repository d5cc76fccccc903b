"""Texts without the people whom their own words name: lines of a file, words between people, mentions."""

import re

from scoring.identities.known import KnownPeople
from scoring.identities.placeholders import Placeholders
from scoring.identities.rules import CODE_RULES, HANDLE_RULES, MENTION_RULES, WORD_MENTION_RULES, WORD_RULES

_PROSE = (".md", ".rst", ".txt", ".adoc", ".org")
_COMMENT = re.compile(r"(?:#|//|/\*|^[ \t]{0,80}\*|--|<!--)[^\n]{1,2000}", re.MULTILINE)


def scrub_code(text: str, path: str, known: KnownPeople, places: Placeholders) -> str:
    """Lines of a file; their number stays. Mentions are looked for in comments of code, anywhere in prose."""
    text = known.scrub(CODE_RULES.scrub(text, places), places)
    text = HANDLE_RULES.scrub(text, places)
    if path.lower().endswith(_PROSE):
        return MENTION_RULES.scrub(text, places)
    return _COMMENT.sub(lambda match: MENTION_RULES.scrub(match[0], places), text) if "@" in text else text


def scrub_words(text: str, known: KnownPeople, places: Placeholders) -> str:
    """A title, a description, a message or a discussion, where a date and any mention name people too."""
    return WORD_MENTION_RULES.scrub(known.scrub(WORD_RULES.scrub(text, places), places), places)
