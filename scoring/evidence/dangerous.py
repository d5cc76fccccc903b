"""Constructs that run, open, weaken or hide something: the rules in rules/, played on added and removed lines."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scoring.content.change import Change, FileChange, Hunk, Line
from scoring.content.finding import Finding, Severity
from scoring.content.paths import Role, role
from scoring.content.submission import Submission
from scoring.content.whole_files import NewSide
from scoring.evidence._fragments import CONTINUED, cleaned, continued, fragment_of, is_too_deep
from scoring.evidence._languages import GRAMMARS, Language, language_of_file
from scoring.evidence._python_names import Expanded, expand_python, focused
from scoring.evidence._rules import Rule, rules_for
from scoring.evidence._tree_rules import tree_rules
from scoring.evidence._weight import cut, lowered, quoted, worst_first

if TYPE_CHECKING:
    from ast_grep_py import SgNode

SCANNER = "dangerous"
LINE_LENGTH = 20_000  # characters of a line that expressions are played on
PARSED_CHARACTERS = 3_000_000  # of one change: about 1.5 s; the parser is given no more
FRAGMENT_CHARACTERS = 1_000_000
PLAYS = 3_000  # of a rule on a parsed hunk, of one change: .2 ms each; 20,000 lines of real changes take 600
ONCE = 20  # findings of one rule in one file: more say the same


@dataclass
class _Reading:
    """One change while it is read: what may still be parsed, and what was not."""

    change: Change
    left: int = PARSED_CHARACTERS
    plays: int = PLAYS
    unread: dict[str, Line] = field(default_factory=dict)  # path: the first line that no rule saw
    added: str | None = None

    def added_text(self) -> str:
        """All that the change adds, which tells whether a safeguard only moved."""
        if self.added is None:
            self.added = "\n".join(cut(line.text, LINE_LENGTH) for file in self.change.files for line in file.added())
        return self.added


def scan(submission: Submission) -> Iterator[Finding]:
    """Findings on added lines, and on removed ones where a safeguard goes; the worst first, in bounded time.

    What runs, fetches or sends something weighs the same in tests, documentation, generated and vendored files, since
    builds run those; the rest one step less. What is too long or too deep for the rules is a finding of its own.
    """
    reading = _Reading(submission.change)
    found = [finding for file, whole in submission.files() for finding in _scan_file(reading, file, whole)]
    yield from worst_first([*found, *_unread(reading)])


def _scan_file(reading: _Reading, file: FileChange, whole: NewSide | None) -> Iterator[Finding]:
    if not file.hunks:
        return
    language, part = language_of_file(file), role(file.path)
    rules = [rule for rule in rules_for(language) if not rule.roles or part in rule.roles]
    seen: dict[str, set[int]] = {}
    for rule, line in _matches(reading, file, whole, rules, language):
        severity = rule.severity if part == "code" or rule.weighs_everywhere else lowered(rule.severity)
        number = line.new or line.old or 0
        lines = seen.setdefault(rule.id, set())
        if severity and number not in lines and len(lines) < ONCE:
            lines.add(number)
            yield _finding(rule, severity, file, line)


def _matches(
    reading: _Reading, file: FileChange, whole: NewSide | None, rules: list[Rule], language: Language
) -> Iterator[tuple[Rule, Line]]:
    tree = [rule for rule in rules if rule.rule is not None]
    is_whole = whole is not None and _fits(reading, cleaned(whole), tree)
    if whole is not None and is_whole and any(file.added()):
        yield from _tree_matches(reading, cleaned(whole), tree, language)
    for hunk in file.hunks:
        if not is_whole:
            yield from _hunk_matches(reading, file, hunk, tree, language)
        yield from _text_matches(reading, file, hunk, rules, language)


def _hunk_matches(
    reading: _Reading, file: FileChange, hunk: Hunk, rules: list[Rule], language: Language
) -> Iterator[tuple[Rule, Line]]:
    """Play rules on the syntax tree of one hunk; one that is too much for them is noted as unread."""
    if all(line.mark != "+" for line in hunk.lines):
        return
    side = fragment_of(hunk, language)
    if _fits(reading, side, rules):
        yield from _tree_matches(reading, side, rules, language)
    elif rules:
        reading.unread.setdefault(file.path, next(line for line in hunk.lines if line.mark == "+"))


def _fits(reading: _Reading, side: NewSide, rules: list[Rule]) -> bool:
    """Return whether what may still be parsed of the change has room for this text."""
    size = len(side.text)
    is_small = size <= min(reading.left, FRAGMENT_CHARACTERS) and len(rules) <= reading.plays
    return is_small and not is_too_deep(side.text)


def _tree_matches(
    reading: _Reading, side: NewSide, rules: list[Rule], language: Language
) -> Iterator[tuple[Rule, Line]]:
    """Play the rules that may match on a syntax tree; each match with the first added line that it touches.

    Python is read a second time with names filled in; what comes of that is told at the first added line of all that
    the matching row was made of.
    """
    grammar = GRAMMARS.get(language)
    if grammar is None:
        return
    from ast_grep_py import SgRoot  # 30 ms, which only a review has to pay

    root = SgRoot(side.text, grammar).root()
    reading.left -= len(side.text)
    if language != "python":
        yield from _played(reading, root, Expanded(side.text), side, rules, language)
        return
    expanded = expand_python(side, root)
    rows = {row for row, line in enumerate(side.lines) if line is not None and line.mark == "+"}
    rows |= {row for row, taken in expanded.sources.items() if taken & rows}
    raw = [rule for rule in rules if not rule.filled_in]
    for read, meant in ((Expanded(side.text), raw), (expanded, rules)):
        if meant is raw and expanded.text == side.text:
            continue
        text = focused(read.text, root, rows)
        focus = Expanded(text, read.sources)
        yield from _played(reading, SgRoot(text, grammar).root(), focus, side, meant, language)


def _played(
    reading: _Reading, root: "SgNode", read: Expanded, side: NewSide, rules: list[Rule], language: Language
) -> Iterator[tuple[Rule, Line]]:
    meant = [rule for rule in rules if rule.may_match(read.text)]
    reading.plays -= len(meant)
    for rule in meant:
        told: set[int] = set()  # rows; a value that was told where it is assigned is not told again where it is used
        for node in root.find_all(tree_rules(language)[rule.id]):
            reach = node.range()
            rows = range(reach.start.line, reach.end.line + 1)
            taken = {source for row in rows for source in read.sources.get(row, ())} - set(rows)
            line = side.added(rows[0], rows[-1])
            line = line or next((made for source in sorted(taken) if (made := side.added(source, source))), None)
            if line and told.isdisjoint(taken):
                told.update(rows)
                yield rule, line


def _text_matches(
    reading: _Reading, file: FileChange, hunk: Hunk, rules: list[Rule], language: Language
) -> Iterator[tuple[Rule, Line]]:
    """Play rules on single lines, added and removed."""
    added, text = [line for line in hunk.lines if line.mark == "+"], _added_text(hunk)
    whole = [*added, *continued(added)] if language in CONTINUED else added
    for rule in rules:
        if rule.lines is not None and rule.may_match(text):
            yield from _line_matches(rule, whole, text)
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
    removed = [line for line in hunk.lines if line.mark == "-"]
    for rule in (rule for rule in rules if removed and rule.removed is not None):
        for line in removed:
            if rule.pattern.search(cut(line.text, LINE_LENGTH)):
                if rule.exception and rule.exception.search(reading.added_text()):
                    break
                yield rule, line
                break


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
