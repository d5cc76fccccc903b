"""Names of findings: every rule of every scanner has one that reads as a finding."""

from scoring.explain.findings import LONGEST_NAME, RULES, SCANNERS, finding_name
from scoring.explain.reasons import FLAG_NAMES
from scoring.scanners import scanners
from scoring.scanners._rules import rules
from scoring.scanners.bandit_checks import CHECKS
from scoring.scanners.build_paths import TOLD

KNOWN = [
    *(("dangerous", rule.id) for rule in rules()),
    *(("bandit", check) for check in CHECKS),
    *(("build_paths", kind) for kind in TOLD),
    *(("build_paths", f"more-{kind}") for kind in TOLD),
    *RULES,
    *((scanner, "anything") for scanner in SCANNERS),
]


def test_every_rule_has_a_name_of_its_own_that_is_short() -> None:
    for scanner, rule in KNOWN:
        name = finding_name(scanner, rule, "security")
        assert name not in FLAG_NAMES.values() or scanner == "secrets", (scanner, rule)
        assert name[0].isupper(), (scanner, rule)
        assert len(name) <= LONGEST_NAME, (scanner, rule)
        assert name.lower() not in ("addressed", "dangerous", scanner), (scanner, rule)


def test_every_scanner_is_named_by_the_table() -> None:
    assert set(scanners()) <= {*SCANNERS, *(scanner for scanner, _ in RULES), "bandit"}


def test_a_rule_of_another_version_is_named_by_the_kind_of_its_flag() -> None:
    assert finding_name("dangerous", "python-never-heard-of", "subtle_bug") == "Possible bug"
    assert finding_name("no-such-scanner", "x", "no-such-kind") == "Needs a close look"


def test_the_same_fault_has_one_name_in_every_language() -> None:
    assert {finding_name("dangerous", f"{one}-tls-unverified", "security") for one in ("go", "python", "shell")} == {
        "TLS check turned off"
    }
