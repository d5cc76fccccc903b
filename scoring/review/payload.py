"""Renders one pull request as JSON lines for a model, in a bounded number of characters. Pure.

It names no person: all text was scrubbed before, mails lose author and date, findings their quotes.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from scoring.anonymise.scrub import Scrubber
from scoring.diff.change import FileChange
from scoring.diff.paths import rank
from scoring.review.deterministic import count_changed_lines, finding_place, strongest_first
from scoring.review.prose_mask import masked_hunks, masked_path
from scoring.review.schema import plain_text
from scoring.scanners.run import without_identity
from scoring.scanners.submission import Submission
from scoring.types import Finding

RENDERING = 2  # raise it with any change of what is written here, or of what is masked
NAMING_SCANNERS = frozenset({"dependencies", "licences", "typosquats"})  # their explanations name a package
FINDINGS_SENT = 100  # the strongest
NAMES_SENT = 200  # of files that are left out
HEAD_LENGTH = 200  # characters of a file's first line, apart from its names
LINE_LENGTH = 2_000  # characters; a longer line is cut and counts as unread
WORDS_LENGTH = 60_000  # characters of title, description, commit messages and discussion together
UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
# Marks and letters without a visible form, though their Unicode categories are those of visible ones.
BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0") | {chr(code) for code in range(0xFE00, 0xFE10)}
BLANK |= {chr(code) for code in (*range(0x180B, 0x1810), *range(0xE0100, 0xE01F0))}
_NOT_PLAIN = re.compile(r"[^\x00-\x7e]")


@dataclass(frozen=True, slots=True)
class Case:
    """One pull request for a reviewer, as sent and as scrubbed; both have the same files and lines.

    `findings` are those on the change as sent; `scrub` scrubs one more text by the same rules.
    """

    sent: Submission
    scrubbed: Submission
    findings: tuple[Finding, ...]
    scrub: Callable[[str], str]

    @classmethod
    def of(cls, sent: Submission, findings: Iterable[Finding], other_names: Iterable[str] = ()) -> "Case":
        """Build the case of a submission; `other_names` are names of further people, such as the owner."""
        scrubber = Scrubber.of(sent, other_names)
        return cls(sent, scrubber.submission(sent), tuple(findings), scrubber.text)


@dataclass(frozen=True, slots=True)
class Rendering:
    """Rendered data. `coverage` is the share in [0, 1] of the changed lines that it holds whole.

    `left_out` are the indexes of the files that it does not hold whole.
    """

    text: str
    coverage: float = 1.0
    left_out: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Row:
    """One rendered line; `is_line`: a line of the diff; `read`: a changed line, given whole."""

    text: str
    is_line: bool = False
    read: bool = False
    whole: bool = True


def render_change(case: Case, characters: int, masked: bool = False) -> Rendering:
    """Render diff and findings in at most about `characters`, the most dangerous files first.

    With `masked` the words of the change are masked; the lines stay the same, and none becomes longer.
    """
    files = case.scrubbed.change.files
    lines = [_json({"findings": list(_finding_rows(case))})]
    room, lines_changed, lines_read, left_out = characters - len(lines[0]), 0, 0, list[int]()
    for index in sorted(range(len(files)), key=lambda index: (rank(files[index].path), index)):
        rows, is_whole = _render_file(index, files[index], room, masked)
        room -= sum(len(row.text) + 1 for row in rows)
        lines += [row.text for row in rows]
        lines_changed += count_changed_lines(files[index])
        lines_read += sum(row.read for row in rows)
        if not is_whole:
            left_out.append(index)
    if left_out:
        path_text = masked_path if masked else str
        names = [{"file": f"F{index + 1}", "path": path_text(files[index].path)} for index in left_out[:NAMES_SENT]]
        lines.append(_json({"left_out": names, "in_all": len(left_out)}))
    return Rendering(
        "\n".join(lines), lines_read / lines_changed if lines_changed else float(not left_out), tuple(left_out)
    )


def render_words(submission: Submission) -> Rendering | None:
    """Render title, description, commit messages and discussion; None if all are empty.

    Text beyond WORDS_LENGTH is cut, and then the coverage is 0.
    """
    words = list(_named_words(submission))
    if not any(text.strip() for _, text in words):
        return None
    room, lines = WORDS_LENGTH, []
    for name, text in words:
        lines.append(_json({"said": name, "text": text[: max(room, 0)]}))
        room -= len(text)
    return Rendering("\n".join(lines), float(room >= 0))


def _named_words(submission: Submission) -> Iterator[tuple[str, str]]:
    yield "title", submission.title
    yield "description", submission.description
    for number, mail in enumerate(submission.change.mails, 1):
        yield f"commit {number}", f"{mail.subject}\n\n{mail.message}".strip()
    for role, text in submission.discussion:
        yield f"discussion, {role}", text


def _finding_rows(case: Case) -> Iterator[dict[str, str]]:
    """Yield the findings without quoted lines, which the scrubbed diff holds, and without names of packages.

    An author may have named a package after themselves, by a word too short to scrub everywhere.
    """
    for finding in strongest_first(without_identity(case.findings))[:FINDINGS_SENT]:
        explanation = "" if finding.scanner in NAMING_SCANNERS else finding.explanation
        yield {
            "rule": case.scrub(plain_text(f"{finding.scanner}/{finding.rule}", 120)),
            "type": finding.type,
            "severity": finding.severity.value,
            "at": finding_place(finding, case.sent.change),
            "says": case.scrub(plain_text(explanation, 600)),
        }


def _render_file(index: int, file: FileChange, room: int, masked: bool) -> tuple[list[_Row], bool]:
    """Render one file in at most `room` characters; also return whether it is whole. Only this part is masked."""
    rows: list[_Row] = []
    shown_file = replace(file, path=masked_path(file.path), old_path=masked_path(file.old_path)) if masked else file
    room_left = room - HEAD_LENGTH - len(shown_file.path) - len(shown_file.old_path)
    is_whole = room_left >= 0 and not file.binary
    for row in _hunk_rows(file, masked and room_left >= 0):
        room_left -= len(row.text) + 1
        if room_left < 0:
            is_whole = False
            break
        rows.append(row)
        is_whole = is_whole and row.whole
    lines_given, line_count = sum(row.is_line for row in rows), sum(len(hunk.lines) for hunk in file.hunks)
    if room_left < 0 and not lines_given:
        return [], False
    head = {"file": f"F{index + 1}", "path": shown_file.path, "change": file.kind, **_extras(shown_file)}
    return [_Row(_json(head | {"lines": line_count, "given": lines_given})), *rows], is_whole


def _hunk_rows(file: FileChange, masked: bool) -> Iterator[_Row]:
    """Yield the hunks of a file as JSON strings."""
    number = 0
    plain_hunks = ((hunk, hunk.section, iter(hunk.lines)) for hunk in file.hunks)
    for hunk, section, lines in masked_hunks(file) if masked else plain_hunks:
        yield _Row(_json(f"@@ -{hunk.old_start} +{hunk.new_start} {section[:HEAD_LENGTH]}"), whole=hunk.whole)
        for line in lines:
            number += 1
            is_whole = len(line.text) <= LINE_LENGTH
            text = line.text if is_whole else line.text[:LINE_LENGTH] + " (cut)"
            encoded = _json(f"L{number} {line.mark} {text}")
            yield _Row(encoded, is_line=True, read=is_whole and line.mark != " ", whole=is_whole)


def _extras(file: FileChange) -> dict[str, Any]:
    """Return the unusual properties of a file: renames, modes, kinds."""
    extras: dict[str, Any] = {"old_path": file.old_path} if file.old_path != file.path else {}
    if file.old_mode != file.new_mode:
        extras["modes"] = [file.old_mode, file.new_mode]
    return extras | {name: True for name in ("binary", "submodule", "symlink") if getattr(file, name)}


def _json(value: object) -> str:
    """Encode as JSON on one line; invisible characters are escaped, so that the model sees them."""
    return _NOT_PLAIN.sub(_escape_unseen, json.dumps(value, ensure_ascii=False))


def _escape_unseen(match: re.Match[str]) -> str:
    character = match[0]
    unseen = character in BLANK or unicodedata.category(character) in UNSEEN
    return json.dumps(character)[1:-1] if unseen else character
