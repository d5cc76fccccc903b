"""Rules played on the syntax tree of a text, with names filled in, and reported at lines that the change adds."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from scoring.content.budget import spend
from scoring.content.change import Line
from scoring.content.whole_files import NewSide
from scoring.evidence._assignments import expand
from scoring.evidence._languages import GRAMMARS, Language
from scoring.evidence._python_names import Expanded, expand_python, focused
from scoring.evidence._rules import Rule
from scoring.evidence._tree_rules import tree_rules

if TYPE_CHECKING:
    from ast_grep_py import SgNode

NEAR = 5  # rows around a changed one in which a rule's needle may stand: a call is seldom written over more


def tree_matches(side: NewSide, rules: Iterable[Rule], language: Language) -> Iterator[tuple[Rule, Line]]:
    """Yield each match with the first added line that it touches, or that what it matches was taken from.

    Python is read twice, as it is written and with names filled in; other languages with names filled in only.
    """
    from ast_grep_py import SgRoot  # 30 ms, which only a review has to pay

    grammar = GRAMMARS[language]
    root = SgRoot(side.text, grammar).root()
    if language == "python":
        yield from _python_matches(side, root, tuple(rules))
        return
    read = expand(side.text, grammar, root)
    near = _near_changes(side, read)
    meant = [rule for rule in rules if rule.may_match(near)]
    if meant:
        root = root if read.text == side.text else SgRoot(read.text, grammar).root()
        yield from _played(root, read, side, language, meant)


def _python_matches(side: NewSide, root: "SgNode", rules: tuple[Rule, ...]) -> Iterator[tuple[Rule, Line]]:
    """Play rules on Python as it is written, then with names filled in; only statements near changed lines."""
    from ast_grep_py import SgRoot

    expanded = expand_python(side, root)
    rows = {row for row, line in enumerate(side.lines) if line is not None and line.mark == "+"}
    rows |= {row for row, taken in expanded.sources.items() if taken & rows}
    raw = tuple(rule for rule in rules if not rule.filled_in)
    for read, meant in ((Expanded(side.text), raw), (expanded, rules)):
        if meant is raw and expanded.text == side.text:
            continue
        text = focused(read.text, root, rows)
        told = [rule for rule in meant if rule.may_match(text)]
        focus = Expanded(text, read.sources)
        yield from _played(SgRoot(text, GRAMMARS["python"]).root(), focus, side, "python", told)


def _played(
    root: "SgNode", read: Expanded, side: NewSide, language: Language, rules: Iterable[Rule]
) -> Iterator[tuple[Rule, Line]]:
    for rule in rules:
        spend()
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


def _near_changes(side: NewSide, read: Expanded) -> str:
    """Return the rows around those that the change adds, or whose values it adds."""
    changed = {row for row, line in enumerate(side.lines) if line is not None and line.mark == "+"}
    changed |= {row for row, sources in read.sources.items() if sources & changed}
    rows = {near for row in changed for near in range(row - NEAR, row + NEAR + 1)}
    return "\n".join(text for row, text in enumerate(read.text.split("\n")) if row in rows)
