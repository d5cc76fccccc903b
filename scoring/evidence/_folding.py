"""Folds texts as a model would read them: without disguise, in lower case, wrapped lines joined.

Blocks of lines that belong together become one line each, with the way back from an offset to the line that it came
from.
"""

import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import unquote

from scoring.content.change import FileChange, Line
from scoring.content.paths import has_role, is_lock_file
from scoring.content.submission import Submission
from scoring.evidence._added_text import said
from scoring.evidence._unicode import confusables, revealed

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
    """The origin of a folded line. `text` is the line as it was written."""

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
        """Return the number of the source, from 0, that stands at this byte."""
        return max(bisect_right(self.starts, offset) - 1, 0)


def folded(submission: Submission) -> Folded:
    """Fold file names, added lines of every file but lock files, and the talk beside the change."""
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
    """Yield lines that are read together: consecutive added lines, a whole text of the talk, a file name."""
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
    """Yield each line of a block with its joint to the next: a blank, or nothing where a word or a script goes on."""
    for number, source in enumerate(block):
        text = fold(source.text)
        if number + 1 < len(block) and text:
            if text.endswith("-") and text[-2:-1].isalpha():
                text = text[:-1]
            elif not _UNSPACED.match(text[-1]):
                text += " "
        yield text, source


def fold(text: str) -> str:
    """Fold one line: decode escapes, turn look-alikes and accents into Latin letters, take marks of comments off."""
    if "\\" in text:
        text = _ESCAPE.sub(_unescaped, _QUOTE_ESCAPE.sub(r"\1", text))
    if "&" in text:
        text = html.unescape(text)
    if _PERCENT.search(text):
        text = unquote(text, errors="replace")
    text = _CONCATENATED.sub("", text)
    if not text.isascii():
        text = _latin(text)
    text = _LONG_NAME.sub(lambda found: _CAMEL.sub(" ", found[0]), text)
    text = _without_comment_marks(text.replace("\n", " ").replace("_", " ")).casefold()
    text = _SPACED.sub(lambda found: re.sub(r"[ .\-_*]", "", found[0]), text)
    return _DIGIT_IN_WORD.sub(lambda found: _LETTERS[found[0]], text)


def _without_comment_marks(text: str) -> str:
    text = _LEADER.sub("", text, count=1).rstrip()
    for trailer in _TRAILERS:
        text = text.removesuffix(trailer)
    return text.rstrip()


def _unescaped(found: re.Match[str]) -> str:
    digits = found[1] or found[2] or found[3] or found[4]
    if digits is None:
        return " "
    number = int(digits, 16)
    return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else " "


def _latin(text: str) -> str:
    """Drop characters without width and accents, make compatible forms plain and words that only look Latin Latin."""
    text = unicodedata.normalize("NFKC", revealed(text))
    text = _WORD.sub(_as_latin, _FOREIGN_MARK.sub(" ", text))
    return unicodedata.normalize("NFC", _ACCENTED.sub(r"\1", unicodedata.normalize("NFD", text)))


def _as_latin(found: re.Match[str]) -> str:
    """Replace a word whose every letter has a Latin twin; a real word of another script stays."""
    if found[0].isascii():
        return found[0]
    plain = found[0].translate(confusables())
    return plain if plain.isascii() else found[0]
