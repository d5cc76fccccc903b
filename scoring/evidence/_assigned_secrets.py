"""Secrets without a shape of their own: passwords in URLs and connection strings, values assigned to such a name."""

import re
from collections.abc import Iterator

from scoring.content.finding import Severity
from scoring.evidence._placeholders import is_placeholder, is_random
from scoring.evidence._secret_hits import Hit

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
    """Return whether it is a placeholder, a password that everybody tries first, or a host that nobody else reaches."""
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
    """Find such values without quotes, one assignment a line: only in files that write values bare."""
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
