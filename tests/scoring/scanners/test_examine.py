"""Findings of all scanners together: once, strongest first, bounded, and no secret in another scanner's quote."""

from collections.abc import Iterator
from itertools import count
from random import Random

import pytest

from scoring import scanners as evidence
from scoring.diff.parser import read_change
from scoring.review.deterministic import review_without_model
from scoring.scanners import FINDINGS_LIMIT
from scoring.scanners import run as joining
from scoring.scanners.run import SECONDS, examine
from scoring.scanners.submission import Submission
from scoring.types import Finding, Severity
from tests.conftest import PROVE
from tests.growth import WHOLE_LINE, in_linear_time

DIFF = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1,2 @@\n print(1)\n+print(2)\n"


def found(scanner: str, severity: Severity = Severity.LOW, line: int = 2, quote: str = "print(2)") -> Finding:
    kind = "secret_leak" if scanner == "secrets" else "other"
    return Finding(scanner, "rule", kind, severity, "Something.", "a.py", line, quote)


@pytest.fixture(name="say")
def say_fixture(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Finding]]:
    """Scanners that say what a test puts in here."""
    said: dict[str, list[Finding]] = {}

    def scanners() -> dict[str, evidence.Scan]:
        def saying(findings: list[Finding]) -> evidence.Scan:
            def scan(submission: Submission) -> Iterator[Finding]:
                yield from findings

            return scan

        return {name: saying(findings) for name, findings in said.items()}

    monkeypatch.setattr(joining, "scanners", scanners)
    return said


def test_every_scanner_of_the_folder_is_run() -> None:
    names = set(evidence.scanners())
    assert {"secrets", "addressed", "dangerous", "dependencies", "typosquats", "licences", "sarif"} <= names
    assert examine(Submission(read_change(DIFF))).unfinished == ()


def test_findings_come_strongest_first_and_equal_ones_once(say: dict[str, list[Finding]]) -> None:
    high = found("one", Severity.HIGH, 9)
    say |= {"one": [found("one"), high], "two": [found("one"), found("two", Severity.MED)]}
    told = examine(Submission(read_change(DIFF))).findings
    assert [one.severity for one in told] == [Severity.HIGH, Severity.MED, Severity.LOW]
    assert told[0] == high


def test_a_scanner_that_finds_too_much_is_cut_off_and_named(say: dict[str, list[Finding]]) -> None:
    say["loud"] = [found("loud", line=number) for number in range(FINDINGS_LIMIT + 50)]
    say["quiet"] = [found("quiet")]
    told = examine(Submission(read_change(DIFF)))
    assert told.unfinished == ("loud",)
    assert len(told.findings) == FINDINGS_LIMIT + 2
    assert (told.findings[0].rule, told.findings[0].severity) == ("scan_cut_off", Severity.MED)


def test_a_scanner_that_fails_hides_nothing_that_others_find_and_leaves_no_verdict(
    say: dict[str, list[Finding]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(submission: Submission) -> Iterator[Finding]:
        yield found("failing")
        raise IndexError("a fault that only this content meets")

    say["after"] = [found("after", Severity.HIGH)]
    others = joining.scanners()
    monkeypatch.setattr(joining, "scanners", lambda: {"failing": failing} | others)
    change = read_change(DIFF)
    told = examine(Submission(change))
    assert told.unfinished == ("failing",)
    assert {one.rule for one in told.findings} == {"rule", "scan_failed"}
    assert {one.scanner for one in told.findings} == {"failing", "after", "reading"}
    review = review_without_model(change, told.findings, told.unfinished)
    assert review.assessment.review_recommended
    assert review.state == "no content verdict"


def test_a_scanner_that_takes_too_long_is_cut_off_and_so_are_those_after_it(say: dict[str, list[Finding]]) -> None:
    say["slow"] = [found("slow", line=number) for number in range(100)]
    say["later"] = [found("later")]
    clock = count(step=SECONDS / 10)
    told = examine(Submission(read_change(DIFF)), clock=lambda: float(next(clock)))
    assert told.unfinished == ("slow", "later")
    assert 0 < len([one for one in told.findings if one.scanner == "slow"]) < 10
    assert [one.rule for one in told.findings if one.severity is Severity.MED] == ["scan_cut_off"] * 2
    review = review_without_model(read_change(DIFF), told.findings, told.unfinished)
    assert (review.state, review.assessment.review_recommended) == ("no content verdict", True)
    assert review.assessment.content_risk >= 0.4


def lock_of(name: str, unit: str, lines: int) -> str:
    """A patch that adds a file of so many lines, each as long as is read of one."""
    line = f"+{unit * (9_000 // len(unit))}\n"
    head = f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n"
    return f"{head}@@ -0,0 +1,{lines} @@\n{line * lines}"


@pytest.mark.parametrize("name", ["Cargo.lock", "poetry.lock", "package-lock.json", "pyproject.toml", "Cargo.toml"])
def test_a_scanner_stops_within_its_own_work_once_the_time_is_over(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = {one: evidence.scanners()[one] for one in ("dependencies", "typosquats")}
    monkeypatch.setattr(joining, "scanners", lambda: reading)
    looks = count()
    change = read_change(lock_of(name, "{{a", 200))
    told = examine(Submission(change), lambda: SECONDS + 1 if next(looks) > 50 else 0.0)
    assert told.unfinished == ("dependencies", "typosquats")
    assert next(looks) <= 54  # one look a line: no line of the 200 is read after the time is over


@pytest.mark.parametrize(
    ("name", "path", "line"),
    [
        ("bandit", "a.py", "a(b(c(d)))"),
        ("dangerous", "a.py", "a = b(a)"),
        ("dangerous", "a.js", "a = b(a, 'child_process');"),
    ],
)
def test_a_scanner_of_trees_stops_within_one_file_and_keeps_what_it_found(
    name: str, path: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = evidence.scanners()[name]
    monkeypatch.setattr(joining, "scanners", lambda: {name: scan})
    patch = "".join(
        f"diff --git a/{one} b/{one}\nnew file mode 100644\n--- /dev/null\n+++ b/{one}\n@@ -0,0 +1,{len(lines)} @@\n"
        + "".join(f"+{text}\n" for text in lines)
        for one, lines in ((f"first/{path}", ["eval(x)"]), (path, [line] * 2_000))
    )
    looks = count()
    told = examine(Submission(read_change(patch)), lambda: SECONDS + 1 if next(looks) > 1_500 else 0.0)
    assert told.unfinished == (name,)
    assert {(one.scanner, one.file) for one in told.findings} == {(name, f"first/{path}"), ("reading", None)}
    assert next(looks) <= 1_504  # the file alone takes 2,000 looks


# What nested quantifiers, look-aheads and unpacking of letters are slow on.
UNITS = (
    "a",
    "(",
    " \t",
    "'\"",
    "\\",
    "-",
    "<!--",
    "ignore previous ",
    "/",
    "../",
    "api_key=",
    "a@b.",
    "eyJ.",
    "a\u0301",
    "\ufdfa",
    "{{",
    "$(",
    "x y ",
    "SPDX-License-Identifier: MIT OR ",
    '"a": "^1.0", ',
    "`${",
    "-----BEGIN ",
)
NAMES = (
    "a.py",
    "a.js",
    "a.sh",
    "package.json",
    "requirements.txt",
    "Cargo.toml",
    "go.mod",
    "go.sum",
    "LICENSE",
    "package-lock.json",
    "yarn.lock",
    "pyproject.toml",
    ".github/workflows/ci.yml",
    "Dockerfile",
    "Gemfile.lock",
)


def two_lines_of(name: str, line: str) -> Submission:
    diff = f"diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n@@ -1,0 +1,2 @@\n+{line}\n+{line}\n"
    return Submission(read_change(diff), title=line[:1000], description=line)


@pytest.mark.parametrize("unit", UNITS)
def test_no_line_that_a_pattern_is_slow_on_takes_a_scanner_more_than_its_length(unit: str) -> None:
    names = NAMES if PROVE else [Random(unit).choice(NAMES), "go.mod"]
    for name in names:
        in_linear_time(examine, lambda size, name=name: two_lines_of(name, (unit * size)[:size]), WHOLE_LINE)


def test_no_scanner_quotes_a_secret_that_another_one_masked(say: dict[str, list[Finding]]) -> None:
    say["other"] = [found("other", quote='key = "hunter2hunter2"'), found("other", line=3, quote="fine")]
    say["secrets"] = [found("secrets", quote='key = "hu…"')]
    assert {one.quote for one in examine(Submission(read_change(DIFF))).findings} == {'key = "hu…"', "fine"}


def test_what_reading_the_change_found_is_a_finding_too() -> None:
    told = examine(Submission(read_change(DIFF + "@@ -9 +9,5 @@\n x\n"))).findings
    assert any(one.scanner == "reading" for one in told)
