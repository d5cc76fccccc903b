"""Find keys, tokens and passwords in added lines and in the texts beside the change.

A secret in pieces, in escapes or in base 64 counts too, one in a removed line does not. One that the change only moves
was already public and weighs little. Every secret in a quoted line is masked.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from scoring.diff.paths import has_role, is_lock_file, is_settings
from scoring.scanners._text import AddedText, Place, added_text, removed_text
from scoring.scanners.secrets.find import find_assigned, find_disguised, find_settings, find_urls
from scoring.scanners.secrets.rule_file import find_by_file
from scoring.scanners.secrets.rules import RULES, find_by_plugins, find_private_keys
from scoring.scanners.secrets.values import Hit, is_placeholder
from scoring.scanners.submission import Submission
from scoring.types import QUOTE_LENGTH, Finding, Severity

SCANNER = "secrets"
MINIFIED_LENGTH = 1_000  # characters of a line, from which no person wrote it
SHOWN = 4  # visible characters of a masked secret, which show its kind and open nothing
_LOWER = {Severity.HIGH: Severity.MED, Severity.MED: Severity.LOW, Severity.LOW: None}


def scan(submission: Submission) -> Iterator[Finding]:
    """Yield a finding for each secret, in the order of the change; the issuer's shape wins over a mere name."""
    added = added_text(submission)
    hits = _without_overlap(_hits(added, submission.knowledge.secret_rules))
    removed = removed_text(submission)
    by_line: defaultdict[int, list[Hit]] = defaultdict(list)
    for hit in hits:
        by_line[added.index(hit.start)].append(hit)
    for index in sorted(by_line):
        quote = _masked(added, index, by_line[index])
        for hit in by_line[index]:
            place = added.places[index]
            severity = _weighed(hit, place, added.line(index))
            moved = added.text[hit.start : hit.end] in removed and hit.start < hit.end
            if severity is not None:
                yield _finding(hit, place, Severity.LOW if moved else severity, quote, moved)


def _hits(added: AddedText, rule_text: str | None) -> Iterator[Hit]:
    lower = added.text.lower()
    for rule in RULES:
        for start, end in rule.find(added.text, lower):
            token = added.text[start:end]
            is_valid = rule.check is None or rule.check(token)
            if is_valid or (
                rule.proves and not is_placeholder(token)
            ):  # a changed format would fail its old checksum: worth a look, no more
                severity = rule.severity if is_valid else Severity.LOW
                yield Hit(rule.id, rule.what, start, end, severity, proven=is_valid and rule.proves)
    yield from find_private_keys(added.text)
    if rule_text:
        yield from find_by_file(rule_text, added, lower)
    for hit in find_by_plugins(added.text):
        if not is_placeholder(added.text[hit.start : hit.end]):
            yield hit
    yield from find_disguised(added.text)
    yield from find_urls(added.text)
    yield from find_assigned(added.text)
    yield from _bare_settings(added)


def _bare_settings(added: AddedText) -> Iterator[Hit]:
    for hit in find_settings(added.text):
        file = added.places[added.index(hit.start)].file
        if file is not None and is_settings(file.path):
            yield hit


def _without_overlap(hits: Iterator[Hit]) -> Sequence[Hit]:
    """Keep one hit for each part of the text: that of the first rule."""
    separate: list[Hit] = []
    covered: set[int] = set()
    for hit in hits:
        span = range(hit.start, min(hit.end, hit.start + 2_000)) or range(hit.start, hit.start + 1)
        if covered.isdisjoint(span):
            covered.update(span)
            separate.append(hit)
    return sorted(separate, key=lambda hit: hit.start)


def _weighed(hit: Hit, place: Place, line: str) -> Severity | None:
    """Weigh a hit by its place; None where it does not count.

    Hashes of a lock file and lines that no person wrote look like keys. Tests and manuals are full of invented keys, so
    there a shape weighs one step less and a mere name nothing; a token with a valid checksum was not invented.
    """
    if hit.proven:
        return hit.severity
    if place.file is None:
        return None if hit.generic else hit.severity
    path = place.file.path
    if is_lock_file(path) or (hit.generic and len(line) > MINIFIED_LENGTH):
        return None
    is_test = has_role(path, "tests")
    if not (is_test or has_role(path, "docs")):
        return hit.severity
    if hit.generic:
        return None
    return Severity.LOW if hit.rule == "private-key" and is_test else _LOWER[hit.severity]


def _masked(added: AddedText, index: int, hits: Sequence[Hit]) -> str:
    start, line = added.starts[index], added.line(index)
    parts, done = [], 0
    for hit in hits:
        begin, end = hit.start - start, min(hit.end - start, len(line))
        shown = min(SHOWN, (end - begin) // 4)
        parts += [line[done : begin + shown], "****" if end > begin else ""]
        done = end
    return "".join([*parts, line[done:]])[:QUOTE_LENGTH]


def _finding(hit: Hit, place: Place, severity: Severity, quote: str, moved: bool) -> Finding:
    return Finding(
        scanner=SCANNER,
        rule=hit.rule,
        type="secret_leak",
        severity=severity,
        explanation=_explanation(hit, place, severity, moved),
        file=place.file.path if place.file else None,
        line=place.line.new if place.line else None,
        quote=quote,
    )


def _explanation(hit: Hit, place: Place, severity: Severity, moved: bool) -> str:
    where = "This line holds" if place.file else "The text beside the change holds"
    if moved:
        return f"{where} {hit.what} that a removed line held before: it is public already, so it has to be revoked."
    if severity is Severity.LOW:
        return f"{where} {hit.what}, or something of its form: make sure that it opens nothing."
    return f"{where} {hit.what}: revoke it, because anybody who reads the change can use it."
