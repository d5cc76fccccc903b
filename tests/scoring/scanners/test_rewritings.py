"""A rule finds its bad example however it is written.

On Python with other names, in another order and with one step of indirection; on lines of any language with wider
spaces, other hosts, other lines between and further in.
"""

from collections.abc import Callable
from typing import get_args

import pytest

from scoring.scanners import dangerous
from scoring.scanners._rules import Rewriting, rules
from tests.scoring.scanners.rewriting import (
    by_indirection,
    further_in,
    in_another_order,
    with_lines_between,
    with_other_hosts,
    with_other_names,
    with_wider_spaces,
)
from tests.scoring.scanners.test_dangerous import example
from tests.scoring.scanners.written import added_lines, rules_found

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
ON_LINES = [rule for rule in rules() if rule.lines is not None]
OF_LINES = (with_wider_spaces, with_other_hosts, with_lines_between, further_in)
AT_THE_MARGIN = ("go-generate-fetches", "path-file-runs-code")  # Go and Python read such lines at the margin only
FRAIL = 0.1  # of all rules


@pytest.mark.parametrize("way", get_args(Rewriting))
def test_a_rule_survives_a_rewriting_unless_it_says_that_it_does_not(way: Rewriting) -> None:
    wrong = []
    for rule in ON_PYTHON:
        code = REWRITTEN[way](rule.bad)
        is_frail = code is not None and rule.id not in rules_found(dangerous.scan, added_lines(code))
        if is_frail != (way in rule.frail):
            wrong.append((rule.id, code))
    assert wrong == []


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


@pytest.mark.parametrize("rewrite", OF_LINES, ids=lambda rewrite: rewrite.__name__)
def test_a_rule_on_lines_survives_what_changes_their_look_alone(rewrite: Callable[[str], str]) -> None:
    wrong = []
    for rule, language in ((one, language) for one in ON_LINES for language in one.languages):
        bad, good = (example(rule, rewrite(text), language) for text in (rule.bad, rule.good))
        is_missed = rule.id not in rules_found(dangerous.scan, bad)
        if is_missed and not (rewrite is further_in and rule.id in AT_THE_MARGIN):
            wrong.append((rule.id, language, rewrite(rule.bad)))
        if rule.id in rules_found(dangerous.scan, good):
            wrong.append((rule.id, language, rewrite(rule.good)))
    assert wrong == []
