"""Licences that a change adds, removes or contradicts."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from scoring.content.change import FileChange, Line
from scoring.content.finding import Finding, Severity
from scoring.content.paths import is_language
from scoring.content.submission import Submission
from scoring.evidence._licence_texts import holder_of, named_licences
from scoring.evidence._wording import number_of, quoted, shown
from scoring.licences import WORDS, Demand, Licence, may_come_in, parse_licence
from scoring.packages.files import format_of

SCANNER = "licences"
LOW, MED, HIGH = Severity.LOW, Severity.MED, Severity.HIGH
_SPDX = re.compile(r"SPDX-License-Identifier:\s*([^*<>]{1,300})", re.IGNORECASE)
_FIELD = re.compile(
    r"""\blicen[cs]e["']?\s*(?:=>|[:=])\s*(?:\{\s*(?:text|type)["']?\s*[:=]\s*)?["']([^"']{1,200})["']"""
)
_FILE = re.compile(r"(?:licen[cs]e|copying|unlicense)(?:[-_.].*)?", re.IGNORECASE)
_PROSE = (".md", ".rst", ".txt", ".adoc", ".html", ".csv", ".json", ".lock", ".po")  # they may name any licence
_PAGES = (".html", ".po")  # whose copyright lines are shown, or are nobody's
_YEARS = re.compile(r"\d{4}|[-\u2013,\s]")


@dataclass(frozen=True, slots=True)
class _Named:
    """A licence named by a line."""

    line: Line
    licence: Licence


def scan(submission: Submission) -> Iterator[Finding]:
    """Yield every finding on licences, file by file."""
    own = parse_licence(submission.knowledge.licence) if submission.knowledge.licence else None
    kept = {holder for file in submission.change.files for line in file.added() if (holder := holder_of(line))}
    declares = any(_declared(file.added()) for file in submission.change.files if format_of(file.path))
    for file in submission.change.files:
        yield from _licence_file(file)
        yield from _identifiers(file, own)
        yield from _fields(file, own, declares)
        yield from _headers(file, own)
        yield from _holders(file, kept)


def _finding(file: FileChange, rule: str, severity: Severity, line: Line | None, explanation: str) -> Finding:
    return Finding(
        scanner=SCANNER,
        rule=rule,
        type="license",
        severity=severity,
        explanation=explanation,
        file=file.path,
        line=number_of(line) if line else None,
        quote=quoted(line) if line else "",
        removed=line is not None and line.mark == "-",
    )


def is_licence_file(path: str) -> bool:
    """Return whether a file is the licence itself, by its name; a program of that name is not."""
    place = PurePosixPath(path)
    if is_language(path):
        return False
    return _FILE.fullmatch(place.name) is not None or place.parent.name.upper() == "LICENSES"


def _licence_file(file: FileChange) -> Iterator[Finding]:
    """Judge a changed licence text; new years alone weigh little."""
    if not is_licence_file(file.path):
        return
    first = next(file.added(), None) or next(file.removed(), None)
    added, removed = (sorted(_YEARS.sub("", line.text) for line in side) for side in (file.added(), file.removed()))
    if file.kind == "added":
        yield _finding(file, "licence_file", LOW, first, "A licence is added: see what it covers.")
    elif file.kind == "deleted":
        yield _finding(file, "licence_file", MED, first, "A licence is deleted: see what its code is under now.")
    elif added == removed:
        if first:
            yield _finding(file, "licence_years", LOW, first, "The years of a licence change, and nothing else of it.")
    else:
        yield _finding(file, "licence_file", MED, first, "The text of a licence changes: see what it allows now.")


def _identifiers(file: FileChange, own: Licence | None) -> Iterator[Finding]:
    """Judge SPDX-License-Identifier lines: unknown, at odds with the repository's licence, changed or removed."""
    added, removed = _spdx(file.added()), _spdx(file.removed())
    for one in added:
        yield from _unknown(file, one)
        yield from _conflict(file, one, own)
    before, after = ({one.licence.text for one in side} for side in (removed, added))
    if removed and file.kind != "deleted" and not before & after:
        changes = "changes" if after else "is taken away"
        line = added[0].line if added else removed[0].line
        yield _finding(
            file, "identifier_changed", MED, line, f"The licence that the file names {changes}: see by whom."
        )


def _spdx(lines: Iterator[Line]) -> list[_Named]:
    found = ((line, _SPDX.search(line.text)) for line in lines if "SPDX" in line.text.upper())
    return [_Named(line, parse_licence(_trimmed(match[1]))) for line, match in found if match]


def _trimmed(text: str) -> str:
    """Cut off what closes a comment or a text."""
    return text.strip().rstrip("-/\"'`;,").strip()


def _unknown(file: FileChange, named: _Named) -> Iterator[Finding]:
    if not named.licence.readable or named.licence.unknown:
        what = ", ".join(map(shown, named.licence.unknown)) or shown(named.licence.text)
        words = f"{what} is not an SPDX licence identifier: see which licence is meant."
        yield _finding(file, "unknown_identifier", LOW, named.line, words)


def _conflict(
    file: FileChange, named: _Named, own: Licence | None, most: Severity = HIGH, what: str = "Code"
) -> Iterator[Finding]:
    """Yield licences that ask for more than the repository's own licence gives."""
    demand = named.licence.demand
    if demand is None or (demand == Demand.PERMISSIVE and own is None):
        return
    text = f"{shown(named.licence.text)} ({WORDS[demand]})"
    if own is None or own.demand is None:
        if demand >= Demand.STRONG:
            words = f"{what} under {text} comes in, and the repository's own licence is not known here."
            yield _finding(file, "demanding_licence", min(MED, most, key=_weight), named.line, words)
    elif may_come_in(named.licence, own) is False:
        severity = MED if demand == Demand.WEAK and own.demand == Demand.PERMISSIVE else HIGH
        words = f"{what} under {text} comes into a repository under {shown(own.text)}, which may not be allowed."
        yield _finding(file, "licence_conflict", min(severity, most, key=_weight), named.line, words)


def _weight(severity: Severity) -> int:
    return (LOW, MED, HIGH).index(severity)


def _fields(file: FileChange, own: Licence | None, declares: bool) -> Iterator[Finding]:
    """Judge the licence that a manifest declares for the project, or a lock file for a dependency.

    `declares`: some manifest of the change declares one, so a removed declaration has moved.
    """
    kind = format_of(file.path)
    if kind is None:
        return
    added, removed = _declared(file.added()), _declared(file.removed())
    if kind.is_lock:
        for one in added:
            yield from _conflict(file, one, own, MED, "A dependency")
        return
    before = {one.licence.text for one in removed}
    for one in added:
        yield from _unknown(file, one)
        if removed and one.licence.text not in before:
            words = "The licence that the manifest declares changes: see by whom, and what the others agreed to."
            yield _finding(file, "declared_licence", MED, one.line, words)
        elif not removed:
            yield from _conflict(file, one, own)
    if removed and not declares and file.kind != "deleted":
        words = "The manifest declares no licence any more: see what the code is under now."
        yield _finding(file, "declared_licence", MED, removed[0].line, words)


def _declared(lines: Iterator[Line]) -> list[_Named]:
    found = ((line, _FIELD.search(line.text[:2_000])) for line in lines if "icen" in line.text)
    return [_Named(line, parse_licence(match[1])) for line, match in found if match]


def _headers(file: FileChange, own: Licence | None) -> Iterator[Finding]:
    """Find phrases of licence headers in added code, once for each licence and file; prose may name any."""
    if PurePosixPath(file.path).suffix.lower() in _PROSE and not is_licence_file(file.path):
        return
    if format_of(file.path) is not None:
        return
    seen: set[str] = set()
    for line, key in named_licences(list(file.added())):
        if key not in seen and "SPDX" not in line.text:
            seen.add(key)
            yield from _conflict(file, _Named(line, parse_licence(key)), own)


def _holders(file: FileChange, kept: set[str]) -> Iterator[Finding]:
    """Find copyright lines that are removed and added again nowhere in the change."""
    if file.kind == "deleted" or PurePosixPath(file.path).suffix.lower() in _PAGES:
        return
    for line in file.removed():
        holder = holder_of(line)
        if holder and holder not in kept:
            words = "A copyright line is taken away: only its holder may do that."
            yield _finding(file, "copyright_removed", MED, line, words)
            return
