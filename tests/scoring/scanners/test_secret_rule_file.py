"""An operator's own rules for secrets, in the file format of gitleaks."""

import logging
import random
from dataclasses import replace

import pytest

from scoring.scanners.secrets import scan
from scoring.scanners.secrets.rule_file import FILE_LIMIT, read_rule_file
from scoring.scanners.submission import Knowledge
from scoring.types import Severity
from tests.scoring.scanners.secret_kinds import adding, text

RULES = """
title = "house rules"
[[allowlists]]
paths = ['''^vendor/''']

[[rules]]
id = "tide-key"
description = "key of the tide service"
regex = '''tide_(?:live|test)_([a-z0-9]{20})'''
keywords = ["tide_"]
secretGroup = 1
entropy = 3.0
[[rules.allowlists]]
stopwords = ["example"]
[[rules.allowlists]]
condition = "AND"
regexTarget = "line"
regexes = ['''# known''']
paths = ['''^scripts/''']

[[rules]]
id = "broken"
regex = '''(?<=look)behind'''

[[rules]]
id = "generic-berth"
regex = '''berth-([0-9]{6})'''
"""
KEY = text(random.Random(1), 20, "abcdefghijklmnopqrstuvwxyz0123456789")


def rules_found(line: str, path: str = "app/tide.py", rules: str = RULES) -> list[tuple[str, Severity]]:
    submission = replace(adding(path, [line]), knowledge=Knowledge(secret_rules=rules))
    return [(finding.rule, finding.severity) for finding in scan(submission)]


def test_a_rule_of_the_file_finds_its_secret_and_masks_it() -> None:
    submission = replace(adding("app/tide.py", [f"use(tide_live_{KEY})"]), knowledge=Knowledge(secret_rules=RULES))
    [finding] = scan(submission)
    assert (finding.rule, finding.severity, finding.line) == ("tide-key", Severity.HIGH, 1)
    assert KEY not in finding.quote
    assert "tide_live_" in finding.quote


def test_a_generic_rule_of_the_file_weighs_less() -> None:
    assert rules_found("moor(berth-104729)") == [("generic-berth", Severity.MED)]


@pytest.mark.parametrize(
    ("line", "path"),
    [
        (f"use(tide_live_{KEY})", "vendor/tide.py"),
        ("use(tide_live_aaaaaaaaaaaaaaaaaaaa)", "app/tide.py"),
        ("use(tide_live_exampleexample12345)", "app/tide.py"),
        (f"use(tide_live_{KEY})  # known", "scripts/tide.sh"),
    ],
)
def test_allowlists_and_entropy_of_the_file_let_pass(line: str, path: str) -> None:
    assert rules_found(line, path) == []


def test_an_allowlist_that_wants_every_condition_wants_every_one() -> None:
    assert rules_found(f"use(tide_live_{KEY})  # known") == [("tide-key", Severity.HIGH)]


def test_a_rule_that_does_not_compile_is_left_out_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    rules = RULES + "\n# said once\n"
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert rules_found(f"use(tide_live_{KEY})", rules=rules) == [("tide-key", Severity.HIGH)]
    assert len([record for record in caplog.records if "rule broken left out" in record.getMessage()]) == 1


@pytest.mark.parametrize(
    "rules",
    [
        "not toml at all [[",
        "rules = 7",
        'rules = ["text"]',
        '[[rules]]\nid = "x"',
        '[[rules]]\nid = "x"\nregex = "a"\nsecretGroup = 4',
        "allowlist = 7",
        "a = " + "[" * 5_000,
    ],
)
def test_a_file_of_another_form_finds_nothing_and_names_its_problem(rules: str) -> None:
    assert read_rule_file(rules).problems != ()
    assert rules_found("a b c", rules=rules) == []


def test_a_file_beyond_all_measure_is_not_read() -> None:
    found = read_rule_file("#" * (FILE_LIMIT + 1))
    assert found.rules == ()
    assert "longer than" in found.problems[0]
