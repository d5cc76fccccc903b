"""What a scanner says about a change: one finding, with the line that a person can look up. Pure data."""

from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2s
from typing import Literal

FlagType = Literal[
    "subtle_bug", "slop", "security", "secret_leak", "license", "intent_mismatch", "untested", "oversized", "other"
]
QUOTE_LENGTH = 200  # characters of the quoted line that are kept
PATH_LENGTH = 200  # characters of a path that are kept; a longer one is cut in the middle


class Severity(StrEnum):
    """How much a finding weighs. The floor that it puts under the content risk: low .10, med .40, high .80."""

    LOW = "low"
    MED = "med"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class Finding:
    """One observation of one scanner, certain enough to be shown with its line.

    `scanner` is the id of the scanner, `rule` the rule within it. `file` is a path of the change, None where the
    finding concerns the title, the description or the change as a whole. `line` counts from 1 in the new file, in the
    old one where `removed` is true; None: the whole file. `quote` is that line, cut at QUOTE_LENGTH; a secret is
    masked in it. `explanation` is one plain sentence that says what is wrong and what to look at; it holds no text of
    the change but names that the scanner itself checked.
    """

    scanner: str
    rule: str
    type: FlagType
    severity: Severity
    explanation: str
    file: str | None = None
    line: int | None = None
    quote: str = ""
    removed: bool = False


def short_path(path: str) -> str:
    """The path in at most PATH_LENGTH characters: a long one as its two ends with a hash of all of it between them."""
    if len(path) <= PATH_LENGTH:
        return path
    middle = f"…{blake2s(path.encode('utf-8', 'replace'), digest_size=4).hexdigest()}…"
    end = (PATH_LENGTH - len(middle)) // 2
    return path[:end] + middle + path[-end:]
