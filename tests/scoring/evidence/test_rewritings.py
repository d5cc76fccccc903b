"""A rule on Python finds its bad example however it is written: other names, another order, one step of indirection."""

from collections.abc import Callable
from typing import get_args

import pytest

from scoring.evidence import dangerous
from scoring.evidence._rules import Rewriting, Rule, rules
from tests.scoring.evidence.rewriting import by_indirection, in_another_order, with_other_names
from tests.scoring.evidence.written import added_lines, rules_found

REWRITTEN: dict[Rewriting, Callable[[str], str | None]] = {
    "names": with_other_names,
    "order": in_another_order,
    "indirection": by_indirection,
}
ON_PYTHON = [
    rule
    for rule in rules()
    if (rule.rule is not None and rule.languages == ("python",))
    or (rule.statement is not None and rule.languages[0] == "python")
]
FRAIL = 0.1  # of all rules


@pytest.mark.parametrize("way", get_args(Rewriting))
@pytest.mark.parametrize("rule", ON_PYTHON, ids=lambda rule: rule.id)
def test_a_rule_survives_a_rewriting_unless_it_says_that_it_does_not(rule: Rule, way: Rewriting) -> None:
    code = REWRITTEN[way](rule.bad)
    if code is None:
        assert way not in rule.frail
        return
    is_found = rule.id in rules_found(dangerous.scan, added_lines(code))
    assert is_found == (way not in rule.frail), code


@pytest.mark.parametrize("way", get_args(Rewriting))
def test_the_benign_twin_stays_benign(way: Rewriting) -> None:
    flagged = [
        rule.id
        for rule in ON_PYTHON
        if (code := REWRITTEN[way](rule.good)) and rule.id in rules_found(dangerous.scan, added_lines(code))
    ]
    assert flagged == []


def test_few_rules_say_that_they_do_not_survive_one() -> None:
    assert sum(bool(rule.frail) for rule in ON_PYTHON) <= FRAIL * len(ON_PYTHON)
