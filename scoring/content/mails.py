"""The head of a mail of a format-patch series: who, when, about what; what `git mailinfo` prints."""

import re
from email.errors import HeaderParseError
from email.header import decode_header
from email.parser import HeaderParser

from scoring.content.change import Mail

HEADER_LENGTH = 2_000  # characters of one header that are read: decoding takes time in its square
_INNER = ("from", "subject", "date")  # what a message may say once more at its beginning
_INNER_HEADER = re.compile(r"(from|subject|date):\s(.*)", re.IGNORECASE | re.DOTALL)
_QUOTING = re.compile(r'\\(.)|"')
_NAME_LENGTH = 60  # a longer name is none for git, nor is one with @, < or >


def read_mail(lines: list[str]) -> Mail:
    """One mail from the lines between its "From" line and its patch. Never raises."""
    headers, body = _split(lines)
    inner, message = _inner_headers(body)
    told = headers | inner
    author, email = _author(_decoded(told.get("from", "")))
    date = _unfolded(told.get("date", ""))
    return Mail(author, email, date, _subject(_decoded(told.get("subject", ""))), "\n".join(message).strip("\r\n"))


def is_encoded(lines: list[str]) -> bool:
    """Whether git would decode the mail before it reads the patch in it: then what stands there is not the patch."""
    headers, _ = _split(lines)
    encoding = headers.get("content-transfer-encoding", "8bit").strip().lower()
    kind = headers.get("content-type", "text/plain").strip().lower()
    return encoding not in ("7bit", "8bit", "binary") or not kind.startswith("text/")


def ends_message(line: str) -> bool:
    """Whether git takes a line of a message for the beginning of the patch."""
    named = line.startswith("--- ") and not line[4:5].isspace()
    return line.startswith(("diff -", "Index: ")) or (named and len(line) > 4) or line.rstrip() == "---"


def _split(lines: list[str]) -> tuple[dict[str, str], list[str]]:
    """Headers by their name in small letters, the first of each, and the body."""
    blank = next((place for place, line in enumerate(lines) if not line.rstrip("\r")), len(lines))
    headers: dict[str, str] = {}
    for name, value in HeaderParser().parsestr("\n".join(lines[:blank])).items():
        headers.setdefault(name.lower(), str(value))
    return headers, lines[blank + 1 :]


def _inner_headers(body: list[str]) -> tuple[dict[str, str], list[str]]:
    """What the message itself says of author, date and subject before its first words, and the rest of it."""
    found: dict[str, str] = {}
    last = ""
    for place, line in enumerate(body):
        header = _INNER_HEADER.match(line)
        if header and header[1].lower() not in found:
            last = header[1].lower()
            found[last] = header[2]
        elif last and line.startswith((" ", "\t")):
            found[last] += line
        elif line.strip() or found:
            return found, body[place:]
    return found, []


def _unfolded(value: str) -> str:
    return " ".join(value[:HEADER_LENGTH].split())


def _decoded(value: str) -> str:
    """A header as people read it: lines joined, encoded words (RFC 2047) decoded."""
    value = re.sub(r"\r?\n[ \t]", " ", value)[:HEADER_LENGTH]
    try:
        pieces = decode_header(value)
    except HeaderParseError:
        return value
    return "".join(_as_text(piece, charset) for piece, charset in pieces)


def _as_text(piece: str | bytes, charset: str | None) -> str:
    if isinstance(piece, str):
        return piece
    try:
        return piece.decode(charset or "raw-unicode-escape", "replace")
    except (LookupError, ValueError):  # no such charset
        return piece.decode("utf-8", "replace")


def _author(value: str) -> tuple[str, str]:
    """(name, address) of a From header: the word around the first @, and what is left."""
    at = value.find("@")
    if at < 0:
        name, _, rest = value.partition("<")
        return _cleaned(name), rest.partition(">")[0].strip()
    begin = max((place for place in range(at) if value[place] in " \t<"), default=-1) + 1
    address = re.split(r"[\s>]", value[begin:], maxsplit=1)[0]
    before, after = value[:begin].removesuffix("<"), value[begin + len(address) :].removeprefix(">")
    name = _cleaned(before + " " + after)
    if name.startswith("(") and name.endswith(")"):
        name = name[1:-1].strip()
    sane = 0 < len(name) <= _NAME_LENGTH and not set(name) & set("@<>")
    return name if sane else address, address


def _cleaned(name: str) -> str:
    return " ".join(_QUOTING.sub(r"\1", name).split())


def _subject(value: str) -> str:
    """A subject without "Re:" and bracketed prefixes such as [PATCH 2/3]."""
    place = 0
    while place < len(value):
        if value[place] in " \t:":
            place += 1
        elif value[place : place + 3].lower() == "re:":
            place += 3
        elif value[place] == "[" and "]" in value[place:]:
            place = value.index("]", place) + 1
        else:
            break
    return " ".join(value[place:].split())
