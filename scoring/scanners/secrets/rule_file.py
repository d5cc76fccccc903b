"""An operator's own rules for secrets, in the file format of gitleaks, through the linear engine of google-re2.

Each rule describes one kind of token and is stored in two forms of its pattern.
"""

import logging
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import re2

from scoring.scanners._text import AddedText
from scoring.scanners.secrets.values import Hit, entropy, is_placeholder, is_random
from scoring.types import Severity

LOG = logging.getLogger(__name__)
FILE_LIMIT = 4_000_000  # characters of a rule file
RULES_LIMIT = 2_000
Pattern = "re2._Regexp"


@dataclass(frozen=True, slots=True)
class Allowlist:
    """Conditions under which a hit is not a secret: any of them, or all where `every` is true."""

    paths: tuple[Any, ...]
    regexes: tuple[Any, ...]
    stopwords: tuple[str, ...]
    target: str  # input of the regexes: secret, match or line
    every: bool

    def allows(self, path: str, secret: str, match: str, line: str) -> bool:
        """Return whether this list excludes the hit."""
        target_text = {"match": match, "line": line}.get(self.target, secret)
        answers = []
        if self.paths:
            answers.append(any(pattern.search(path) for pattern in self.paths))
        if self.regexes:
            answers.append(any(pattern.search(target_text) for pattern in self.regexes))
        if self.stopwords:
            answers.append(any(word in secret.lower() for word in self.stopwords))
        return bool(answers) and (all(answers) if self.every else any(answers))


@dataclass(frozen=True, slots=True)
class FileRule:
    """One rule of the file. `group` 0: the first group that matched, or the whole match."""

    id: str
    pattern: Any
    path: Any
    keywords: tuple[str, ...]
    entropy: float
    group: int
    allowlists: tuple[Allowlist, ...]


@dataclass(frozen=True, slots=True)
class RuleFile:
    """The readable rules of a file; `problems` names each unreadable one, with the reason."""

    rules: tuple[FileRule, ...]
    allowlists: tuple[Allowlist, ...]
    problems: tuple[str, ...]


@lru_cache(maxsize=4)
def read_rule_file(text: str) -> RuleFile:
    """Read the rules of a file's text. Never raises: an unreadable part is a problem, logged once for each text."""
    rule_file = _read(text)
    for problem in rule_file.problems:
        LOG.warning("secret rule file: %s", problem)
    return rule_file


def _read(text: str) -> RuleFile:
    if len(text) > FILE_LIMIT:
        return RuleFile((), (), (f"longer than {FILE_LIMIT} characters, not read",))
    try:
        document = tomllib.loads(text)
        shared = tuple(_allowlist(entry) for entry in _entries(document))
        listed = list(document.get("rules", []))
    except (tomllib.TOMLDecodeError, RecursionError, re2.error, AttributeError, TypeError, ValueError) as problem:
        return RuleFile((), (), (f"not read: {problem}",))
    rules, problems = [], []
    for number, entry in enumerate(listed[:RULES_LIMIT], start=1):
        try:
            rules.append(_rule(entry))
        except (re2.error, AttributeError, KeyError, TypeError, ValueError) as problem:
            name = entry.get("id", number) if isinstance(entry, dict) else number
            problems.append(f"rule {name!s:.80} left out: {problem!s:.200}")
    if len(listed) > RULES_LIMIT:
        problems.append(f"only the first {RULES_LIMIT} rules are read")
    return RuleFile(tuple(rules), shared, tuple(problems))


def _rule(entry: dict[str, Any]) -> FileRule:
    if not isinstance(entry.get("regex"), str):
        raise ValueError("it has no regex; rules on paths alone are not read")
    pattern, group = _compiled(entry["regex"]), int(entry.get("secretGroup", 0))
    if not 0 <= group <= pattern.groups:
        raise ValueError(f"secretGroup {group} of {pattern.groups}")
    return FileRule(
        id=str(entry["id"])[:80],
        pattern=pattern,
        path=_compiled(entry["path"]) if entry.get("path") else None,
        keywords=tuple(str(word).lower() for word in entry.get("keywords", ())),
        entropy=float(entry.get("entropy", 0.0)),
        group=group,
        allowlists=tuple(_allowlist(allowed) for allowed in _entries(entry)),
    )


def _entries(table: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the allowlists in either spelling of the format: one `[allowlist]` or many `[[allowlists]]`."""
    single = table.get("allowlist")
    return [*([single] if single else []), *table.get("allowlists", ())]


def _allowlist(entry: dict[str, Any]) -> Allowlist:
    return Allowlist(
        paths=tuple(_compiled(pattern) for pattern in entry.get("paths", ())),
        regexes=tuple(_compiled(pattern) for pattern in entry.get("regexes", ())),
        stopwords=tuple(str(word).lower() for word in entry.get("stopwords", ())),
        target=str(entry.get("regexTarget", "secret")),
        every=str(entry.get("condition", "OR")).upper() in ("AND", "&&"),
    )


def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


def find_by_file(rule_text: str, added: AddedText, lower: str) -> Iterator[Hit]:
    """Find matches of the file's rules in added lines."""
    rule_file = read_rule_file(rule_text)
    for rule in rule_file.rules:
        if rule.keywords and not any(word in lower for word in rule.keywords):
            continue
        for match in rule.pattern.finditer(added.text):
            start, end = _secret_span(match, rule.group)
            if start < end and _counts(rule, rule_file.allowlists, added, match, (start, end)):
                severity = Severity.MED if rule.id.startswith("generic") else Severity.HIGH
                yield Hit(rule.id, "what a rule of the site's own file takes for a secret", start, end, severity)


def _secret_span(match: Any, group: int) -> tuple[int, int]:
    if group:
        return match.span(group)
    spans = (match.span(number) for number in range(1, match.re.groups + 1))
    return next((span for span in spans if span[0] < span[1]), match.span())


def _counts(rule: FileRule, shared: tuple[Allowlist, ...], added: AddedText, match: Any, span: tuple[int, int]) -> bool:
    """Return whether path, keywords, entropy and allowlists accept a match."""
    index = added.index(span[0])
    file, line = added.places[index].file, added.line(index)
    path, secret = file.path if file else "", added.text[slice(*span)]
    if (rule.path and not rule.path.search(path)) or (rule.entropy and entropy(secret) <= rule.entropy):
        return False
    return not any(allowed.allows(path, secret, match[0], line) for allowed in (*rule.allowlists, *shared))


WORD = r"0-9A-Za-z_\-"
HEX = 2.6  # bits per character: 32 random hexadecimal digits show 3.5, a date or a counter below 2.5
_PREFIX = re.compile(r"[0-9A-Za-z_-]+(?![0-9A-Za-z_?*+{|-])")


@dataclass(frozen=True, slots=True)
class TokenRule:
    """One kind of token. `keywords` are lower case; without one of them in the text the pattern cannot match.

    The first group of the pattern is the token. `check` rejects what the issuer cannot have made; a token that `proves`
    itself by a checksum is real in any place. `bits` is the least entropy per character. A pattern that `spans` lines
    needs the linear engine.
    """

    id: str
    what: str
    keywords: tuple[str, ...]
    pattern: str
    check: Callable[[str], bool] | None = None
    proves: bool = False
    bits: float = 3.0
    severity: Severity = Severity.HIGH
    spans: bool = False

    def find(self, text: str, lower: str) -> Iterator[tuple[int, int]]:
        """Find tokens of this kind in the text, which is also given in lower case."""
        if not any(keyword in lower for keyword in self.keywords):
            return
        for match in (_linear if self.spans else _backtracking)(self.pattern).finditer(text):
            secret = match[1]
            if is_random(secret, self.bits) and (self.proves or not is_placeholder(secret)):
                yield match.span(1)


@cache
def _backtracking(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@cache
def _linear(pattern: str) -> "re2._Regexp":
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


def shape(pattern: str, characters: str = WORD) -> str:
    """Put the pattern between characters that cannot belong to the token; each run of them is tried once.

    A literal start is searched first and the character before it second, which is 40 times as fast on a large text.
    """
    prefix = _PREFIX.match(pattern)
    if prefix and "|" not in re.sub(r"\(.*?\)|\[.*?\]", "", pattern):
        start = prefix[0]
        return rf"({start}(?<![{characters}]{start}){pattern[len(start) :]})(?![{characters}=])"
    return rf"(?<![{characters}])({pattern})(?![{characters}=])"


def named(name: str, value: str, role: str = "key|token|secret|password|auth") -> str:
    """Match a shapeless value that is assigned to `role`, with the issuer's name before it on this line or two up.

    Nested settings name the issuer a line above: `twilio:`, then `auth_token: …`.
    """
    return (
        rf"(?i:{name})(?:[^\n]{{0,60}}\n){{0,2}}[^\n]{{0,60}}?(?i:{role})(?i:[a-z0-9_]{{0,16}})[\"'`\]]{{0,2}}\s{{0,3}}"
        rf"(?::=|=>|=|:|,|\()\s{{0,3}}[\"'`]?({value})(?:[^{WORD}/+=]|$)"
    )


def rule(
    identity: str,
    what: str,
    keywords: str,
    pattern: str,
    check: Callable[[str], bool] | None = None,
    *,
    proves: bool = False,
    bits: float = 3.0,
    severity: Severity = Severity.HIGH,
) -> TokenRule:
    """Build a rule from one row of a table; keywords are separated by blanks."""
    spans = pattern.startswith("(?i:")
    return TokenRule(identity, what, tuple(keywords.split()), pattern, check, proves, bits, severity, spans)
