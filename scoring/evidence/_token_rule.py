"""A rule for one kind of token, and the two forms of its pattern."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import re2

from scoring.content.finding import Severity
from scoring.evidence._placeholders import is_placeholder, is_random

WORD = r"0-9A-Za-z_\-"
HEX = 2.6  # bits a character: 32 random hexadecimal digits show 3.5, a date or a counter below 2.5
_PREFIX = re.compile(r"[0-9A-Za-z_-]+(?![0-9A-Za-z_?*+{|-])")


@dataclass(frozen=True, slots=True)
class TokenRule:
    """One kind of token. `keywords` are lower case; where none stands in the text, the pattern cannot match.

    The first group of the pattern is the token. `check` refuses what the issuer cannot have made; a token that
    `proves` itself by a checksum is real wherever it stands. `bits` is the least entropy a character. The pattern of a
    rule that `spans` lines needs the linear engine.
    """

    id: str
    what: str
    keywords: tuple[str, ...]
    pattern: str
    check: Callable[[str], bool] | None = None
    proves: bool = False
    bits: float = 3.0
    severity: Severity = Severity.HIGH
    spans: bool = False

    def find(self, text: str, lower: str) -> Iterator[tuple[int, int]]:
        """Find tokens of this kind in the text, which is also given in lower case."""
        if not any(keyword in lower for keyword in self.keywords):
            return
        for match in (_linear if self.spans else _backtracking)(self.pattern).finditer(text):
            secret = match[1]
            if is_random(secret, self.bits) and (self.proves or not is_placeholder(secret)):
                yield match.span(1)


@cache
def _backtracking(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@cache
def _linear(pattern: str) -> "re2._Regexp":
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


def shape(pattern: str, characters: str = WORD) -> str:
    """Put the pattern between characters that cannot belong to the token; each run of them is tried once.

    A literal start is looked for first and what stands before it second: that is 40 times as fast on a large text.
    """
    prefix = _PREFIX.match(pattern)
    if prefix and "|" not in re.sub(r"\(.*?\)|\[.*?\]", "", pattern):
        start = prefix[0]
        return rf"({start}(?<![{characters}]{start}){pattern[len(start) :]})(?![{characters}=])"
    return rf"(?<![{characters}])({pattern})(?![{characters}=])"


def named(name: str, value: str, role: str = "key|token|secret|password|auth") -> str:
    """Match a shapeless value that is assigned to `role`, with the issuer's name before it on this line or two up.

    Nested settings name the issuer a line above: `twilio:`, then `auth_token: …`.
    """
    return (
        rf"(?i:{name})(?:[^\n]{{0,60}}\n){{0,2}}[^\n]{{0,60}}?(?i:{role})(?i:[a-z0-9_]{{0,16}})[\"'`\]]{{0,2}}\s{{0,3}}"
        rf"(?::=|=>|=|:|,|\()\s{{0,3}}[\"'`]?({value})(?:[^{WORD}/+=]|$)"
    )


def rule(
    identity: str,
    what: str,
    keywords: str,
    pattern: str,
    check: Callable[[str], bool] | None = None,
    *,
    proves: bool = False,
    bits: float = 3.0,
    severity: Severity = Severity.HIGH,
) -> TokenRule:
    """Make a rule from one row of a table; keywords are separated by blanks."""
    spans = pattern.startswith("(?i:")
    return TokenRule(identity, what, tuple(keywords.split()), pattern, check, proves, bits, severity, spans)
