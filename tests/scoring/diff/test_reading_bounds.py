"""Bounds of reading: what is too much is cut off with a finding, in time, and never by an exception."""

import gzip
import os
from collections.abc import Callable
from itertools import count as counter

import pytest

from scoring.diff.parser import PROBLEMS, Limits, read_bytes, read_change
from tests.conftest import count
from tests.growth import in_linear_time
from tests.scoring.diff.patches import SUM, counts, mail, one_line


def many_lines(count: int) -> str:
    """One file of so many added lines."""
    return f"--- a/x\n+++ b/x\n@@ -0,0 +1,{count} @@\n" + "+value = 1\n" * count


@pytest.mark.parametrize(
    ("text", "limits", "rule"),
    [
        (SUM * 10, Limits(size=len(SUM) + 7), "too_large"),
        (SUM * 10, Limits(lines=len(SUM.splitlines())), "too_many_lines"),
        (SUM + one_line("x") * 3, Limits(files=1), "too_many_files"),
        (mail() * 3, Limits(mails=1), "too_many_mails"),
    ],
)
def test_what_is_beyond_a_limit_is_left_out_with_a_finding(text: str, limits: Limits, rule: str) -> None:
    change = read_change(text, limits)
    assert [problem.rule for problem in change.problems] == [rule]
    assert change.problems[0].type == "oversized"
    assert counts(change.files)[0] == ("sum.py", 2, 1)
    assert 0 < change.coverage < 1


def test_a_patch_at_its_limits_is_read_whole() -> None:
    limits = Limits(size=len(SUM), files=1, lines=SUM.count("\n"), line_length=max(map(len, SUM.split("\n"))))
    assert read_change(SUM, limits).problems == ()


def test_coverage_counts_the_lines_that_a_limit_left_out() -> None:
    for limits in (Limits(lines=len(SUM.splitlines())), Limits(size=len(SUM)), Limits(files=1)):
        assert 0.15 <= read_change(SUM * 4, limits).coverage <= 0.25  # headers left out look like changed lines


def test_a_reading_that_takes_too_long_ends_with_a_finding() -> None:
    seconds = counter()
    change = read_change(many_lines(5_000), Limits(seconds=3.0), clock=lambda: float(next(seconds)))
    assert "too_slow" in [problem.rule for problem in change.problems]
    assert 0 < change.coverage < 0.2


def test_a_line_beyond_its_limit_is_cut_with_a_finding_at_its_place() -> None:
    change = read_change(SUM.replace("check(item)", "x" * 1_000_000))
    (problem,) = change.problems
    assert (problem.rule, problem.file, problem.line, problem.removed) == ("long_line", "sum.py", 12, False)
    assert max(len(line.text) for line in change.files[0].added()) < 10_000
    assert change.coverage == 2 / 3
    removed = read_change(SUM.replace("items[1:]", "x" * 1_000_000)).problems[0]
    assert (removed.line, removed.removed) == (11, True)


def test_problems_of_one_rule_are_bounded_and_coverage_counts_them_all() -> None:
    change = read_change((SUM + "+hidden\n") * 100)
    assert len(change.problems) == PROBLEMS
    assert change.coverage == 300 / 400


def test_a_packed_patch_reads_like_the_plain_one() -> None:
    assert read_bytes(gzip.compress(mail().encode())) == read_bytes(mail().encode()) == read_change(mail())


def test_a_bomb_is_cut_at_the_limit() -> None:
    change = read_bytes(gzip.compress(b"+" * 50_000_000), Limits(size=100_000))
    assert {problem.rule for problem in change.problems} == {"too_large", "no_file"}
    members = in_linear_time(read_bytes, lambda size: gzip.compress(b"") * size, 100_000)
    assert {problem.rule for problem in members.problems} == {"broken_gzip", "no_file"}
    assert (change.coverage, members.coverage) == (0.0, 0.0)


def test_a_damaged_packing_keeps_what_could_be_unpacked_and_says_so() -> None:
    change = read_bytes(gzip.compress(os.urandom(50) + b"\n" + SUM.encode())[:-9])
    assert "broken_gzip" in [problem.rule for problem in change.problems]
    assert change.coverage < 1


def test_bytes_that_are_no_text_are_replaced_and_said() -> None:
    change = read_bytes(SUM.encode().replace(b"check", b"ch\xe9ck"))
    (problem,) = change.problems
    assert (problem.rule, problem.severity) == ("not_utf8", "low")
    assert counts(change.files) == [("sum.py", 2, 1)]
    assert read_bytes(SUM.replace("check", "ch\ufffdck").encode()).problems == ()


def test_twenty_thousand_lines_are_read_whole_in_linear_time() -> None:
    assert in_linear_time(read_change, many_lines, 20_000, 0.3).coverage == 1.0


@pytest.mark.parametrize(
    ("make", "size"),
    [
        (many_lines, count(2_000_000, 10_000_000)),
        (lambda size: "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n" * size, 10_000),
        (lambda size: mail() * size, 10_000),
        (lambda size: "+" * size, 20_000_000),
        (lambda size: "\n" * size, 20_000_000),
        (lambda size: "--- a/x\n+++ b/x\n" + "@@ -1,0 +1,0 @@\n" * size, 90_000),
    ],
    ids=["megabytes", "files", "mails", "one line", "empty lines", "empty hunks"],
)
def test_what_is_too_much_is_cut_off_with_a_finding_in_time(make: Callable[[int], str], size: int) -> None:
    change = in_linear_time(read_change, make, size, 1)
    assert change.problems
    assert change.coverage < 1


@pytest.mark.parametrize(
    "line",
    [
        "diff --git " + "://" * 3_000 + " " * 900 + "\t\n",
        "diff --git " + "a/ " * 3_300 + "\n",
        'diff --git "' + '\\"' * 4_900 + "\n",
        "--- a" + " " * 9_900 + "\n",
        "From a " + "1:11:11 " * 1_200 + "\n",
        "diff --git a/x b/x\nBinary files " + "a and " * 1_600 + "\n",
        mail(subject="=?a?q?" * 1_600),
        mail(From='"\\' * 4_000 + "@"),
        mail(From="<" * 9_900 + "@"),
        "--- a\n+++ b\n" * 250,
        "diff --git a/x b/x\n" * 250,
    ],
    ids=["name", "names", "quotes", "blanks", "from", "binary", "words", "author", "brackets", "headers", "touched"],
)
def test_no_crafted_line_takes_long_however_often_it_comes(line: str) -> None:
    change = in_linear_time(read_change, lambda times: line * times, 300, 1)
    assert "too_slow" not in [problem.rule for problem in change.problems]
    in_linear_time(read_change, lambda size: line[:size] * 50, len(line))
