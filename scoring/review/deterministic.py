"""The reviewer without a model, and the places in a change that all reviewers name.

It assesses a change by its scanners' findings alone and does not judge code. Its assessment is the minimum for every
other reading: `combine` only raises it.

Places are translated between the model's form (F1:L12) and people's (path:line). F counts the files of the change and L
the lines of all hunks of one file, both from 1: the author cannot choose either, and every line has its own number,
removed ones too.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import log2
from typing import TypeVar

from scoring.diff.change import Change, FileChange, Line
from scoring.explain.reasons import NO_RULES
from scoring.formatting import visible
from scoring.review.schema import (
    DETERMINISTIC,
    EXPLANATION_LENGTH,
    FLAGS_LIMIT,
    LOCATION_LENGTH,
    SUMMARY_LENGTH,
    Assessment,
    Flag,
    Review,
    plain_text,
)
from scoring.scanners._unread_languages import languages_without_rules
from scoring.thresholds import LARGE
from scoring.types import Finding, Severity, short_path

FLOOR = {Severity.LOW: 0.10, Severity.MED: 0.40, Severity.HIGH: 0.80}
# Each further finding of the strongest severity adds STEP, and never reaches the next severity's floor.
STEP = {Severity.LOW: 0.02, Severity.MED: 0.05, Severity.HIGH: 0.03}
CEILING = {Severity.LOW: 0.39, Severity.MED: 0.79, Severity.HIGH: 0.99}
SIZE_STEP, SIZE_CEILING = 0.01, 0.09  # for each doubling of the changed lines, below the floor of a low finding
LANGUAGES_NAMED = 3  # of those without rules
SEVERITY_WORDS = {Severity.LOW: "low", Severity.MED: "medium", Severity.HIGH: "high"}
WHOLE = "the change as a whole"
STRONGEST_FIRST = (Severity.HIGH, Severity.MED, Severity.LOW)
Weighed = TypeVar("Weighed", Finding, Flag)


def review_without_model(change: Change, findings: Sequence[Finding], unfinished: Sequence[str] = ()) -> Review:
    """Return the review without a model; `unfinished` are ids of scanners that could not look at the whole change.

    Code in a language without rules gets no verdict: that no rule fired says nothing about it.
    """
    assessment = assess(change, findings)
    if unfinished:
        assessment = assessment.model_copy(update={"review_recommended": True})
        return Review(assessment, DETERMINISTIC, change.coverage, "no content verdict", "findings_incomplete")
    unread = languages_without_rules(change)
    if unread:
        return Review(
            assessment, DETERMINISTIC, change.coverage, "no content verdict", NO_RULES + _named_languages(unread)
        )
    return Review(assessment, DETERMINISTIC, change.coverage)


def _named_languages(languages: Sequence[str]) -> str:
    remainder = f", {len(languages) - LANGUAGES_NAMED} more" if len(languages) > LANGUAGES_NAMED else ""
    return ", ".join(languages[:LANGUAGES_NAMED]) + remainder


def assess(change: Change, findings: Sequence[Finding]) -> Assessment:
    """Return the assessment from the findings and from the problems of parsing the change.

    The risk begins at the floor of the strongest finding and rises with further ones; without any it is at most
    SIZE_CEILING. A review is recommended from a med finding on, for a change not wholly read, and for a large one.
    """
    ordered = strongest_first(dict.fromkeys((*change.problems, *findings)))
    lines = sum(map(count_changed_lines, change.files))
    risk = _risk(ordered, lines)
    unread = change.coverage < 1 or not change.files
    return Assessment(
        content_risk=risk,
        flags=tuple(_flag(finding) for finding in ordered[:FLAGS_LIMIT]),
        summary=plain_text(_summary(change, ordered), SUMMARY_LENGTH),
        review_recommended=risk >= FLOOR[Severity.MED] or unread or lines > LARGE,
    )


def combine(minimum: Assessment, readings: Sequence[Assessment]) -> Assessment:
    """Combine assessments; the risk is the highest of all, and at least the floor of the strongest flag.

    The summary comes from the assessment with the highest risk; on a tie a reading comes before `minimum`.
    """
    flags = strongest_first(dict.fromkeys(flag for assessment in (minimum, *readings) for flag in assessment.flags))
    risk = max(assessment.content_risk for assessment in (minimum, *readings))
    risk = max([risk, *(FLOOR[flag.severity] for flag in flags)])
    riskiest = max((*readings, minimum), key=lambda assessment: assessment.content_risk)
    return Assessment(
        content_risk=risk,
        flags=tuple(flags[:FLAGS_LIMIT]),
        summary=riskiest.summary,
        review_recommended=risk >= FLOOR[Severity.MED]
        or any(assessment.review_recommended for assessment in (minimum, *readings)),
    )


def strongest_first(items: Iterable[Weighed]) -> list[Weighed]:
    """Sort by severity, highest first; otherwise keep the order."""
    return sorted(items, key=lambda item: STRONGEST_FIRST.index(item.severity))


def count_changed_lines(file: FileChange) -> int:
    return sum(line.mark != " " for hunk in file.hunks for line in hunk.lines)


def place(path: str | None, line: int | None, removed: bool = False) -> str:
    """Return a place for people: path and line in the new file, or in the old one for a removed line.

    Hidden characters are spelled out: a path that only seems to be another one must not read like it.
    """
    if path is None:
        return WHOLE
    tail = "" if line is None else f":{line}" + (" (removed)" if removed else "")
    return (
        plain_text(visible(short_path(path)), LOCATION_LENGTH - len(tail)) or "a file without a readable name"
    ) + tail


def _risk(findings: Sequence[Finding], lines: int) -> float:
    if not findings:
        return min(SIZE_CEILING, round(SIZE_STEP * log2(1 + lines), 4))
    strongest = findings[0].severity
    further_count = sum(1 for finding in findings if finding.severity is strongest) - 1
    return min(CEILING[strongest], round(FLOOR[strongest] + STEP[strongest] * further_count, 4))


def _flag(finding: Finding) -> Flag:
    return Flag(
        type=finding.type,
        severity=finding.severity,
        location=place(finding.file, finding.line, finding.removed),
        explanation=plain_text(finding.explanation, EXPLANATION_LENGTH) or f"Rule {finding.rule}.",
    )


def _summary(change: Change, findings: Sequence[Finding]) -> str:
    """Return two or three sentences: the size, the findings with the strongest one, the unread part."""
    return " ".join(
        sentence for sentence in (_say_size(change), _say_findings(findings), _say_unread(change)) if sentence
    )


def _say_size(change: Change) -> str:
    if not change.files:
        return "No file of this change could be read."
    marks = Counter(line.mark for file in change.files for hunk in file.hunks for line in hunk.lines)
    counts = f"adds {_count(marks['+'], 'line')}, removes {_count(marks['-'], 'line')}"
    return f"Changes {_count(len(change.files), 'file')}, {counts}."


def _say_findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return "The scanners found nothing, which says nothing about whether the code is right."
    counts = Counter(finding.severity for finding in findings)
    severities = " and ".join(
        _count(counts[severity], f"{SEVERITY_WORDS[severity]} finding")
        for severity in STRONGEST_FIRST
        if counts[severity]
    )
    return f"{severities}{'' if len(findings) == 1 else ', the first'}: {findings[0].explanation.rstrip('. ')}."


def _say_unread(change: Change) -> str:
    return "" if change.coverage >= 1 else f"Only {int(100 * change.coverage)} % of the changed lines could be read."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


WORDS = frozenset({"title", "description", "discussion"})
_COMMIT = re.compile(r"commit ([1-9][0-9]{0,3})")
NOT_FOUND = "not found in the change: "
_PLACE = re.compile(r"F([0-9]{1,6})(?::L([0-9]{1,7})(?: ?- ?(?:F([0-9]{1,6}):)?L?([0-9]{1,7}))?)?")


def number_lines(file: FileChange) -> Iterator[tuple[int, Line]]:
    return enumerate((line for hunk in file.hunks for line in hunk.lines), 1)


def finding_place(finding: Finding, change: Change) -> str:
    """Return the place of a finding in the model's form: F1:L12, F1, or "change"."""
    for index, file in enumerate(change.files, 1):
        if finding.file == file.path:
            if finding.line is not None:
                for number, line in number_lines(file):
                    line_number = line.old if finding.removed else line.new
                    if line_number == finding.line and (line.mark == "-") == finding.removed:
                        return f"F{index}:L{number}"
            return f"F{index}"
    return "change"


def resolve_flag_place(flag: Flag, change: Change) -> Flag:
    """Return the flag with a readable place; a place that is not in the change stays and says so."""
    place_text = _readable_place(flag.location.strip(), change)
    if place_text is None:
        place_text = NOT_FOUND + (plain_text(flag.location, LOCATION_LENGTH - len(NOT_FOUND)) or "nothing readable")
    return flag.model_copy(update={"location": place_text})


def _readable_place(location: str, change: Change) -> str | None:
    commit = _COMMIT.fullmatch(location)
    if location in WORDS or (commit and int(commit[1]) <= len(change.mails)):
        return location
    match = _PLACE.fullmatch(location)
    if match is None or not 1 <= int(match[1]) <= len(change.files):
        return None
    file = change.files[int(match[1]) - 1]
    if match[2] is None:
        return place(file.path, None)
    return _readable_lines(match, file)


def _readable_lines(match: re.Match[str], file: FileChange) -> str | None:
    """Return the first line of a range; None unless both ends are in this file and in order."""
    first, last = int(match[2]), int(match[4] or match[2])
    lines = dict(number_lines(file))
    if int(match[3] or match[1]) != int(match[1]) or not (first <= last and first in lines and last in lines):
        return None
    line = lines[first]
    removed = line.mark == "-"
    return place(file.path, line.old if removed else line.new, removed)
