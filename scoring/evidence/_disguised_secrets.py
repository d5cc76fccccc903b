"""Finds secrets in disguise: in pieces, as escapes, in base 64, with hidden characters.

Only the token shapes of known issuers are looked for: any other text, put together, could be anything.
"""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Iterator
from dataclasses import dataclass, replace

from scoring.evidence._placeholders import is_placeholder
from scoring.evidence._private_keys import find_private_keys
from scoring.evidence._secret_hits import Hit
from scoring.evidence._token_rules import RULES
from scoring.evidence._unicode import HIDDEN

WINDOW = 300  # characters around a joint that are read: no token without a shape of its own is longer
READINGS = 2_000  # of one change: each takes .1 ms
_WITHIN = r"[\w+/=.-]"
# The joint between two literals: an operator or nothing, with or without a line end.
_OPERATOR = r"[ \t]{0,80}(?:\+|\.\.?|<>|&|~|\|\|)?[ \t]{0,8}"
_JOINT = re.compile(
    rf"(?<={_WITHIN})"
    rf"(?:[\"'`]{_OPERATOR}\\?(?:\n{_OPERATOR})?[furbFURB]{{0,2}}[\"'`]|\\\n[ \t]{{0,80}})"
    rf"(?={_WITHIN})"
)
_ESCAPES = re.compile(
    r"(?:\\x[0-9a-fA-F]{2}|\\u00[0-9a-fA-F]{2}|\\u\{[0-9a-fA-F]{2}\}|&#[0-9]{2,3};|%[0-9a-fA-F]{2}){12,2000}"
)
_ESCAPE = re.compile(r"(?:\\x|\\u00|\\u\{|%)([0-9a-fA-F]{2})\}?|&#([0-9]{2,3});")
_BASE64 = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/]{28,8000}={0,2}(?![\w+/=-])")
_HEX = re.compile(r"(?<![\w+/=-])(?:[2-7][0-9a-fA-F]){20,2000}(?![\w+/=-])")
_PRINTED = re.compile(rb"[\t\n\r\x20-\x7e]+")


@dataclass(frozen=True, slots=True)
class _Reading:
    """A part of the text without its disguise. `cuts`: (offset in `plain`, characters left out up to there)."""

    plain: str
    start: int
    end: int
    how: str
    cuts: tuple[tuple[int, int], ...] = ()

    def origin(self, place: int) -> int:
        """Return the offset in the text for an offset in `plain`."""
        return self.start + place + max((left for at, left in self.cuts if at <= place), default=0)


def find_disguised(text: str) -> Iterator[Hit]:
    """Find tokens and private keys in the text without its disguise; each hit spans the disguised text."""
    for _, reading in zip(range(READINGS), _readings(text), strict=False):
        lower = reading.plain.lower()
        for rule in (rule for rule in RULES if not rule.spans):
            for start, end in rule.find(reading.plain, lower):
                token = reading.plain[start:end]
                if not is_placeholder(token) and (rule.check is None or rule.check(token)):
                    begin, last = _span(reading, start, end)
                    yield Hit(rule.id, f"{rule.what} {reading.how}", begin, last, rule.severity, proven=rule.proves)
        for hit in find_private_keys(reading.plain):
            yield replace(hit, what=f"{hit.what} {reading.how}", start=reading.start, end=reading.end)


def _span(reading: _Reading, start: int, end: int) -> tuple[int, int]:
    if not reading.cuts:
        return reading.start, reading.end
    return reading.origin(start), reading.origin(end - 1) + 1


def _readings(text: str) -> Iterator[_Reading]:
    yield from _without(text, _JOINT, "in pieces")
    if not text.isascii():
        yield from _without(text, HIDDEN, "with hidden characters in it")
    for run in _ESCAPES.finditer(text):
        yield _Reading(_ESCAPE.sub(_character, run[0]), *run.span(), "spelled in escapes")
    for run in _BASE64.finditer(text):
        if plain := _decoded(run[0]):
            yield _Reading(plain, *run.span(), "in base 64")
    for run in _HEX.finditer(text):
        plain = bytes.fromhex(run[0])
        if _PRINTED.fullmatch(plain):
            yield _Reading(plain.decode(), *run.span(), "in hexadecimal digits")


def _without(text: str, joint: re.Pattern[str], how: str) -> Iterator[_Reading]:
    """Yield the text around each match of `joint` without the match; near ones together."""
    group: list[re.Match[str]] = []
    for found in joint.finditer(text):
        if group and found.start() - group[-1].end() > WINDOW:
            yield _joined(text, group, how)
            group = []
        group.append(found)
    if group:
        yield _joined(text, group, how)


def _joined(text: str, joints: list[re.Match[str]], how: str) -> _Reading:
    start, end = max(joints[0].start() - WINDOW, 0), min(joints[-1].end() + WINDOW, len(text))
    pieces, cuts, place, size, left = [], [], start, 0, 0
    for joint in joints:
        pieces.append(text[place : joint.start()])
        size, left, place = size + joint.start() - place, left + joint.end() - joint.start(), joint.end()
        cuts.append((size, left))
    return _Reading("".join([*pieces, text[place:end]]), start, end, how, tuple(cuts))


def _character(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16) if escape[1] else int(escape[2]))


def _decoded(run: str) -> str:
    """Decode base 64; return an empty text where it is not base 64."""
    try:
        data = b64decode(run + "=" * (-len(run) % 4))
    except (Error, ValueError):
        return ""
    return data.decode() if _PRINTED.fullmatch(data) else ""
