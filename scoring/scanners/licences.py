"""Find licences that a change adds, removes or contradicts, recognised by short characteristic phrases."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from scoring.diff.change import FileChange, Line
from scoring.diff.paths import is_language
from scoring.packages.compare import format_of
from scoring.packages.licences import WORDS, Demand, Licence, may_come_in, parse_licence
from scoring.scanners._finding_helpers import number_of, quoted, shown
from scoring.scanners.submission import Submission
from scoring.types import Finding, Severity

_COMMENT = re.compile(r"^[\s#*/;%<!\-.\"']+|[\s*/\->\"']+$")
# The first match names the licence: longer names contain the shorter ones.
_PHRASES: tuple[tuple[str, str], ...] = (
    (r"gnu affero general public license|\bagpl ?v?3\b", "AGPL-3.0-or-later"),
    (r"gnu (?:lesser|library) general public license|\blgpl ?v?[23]\b", "LGPL-2.1-or-later"),
    (r"gnu general public license|\bgpl ?v[23]\b", "GPL-2.0-or-later"),
    (r"server side public license", "SSPL-1.0"),
    (r"business source license", "BUSL-1.1"),
    (r"elastic license", "Elastic-2.0"),
    (r"polyform (?:noncommercial|small business|shield)", "PolyForm-Noncommercial-1.0.0"),
    (r"commons clause", "Commons-Clause"),
    (r"creative commons[^.]{0,40}non-?commercial|cc[- ]by-nc", "CC-BY-NC-4.0"),
    (r"non-?commercial use only|not for commercial use", "LicenseRef-Noncommercial"),
    (r"proprietary and confidential|confidential and proprietary", "LicenseRef-Proprietary"),
    (r"unauthori[sz]ed copying of this (?:file|software)", "LicenseRef-Proprietary"),
    (r"mozilla public license", "MPL-2.0"),
    (r"eclipse public license", "EPL-2.0"),
    (r"common development and distribution license", "CDDL-1.0"),
)
_COMPILED = tuple((re.compile(pattern), key) for pattern, key in _PHRASES)
_HINTS = ("licen", "gpl", "commons", "commercial", "confidential", "unauthori", "cc-by", "cc by")
COPYRIGHT = re.compile(r"\bcopyright\b.{0,20}(?:\(c\)|©|\d{4})|\(c\) ?\d{4}|©", re.IGNORECASE)


def named_licences(lines: Sequence[Line]) -> Iterator[tuple[Line, str]]:
    """Yield the licences that lines name, each with the line where its name begins; a name may span two lines."""
    texts = [_COMMENT.sub("", line.text[:1_000]).lower() for line in lines]
    for index, line in enumerate(lines):
        joined = " ".join(texts[index : index + 2])
        if not any(hint in joined for hint in _HINTS):
            continue
        begins = len(texts[index])
        for pattern, key in _COMPILED:
            match = pattern.search(joined)
            if match and match.start() < max(begins, 1):
                yield line, key
                break


def holder_of(line: Line) -> str | None:
    """Return the holder in a copyright line, without years and signs; None for any other line."""
    text = line.text[:1_000]
    if COPYRIGHT.search(text) is None:
        return None
    return " ".join(re.findall(r"[^\W\d_]+", text.lower()))


SCANNER = "licences"
LOW, MED, HIGH = Severity.LOW, Severity.MED, Severity.HIGH
_SPDX = re.compile(r"SPDX-License-Identifier:\s*([^*<>]{1,300})", re.IGNORECASE)
_FIELD = re.compile(
    r"""\blicen[cs]e["']?\s*(?:=>|[:=])\s*(?:\{\s*(?:text|type)["']?\s*[:=]\s*)?["']([^"']{1,200})["']"""
)
_FILE = re.compile(r"(?:licen[cs]e|copying|unlicense)(?:[-_.].*)?", re.IGNORECASE)
_PROSE = (".md", ".rst", ".txt", ".adoc", ".html", ".csv", ".json", ".lock", ".po")  # they may name any licence
_PAGES = (".html", ".po")  # their copyright lines are displayed text, or belong to nobody
_YEARS = re.compile(r"\d{4}|[-\u2013,\s]")


@dataclass(frozen=True, slots=True)
class _Named:
    """A licence named by a line."""

    line: Line
    licence: Licence


def scan(submission: Submission) -> Iterator[Finding]:
    """Yield every finding on licences, file by file."""
    own = parse_licence(submission.knowledge.licence) if submission.knowledge.licence else None
    kept_holders = {holder for file in submission.change.files for line in file.added() if (holder := holder_of(line))}
    declares = any(_declared(file.added()) for file in submission.change.files if format_of(file.path))
    for file in submission.change.files:
        yield from _licence_file(file)
        yield from _identifiers(file, own)
        yield from _fields(file, own, declares)
        yield from _headers(file, own)
        yield from _holders(file, kept_holders)


def _finding(file: FileChange, rule: str, severity: Severity, line: Line | None, explanation: str) -> Finding:
    return Finding(
        scanner=SCANNER,
        rule=rule,
        type="license",
        severity=severity,
        explanation=explanation,
        file=file.path,
        line=number_of(line) if line else None,
        quote=quoted(line.text) if line else "",
        removed=line is not None and line.mark == "-",
    )


def is_licence_file(path: str) -> bool:
    """Return whether a file is the licence itself, by its name; a program with that name is not."""
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
    """Judge SPDX-License-Identifier lines: unknown, in conflict with the repository's licence, changed or removed."""
    added, removed = _spdx(file.added()), _spdx(file.removed())
    for named in added:
        yield from _unknown(file, named)
        yield from _conflict(file, named, own)
    removed_texts, after = ({named.licence.text for named in side} for side in (removed, added))
    if removed and file.kind != "deleted" and not removed_texts & after:
        changes = "changes" if after else "is taken away"
        line = added[0].line if added else removed[0].line
        yield _finding(
            file, "identifier_changed", MED, line, f"The licence that the file names {changes}: see by whom."
        )


def _spdx(lines: Iterator[Line]) -> list[_Named]:
    matches = ((line, _SPDX.search(line.text)) for line in lines if "SPDX" in line.text.upper())
    return [_Named(line, parse_licence(_trimmed(match[1]))) for line, match in matches if match]


def _trimmed(text: str) -> str:
    """Cut off characters that close a comment or a text."""
    return text.strip().rstrip("-/\"'`;,").strip()


def _unknown(file: FileChange, named: _Named) -> Iterator[Finding]:
    if not named.licence.readable or named.licence.unknown:
        licence_words = ", ".join(map(shown, named.licence.unknown)) or shown(named.licence.text)
        words = f"{licence_words} is not an SPDX licence identifier: see which licence is meant."
        yield _finding(file, "unknown_identifier", LOW, named.line, words)


def _conflict(
    file: FileChange, named: _Named, own: Licence | None, most: Severity = HIGH, what: str = "Code"
) -> Iterator[Finding]:
    """Yield licences that demand more than the repository's own licence grants."""
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

    `declares`: a manifest of the change declares one, so a removed declaration has moved.
    """
    kind = format_of(file.path)
    if kind is None:
        return
    added, removed = _declared(file.added()), _declared(file.removed())
    if kind.is_lock:
        for named in added:
            yield from _conflict(file, named, own, MED, "A dependency")
        return
    removed_texts = {named.licence.text for named in removed}
    for named in added:
        yield from _unknown(file, named)
        if removed and named.licence.text not in removed_texts:
            words = "The licence that the manifest declares changes: see by whom, and what the others agreed to."
            yield _finding(file, "declared_licence", MED, named.line, words)
        elif not removed:
            yield from _conflict(file, named, own)
    if removed and not declares and file.kind != "deleted":
        words = "The manifest declares no licence any more: see what the code is under now."
        yield _finding(file, "declared_licence", MED, removed[0].line, words)


def _declared(lines: Iterator[Line]) -> list[_Named]:
    matches = ((line, _FIELD.search(line.text[:2_000])) for line in lines if "icen" in line.text)
    return [_Named(line, parse_licence(match[1])) for line, match in matches if match]


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
    """Find copyright lines that are removed and not added again anywhere in the change."""
    if file.kind == "deleted" or PurePosixPath(file.path).suffix.lower() in _PAGES:
        return
    for line in file.removed():
        holder = holder_of(line)
        if holder and holder not in kept:
            words = "A copyright line is taken away: only its holder may do that."
            yield _finding(file, "copyright_removed", MED, line, words)
            return
