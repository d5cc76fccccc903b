"""Reads values with their keys from a part of a TOML or JSON file, without the lines above the part.

A parser of whole files cannot read a hunk. These readers take tokens line by line, remember the opened keys, and give
each value with its path from there. Both take linear time for any text.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from scoring.diff.budget import spend
from scoring.diff.change import Line

DEPTH = 100  # of nested brackets that are distinguished
_JSON = re.compile(r'"(?:[^"\\]|\\.)*+"?|[{}\[\],:]|[^\s{}\[\],:"]++')
_TOML = re.compile(r'"(?:[^"\\]|\\.)*+"?|\'[^\']*+\'?|[{}\[\],=]|#.*|[^\s{}\[\],="\'#]++')
_HEADER = re.compile(r"\s*\[\[?\s*([^\[\]#]{1,300})\]\]?\s*(?:#.*)?")
_KEY_PART = re.compile(r'"([^"]*)"|\'([^\']*)\'|([^\s."\']+)')
_HINT = re.compile(r"\s*([A-Za-z0-9_.-]{1,80})\s*=\s*\[[^\]]*")
_LONG = re.compile(r'"""|\'\'\'')
Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value. `path` are the keys above it: from the top of the file if `rooted`, else from the start of the part.

    `block` numbers the entry of the value, to group the values of an entry: a JSON object, or a TOML table with the
    tables that are values in it; a table in a list is its own entry.
    """

    path: Keys
    value: str
    line: Line
    block: int
    rooted: bool
    quoted: bool = True  # a string; else a number, true, or a word


@dataclass(slots=True)
class _Reader:
    """The state of one reading: `base` are the keys of a TOML header, `entry` those of the list entry around it."""

    rooted: bool
    base: Keys = ()
    entry: Keys = ()
    block: int = 0
    blocks: int = 0
    opened: list[tuple[Keys, int]] = field(default_factory=list)  # brackets: the keys down to each, the block within
    key: Keys = ()
    last: tuple[Keys, bool, Line] | None = None  # a string that may turn out to be a key
    skipped: int = 0  # brackets beyond DEPTH

    def open(self, is_new_block: bool) -> None:
        if len(self.opened) >= DEPTH:
            self.skipped += 1
            return
        self.blocks += is_new_block
        self.opened.append(((*self._keys_above(), *self.key), self.blocks if is_new_block else self._current_block()))
        self.key = ()

    def close(self) -> None:
        if self.skipped:
            self.skipped -= 1
        elif self.opened:
            self.opened.pop()
        else:  # it was opened above the part
            self.rooted = self.rooted and bool(self.base)
            self.new_block()
        self.key = ()

    def new_block(self) -> None:
        self.blocks += 1
        self.block = self.blocks

    def assign(self) -> None:
        """Treat the last string as a key."""
        self.key, self.last = (self.last[0] if self.last else ()), None

    def take(self) -> Iterator[Leaf]:
        """Yield the last string as a value."""
        if self.last is not None:
            parts, quoted, line = self.last
            self.last = None
            path = (*self.base, *self._keys_above(), *self.key)
            self.key = ()
            yield Leaf(path, ".".join(parts), line, self._current_block(), self.rooted, quoted)

    def _keys_above(self) -> Keys:
        """Return the keys of the open brackets, outermost first."""
        return self.opened[-1][0] if self.opened else ()

    def _current_block(self) -> int:
        return self.opened[-1][1] if self.opened else self.block


def json_leaves(lines: Sequence[Line], at_top: bool) -> Iterator[Leaf]:
    """Yield the values of a part of a JSON file in order; `at_top`: the file begins with the part."""
    reader = _Reader(at_top)
    for line in lines:
        spend()
        for piece in _JSON.findall(line.text):
            if piece == ":":
                reader.assign()
                continue
            yield from reader.take()
            if piece in ("{", "["):
                reader.open(is_new_block=piece == "{")
            elif piece in ("}", "]"):
                reader.close()
            elif piece != ",":
                reader.last = ((unquote(piece),), piece.startswith('"'), line)
    yield from reader.take()


def toml_leaves(lines: Sequence[Line], at_top: bool, hint: str = "") -> Iterator[Leaf]:
    """Yield the values of a part of a TOML file in order. `hint` is the section that git wrote after the second @@.

    A hint such as `dependencies = [` names the list around the beginning of the part.
    """
    reader = _Reader(at_top)
    if not at_top and (hinted := _HINT.fullmatch(hint)):
        reader.key = tuple(hinted[1].split("."))
        reader.open(is_new_block=False)
    for line in _outside_long_texts(lines):
        spend()
        header = _HEADER.fullmatch(line.text)
        if header and (not reader.opened or _is_header(line.text)):
            _enter(reader, header[1], line.text.lstrip().startswith("[["))
            continue
        for piece in _TOML.findall(line.text):
            yield from _toml_piece(reader, piece, line)
        yield from reader.take()
        reader.key = ()


def _outside_long_texts(lines: Sequence[Line]) -> Iterator[Line]:
    """Yield the lines outside multi-line strings, as far as the part shows their ends."""
    marks = [len(_LONG.findall(line.text)) for line in lines]
    paired, inside = sum(marks) % 2 == 0, False
    for line, count in zip(lines, marks, strict=True):
        if not (paired and inside):
            yield line
        inside ^= count % 2 == 1


def _is_header(text: str) -> bool:
    """Return whether a bracketed line within a list is a header after all: an unclosed list would else hide what
    follows.
    """
    return text.startswith("[") and not text.startswith(('["', "['")) and "," not in text


def _enter(reader: _Reader, name: str, is_list: bool) -> None:
    """Go on under a header; a table below an entry of a list belongs to that entry."""
    parts = tuple("".join(part) for part in _KEY_PART.findall(name))
    if not (reader.base or reader.rooted or is_list):  # the part began within an entry that it does not show
        reader.entry = parts[:-1]
    below = bool(reader.entry) and parts[: len(reader.entry)] == reader.entry and len(parts) > len(reader.entry)
    if is_list or not below:
        reader.new_block()
        reader.entry = parts if is_list else ()
    reader.opened.clear()
    reader.base, reader.rooted, reader.key, reader.skipped = parts, True, (), 0


def _toml_piece(reader: _Reader, piece: str, line: Line) -> Iterator[Leaf]:
    if piece.startswith("#"):
        return
    if piece == "=":
        reader.assign()
        return
    if piece in ("{", "[", "}", "]", ",") or reader.key:
        yield from reader.take()
    if piece in ("{", "["):
        reader.open(is_new_block=piece == "{" and not reader.key)
    elif piece in ("}", "]"):
        reader.close()
    elif piece != ",":
        quoted = piece[0] in "\"'"
        parts = (unquote(piece),) if quoted else tuple(piece.strip(".").split("."))
        before = reader.last[0][-DEPTH:] if reader.last else ()
        reader.last = ((*before, *parts), quoted, line)


def unquote(piece: str) -> str:
    """Decode a JSON or TOML string token; one with a broken escape stays as written."""
    if piece[0] not in "\"'":
        return piece
    inner = piece[1:-1] if len(piece) > 1 and piece[-1] == piece[0] else piece[1:]
    if piece[0] == "'" or "\\" not in inner:
        return inner
    try:
        return json.loads(f'"{inner}"', strict=False)
    except ValueError:
        return inner
