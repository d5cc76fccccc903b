"""The patterns of reviewer_phrases.toml, compiled. Pure but for reading that file, which stands beside this one."""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import re2

# Folded text holds letters and digits of Latin in lower case; every other letter lies beyond ASCII.
_GAP = r"(?:[^a-z0-9\x{80}-\x{10ffff}\n]+)"
_WORDS = rf"{_GAP}(?:[a-z0-9'\x{{80}}-\x{{10ffff}}]+{_GAP}){{0,4}}"
_REST = r"[a-z\x{80}-\x{10ffff}]*"
MEMORY = 64 << 20  # bytes that one compiled concept may take


@cache
def concept(name: str, ascii_only: bool) -> Any:
    """Compile the pattern of one kind of phrase; for ASCII text without other scripts."""
    table = _table()
    alternatives = [rf"\b(?:{_words(phrase)})\b" for phrase in _phrases(table["latin"].get(name, ""))]
    if not ascii_only:
        alternatives += [_words(phrase) for phrase in _phrases(table["other"].get(name, ""))]
    alternatives += _phrases(table["shapes"].get(name, ""))
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY
    return re2.compile("|".join(f"(?:{alternative})" for alternative in alternatives), options)


@cache
def _table() -> dict[str, dict[str, str]]:
    return tomllib.loads(Path(__file__).with_name("reviewer_phrases.toml").read_text(encoding="utf-8"))


def _phrases(text: str) -> list[str]:
    """Return the paragraphs of a text, each on one line."""
    return [phrase.replace("\n", "") for phrase in text.strip("\n").split("\n\n") if phrase]


def _words(text: str) -> str:
    """Return the notation of the file as a regular expression."""
    for name, words in _table()["words"].items():
        text = text.replace(f"{{{name}}}", words.replace("\n", ""))
    text = re.sub(r"(?<=[^\W\d_])\*", lambda _: _REST, text)
    return text.replace("…", "\0").replace(" ", _GAP).replace("\0", _WORDS)
