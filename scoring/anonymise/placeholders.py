"""Placeholders such as <email-1>: equal texts get the same one, and none reveals its text."""

import re
from collections import Counter

_PLACEHOLDER = re.compile(
    r"<(?:at-uri|avatar|badge|change-id|did|email|handle|host|name|person|pgp|ssh-key|standing|time|url|user)-[0-9]{1,9}>"
)
_BESIDE = " \t\r,;.:-/()[]{}\"'*&"  # may be between or after placeholders in a value that holds nothing else


class Placeholders:
    """Assigns placeholders, numbered per kind in order of appearance; one object a submission."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._kinds: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()  # replacements per kind

    def put(self, kind: str, text: str) -> str:
        """Return the placeholder of a text; a text of placeholders alone stays as it is."""
        if not _PLACEHOLDER.sub("", text).strip(_BESIDE):
            return text
        key = kind, " ".join(text.casefold().split())
        if key not in self._numbers:
            self._kinds[kind] += 1
            self._numbers[key] = self._kinds[kind]
        self.counts[kind] += 1
        return f"<{kind}-{self._numbers[key]}>"
