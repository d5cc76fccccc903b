"""Rules on trees hold where the bad example is written otherwise: other names, lines between, a value in a variable."""

import re
from collections.abc import Callable

import pytest
from ast_grep_py import SgNode, SgRoot

from scoring.scanners import dangerous
from scoring.scanners._assignments import GRAMMAR_KINDS
from scoring.scanners._rules import Rule, rules
from scoring.scanners._text import GRAMMARS
from tests.scoring.scanners.test_dangerous import example
from tests.scoring.scanners.written import rules_found

ASSIGNED = {
    "javascript": "const {name} = {value};",
    "go": "{name} := {value}",
    "rust": "let {name} = {value};",
    "php": "{name} = {value};",
    "ruby": "{name} = {value}",
    "java": "var {name} = {value};",
    "c": "auto {name} = {value};",
    "csharp": "var {name} = {value};",
    "kotlin": "val {name} = {value}",
    "lua": "local {name} = {value}",
}
COMMENT = {"ruby": "# tide", "lua": "-- tide"}
TREE_RULES = [
    rule for rule in rules() if (rule.rule is not None or rule.statement is not None) and rule.languages[0] in ASSIGNED
]
# Names that say to a rule what a value is: secrets, requests, answers, checks.
MEANING = re.compile(
    r"(?i)passw|secret|token|salt|nonce|iv$|key|cred|^_|req|res$|reply|^r$|^w$|^c$|ctx|event|params|cookies|header|header|"
    r"script$|url|address|allowed|document|location|window|user|run_?time|^rt$|engine|parser|json|env|\bENV|file|host|next|target|^f$|rand|"
    r"^sig|signature|^mac$"
)
VALUES = re.compile(r"template_string|^binary|encapsed_string|interpolated_string|macro_invocation|additive")
PLACES = re.compile(r"^(arguments|argument_list|argument|value_argument|expression_list)$")
BLOCKS = re.compile(
    r"^(program|source_file|translation_unit|compilation_unit|chunk|statement_block|block|compound_statement|statements|"
    r"statement_list|body_statement|class_body|declaration_list|function_body|then)$"
)
NOT_THROUGH_A_VARIABLE = {
    "php-run-decoded": "one of its forms is a concatenation of single letters, which stays one in a variable",
    "password-hashed-fast": "the function around it is known by indentation, which the new row does not have",
    "parameter-in-file-name": "the function around it is known by indentation, which the new row does not have",
    "route-value-as-path": "the function around it is known by indentation, which the new row does not have",
}


def example_rules(rule: Rule, text: str) -> set[str]:
    """The rules that find the text in a file where the rule looks."""
    return rules_found(dangerous.scan, example(rule, text, rule.languages[0]))


def tree(rule: Rule, text: str) -> SgNode:
    """The syntax tree of an example; PHP stands behind its tag."""
    return SgRoot(text, GRAMMARS[rule.languages[0]]).root()


def source(rule: Rule) -> str:
    """The bad example as a whole file."""
    return f"<?php\n{rule.bad}" if rule.languages[0] == "php" else rule.bad


def walk(node: SgNode) -> list[SgNode]:
    """The nodes below one, in order of the text."""
    return [node, *(below for child in node.children() for below in walk(child))]


def renamed(rule: Rule) -> str:
    """The bad example with other names for what is passed on, where the name says nothing to a rule."""
    text, kinds = source(rule), GRAMMAR_KINDS[GRAMMARS[rule.languages[0]]].uses
    passed = {
        node.text()
        for node in walk(tree(rule, text))
        if node.kind() in kinds and (parent := node.parent()) and PLACES.search(parent.kind())
    }
    for name in sorted(name for name in passed if name.strip("$@").islower() and not MEANING.search(name)):
        stem = name.lstrip("$@")
        text = re.sub(rf"(?<![\w.\"'/>-]){re.escape(name)}(?![\w(\"'])", f"{name[: -len(stem)]}moon_{stem[:1]}", text)
    return text


def spread(rule: Rule) -> str:
    """The bad example with an empty line and a comment between any two lines, and around them."""
    between = f"\n\n{COMMENT.get(rule.languages[0], '// tide')}\n"
    return between.join(line for line in source(rule).splitlines() if line.strip())


def through_a_variable(rule: Rule) -> str | None:
    """The bad example with its first built text in a variable of its own; None where none is passed on."""
    text = source(rule)
    values = [
        node
        for node in walk(tree(rule, text))
        if VALUES.search(node.kind()) and (parent := node.parent()) and PLACES.search(parent.kind())
    ]
    if not values:
        return None
    value = values[0]
    above = [value, *value.ancestors()]
    statement = next(
        node
        for node, parent in zip(above, [*above[1:], None], strict=True)
        if not parent or BLOCKS.search(parent.kind())
    )
    start, reach = statement.range().start.index, value.range()
    name = "$tide" if rule.languages[0] == "php" else "tide"
    assignment = ASSIGNED[rule.languages[0]].format(name=name, value=value.text())
    return f"{text[:start]}{assignment}\n{text[start : reach.start.index]}{name}{text[reach.end.index :]}"


@pytest.mark.parametrize("rewrite", [renamed, spread])
def test_a_rule_holds_with_other_names_and_with_lines_between(rewrite: Callable[[Rule], str]) -> None:
    texts = [(rule, rewrite(rule)) for rule in TREE_RULES]
    assert [(rule.id, text) for rule, text in texts if rule.id not in example_rules(rule, text)] == []


def test_a_rule_holds_where_the_text_is_put_together_before() -> None:
    texts = [(rule, through_a_variable(rule)) for rule in TREE_RULES if rule.id not in NOT_THROUGH_A_VARIABLE]
    assert [(rule.id, text) for rule, text in texts if text and rule.id not in example_rules(rule, text)] == []


def test_most_rules_against_built_text_were_played_through_a_variable() -> None:
    built = [rule for rule in TREE_RULES if "built-text" in rule.id]
    assert len(built) >= 15
    assert sum(through_a_variable(rule) is not None for rule in built) >= 12
