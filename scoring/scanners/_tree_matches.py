"""Match rules against syntax trees and statements, with names filled in, and report added lines."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from scoring.diff.budget import spend
from scoring.diff.change import Line
from scoring.scanners._assignments import expand
from scoring.scanners._guards import is_guarded
from scoring.scanners._holes import has_unsafe
from scoring.scanners._python_names import Expanded, expand_python, focused
from scoring.scanners._rules import Rule, may_read, tree_rules, visitor_values
from scoring.scanners._statements import ROWS, Statement, put_together, rows_near, statements
from scoring.scanners._text import GRAMMARS, Language
from scoring.scanners.whole_files import NewSide

if TYPE_CHECKING:
    from ast_grep_py import SgNode

MARK = "\x02"  # put before visitor input, so that rules need not list all its forms
# A call that quotes a name or a literal for SQL, and what it may take the place of besides. Its owner has few parts: a
# line of 16,000 characters of `a.a.a.` took 6 s without a bound.
_QUOTES = re.compile(
    r"(?i)\b(?:\w+(?:\.|->|::)){0,4}(?:escape|quote)_?(?:sqlite|id(?:ent\w*)?|literal|name|table|column)\(([^()]*)\)"
)
_AROUND = re.compile(r"[\s,\[\]\"'`]")
NEAR = 5  # rows around a changed one in which a rule's needle may be: calls rarely span more


def tree_matches(side: NewSide, rules: Iterable[Rule], language: Language) -> Iterator[tuple[Rule, Line]]:
    """Yield each match with the first added line that it touches, or from which a value in it comes.

    Python's trees are read twice, as written and with names filled in; others with names filled in only. Statements of
    languages without a grammar are read as written.
    """
    if language not in GRAMMARS:
        yield from _in_statements(Expanded(side.text), side, rules)
        return
    from ast_grep_py import SgRoot  # 30 ms, which only a review needs

    grammar = GRAMMARS[language]
    root = SgRoot(side.text, grammar).root()
    if language == "python":
        yield from _python_matches(side, root, tuple(rules))
        return
    expanded = expand(side.text, grammar, root)
    yield from _in_statements(expanded, side, rules)
    possible_ids = may_read(_near_changes(side, expanded))
    tree_rules_here = [rule for rule in rules if rule.rule is not None and rule.id in possible_ids]
    if tree_rules_here:
        root = root if expanded.text == side.text else SgRoot(expanded.text, grammar).root()
        yield from _match_trees(root, expanded, side, language, tree_rules_here)


def _python_matches(side: NewSide, root: "SgNode", rules: tuple[Rule, ...]) -> Iterator[tuple[Rule, Line]]:
    """Match rules on Python as written, then with names filled in; only in statements near changed lines."""
    from ast_grep_py import SgRoot

    expanded = expand_python(side, root)
    rows = {row for row, line in enumerate(side.lines) if line is not None and line.mark == "+"}
    rows |= {row for row, taken in expanded.sources.items() if taken & rows}
    yield from _in_statements(expanded, side, rules)
    rules = tuple(rule for rule in rules if rule.rule is not None)
    raw = tuple(rule for rule in rules if not rule.filled_in)
    for expanded_text, chosen_rules in ((Expanded(side.text), raw), (expanded, rules)):
        if chosen_rules is raw and expanded.text == side.text:
            continue
        text = focused(expanded_text.text, root, rows)
        possible_ids = may_read(text)
        possible_rules = [rule for rule in chosen_rules if rule.id in possible_ids]
        focus = Expanded(text, expanded_text.sources)
        yield from _match_trees(SgRoot(text, GRAMMARS["python"]).root(), focus, side, "python", possible_rules)


def _match_trees(
    root: "SgNode", read: Expanded, side: NewSide, language: Language, rules: Iterable[Rule]
) -> Iterator[tuple[Rule, Line]]:
    written = read.text.split("\n")
    for rule in rules:
        spend()
        reported: set[int] = set()  # rows; a value reported at its assignment is not reported again at its use
        for node in root.find_all(tree_rules(language)[rule.id]):
            if rule.spared and rule.spared.search(node.text()):
                continue
            reach = node.range()
            rows = range(reach.start.line, reach.end.line + 1)
            source_rows = {source for row in rows for source in read.sources.get(row, ())} - set(rows)
            line = side.added(rows[0], rows[-1])
            if line is None and rule.by_value and _is_value_kept(node, side, rows):
                continue
            line = line or next(
                (added_line for source in sorted(source_rows) if (added_line := side.added(source, source))), None
            )
            if (
                line
                and reported.isdisjoint(source_rows)
                and not _is_only_quoted(rule, side, {*rows, *source_rows})
                and not _is_safe(rule, node.text(), side, written, range(rows[0], rows[-1] + 1))
            ):
                reported.update(rows)
                yield rule, line


def _is_value_kept(node: "SgNode", side: NewSide, rows: range) -> bool:
    """Return whether a node assigns a value as these rows have it written; only what it is set on comes from others."""
    value = node.field("right") if node.kind() == "assignment" else None
    return value is not None and value.text() in "\n".join(side.text.split("\n")[rows.start : rows.stop])


def _in_statements(expanded: Expanded, side: NewSide, rules: Iterable[Rule]) -> Iterator[tuple[Rule, Line]]:
    """Match rules against the statements with an added row, or with a value from one."""
    statement_rules = [rule for rule in rules if rule.statement is not None]
    possible_ids = may_read(side.text)
    yield from _match_statements(
        Expanded(side.text), side, [rule for rule in statement_rules if rule.as_written and rule.id in possible_ids]
    )
    possible_ids = possible_ids if expanded.text == side.text else may_read(expanded.text)
    yield from _match_statements(
        expanded, side, [rule for rule in statement_rules if not rule.as_written and rule.id in possible_ids]
    )


def _match_statements(expanded: Expanded, side: NewSide, statement_rules: list[Rule]) -> Iterator[tuple[Rule, Line]]:
    changed = {row for row, line in enumerate(side.lines) if line is not None and line.mark == "+"}
    wanted = changed | {row for row, source_rows in expanded.sources.items() if source_rows & changed}
    reported: dict[str, set[int]] = {
        rule.id: set() for rule in statement_rules
    }  # rows whose value was reported at its assignment
    written = expanded.text.split("\n")
    for statement in statements(expanded.text, wanted) if statement_rules else ():
        rows = range(statement.first, statement.last + 1)
        source_rows = {source for row in rows for source in expanded.sources.get(row, ())} - set(rows)
        lines = (side.added(row, row) for row in (*rows, *sorted(source_rows)))
        line = next((line for line in lines if line is not None), None)
        if line is None:
            continue
        text = _marked(statement.text)
        is_own = source_rows.isdisjoint(changed)
        possible_ids = may_read(statement.text)
        for rule in statement_rules:
            is_new = rule.id in possible_ids and reported[rule.id].isdisjoint(source_rows)
            if not (is_new and _reads(rule, statement.text if rule.as_written else text, statement.heads)):
                continue
            if is_own and _is_unchanged(rule, _marked(_unchanged_rows(side, written, statement)), text):
                continue
            if rule.spares_moved and _is_moved(rule, text, side.removed):
                continue
            if _is_only_quoted(rule, side, {*rows, *source_rows}):
                continue
            if not _is_safe(rule, statement.text if rule.as_written else text, side, written, rows):
                reported[rule.id].update(rows, source_rows)
                yield rule, line


def _marked(text: str) -> str:
    """Return a statement with quoted texts joined and a mark before each value of a visitor."""
    return visitor_values().sub(rf"{MARK}\1", put_together(text.replace(MARK, "")))


def _is_unchanged(rule: Rule, before: str, text: str) -> bool:
    """Return whether a rule matches a statement as often without the added rows."""
    return bool(before) and len(rule.pattern.findall(before)) >= len(rule.pattern.findall(text))


def _is_moved(rule: Rule, text: str, removed: str) -> bool:
    """Return whether a rule matches removed lines, without a safeguard in them, with the words matched here."""
    if not removed or (rule.exception is not None and rule.exception.search(removed)):
        return False
    before = [match[0].strip() for match in rule.pattern.finditer(_marked(" ".join(removed.split())))]
    return all(any(matched in match[0] for matched in before) for match in rule.pattern.finditer(text))


def _unchanged_rows(side: NewSide, rows: Sequence[str], statement: Statement) -> str:
    """Return the rows of a statement that are not added."""
    return " ".join(
        rows[row].strip() for row in range(statement.first, statement.last + 1) if side.added(row, row) is None
    )


def _is_safe(rule: Rule, text: str, side: NewSide, filled: Sequence[str], rows: range) -> bool:
    """Return whether an exception or a guard is near, the companion is missing, or all values are safe."""
    if rule.guarded is not None and is_guarded(rule.guarded, text, side.text.split("\n"), rows[0], rows[-1]):
        return True
    if rule.exception is None and rule.companion is None and rule.safe_values is None:
        return False
    near = rows_near(filled, rows[0], rows[-1])
    is_alone = rule.companion is not None and not rule.companion.search(near)
    is_excepted = rule.exception is not None and rule.exception.search(near) is not None
    return is_alone or is_excepted or (rule.safe_values is not None and not has_unsafe(text, rule.safe_values, near))


def _is_only_quoted(rule: Rule, side: NewSide, rows: Iterable[int]) -> bool:
    """Return whether the added ones of these rows say what removed ones said, and only quote more of it for SQL."""
    if rule.holes != "safe-in-sql":
        return False
    end = max(rows) + 1  # of a statement that may go on in the rows below
    own, below = ([side.added(row, row) for row in part] for part in (sorted(rows), range(end, end + ROWS)))
    texts = [[line.text for line in part if line is not None] for part in (own, [*own, *takewhile(bool, below)])]
    bare = (_QUOTES.subn(r"\1", " ".join(text)) for text in texts)
    removed = _AROUND.sub("", side.removed)
    return any(quoted_values > 0 and _AROUND.sub("", text) in removed for text, quoted_values in bare)


def _reads(rule: Rule, text: str, heads: str) -> bool:
    """Return whether a rule matches a statement inside functions with these heads."""
    is_there = rule.surroundings is None or rule.surroundings.search(heads)
    return bool(is_there and rule.pattern.search(text) and not (rule.spared and rule.spared.search(text)))


def _near_changes(side: NewSide, expanded: Expanded) -> str:
    """Return the rows around those that are added, or whose values are added."""
    changed = {row for row, line in enumerate(side.lines) if line is not None and line.mark == "+"}
    changed |= {row for row, sources in expanded.sources.items() if sources & changed}
    rows = {near for row in changed for near in range(row - NEAR, row + NEAR + 1)}
    return "\n".join(text for row, text in enumerate(expanded.text.split("\n")) if row in rows)
