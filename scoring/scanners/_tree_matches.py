"""Matches rules against syntax trees and statements, with names filled in, and reports lines that the change adds."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from scoring.diff.budget import spend
from scoring.diff.change import Line
from scoring.scanners._assignments import expand
from scoring.scanners._guards import is_guarded
from scoring.scanners._holes import has_unsafe
from scoring.scanners._python_names import Expanded, expand_python, focused
from scoring.scanners._rules import Rule, may_read, tree_rules, visitor_values
from scoring.scanners._statements import Statement, put_together, rows_near, statements
from scoring.scanners._text import GRAMMARS, Language
from scoring.scanners.whole_files import NewSide

if TYPE_CHECKING:
    from ast_grep_py import SgNode

MARK = "\x02"  # put before visitor input, so that rules need not name all its forms
NEAR = 5  # rows around a changed one in which a rule's needle may stand: a call is seldom written over more


def tree_matches(side: NewSide, rules: Iterable[Rule], language: Language) -> Iterator[tuple[Rule, Line]]:
    """Yield each match with the first added line that it touches, or from which a value in it was taken.

    Python's trees are read twice, as they are written and with names filled in; others with names filled in only.
    Statements of languages without a grammar are read as they are written.
    """
    if language not in GRAMMARS:
        yield from _in_statements(Expanded(side.text), side, rules)
        return
    from ast_grep_py import SgRoot  # 30 ms, which only a review has to pay

    grammar = GRAMMARS[language]
    root = SgRoot(side.text, grammar).root()
    if language == "python":
        yield from _python_matches(side, root, tuple(rules))
        return
    read = expand(side.text, grammar, root)
    yield from _in_statements(read, side, rules)
    able = may_read(_near_changes(side, read))
    meant = [rule for rule in rules if rule.rule is not None and rule.id in able]
    if meant:
        root = root if read.text == side.text else SgRoot(read.text, grammar).root()
        yield from _played(root, read, side, language, meant)


def _python_matches(side: NewSide, root: "SgNode", rules: tuple[Rule, ...]) -> Iterator[tuple[Rule, Line]]:
    """Play rules on Python as it is written, then with names filled in; only statements near changed lines."""
    from ast_grep_py import SgRoot

    expanded = expand_python(side, root)
    rows = {row for row, line in enumerate(side.lines) if line is not None and line.mark == "+"}
    rows |= {row for row, taken in expanded.sources.items() if taken & rows}
    yield from _in_statements(expanded, side, rules)
    rules = tuple(rule for rule in rules if rule.rule is not None)
    raw = tuple(rule for rule in rules if not rule.filled_in)
    for read, meant in ((Expanded(side.text), raw), (expanded, rules)):
        if meant is raw and expanded.text == side.text:
            continue
        text = focused(read.text, root, rows)
        able = may_read(text)
        told = [rule for rule in meant if rule.id in able]
        focus = Expanded(text, read.sources)
        yield from _played(SgRoot(text, GRAMMARS["python"]).root(), focus, side, "python", told)


def _played(
    root: "SgNode", read: Expanded, side: NewSide, language: Language, rules: Iterable[Rule]
) -> Iterator[tuple[Rule, Line]]:
    written = read.text.split("\n")
    for rule in rules:
        spend()
        told: set[int] = set()  # rows; a value that was told where it is assigned is not told again where it is used
        for node in root.find_all(tree_rules(language)[rule.id]):
            if rule.spared and rule.spared.search(node.text()):
                continue
            reach = node.range()
            rows = range(reach.start.line, reach.end.line + 1)
            taken = {source for row in rows for source in read.sources.get(row, ())} - set(rows)
            line = side.added(rows[0], rows[-1])
            line = line or next((made for source in sorted(taken) if (made := side.added(source, source))), None)
            if (
                line
                and told.isdisjoint(taken)
                and not _is_safe(rule, node.text(), side, written, range(rows[0], rows[-1] + 1))
            ):
                told.update(rows)
                yield rule, line


def _in_statements(read: Expanded, side: NewSide, rules: Iterable[Rule]) -> Iterator[tuple[Rule, Line]]:
    """Match rules against the statements that hold an added row, or a value taken from one."""
    meant = [rule for rule in rules if rule.statement is not None]
    able = may_read(side.text)
    yield from _stated(Expanded(side.text), side, [rule for rule in meant if rule.as_written and rule.id in able])
    able = able if read.text == side.text else may_read(read.text)
    yield from _stated(read, side, [rule for rule in meant if not rule.as_written and rule.id in able])


def _stated(read: Expanded, side: NewSide, meant: list[Rule]) -> Iterator[tuple[Rule, Line]]:
    changed = {row for row, line in enumerate(side.lines) if line is not None and line.mark == "+"}
    wanted = changed | {row for row, taken in read.sources.items() if taken & changed}
    told: dict[str, set[int]] = {rule.id: set() for rule in meant}  # rows whose value was reported at its assignment
    written = read.text.split("\n")
    for one in statements(read.text, wanted) if meant else ():
        rows = range(one.first, one.last + 1)
        taken = {source for row in rows for source in read.sources.get(row, ())} - set(rows)
        lines = (side.added(row, row) for row in (*rows, *sorted(taken)))
        line = next((line for line in lines if line is not None), None)
        if line is None:
            continue
        text = _marked(one.text)
        is_own = taken.isdisjoint(changed)
        able = may_read(one.text)
        for rule in meant:
            is_new = rule.id in able and told[rule.id].isdisjoint(taken)
            if not (is_new and _reads(rule, one.text if rule.as_written else text, one.heads)):
                continue
            if is_own and _stood(rule, _marked(_standing(side, written, one)), text):
                continue
            if rule.spares_moved and _is_moved(rule, text, side.removed):
                continue
            if not _is_safe(rule, one.text if rule.as_written else text, side, written, rows):
                told[rule.id].update(rows, taken)
                yield rule, line


def _marked(text: str) -> str:
    """Return a statement with quoted texts put together and a mark before each value of a visitor."""
    return visitor_values().sub(rf"{MARK}\1", put_together(text.replace(MARK, "")))


def _stood(rule: Rule, before: str, text: str) -> bool:
    """Return whether a rule matches a statement as often without the rows that the change adds."""
    return bool(before) and len(rule.pattern.findall(before)) >= len(rule.pattern.findall(text))


def _is_moved(rule: Rule, text: str, removed: str) -> bool:
    """Return whether a rule matches removed lines, without a safeguard beside them, and the same words here."""
    if not removed or (rule.exception is not None and rule.exception.search(removed)):
        return False
    before = [found[0].strip() for found in rule.pattern.finditer(_marked(" ".join(removed.split())))]
    return all(any(one in found[0] for one in before) for found in rule.pattern.finditer(text))


def _standing(side: NewSide, rows: Sequence[str], one: Statement) -> str:
    """Return the rows of a statement that the change does not add."""
    return " ".join(rows[row].strip() for row in range(one.first, one.last + 1) if side.added(row, row) is None)


def _is_safe(rule: Rule, text: str, side: NewSide, filled: Sequence[str], rows: range) -> bool:
    """Return whether an exception or a guard stands near, the companion is missing, or all values are safe."""
    if rule.guarded is not None and is_guarded(rule.guarded, text, side.text.split("\n"), rows[0], rows[-1]):
        return True
    if rule.exception is None and rule.companion is None and rule.safe_values is None:
        return False
    near = rows_near(filled, rows[0], rows[-1])
    is_alone = rule.companion is not None and not rule.companion.search(near)
    is_excepted = rule.exception is not None and rule.exception.search(near) is not None
    return is_alone or is_excepted or (rule.safe_values is not None and not has_unsafe(text, rule.safe_values, near))


def _reads(rule: Rule, text: str, heads: str) -> bool:
    """Return whether a rule matches a statement inside functions with these heads."""
    is_there = rule.surroundings is None or rule.surroundings.search(heads)
    return bool(is_there and rule.pattern.search(text) and not (rule.spared and rule.spared.search(text)))


def _near_changes(side: NewSide, read: Expanded) -> str:
    """Return the rows around those that the change adds, or whose values it adds."""
    changed = {row for row, line in enumerate(side.lines) if line is not None and line.mark == "+"}
    changed |= {row for row, sources in read.sources.items() if sources & changed}
    rows = {near for row in changed for near in range(row - NEAR, row + NEAR + 1)}
    return "\n".join(text for row, text in enumerate(read.text.split("\n")) if row in rows)
