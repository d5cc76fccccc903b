"""The review without a model, who reads a change by its cost, and the files of the target that scanners are given."""

import json
from collections.abc import Mapping
from math import nan, nextafter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.git import history
from ingest.git.mirror import mirror_path
from scoring.config.repository import Mode
from scoring.diff.change import Change
from scoring.review.costs import Call, GateFacts, decide
from scoring.review.deterministic import FLOOR, assess, combine, review_without_model
from scoring.review.settings import base_files_in
from scoring.types import Finding, Severity
from tests.ingest.git.git_world import Work
from tests.pipeline import Result
from tests.scoring.diff.patched import change
from tests.scoring.review.reviewing import a_change, a_file, a_finding, a_flag, an_assessment
from tests.scoring.small import OFFERED, settled, take

FINDINGS = st.lists(st.builds(a_finding, st.sampled_from(Severity)), max_size=80)


@pytest.mark.parametrize("severity", list(Severity))
def test_one_finding_puts_its_floor_under_the_risk(severity: Severity) -> None:
    assert assess(a_change(), [a_finding(severity)]).content_risk == FLOOR[severity]


@given(FINDINGS)
def test_the_risk_stays_between_the_floor_of_the_strongest_finding_and_the_next(findings: list[Finding]) -> None:
    told = assess(a_change(), findings)
    floors = [0.0, *(FLOOR[finding.severity] for finding in findings)]
    above = [floor for floor in (*FLOOR.values(), 1.0) if floor > max(floors)]
    assert max(floors) <= told.content_risk < min(above)


@given(FINDINGS, st.sampled_from(Severity))
def test_a_further_finding_never_lowers_the_risk(findings: list[Finding], severity: Severity) -> None:
    more = [*findings, a_finding(severity, line=7)]
    assert assess(a_change(), more).content_risk >= assess(a_change(), findings).content_risk


def test_a_larger_change_without_findings_is_never_less_risky_and_below_a_low_finding() -> None:
    risks = [assess(a_change(a_file("a.py", ["x"] * size)), []).content_risk for size in (1, 30, 400, 5_000)]
    assert risks == sorted(risks)
    assert risks[-1] < FLOOR[Severity.LOW]


def test_the_summary_can_be_read_aloud() -> None:
    change = a_change(a_file("src/pear.py", ["x"] * 120, ["y"]), a_file("b.py"), a_file("c.py"))
    told = assess(change, [a_finding(Severity.HIGH), a_finding(Severity.LOW)])
    assert told.summary == (
        "Changes 3 files, adds 122 lines, removes 1 line. "
        "1 high finding and 1 low finding, the first: A planted high finding."
    )


def test_silence_of_the_scanners_is_not_praised() -> None:
    told = assess(a_change(), [])
    assert "says nothing about whether the code is right" in told.summary
    assert not told.review_recommended


@pytest.mark.parametrize(
    "change",
    [
        a_change(coverage=0.999),
        Change((), (), (), 1.0),
        a_change(a_file("a.py", ["x"] * 1001)),
        a_change(problems=(a_finding(Severity.MED),)),
    ],
)
def test_what_was_not_read_or_is_large_always_asks_for_a_person(change: Change) -> None:
    assert assess(change, []).review_recommended


def test_a_scanner_that_could_not_finish_leaves_no_content_verdict() -> None:
    review = review_without_model(a_change(), [], ["secrets"])
    assert (review.state, review.reason) == ("no content verdict", "findings_incomplete")
    assert review.assessment.review_recommended
    assert review.reviewer == "deterministic"


def test_a_problem_of_reading_that_is_also_handed_over_counts_once() -> None:
    problem = a_finding(Severity.MED)
    assert len(assess(a_change(problems=(problem,)), [problem]).flags) == 1


@given(st.floats(0, 1), FINDINGS, st.lists(st.sampled_from(Severity), max_size=5), st.booleans())
def test_a_model_only_ever_raises_what_the_findings_say(
    risk: float, findings: list[Finding], severities: list[Severity], asks: bool
) -> None:
    ground = assess(a_change(), findings)
    reading = an_assessment(risk, *(a_flag(severity=one.value) for one in severities), asks=asks)
    told = combine(ground, [reading])
    assert told.content_risk == max([risk, ground.content_risk, *(FLOOR[one] for one in severities)])
    assert told.review_recommended or not (ground.review_recommended or asks or told.content_risk >= 0.4)
    assert {flag for flag in ground.flags if flag.severity is Severity.HIGH} <= set(told.flags)


def test_a_high_flag_with_a_low_risk_raises_the_risk() -> None:
    told = combine(assess(a_change(), []), [an_assessment(0.1, a_flag(severity="high"))])
    assert told.content_risk == 0.8


def test_a_summary_that_calms_does_not_stand_over_findings_that_do_not() -> None:
    ground = assess(a_change(), [a_finding(Severity.HIGH)])
    assert combine(ground, [an_assessment(0.0, summary="All is well.")]).summary == ground.summary
    assert combine(ground, [an_assessment(0.9, summary="It is broken.")]).summary == "It is broken."


def test_a_hostile_path_is_shown_with_what_cannot_be_seen_spelled_out() -> None:
    told = assess(a_change(), [a_finding(file="a\u202e\n\x1b[31mb.py")])
    assert told.flags[0].location == "a⟨U+202E⟩⟨U+000A⟩⟨U+001B⟩[31mb.py:1"


def ask(
    trust: float = 0.5,
    mode: Mode = "claude",
    sensitive: bool = False,
    has_key: bool = True,
    screens: bool = False,
    spent: float = 0.0,
    budget: float = 5.0,
    repository_spent: float = 0.0,
) -> GateFacts:
    return GateFacts(mode, trust, sensitive, has_key, screens, spent, budget, repository_spent, repository_budget=2.0)


@pytest.mark.parametrize(
    ("asked", "t_low", "t_high", "decision"),
    [
        (ask(mode="off", trust=0.0, sensitive=True), 0.3, 0.9, (Call.NOBODY, "review_off")),
        (ask(mode="deterministic"), 0.3, 0.9, (Call.DETERMINISTIC, "claude_off")),
        (ask(has_key=False), 0.3, 0.9, (Call.DETERMINISTIC, "no_key")),
        (ask(0.9), 0.3, 0.9, (Call.DETERMINISTIC, "trusted")),
        (ask(1.0), 0.3, 0.9, (Call.DETERMINISTIC, "trusted")),
        (ask(1.0, sensitive=True), 0.3, 0.9, (Call.CLAUDE, "trusted_but_sensitive")),
        (ask(1.0, screens=True), 0.3, 0.9, (Call.SCREEN, "trusted")),
        (ask(1.0, screens=True, spent=5.0), 0.3, 0.9, (Call.DETERMINISTIC, "trusted")),
        (ask(nextafter(0.9, 0)), 0.3, 0.9, (Call.CLAUDE, "between_thresholds")),
        (ask(0.3), 0.3, 0.9, (Call.CLAUDE, "between_thresholds")),
        (ask(nextafter(0.3, 0)), 0.3, 0.9, (Call.CLAUDE, "below_t_low")),
        (ask(0.0), 0.3, 0.9, (Call.CLAUDE, "below_t_low")),
        (ask(1.0), 0.3, None, (Call.CLAUDE, "fast_lane_shut")),
        (ask(0.0), None, None, (Call.CLAUDE, "fast_lane_shut")),
        (ask(0.0), None, 0.9, (Call.CLAUDE, "between_thresholds")),
        (ask(spent=5.0), 0.3, 0.9, (Call.MISSING, "over_budget")),
        (ask(spent=nextafter(5.0, 0)), 0.3, 0.9, (Call.CLAUDE, "between_thresholds")),
        (ask(budget=0.0), 0.3, 0.9, (Call.MISSING, "over_budget")),
        (ask(repository_spent=2.0), 0.3, 0.9, (Call.MISSING, "over_repository_budget")),
        (ask(spent=5.0, repository_spent=2.0), 0.3, 0.9, (Call.MISSING, "over_repository_budget")),
        (ask(repository_spent=nextafter(2.0, 0)), 0.3, 0.9, (Call.CLAUDE, "between_thresholds")),
        (ask(1.0, screens=True, repository_spent=2.0), 0.3, 0.9, (Call.DETERMINISTIC, "trusted")),
        (ask(1.0, sensitive=True, spent=9.0), 0.3, 0.9, (Call.MISSING, "over_budget")),
    ],
)
def test_each_case_has_its_reader_and_reason(
    asked: GateFacts, t_low: float | None, t_high: float | None, decision: tuple[Call, str]
) -> None:
    assert decide(asked, t_low, t_high) == decision


@pytest.mark.parametrize("asked", [ask(nan), ask(-0.1), ask(1.1), ask(spent=nan), ask(spent=-1.0), ask(budget=nan)])
def test_what_is_no_trust_and_no_money_is_refused(asked: GateFacts) -> None:
    with pytest.raises(ValueError, match="must be"):
        decide(asked, 0.3, 0.9)


BOTH = change({"a.py": ("one\n", "two\n"), "folder/b c.py": ("x\n", "y\n"), "new.py": ("", "z\n")})


def read(result: Result, folder: Path, files: Mapping[str, str | bytes | None]) -> Mapping[str, str]:
    """Return what is read for BOTH where the mirror of the target branch holds these files."""
    take(result, settled("open"))
    (row,) = result.rows("select repository_id, target_branch from pull_requests where pull_uri = ?", [OFFERED])
    number, branch = row["repository_id"], row["target_branch"] or "main"
    work = Work(folder / "work")
    commit = work.commit("First", files)
    work.git("clone", "-q", "--bare", str(work.folder), str(mirror_path(folder, number)))
    told = {"repository_id": number, "state": "fetched", "bytes": 1, "head": "main", "read_refs": "{}"}
    with result.store.write() as txn:
        txn.append("mirrors", [{**told, "refs": json.dumps({branch: commit})}])
    with result.store.read() as rows:
        return base_files_in(rows, folder, OFFERED)(BOTH)


def test_the_files_of_the_change_are_read_and_no_others(result: Result, tmp_path: Path) -> None:
    files = {"a.py": "one\n", "folder/b c.py": "x\n", "new.py": "there already\n", "other.py": "x\n"}
    assert read(result, tmp_path, files) == {"a.py": "one\n", "folder/b c.py": "x\n"}


def test_what_is_missing_binary_or_too_large_is_left_out(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "FILE_BYTES", 10)
    assert read(result, tmp_path, {"a.py": "one\n" * 3, "folder/b c.py": b"x\0\n"}) == {}


def test_no_more_than_the_bound_is_read_in_all(result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "ALL_BYTES", 5)
    assert read(result, tmp_path, {"a.py": "one\n", "folder/b c.py": "x\n"}) == {"a.py": "one\n"}


def test_without_a_mirror_no_file_is_known(result: Result, tmp_path: Path) -> None:
    take(result, settled("open"))
    with result.store.read() as rows:
        assert base_files_in(rows, tmp_path, OFFERED)(BOTH) == {}
