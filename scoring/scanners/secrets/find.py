"""Find secrets without their own shape, as in connection strings and assignments, and disguised secrets.

Disguises are pieces, escapes, base 64 and hidden characters. Within them only the token shapes of known issuers are
searched, because any other decoded text could be anything.
"""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Iterator
from dataclasses import dataclass, replace

from scoring.scanners._normalise import HIDDEN
from scoring.scanners.secrets.rules import RULES, find_private_keys
from scoring.scanners.secrets.values import Hit, is_placeholder, is_random
from scoring.types import Severity

_URL = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+]{1,24})://(?P<user>[^\s:/@\"'`<>{}$()\[\],;|\\]{0,80}):"
    r"(?P<secret>[^\s:/@\"'`<>]{4,200})@(?P<host>[\w.-]{1,120})",
    re.IGNORECASE,
)
_DATABASE = re.compile(
    r"(?:postgres|mysql|maria|mongodb|redis|valkey|amqp|mssql|oracle|clickhouse|cockroach|cassandra|neo4j|bolt|kafka|"
    r"nats|mqtt|ldap|smtp|jdbc|couchdb|influx)",
    re.IGNORECASE,
)
_CONNECTION = re.compile(
    r"(?i:server|data source|host|addr)\s{0,2}=\s{0,2}(?P<host>[^;\"'\n]{1,120});[^\"'\n]{0,200}?"
    r"(?i:password|pwd)\s{0,2}=\s{0,2}(?P<secret>[^;\"'\s]{6,120})"
)
_LOCAL_HOST = re.compile(
    r"(?:localhost|127\.|0\.0\.0\.0|host|hostname|server|address|domain|\[|tcp:localhost|\(local)", re.I
)
_NO_HOST = re.compile(
    r"(?:^|\.)(?:example|test|invalid|localhost|local|foo|bar|baz|acme|domain|host|your[\w-]*)(?:\.|$)", re.I
)
_WEAK = re.compile(
    r"(?:p(?:ass)?(?:w(?:or)?d|wd|w|hrase)?|secret|root|admin|guest|user(?:name)?|test(?:ing|er|pass)?|postgres|mysql|redis|"
    r"mongo|rabbitmq|default|hunter2|letmein|token|key|value|none|null|string|abc|foo|bar|baz|pw|s3cr3t|p4ssw0rd|secure)"
    r"[\W_\d]{0,6}(?:123|1234|12345)?",
    re.IGNORECASE,
)
_NAME = (
    r"(?:pass(?:word|wd|phrase)|passwd|pwd|secret|token|api_?key|apikey|access_?key|private_?key|auth_?key|account_?key|"
    r"encryption_?key|signing_?key|master_?key|credential)"
)
_ASSIGNED = re.compile(
    rf"(?i:{_NAME})[0-9A-Za-z_]{{0,20}}[\"'`\]]{{0,2}}(?:\s{{0,2}}:\s{{0,2}}[A-Za-z\[\]]{{1,20}})?\s{{0,8}}"
    r"(?::=|=>|=|:|,)\s{0,8}[rbuf]{0,2}[\"'`](?P<secret>[^\"'`\s]{8,160})[\"'`]"
)
_SETTING = re.compile(
    rf"^\s{{0,20}}(?:export\s|ENV\s|-\s|set\s)?[\w.-]{{0,60}}(?i:{_NAME})\w{{0,20}}\s{{0,8}}[=:]\s{{0,8}}"
    r"(?P<secret>[^\s\"'`#;,(){}\[\]]{12,160})\s{0,8}$",
    re.MULTILINE,
)
_WORDS = re.compile(r"[a-z]+(?:[-_./:][a-z]+)*|[A-Z]+(?:[-_][A-Z]+)*|(?:[A-Z]?[a-z]+)+")
_NAME_OF_WORDS = re.compile(r"\w*(?:[A-Za-z]{3,}[-_./:]+){2,}[A-Za-z0-9]{2,}")
_NOT_A_SECRET = re.compile(
    r"^[./~]|://|^\w+\.\w+(?:\.\w+)*$|[{}()]|^\d+$|^(?:sha\d+|md5)[-:]|^[\w.-]+@[\w-]+\.|\.(?:pem|key|crt|json|ya?ml|py|js|txt)$"
    r"|^#|->|::|&[a-z]+;|\\[wdsb(]"
)


def find_urls(text: str) -> Iterator[Hit]:
    """Find passwords in URLs whose host is not this machine, and in connection strings of databases."""
    if "://" in text:
        for match in _URL.finditer(text):
            if not _is_harmless(match["secret"], match["host"], match["user"]):
                yield _url_hit(match)
    if "=" in text:
        for match in _CONNECTION.finditer(text):
            if not _is_harmless(match["secret"], match["host"], ""):
                start, end = match.span("secret")
                yield Hit("connection-string", "a database's password", start, end, Severity.HIGH, generic=True)


def _url_hit(match: re.Match[str]) -> Hit:
    start, end = match.span("secret")
    if _DATABASE.match(match["scheme"]):
        severity = Severity.HIGH if "." in match["host"] else Severity.LOW
        return Hit("connection-string", "a database's password in its address", start, end, severity, generic=True)
    severity = Severity.HIGH if is_random(match["secret"], 3.2) and len(match["secret"]) >= 12 else Severity.MED
    return Hit("basic-auth-url", "a password in an address", start, end, severity, generic=True)


def _is_harmless(secret: str, host: str, user: str) -> bool:
    """Return whether it is a placeholder, a common default password, or a host that nobody else can reach."""
    weak = _WEAK.fullmatch(secret) or secret.lower() == user.lower()
    return bool(
        weak
        or _LOCAL_HOST.match(host)
        or _NO_HOST.search(host)
        or is_placeholder(secret)
        or re.search(r"[{}%$]", secret)
    )


def find_assigned(text: str) -> Iterator[Hit]:
    """Find quoted values that look random and are assigned to a name like `password`."""
    for match in _ASSIGNED.finditer(text):
        yield from _assigned_hit(match)


def find_settings(text: str) -> Iterator[Hit]:
    """Find unquoted values of this kind, one assignment a line: only in files that write values bare."""
    for match in _SETTING.finditer(text):
        yield from _assigned_hit(match)


def _assigned_hit(match: re.Match[str]) -> Iterator[Hit]:
    secret = match["secret"]
    if _WORDS.fullmatch(secret) or _NAME_OF_WORDS.fullmatch(secret) or _WEAK.fullmatch(secret):
        return
    if _NOT_A_SECRET.search(secret) or is_placeholder(secret):
        return
    kinds = sum(bool(re.search(kind, secret)) for kind in (r"[a-z]", r"[A-Z]", r"\d", r"[^0-9A-Za-z]"))
    if kinds < 2 or not re.search(r"\d", secret) or not is_random(secret, 3.0):
        return
    strong = len(secret) >= 16 and is_random(secret, 3.4)
    start, end = match.span("secret")
    severity = Severity.MED if strong else Severity.LOW
    yield Hit("assigned-secret", "what looks like a password or key", start, end, severity, generic=True)


WINDOW = 300  # characters read around a joint: no token without its own shape is longer
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
    """A part of the text without its disguise. `cuts`: (offset in `plain`, characters removed up to there)."""

    plain: str
    start: int
    end: int
    how: str
    cuts: tuple[tuple[int, int], ...] = ()

    def origin(self, offset: int) -> int:
        """Return the offset in the text for an offset in `plain`."""
        return self.start + offset + max((removed for position, removed in self.cuts if position <= offset), default=0)


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
    for match in joint.finditer(text):
        if group and match.start() - group[-1].end() > WINDOW:
            yield _joined(text, group, how)
            group = []
        group.append(match)
    if group:
        yield _joined(text, group, how)


def _joined(text: str, joints: list[re.Match[str]], how: str) -> _Reading:
    start, end = max(joints[0].start() - WINDOW, 0), min(joints[-1].end() + WINDOW, len(text))
    pieces, cuts, position, size, removed = [], [], start, 0, 0
    for joint in joints:
        pieces.append(text[position : joint.start()])
        size, removed, position = size + joint.start() - position, removed + joint.end() - joint.start(), joint.end()
        cuts.append((size, removed))
    return _Reading("".join([*pieces, text[position:end]]), start, end, how, tuple(cuts))


def _character(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16) if escape[1] else int(escape[2]))


def _decoded(run: str) -> str:
    """Decode base 64; return an empty text where it is malformed."""
    try:
        data = b64decode(run + "=" * (-len(run) % 4))
    except (Error, ValueError):
        return ""
    return data.decode() if _PRINTED.fullmatch(data) else ""
