"""The new side of a hunk as a text that a tolerant parser can read, and the way back to its lines. Pure."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from scoring.content.change import Hunk, Line
from scoring.content.whole_files import NewSide

LINE_LENGTH = 4_000  # characters: what is longer is no line that a person wrote, and is left out of the parse
DEPTH = 200  # of brackets: rules that look upwards and downwards take time in its square (.4 s at 2,000)
CONTINUED = frozenset({"shell", "config"})  # languages in which a command goes on behind a backslash or an operator
# Not behind the sign by which YAML begins a text of several lines.
GOES_ON = re.compile(r"(?:\\|&&|[^:\s]\s*\|)\s*$")
CONTINUED_LINES = 50  # of one command
BRACED = frozenset({"javascript", "go", "rust", "php", "java", "c", "csharp", "kotlin"})
TOLD_ROWS, TOLD_CHARACTERS = 30, 300  # of imports and constants that a hunk is given of others
_TOLD = re.compile(
    r"(?:from [\w.]+ import [\w, ]+$|import [\w., ]+;?$|import\b.*\bfrom\s+[\"']|const\s.*=\s*require\(|"
    r"\s*(?:(?:export|private|public|protected|internal|static|final|readonly|const|val|let|var|local|our|my|pub)\s+)*"
    r"(?:[\w<>\[\]&']+\s+)?\$?[A-Z][A-Z0-9_]{2,}\s*(?::[^=]+)?:?=\s*(?:[a-z]\w*\()?[\"'`{(\[\d].*[\"'`})\]\d]\s*[;,]?\s*$)"
)
_WORD = re.compile(r"\w+")
_CONSTANT = re.compile(r"[A-Z][A-Z0-9_]{2,}")
_IMPORTING = frozenset({"import", "from", "as", "const", "let", "var", "require"})
_BRACKET = re.compile(r"[()\[\]{}]")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_PHP_TAG = re.compile(r"<\?|\?>")
_SECTION = re.compile(r"(\s*)(async def|def|class)\s+(\w+)")
_BRACKETS = b"()[]{}"
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in _BRACKETS)


def fragment_of(hunk: Hunk, language: str, told: Sequence[str] = ()) -> NewSide:
    """Return context and added lines in order, below what is `told` elsewhere in the file and the open blocks."""
    kept: list[Line | None] = [line for line in hunk.lines if line.mark != "-"]
    texts = [_clean(line.text) if line is not None else "" for line in kept]
    opened = [*_opened(texts, _clean(hunk.section), language)]
    tags = 1 if opened[:1] == ["<?php"] else 0
    opened = [*opened[:tags], *told, *opened[tags:]]
    closed = [_missing_brackets("\n".join([*opened, *texts]))] if language in BRACED else []
    return NewSide("\n".join([*opened, *texts, *closed, ""]), (*(None for _ in opened), *kept, *(None for _ in closed)))


def told_elsewhere(hunks: Sequence[Hunk], hunk: Hunk) -> list[str]:
    """Return the imports and constants of one line that other hunks of a file hold and this one names."""
    words = {word for line in hunk.lines if line.mark != "-" for word in _WORD.findall(line.text[:LINE_LENGTH])}
    lines = (line for one in hunks if one is not hunk for line in one.lines if line.mark != "-")
    short = (line.text for line in lines if len(line.text) <= TOLD_CHARACTERS and _TOLD.match(line.text))
    return [_clean(text).strip() for text in islice((text for text in short if _names(text, words)), TOLD_ROWS)]


def _names(text: str, words: set[str]) -> bool:
    """Return whether an import or a constant gives a name that stands among these words."""
    given = _CONSTANT.findall(text.partition("=")[0]) or _WORD.findall(text)
    return not words.isdisjoint(word for word in given if word not in _IMPORTING)


def _opened(texts: list[str], section: str, language: str) -> list[str]:
    """Return the rows that have to stand above a hunk: tag, function that git names for it, blocks."""
    if language == "python":
        return _python_blocks(texts, section)
    tag = _php_tag(texts) if language == "php" else []
    return [*tag, section] if language in BRACED and section.rstrip().endswith("{") else tag


def _php_tag(texts: list[str]) -> list[str]:
    """Return the tag that has to stand above code that begins within a block of PHP."""
    first = _PHP_TAG.search("\n".join(texts))
    return [] if first and first[0] == "<?" else ["<?php"]


def _missing_brackets(text: str) -> str:
    """Return what closes the brackets that a text leaves open, which a parser would else take for an error.

    Brackets in strings and comments count too; one closing bracket too many does no harm.
    """
    stack: list[str] = []
    for bracket in _BRACKET.findall(text):
        if bracket in _CLOSING:
            stack.append(_CLOSING[bracket])
        elif stack and stack[-1] == bracket:
            stack.pop()
    return "".join(reversed(stack[-DEPTH:]))


def cleaned(side: NewSide) -> NewSide:
    """Return the new side of a whole file as the parser takes it, row by row."""
    return NewSide("\n".join(_clean(text) for text in side.text.split("\n")), side.lines)


def continued(lines: list[Line]) -> list[Line]:
    """Join each command that is written over several lines into one, with the number of its first line."""
    commands: list[list[Line]] = []
    is_open = False
    for line in lines:
        if not (is_open and line.new == (commands[-1][-1].new or 0) + 1 and len(commands[-1]) < CONTINUED_LINES):
            commands.append([])
        commands[-1].append(line)
        is_open = GOES_ON.search(line.text[-40:]) is not None
    return [_as_one(command) for command in commands if len(command) > 1]


def _as_one(command: list[Line]) -> Line:
    texts = [line.text.strip().removesuffix("\\") for line in command]
    return replace(command[0], text=" ".join(texts)[:LINE_LENGTH])


def is_too_deep(text: str) -> bool:
    """Return whether brackets nest deeper than DEPTH, counting those in strings and comments too."""
    depth = 0
    for bracket in text.encode("utf-8", "replace").translate(None, _NO_BRACKETS):
        depth = depth + 1 if bracket in b"([{" else max(depth - 1, 0)
        if depth > DEPTH:
            return True
    return False


def _clean(text: str) -> str:
    if len(text) > LINE_LENGTH:
        return ""
    return text.replace("\r", "").encode("utf-8", "replace").decode().replace("\0", " ")


def _python_blocks(texts: list[str], section: str) -> list[str]:
    """Return heads of the blocks around the first line, outermost first: one for each depth that later lines return to.

    `section` is the function that git names for the hunk: it stands above where the first line is deeper than it.
    """
    found: list[str] = []
    lowest = first = None
    for text in texts:
        bare = text.lstrip()
        if not bare or bare.startswith("#"):
            continue
        indent = len(text) - len(bare)
        first = indent if first is None else first
        if lowest is not None and indent < lowest:
            found.append(" " * indent + _head(bare))
        lowest = indent if lowest is None else min(lowest, indent)
    if lowest:
        found.append("if True:")
    return _below(found[::-1], section, first or 0)


def _below(heads: list[str], section: str, first: int) -> list[str]:
    """Put the head of the function around the first line among those of the blocks."""
    named = _SECTION.match(section)
    if named is None or len(named[1]) >= first:
        return heads
    indent = len(named[1])
    head = section if section.rstrip().endswith(":") else f"{named[1]}{named[2]} {named[3]}():"
    above = [one for one in heads if len(one) - len(one.lstrip()) < indent]
    deeper = [one for one in heads if len(one) - len(one.lstrip()) > indent]
    same = [one for one in heads if len(one) - len(one.lstrip()) == indent and one.strip() != "if True:"]
    return [*above, *(["if True:"] if indent and not above else []), *same, *([] if same else [head]), *deeper]


def _head(line: str) -> str:
    """Return the head that a line needs above it: `except` follows a `try`, `else` an `if`."""
    return "try:" if line.startswith(("except", "finally")) else "if True:"
