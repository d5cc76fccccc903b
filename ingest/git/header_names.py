"""File names in the headers of a patch, as git reads them: quoted or not, prefixed, with a time behind them.

git keeps a name as a C string, so a name ends at its first NUL, whether that is a raw byte or the escape \\000.
"""

import re
from collections.abc import Sequence

NULL = "/dev/null"
_ESCAPE = re.compile(r"\\([0-3][0-7]{2}|[^0-9])", re.DOTALL)
_ESCAPED = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_SLASHES = re.compile(r"/{2,}")
_TIME = re.compile(r"[ \t][0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}[0-9:.]{0,20}(?: [+-][0-9]{2}:?[0-9]{2})?$")
_UNSAFE = {"", ".", "..", ".git"}


def prefixed_name(text: str) -> str | None:
    """The name in a `---` or `+++` line without its first folder (`git apply -p1`); None for /dev/null."""
    name = _bare(text)
    return None if name == NULL else _stripped(name)


def plain_name(text: str) -> str:
    """The name in a `rename` or `copy` line."""
    quoted = _QUOTED.match(text)
    return _cleaned(_unquoted(quoted[1]) if quoted else text.partition("\r")[0])


def timed_name(text: str) -> str | None:
    """The same as `prefixed_name` in a diff that git did not write: a time may follow the name."""
    time = _TIME.search(text)
    return prefixed_name(text[: time.start()].rstrip() if time else text)


def plain_names(old: str, new: str) -> tuple[str | None, str | None]:
    """Both names of a part without `diff --git`, given its two lines without `---` and `+++`; None for /dev/null."""
    before, after = timed_name(old), timed_name(new)
    if before and after and after.startswith(before):  # name and name.orig: git takes the shorter one
        after = before
    return before and (after or before), after


def changed_path(first: str, headers: Sequence[str]) -> str | None:
    """The path that git changes by a part, given its first line and its header lines; None where none is named."""
    if not first.startswith("diff --git "):
        old, new = plain_names(headers[0][4:], headers[1][4:])
        return old if new is None else new
    names: dict[str, str | None] = {}
    for line in headers:
        if line.startswith(("--- ", "+++ ")):
            names[line[:3]] = prefixed_name(line[4:])
        elif line.startswith(("rename to ", "copy to ")):
            names["+++"] = plain_name(line.partition(" to ")[2])
    found = (name for name in (names.get("+++"), names.get("---")) if name is not None)
    return next(found, None) or common_name(first.removeprefix("diff --git "))


def holds_nul(header: str) -> bool:
    """Tell whether a header line holds a NUL, at which git ends a name: what follows is no part of the path."""
    return "\0" in header or "\0" in _unquoted(header)


def common_name(text: str) -> str | None:
    """The one name behind `diff --git`; None where the two differ or cannot be told apart."""
    if text.startswith('"'):
        first = _QUOTED.match(text)
        return _same(_unquoted(first[1]), text[first.end() :].lstrip()) if first else None
    if text.endswith('"'):
        first, _, second = text.partition(' "')
        return _same(first, f'"{second}')
    return _halved(text)


def is_unsafe(path: str) -> bool:
    """Return whether git refuses to write to a path, whatever it holds."""
    return any(piece.lower() in _UNSAFE for piece in path.split("/"))


def _bare(text: str) -> str:
    quoted = _QUOTED.match(text)
    return _unquoted(quoted[1]) if quoted else text.partition("\t")[0].partition("\r")[0]


def _same(first: str, second: str) -> str | None:
    name = _stripped(first)
    return name if _stripped(_bare(second)) == name else None


def _halved(text: str) -> str | None:
    """Split `a/name b/name` where both names are equal; names may hold blanks. Lengths first: linear in the text."""
    begin = text.find("/") + 1
    blank = text.find(" ", begin)
    while begin and blank >= 0:
        second = text.find("/", blank) + 1
        if not second:
            return None
        if blank - begin == len(text) - second and text.startswith(text[begin:blank], second):
            return _cleaned(text[begin:blank])
        blank = text.find(" ", blank + 1)
    first, _, second = text.partition(" ")
    return first if first == second and first else None


def _stripped(name: str) -> str:
    """A name without what stands before its first slash; one without a slash is taken whole."""
    return _cleaned(name.partition("/")[2] or name)


def _cleaned(name: str) -> str:
    return _SLASHES.sub("/", name.partition("\0")[0])


def _unquoted(text: str) -> str:
    """The name in quotes, whose octal escapes are bytes of UTF-8."""
    if "\\" not in text:
        return text
    pieces = [piece.encode("utf-8", "replace") for piece in _ESCAPE.split(text)]
    pieces[1::2] = [bytes([int(code, 8)]) if len(code) == 3 else _ESCAPED.get(code, code) for code in pieces[1::2]]
    return b"".join(pieces).decode("utf-8", "replace")
