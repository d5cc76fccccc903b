"""Reads the head of a mail of a format-patch series as `git mailinfo` does: author, date, subject, message."""

import re
from email.errors import HeaderParseError
from email.header import decode_header

from scoring.diff.change import Mail

HEADER_LENGTH = 2_000  # characters of a header that are read: decoding takes quadratic time
_INNER = ("from", "subject", "date")  # headers that a message may repeat at its beginning
_INNER_HEADER = re.compile(r"(from|subject|date):\s(.*)", re.IGNORECASE | re.DOTALL)
_FIELD = re.compile(r"[!-9;-~]*:")  # git allows an empty name
_SEPARATOR = ("From ", ">From ")  # both are headers for git; other mail readers do not accept the second
_BLANK = " \t\r\n"  # the characters of git's isspace()
_IDENTITY = re.compile(r"|7-?bit|8-?bit|binary", re.IGNORECASE)
# Text in which ASCII is unchanged. A boundary would split even text/plain, and format=flowed would join its lines.
_PLAIN = re.compile(
    r'|text/plain(?:\s*;\s*charset\s*=\s*"?(?:us-ascii|utf-?8|iso-8859-[0-9]{1,2}|windows-125[0-9]|koi8-[ru])"?)?\s*;?',
    re.IGNORECASE,
)
_QUOTING = re.compile(r'\\(.)|"')
_NAME_LENGTH = 60  # git refuses longer names and those with @, < or >


def read_mail(lines: list[str]) -> Mail:
    """Read a mail from its lines before the patch, with the "From" line. No input makes it raise."""
    headers, body = _headers(lines)
    inner, message = _inner_headers(body)
    values = {name: value for name, value, _ in headers} | inner
    author, email = _author(_decode_words(values.get("from", "")))
    date = _unfold(values.get("date", ""))
    return Mail(
        author, email, date, _subject(_decode_words(values.get("subject", ""))), "\n".join(message).strip("\r\n")
    )


def encoding_header(lines: list[str]) -> int | None:
    """Return the index of the first header by which git may decode the mail before it reads the patch, or None.

    git uses the last header of a name, so each of them counts.
    """
    for name, value, index in _headers(lines)[0]:
        if name == "content-transfer-encoding" and not _IDENTITY.fullmatch(value.strip()):
            return index
        if name == "content-type" and not _PLAIN.fullmatch(value.strip()):
            return index
    return None


def is_header(line: str) -> bool:
    """Return whether git reads a line as a mail header."""
    return line.startswith(_SEPARATOR) or _FIELD.match(line) is not None


def ends_message(line: str) -> bool:
    """Return whether git reads a line of a message as the beginning of the patch."""
    named = line.startswith("--- ") and not line[4:5].isspace()
    return line.startswith(("diff -", "Index: ")) or (named and len(line) > 4) or line.rstrip() == "---"


def _headers(lines: list[str]) -> tuple[list[tuple[str, str, int]], list[str]]:
    """Return headers as (lower-case name, unfolded value, index), by the rules of mailinfo.c, and the body."""
    headers: list[tuple[str, str, int]] = []
    for index, line in enumerate(lines):
        if headers and line.startswith((" ", "\t")):
            name, value, first = headers[-1]
            headers[-1] = (name, f"{value} {line[1:].rstrip(_BLANK)}", first)
        elif is_header(line):
            name, _, value = line.rstrip(_BLANK).partition(":")
            headers.append((name.lower(), value, index))
        else:
            return headers, lines[index + (not line.strip(_BLANK)) :]
    return headers, []


def _inner_headers(body: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return author, date and subject at the beginning of the message, and the rest of it."""
    headers: dict[str, str] = {}
    last = ""
    for index, line in enumerate(body):
        header = _INNER_HEADER.match(line)
        if header and header[1].lower() not in headers:
            last = header[1].lower()
            headers[last] = header[2]
        elif last and line.startswith((" ", "\t")):
            headers[last] += line
        elif line.strip() or headers:
            return headers, body[index:]
    return headers, []


def _unfold(value: str) -> str:
    return " ".join(value[:HEADER_LENGTH].split())


def _decode_words(value: str) -> str:
    """Join the lines of a header and decode its encoded words (RFC 2047)."""
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
    except (LookupError, ValueError):  # unknown charset
        return piece.decode("utf-8", "replace")


def _author(value: str) -> tuple[str, str]:
    """Return (name, address) of a From header: the address is the word around the first @, the name the rest."""
    at_sign = value.find("@")
    if at_sign < 0:
        name, _, rest = value.partition("<")
        return _clean_name(name), rest.partition(">")[0].strip()
    begin = max((index for index in range(at_sign) if value[index] in " \t<"), default=-1) + 1
    address = re.split(r"[\s>]", value[begin:], maxsplit=1)[0]
    before, after = value[:begin].removesuffix("<"), value[begin + len(address) :].removeprefix(">")
    name = _clean_name(before + " " + after)
    if name.startswith("(") and name.endswith(")"):
        name = name[1:-1].strip()
    is_name = 0 < len(name) <= _NAME_LENGTH and not set(name) & set("@<>")
    return name if is_name else address, address


def _clean_name(name: str) -> str:
    return " ".join(_QUOTING.sub(r"\1", name).split())


def _subject(value: str) -> str:
    """Return a subject without "Re:" and bracketed prefixes such as [PATCH 2/3]."""
    index = 0
    while index < len(value):
        if value[index] in " \t:":
            index += 1
        elif value[index : index + 3].lower() == "re:":
            index += 3
        elif value[index] == "[" and "]" in value[index:]:
            index = value.index("]", index) + 1
        else:
            break
    return " ".join(value[index:].split())
