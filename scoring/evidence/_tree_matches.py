"""Rules played on the syntax tree of a text, with variables filled in, and reported at lines that the change adds."""

from collections.abc import Iterable, Iterator

from scoring.content.change import Line
from scoring.content.whole_files import NewSide
from scoring.evidence._assignments import Expanded, expand
from scoring.evidence._languages import GRAMMARS, Language
from scoring.evidence._rules import Rule
from scoring.evidence._tree_rules import tree_rules

NEAR = 5  # rows around a changed one in which a rule's needle may stand: a call is seldom written over more


def tree_matches(side: NewSide, rules: Iterable[Rule], language: Language) -> Iterator[tuple[Rule, Line]]:
    """Yield each match with the first added line that it touches, or whose value it uses."""
    from ast_grep_py import SgRoot  # 30 ms, which only a review has to pay

    grammar = GRAMMARS[language]
    root = SgRoot(side.text, grammar).root()
    expanded = expand(side.text, grammar, root)
    if expanded.text != side.text:
        root = SgRoot(expanded.text, grammar).root()
    near = expanded.text if language == "python" else _near_changes(side, expanded)
    for rule in rules:
        if not rule.may_match(near):
            continue
        for node in root.find_all(tree_rules(language)[rule.id]):
            reach = node.range()
            line = _added_line(side, expanded, reach.start.line, reach.end.line)
            if line:
                yield rule, line


def _added_line(side: NewSide, expanded: Expanded, first: int, last: int) -> Line | None:
    line = side.added(first, last)
    if line or not expanded.sources:
        return line
    sources = sorted({source for row in range(first, last + 1) for source in expanded.sources.get(row, ())})
    return next((line for source in sources if (line := side.added(source, source))), None)


def _near_changes(side: NewSide, expanded: Expanded) -> str:
    """Return the rows around those that the change adds, or whose values it adds."""
    changed = {row for row, line in enumerate(side.lines) if line is not None and line.mark == "+"}
    changed |= {row for row, sources in expanded.sources.items() if sources & changed}
    rows = {near for row in changed for near in range(row - NEAR, row + NEAR + 1)}
    return "\n".join(text for row, text in enumerate(expanded.text.split("\n")) if row in rows)
