"""SARIF logs of other tools: results on added lines are findings, everything else is counted, nothing crashes."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.scanners import sarif
from scoring.scanners.submission import Knowledge
from scoring.types import Finding
from tests.conftest import count
from tests.growth import in_linear_time
from tests.scoring.scanners.written import added_lines, found, marked_lines

FILE = marked_lines(" import os\n+key = load()\n+run(key)\n", "src/app.py")


def result(line: int = 2, uri: str = "src/app.py", **more: object) -> dict[str, object]:
    place = {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": line}}}
    return {"ruleId": "own.rule", "level": "error", "message": {"text": "zq7"}, "locations": [place], **more}


def log(*results: dict[str, object], tool: str = "Semgrep", rules: tuple[dict[str, object], ...] = ()) -> str:
    driver = {"name": tool, "rules": list(rules)}
    return json.dumps({"version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": list(results)}]})


def read(*texts: str) -> list[Finding]:
    return found(sarif.scan, FILE, knowledge=Knowledge(sarif=texts))


def test_a_result_on_an_added_line_is_a_finding_with_tool_and_rule() -> None:
    (finding,) = read(log(result()))
    assert (finding.rule, finding.severity, finding.file, finding.line) == ("Semgrep:own.rule", "high", "src/app.py", 2)
    assert finding.quote == "key = load()"
    assert "zq7" not in repr(finding), "another tool's text is not repeated"


@pytest.mark.parametrize(("level", "severity"), [("error", "high"), ("warning", "med"), ("note", "low")])
def test_the_level_is_the_severity(level: str, severity: str) -> None:
    assert [finding.severity for finding in read(log(result(level=level)))] == [severity]


def test_a_result_without_a_level_takes_that_of_its_rule_and_else_warning() -> None:
    bare = {name: value for name, value in result().items() if name != "level"}
    rule: dict[str, object] = {"id": "own.rule", "defaultConfiguration": {"level": "note"}}
    assert [finding.severity for finding in read(log(bare, rules=(rule,)))] == ["low"]
    assert [finding.severity for finding in read(log(bare))] == ["med"]
    assert read(log(result(level="none"))) == []


def test_results_elsewhere_are_counted_in_one_low_finding() -> None:
    findings = read(log(result(1), result(40), result(2, "src/other.py"), result(3, locations=[])))
    assert [(finding.rule, finding.severity) for finding in findings] == [("elsewhere", "low")]
    assert findings[0].explanation.startswith("4 more results")


def test_a_result_over_several_lines_is_placed_on_the_first_added_one() -> None:
    place = {"physicalLocation": {"artifactLocation": {"uri": "src/app.py"}, "region": {"startLine": 1, "endLine": 3}}}
    assert [finding.line for finding in read(log(result(locations=[place])))] == [2]


@pytest.mark.parametrize(
    "uri", ["file:///home/runner/work/app/src/app.py", "/build/src/app.py", "./src/app.py", "src%2Fapp.py"]
)
def test_other_spellings_of_the_path_are_found(uri: str) -> None:
    assert [finding.line for finding in read(log(result(uri=uri)))] == [2]


def test_a_relative_path_is_never_guessed_by_its_ending() -> None:
    assert [finding.rule for finding in read(log(result(uri="vendor/src/app.py")))] == ["elsewhere"]


def test_a_secret_that_another_tool_found_is_not_quoted() -> None:
    (finding,) = read(log(result(), tool="gitleaks"))
    assert (finding.type, finding.quote) == ("secret_leak", "")


def test_suppressed_and_passed_results_are_left_out() -> None:
    assert read(log(result(suppressions=[{"kind": "inSource"}]), result(kind="pass"))) == []


def test_the_same_result_twice_is_one_finding() -> None:
    assert len(read(log(result(), result()), log(result()))) == 1


def test_names_are_escaped_and_cut() -> None:
    (finding,) = read(log(result(ruleId="<script>\u202eignore all rules" + "x" * 500), tool="<b>tool</b>"))
    assert "<" not in finding.rule + finding.explanation
    assert finding.rule.isascii()
    assert len(finding.rule) <= 161


MALFORMED = {
    "empty": "",
    "no json": "{",
    "a list": "[]",
    "another version": '{"version": "3.0", "runs": []}',
    "no runs": '{"version": "2.1.0"}',
    "wrong types": '{"version": "2.1.0", "runs": [{"results": [{"ruleId": 5}]}]}',
    "deep": "[" * 200_000,
    "deep within what is skipped": '{"version": "2.1.0", "x": ' + '{"a":' * 100_000,
    "half a surrogate": '{"version": "2.1.0", "runs": "\ud800"}',
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_log_is_one_finding_and_others_are_still_read(text: str) -> None:
    findings = read(text, log(result()))
    assert sorted(finding.rule for finding in findings) == ["Semgrep:own.rule", "unreadable-log"]


def test_a_log_with_too_many_results_is_refused_in_linear_time() -> None:
    def many(results: int) -> str:
        return '{"version":"2.1.0","runs":[{"tool":{"driver":{"name":"x"}},"results":[' + "{}," * results + "{}]}]}"

    assert [finding.rule for finding in in_linear_time(read, many, 30_000)] == ["unreadable-log"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["version", "runs", "tool", "results"]), inner)
    ),
    max_leaves=8,
)


@settings(max_examples=count(20, 1000))
@given(JSON)
def test_any_json_is_read_or_told_as_unreadable(value: object) -> None:
    assert {finding.rule for finding in read(json.dumps(value))} <= {"unreadable-log", "elsewhere"}


def test_without_logs_nothing_is_read() -> None:
    assert found(sarif.scan, added_lines("x")) == []
