"""Find constructs that run, open, weaken or hide something: the rules in rules/, matched on added and removed lines."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import dropwhile, takewhile

from scoring.diff.budget import BudgetSpent, spend
from scoring.diff.change import Change, FileChange, Hunk, Line
from scoring.diff.paths import Role, never_fast, role
from scoring.scanners._finding_helpers import cut, lowered, quoted, worst_first
from scoring.scanners._notebooks import read_as
from scoring.scanners._renames import in_new_names, renamed
from scoring.scanners._rules import Rule, may_read, rules_for
from scoring.scanners._text import (
    CONTINUED,
    Language,
    cleaned,
    continued,
    fragment_of,
    is_comment,
    is_too_deep,
    told_elsewhere,
)
from scoring.scanners._tree_matches import tree_matches
from scoring.scanners._unconditional import is_unconditional
from scoring.scanners.submission import Submission
from scoring.scanners.whole_files import NewSide
from scoring.types import Finding, Severity

SCANNER = "dangerous"
LINE_LENGTH = 20_000  # characters of a line that expressions are played on
PARSED_CHARACTERS = 3_000_000  # of one change: about 1.5 s; the parser gets no more
FRAGMENT_CHARACTERS = 1_000_000
PLAYS = 3_000  # matches of a rule on a parsed hunk, in one change: .2 ms each; 20,000 lines of real changes take 600
SUCCESSORS = 30  # added lines that may replace a removed one
FEWEST_WORDS = 3  # least word count of a compared line
_WORD = re.compile(r"\w+")
ONCE = 20  # findings of one rule in one file: more add nothing


@dataclass
class _Reading:
    """The state of reading a change: the remaining parse budget, and the lines that no rule saw."""

    change: Change
    left: int = PARSED_CHARACTERS
    plays: int = PLAYS
    unread: dict[str, Line] = field(default_factory=dict)  # path: the first line that no rule saw
    added: str | None = None

    def added_text(self) -> str:
        """Return all added text without comments, which shows whether a safeguard only moved."""
        if self.added is None:
            lines = (cut(line.text, LINE_LENGTH) for file in self.change.files for line in file.added())
            self.added = "\n".join(line for line in lines if not is_comment(line))
        return self.added


def scan(submission: Submission) -> Iterator[Finding]:
    """Yield findings on added lines, and on removed ones where a safeguard is removed; worst first, in bounded time.

    Rules about running, fetching or sending weigh as much in tests, documentation, generated and vendored files, since
    builds run those; others one step less. A text that is too long or too deep for the rules is its own finding.
    """
    reading = _Reading(submission.change)
    yield from worst_first(_all_findings(reading, submission))


def _all_findings(reading: _Reading, submission: Submission) -> Iterator[Finding]:
    for file, whole in submission.files():
        spend()
        yield from _scan_file(reading, file, whole)
    yield from _unread(reading)


def _scan_file(reading: _Reading, file: FileChange, whole: NewSide | None) -> Iterator[Finding]:
    for file_as_code, language in read_as(file) if file.hunks else ():
        yield from _scan_as(reading, file_as_code, whole if file_as_code is file else None, language)


def _scan_as(reading: _Reading, file: FileChange, whole: NewSide | None, language: Language) -> Iterator[Finding]:
    part = role(file.path)
    rules = [rule for rule in rules_for(language) if rule.looks_at(file.path, part)]
    seen: dict[str, set[int]] = {}
    for rule, line in _least(_matches(reading, file, whole, rules, language)):
        severity = _severity(rule, part, file, whole, line)
        number = line.new or line.old or 0
        lines = seen.setdefault(rule.id, set())
        if severity and number not in lines and len(lines) < ONCE:
            lines.add(number)
            yield _finding(rule, severity, file, line)


def _severity(rule: Rule, part: Role, file: FileChange, whole: NewSide | None, line: Line) -> Severity | None:
    if part != "code":
        return rule.severity if rule.weighs_everywhere else lowered(rule.severity)
    is_worse = rule.worse_unconditional and _is_new_and_unconditional(file, whole, line)
    return Severity.HIGH if is_worse else rule.severity


def _is_new_and_unconditional(file: FileChange, whole: NewSide | None, line: Line) -> bool:
    """Return whether an added line runs in any case, and no line like it is removed from the file."""
    if any(removed.text.strip() == line.text.strip() for removed in file.removed()):
        return False
    if whole is not None and line in whole.lines:
        return is_unconditional(whole.text.split("\n"), whole.lines.index(line))
    hunk = next((hunk for hunk in file.hunks if line in hunk.lines), None)
    lines = [one for one in hunk.lines if one.mark != "-"] if hunk else []
    return hunk is not None and is_unconditional([hunk.section, *(one.text for one in lines)], lines.index(line) + 1)


def _least(matches: Iterator[tuple[Rule, Line]]) -> Iterator[tuple[Rule, Line]]:
    """Omit matches of rules on statements at lines where another rule reports the same severity, or high."""
    general: list[tuple[Rule, Line]] = []
    reported: dict[Line, set[Severity]] = {}
    spent: BudgetSpent | None = None
    try:
        for rule, line in matches:
            if rule.statement is None:
                reported.setdefault(line, set()).add(rule.severity)
                yield rule, line
            else:
                general.append((rule, line))
    except BudgetSpent as reason:
        spent = reason
    yield from (
        match for match in general if reported.get(match[1], set()).isdisjoint({Severity.HIGH, match[0].severity})
    )
    if spent is not None:
        raise spent


def _matches(
    reading: _Reading, file: FileChange, whole: NewSide | None, rules: list[Rule], language: Language
) -> Iterator[tuple[Rule, Line]]:
    tree = [rule for rule in rules if rule.rule is not None or rule.statement is not None]
    is_whole = whole is not None and _fits(reading, cleaned(whole), tree)
    if whole is not None and is_whole and any(file.added()):
        yield from _tree_matches(reading, cleaned(whole), tree, language)
    for hunk in file.hunks:
        spend()
        if not is_whole:
            yield from _hunk_matches(reading, file, hunk, tree, language)
        yield from _text_matches(reading, file, hunk, rules, language)


def _hunk_matches(
    reading: _Reading, file: FileChange, hunk: Hunk, rules: list[Rule], language: Language
) -> Iterator[tuple[Rule, Line]]:
    """Match rules on the syntax tree of one hunk; note it as unread where it is too large for them."""
    if all(line.mark != "+" for line in hunk.lines):
        return
    side = fragment_of(hunk, language, told_elsewhere(file.hunks, hunk) if len(file.hunks) > 1 else ())
    if _fits(reading, side, rules):
        yield from _tree_matches(reading, side, rules, language)
    elif rules:
        reading.unread.setdefault(file.path, next(line for line in hunk.lines if line.mark == "+"))


def _fits(reading: _Reading, side: NewSide, rules: list[Rule]) -> bool:
    """Return whether the change's remaining parse budget has room for this text."""
    size = len(side.text)
    is_small = size <= min(reading.left, FRAGMENT_CHARACTERS) and _count_trees(rules) <= reading.plays
    return is_small and not is_too_deep(side.text)


def _tree_matches(
    reading: _Reading, side: NewSide, rules: list[Rule], language: Language
) -> Iterator[tuple[Rule, Line]]:
    """Yield the matches of the rules that may match a text, each with its first added line."""
    possible_ids = may_read(side.text)
    able_rules = [rule for rule in rules if rule.id in possible_ids]
    chosen_rules = rules if language == "python" else able_rules
    if not chosen_rules:
        return
    reading.left -= len(side.text)
    reading.plays -= _count_trees(able_rules)
    yield from tree_matches(side, chosen_rules, language)


def _count_trees(rules: list[Rule]) -> int:
    return sum(rule.rule is not None for rule in rules)


def _text_matches(
    reading: _Reading, file: FileChange, hunk: Hunk, rules: list[Rule], language: Language
) -> Iterator[tuple[Rule, Line]]:
    """Match rules on single lines, added and removed."""
    added, text = [line for line in hunk.lines if line.mark == "+"], _added_text(hunk)
    whole = [*added, *continued(added)] if language in CONTINUED else added
    for rule in rules:
        spend()
        if rule.lines is not None and rule.may_match(text):
            yield from _line_matches(rule, whole, text)
    if not (file.kind == "deleted" and never_fast(file.path) == "ci"):  # what no longer runs needs no safeguard
        yield from _removed_matches(reading, hunk, rules)
    long = next((line for line in added if len(line.text) > LINE_LENGTH), None)
    if long:
        reading.unread.setdefault(file.path, long)


def _added_text(hunk: Hunk) -> str:
    return "\n".join(cut(line.text, LINE_LENGTH) for line in hunk.lines if line.mark == "+")


def _line_matches(rule: Rule, added: list[Line], text: str) -> Iterator[tuple[Rule, Line]]:
    if rule.exception and rule.exception.search(text):
        return
    if rule.companion and not rule.companion.search(text):
        return
    for line in added:
        beginning = cut(line.text, LINE_LENGTH)
        if rule.may_match(beginning) and rule.pattern.search(beginning):
            yield rule, line


def _removed_matches(reading: _Reading, hunk: Hunk, rules: list[Rule]) -> Iterator[tuple[Rule, Line]]:
    """Yield the replacement of removed lines that a rule protects, or the first removed line.

    Nothing is yielded where the change adds a safeguard.
    """
    before = ["", *(cut(line.text, LINE_LENGTH) for line in hunk.lines)]
    removed = _without_renamed(hunk)
    for rule in (rule for rule in rules if removed and rule.removed is not None):
        spend()
        missed = [
            line
            for index, line in removed
            if rule.pattern.search(before[index + 1])
            and (rule.companion is None or rule.companion.search(before[index]))
        ]
        if missed and not (rule.exception and rule.exception.search(reading.added_text())):
            yield rule, next(filter(None, (_successor(hunk, line) for line in missed[:SUCCESSORS])), missed[0])


def _without_renamed(hunk: Hunk) -> list[tuple[int, Line]]:
    """Return the removed lines, with their places, that no added one repeats with a name that the hunk changes."""
    names = renamed(hunk)
    added = {line.text for line in hunk.lines if line.mark == "+"} if names else set()
    removed = [(index, line) for index, line in enumerate(hunk.lines) if line.mark == "-"]
    texts = {line.text: in_new_names(line.text, names) for _, line in removed} if names else {}
    kept = {text for text, other in texts.items() if other != text and other in added}
    return [(index, line) for index, line in removed if line.text not in kept]


def _successor(hunk: Hunk, removed: Line) -> Line | None:
    """Return the added line that replaces a removed one: the most similar of those after its run, or the first.

    None where no code replaces it.
    """
    index = hunk.lines.index(removed)
    after = list(dropwhile(lambda line: line.mark == "-", hunk.lines[index:]))
    candidates = list(takewhile(lambda line: line.mark == "+", after))[:SUCCESSORS]
    words = set(_WORD.findall(cut(removed.text, LINE_LENGTH)))
    others = [set(_WORD.findall(cut(line.text, LINE_LENGTH))) for line in candidates]
    similarities = [len(words & other) / max(min(len(words), len(other)), FEWEST_WORDS) for other in others]
    best = max(similarities, default=0.0)
    first = next((line for line in candidates if line.text.strip() and not is_comment(line.text)), None)
    return candidates[similarities.index(best)] if best > 0 else first


def _finding(rule: Rule, severity: Severity, file: FileChange, line: Line) -> Finding:
    is_removed = line.mark == "-"
    return Finding(
        SCANNER,
        rule.id,
        rule.type or "security",
        severity,
        rule.message,
        file=file.path,
        line=line.old if is_removed else line.new,
        quote=quoted(line.text),
        removed=is_removed,
    )


def _unread(reading: _Reading) -> Iterator[Finding]:
    for path, line in reading.unread.items():
        parts: dict[Role, Severity] = {"generated": Severity.LOW, "vendored": Severity.LOW, "docs": Severity.LOW}
        severity = parts.get(role(path), Severity.MED)
        message = "From this line on the code is too long or nested too deeply for the rules: nobody has read it yet."
        yield Finding(
            SCANNER,
            "too-much-to-read",
            "oversized",
            severity,
            message,
            file=path,
            line=line.new,
            quote=quoted(line.text),
        )
