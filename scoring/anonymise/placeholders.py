"""Placeholders such as <email-1>: the same text has the same one, and none tells what it stands for."""

import re
from collections import Counter

_PLACEHOLDER = re.compile(
    r"<(?:at-uri|avatar|badge|change-id|did|email|handle|host|name|person|pgp|ssh-key|standing|time|url|user)-[0-9]{1,9}>"
)
_BESIDE = " \t\r,;.:-/()[]{}\"'*&"  # what may stand between or behind placeholders that are all of a value


class Placeholders:
    """Hands out placeholders, numbered per kind in the order in which their texts come; one object a submission."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._kinds: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()  # replacements per kind

    def put(self, kind: str, text: str) -> str:
        """Return what stands for a text; a text that is nothing but placeholders stands for itself."""
        if not _PLACEHOLDER.sub("", text).strip(_BESIDE):
            return text
        key = kind, " ".join(text.casefold().split())
        if key not in self._numbers:
            self._kinds[kind] += 1
            self._numbers[key] = self._kinds[kind]
        self.counts[kind] += 1
        return f"<{kind}-{self._numbers[key]}>"
