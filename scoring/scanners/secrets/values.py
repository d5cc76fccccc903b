"""Parts of a text that look like a secret, and values that are not one: placeholders, examples, references."""

import re
from collections import Counter
from dataclasses import dataclass
from math import log2

from scoring.types import Severity

# Words that no random token contains: four given letters occur once in 25,000 tokens of 36.
_WORDS = re.compile(
    r"example|sample|placeholder|change.?me|replace|redacted|removed|dummy|fake|mock|insert|your[-_ .]|yourkey|"
    r"yourtoken|mytoken|mykey|mysecret|foobar|xxxx|\*\*\*|\.\.\.|…|-here|todo|fixme|lorem|notreal|not[-_]a[-_]|invalid|n0tr3al|"
    r"qwerty|asdf|deadbeef|cafebabe|12345678|01234567|23456789|abcdefg|bcdefgh|zyxwvu|0{6}|1{6}|a{6}|f{6}|x{4}",
    re.IGNORECASE,
)
# A value that is looked up at run time: ${VAR}, $(command), {{ template }}, <name>, %(name)s, %VAR%, #{…}.
_REFERENCE = re.compile(
    r"^<.*>$|\$\{|\$\(|^\$[A-Za-z_]|\{\{|^\{[\w.]*\}$|%\(|^%\w+%?$|#\{|<%|\$\[|^\[.*\]$|^@@?\w+@?@?$|^!\w+ |^&\w+;|"
    r"^__\w+__$|secrets\.|process\.env|os\.environ|getenv|vault:|^arn:|^ref\+|^op://|^env:"
)
# Keys that vendors publish for local emulators and documentation; their manuals contain the whole tokens.
_PUBLISHED = (
    "4eC39HqLyjWDarjtT1zdp7dc",
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq",
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPM",
    "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
    "wJalrXUtnFEMI/K7MDENG",
)


def entropy(value: str) -> float:
    """Return the Shannon entropy of the characters of a value, in bits per character; 0 for an empty one."""
    length = len(value)
    return -sum(count / length * log2(count / length) for count in Counter(value).values()) if length else 0.0


def is_placeholder(value: str) -> bool:
    """Return whether the value is clearly not a secret: an example, a reference, one repeated character."""
    if _WORDS.search(value) or _REFERENCE.search(value) or any(key in value for key in _PUBLISHED):
        return True
    return len(set(value)) <= max(3, len(value) // 16) and len(value) >= 8


def is_random(value: str, bits: float) -> bool:
    """Return whether the value has at least `bits` of entropy per character, fewer where it is short.

    A random text of n characters cannot show more than log2(n): 20 hexadecimal digits show about 3.4 of their 4 bits.
    """
    return entropy(value) >= min(bits, 0.8 * log2(max(len(value), 2)))


@dataclass(frozen=True, slots=True)
class Hit:
    """The secret is `text[start:end]`. `proven`: its own checksum shows that an issuer made it.

    `generic`: only the name that it is assigned to, or its URL, suggests that it is a secret.
    """

    rule: str
    what: str
    start: int
    end: int
    severity: Severity
    proven: bool = False
    generic: bool = False
