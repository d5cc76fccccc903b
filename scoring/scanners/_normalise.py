"""Fold texts as a model would read them: without disguise, in lower case, wrapped lines joined.

Blocks of related lines become one line each, with the way back from an offset to the original line. Characters that a
reader cannot see or mistakes for others are named here, for the scanner that reports them.
"""

import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Literal
from urllib.parse import unquote

from scoring.diff.change import FileChange, Line
from scoring.diff.paths import has_role, is_lock_file
from scoring.scanners._text import said
from scoring.scanners.submission import Submission

BIDI = "\u202a-\u202e\u2066-\u2069"  # embeddings, overrides and isolates: they reorder what a reader sees
MARKS = "\u061c\u200e\u200f"  # single marks of direction
ZERO_WIDTH = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0"
)
TAGS = "\U000e0000-\U000e007f"
SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
LINE_BREAKS = "\x0b\x1c-\x1e\x85\u2028\u2029"  # some readers break lines at these, compilers do not
CONTROLS = "\x00-\x08\x0d\x0e-\x1b\x1f\x7f\x80-\x84\x86-\x9f"

HIDDEN = re.compile(f"[{BIDI}{MARKS}{ZERO_WIDTH}{TAGS}{SELECTORS}{LINE_BREAKS}{CONTROLS}]")
_STRIPPED = re.compile(f"[{BIDI}{MARKS}{ZERO_WIDTH}{SELECTORS}\x00-\x08\x0e-\x1f\x7f]")
_SELECTED = re.compile(f"[{SELECTORS}]{{4,}}")
_TAGGED = re.compile(f"[{TAGS}]+")
_NAMES = {"\x0d": "CARRIAGE RETURN", "\x1b": "ESCAPE", "\x08": "BACKSPACE", "\x00": "NULL", "\x7f": "DELETE"}
# Letters of other scripts that look like a Latin one in most typefaces, from the confusables of Unicode TR 39.
_SCRIPTS = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "OSMANYA", "GEORGIAN")


def name(character: str) -> str:
    """Return the number and the Unicode name of a character."""
    known = _NAMES.get(character) or unicodedata.name(character, "unnamed character")
    return f"{known} (U+{ord(character):04X})"


def shown(text: str) -> str:
    """Write every hidden character as <U+…>, so that a quote cannot change the direction of other text."""
    return HIDDEN.sub(lambda match: f"<U+{ord(match[0]):04X}>", text)


def revealed(text: str) -> str:
    """Return the text as a model reads it: tag characters as ASCII, without zero-width characters."""
    plain = _TAGGED.sub(lambda run: "".join([" ", *(chr(ord(tag) - 0xE0000) for tag in run[0]), " "]), text)
    plain = _SELECTED.sub(_spelled, plain)
    return _STRIPPED.sub("", plain)


def _spelled(run: re.Match[str]) -> str:
    """Decode a run of variation selectors, one byte each: a known way to hide text."""
    numbers = (ord(selector) for selector in run[0])
    data = bytes(number - 0xFE00 if number < 0x10000 else number - 0xE0100 + 16 for number in numbers)
    return f" {data.decode('utf-8', 'replace')} "


@cache
def confusables() -> dict[int, str]:
    """Return the letters that look like one ASCII letter, for `str.translate`. Takes 40 ms once."""
    from confusable_homoglyphs.confusables import confusables_data

    table = {}
    for character, likes in confusables_data.items():
        letters = [like["c"] for like in likes if like["c"].isascii() and like["c"].isalpha()]
        if len(character) == 1 and letters and character.isalpha() and not character.isascii():
            table[ord(character)] = letters[0]
    return table


def is_foreign_letter(character: str) -> bool:
    """Return whether a letter of another script looks like a Latin one."""
    return ord(character) in confusables() and unicodedata.name(character, "").startswith(_SCRIPTS)


Carrier = Literal["code", "docs", "name", "talk"]
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|u\{([0-9a-fA-F]{1,6})\}|[nrt])")
_QUOTE_ESCAPE = re.compile(r"\\([\"'`/\\])")
_PERCENT = re.compile(r"%[0-9a-fA-F]{2}")
_CONCATENATED = re.compile(r"[\"'`]\s{0,8}(?:\+|\.\.|<>|&|~|\|\|)\s{0,8}[furb]?[\"'`]")
_LEADER = re.compile(
    r"^\s*(?:#+!?|//+!?|/\*+!?|\*+/?(?!\*)|--+|;+|%+|>+|\"\"\"|'''|<!--|\|\s|rem\s|dnl\s)\s*", re.IGNORECASE
)
_TRAILERS = ("*/", "-->", "\\")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_LONG_NAME = re.compile(r"[A-Za-z]{18,200}")
_SPACED = re.compile(r"(?<![^\W_])(?:[^\W\d_][ .\-_*]){4,}[^\W\d_](?![^\W_])")
_DIGIT_IN_WORD = re.compile(r"(?<=[a-z])[013457](?=[a-z])")
_LETTERS = {"0": "o", "1": "i", "3": "e", "4": "a", "5": "s", "7": "t"}
_ACCENTED = re.compile("([A-Za-z])[\u0300-\u036f]+")
_WORD = re.compile(r"[^\W\d_]+")
_FOREIGN_MARK = re.compile(r"[^\w\x00-\x7f\u0300-\u036f]")
_UNSPACED = re.compile("[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]")


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of a folded line. `text` is the line as written."""

    carrier: Carrier
    text: str
    file: FileChange | None = None
    line: Line | None = None


@dataclass(slots=True)
class Folded:
    """Blocks as lines of UTF-8. `starts[i]` is the byte at which the text of `sources[i]` begins."""

    text: bytes = b""
    starts: list[int] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)

    def index(self, offset: int) -> int:
        """Return the number of the source, from 0, at this byte."""
        return max(bisect_right(self.starts, offset) - 1, 0)


def folded(submission: Submission) -> Folded:
    """Fold file names, added lines of every file but lock files, and the texts beside the change."""
    result, parts, size = Folded(), [], 0
    for block in _blocks(submission):
        for part, source in _joined(block):
            result.starts.append(size)
            result.sources.append(source)
            data = part.encode("utf-8", "replace")
            parts.append(data)
            size += len(data)
        parts.append(b"\n")
        size += 1
    result.text = b"".join(parts)
    return result


def _blocks(submission: Submission) -> Iterator[list[Source]]:
    """Yield lines that belong together: consecutive added lines, a whole text beside the change, a file name."""
    for file in submission.change.files:
        yield [Source("name", file.path, file)]
        if is_lock_file(file.path):
            continue
        carrier: Carrier = "docs" if has_role(file.path, "docs") else "code"
        for hunk in file.hunks:
            block: list[Source] = []
            for line in hunk.lines:
                if line.mark == "+":
                    block.append(Source(carrier, line.text, file, line))
                elif line.mark == " " and block:
                    yield block
                    block = []
            if block:
                yield block
    for text in said(submission):
        yield [Source("talk", line) for line in text.split("\n")]


def _joined(block: list[Source]) -> Iterator[tuple[str, Source]]:
    """Yield each line of a block with its joint to the next: a blank, or nothing where a word or a script continues."""
    for number, source in enumerate(block):
        text = fold(source.text)
        if number + 1 < len(block) and text:
            if text.endswith("-") and text[-2:-1].isalpha():
                text = text[:-1]
            elif not _UNSPACED.match(text[-1]):
                text += " "
        yield text, source


def fold(text: str) -> str:
    """Fold one line: decode escapes, turn look-alikes and accents into Latin letters, remove comment marks."""
    if "\\" in text:
        text = _ESCAPE.sub(_unescaped, _QUOTE_ESCAPE.sub(r"\1", text))
    if "&" in text:
        text = html.unescape(text)
    if _PERCENT.search(text):
        text = unquote(text, errors="replace")
    text = _CONCATENATED.sub("", text)
    if not text.isascii():
        text = _latin(text)
    text = _LONG_NAME.sub(lambda match: _CAMEL.sub(" ", match[0]), text)
    text = _without_comment_marks(text.replace("\n", " ").replace("_", " ")).casefold()
    text = _SPACED.sub(lambda match: re.sub(r"[ .\-_*]", "", match[0]), text)
    return _DIGIT_IN_WORD.sub(lambda match: _LETTERS[match[0]], text)


def _without_comment_marks(text: str) -> str:
    text = _LEADER.sub("", text, count=1).rstrip()
    for trailer in _TRAILERS:
        text = text.removesuffix(trailer)
    return text.rstrip()


def _unescaped(match: re.Match[str]) -> str:
    digits = match[1] or match[2] or match[3] or match[4]
    if digits is None:
        return " "
    number = int(digits, 16)
    return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else " "


def _latin(text: str) -> str:
    """Drop zero-width characters and accents, and turn compatible forms and words that only look Latin into Latin."""
    text = unicodedata.normalize("NFKC", revealed(text))
    text = _WORD.sub(_as_latin, _FOREIGN_MARK.sub(" ", text))
    return unicodedata.normalize("NFC", _ACCENTED.sub(r"\1", unicodedata.normalize("NFD", text)))


def _as_latin(match: re.Match[str]) -> str:
    """Replace a word whose letters all look Latin; a real word of another script stays."""
    if match[0].isascii():
        return match[0]
    plain = match[0].translate(confusables())
    return plain if plain.isascii() else match[0]
