"""The difference between two rounds: by file, without what a rebase moves."""

from difflib import unified_diff

import pytest
from hypothesis import given
from hypothesis import strategies as some

from scoring.diff.change import Change
from scoring.diff.compare import FILE_LINES, Comparison, compare_rounds
from scoring.diff.parser import read_change
from tests.scoring.diff.patches import SUM, mail, one_line


def compared(before: str, after: str) -> Comparison:
    return compare_rounds(read_change(before), read_change(after))


def told(found: Comparison) -> list[tuple[str, str, list[str]]]:
    """(path, kind, lines with their marks) of each file that differs."""
    return [
        (file.path, file.kind, [line.mark + line.text for hunk in file.hunks for line in hunk.lines])
        for file in found.files
    ]


def test_a_round_that_only_moved_makes_the_same_change() -> None:
    moved = SUM.replace("@@ -10,3 +10,4 @@", "@@ -40,3 +41,4 @@").replace("1111111..2222222", "3333333..4444444")
    assert compared(SUM, mail(moved)) == Comparison("same", same=1)


def test_a_rebase_onto_other_lines_without_a_change_of_its_own_is_called_one() -> None:
    assert compared(SUM, SUM.replace("result = 0", "result = start")) == Comparison("rebased", same=1)


def test_a_changed_line_is_shown_as_the_file_has_it_after_each_round() -> None:
    found = compared(SUM + one_line("b.py"), SUM.replace("check(item)", "guard(item)") + one_line("b.py"))
    (differing,) = told(found)
    assert differing[:2] == ("sum.py", "modified")
    assert [line for line in differing[2] if line[0] != " "] == ["-        check(item)", "+        guard(item)"]
    assert (found.verdict, found.same, found.by_patch) == ("changed", 1, frozenset())
    (hunk,) = found.files[0].hunks
    assert [(line.old, line.new) for line in hunk.lines] == [(10, 10), (11, 11), (12, None), (None, 12), (13, 13)]


def test_rounds_that_begin_from_different_texts_are_compared_by_their_patches() -> None:
    found = compared(SUM, SUM.replace("result = 0", "result = start").replace("check(item)", "guard(item)"))
    assert [line for line in told(found)[0][2] if line[0] != " "] == [
        "-     result = 0",
        "+     result = start",
        "-+        check(item)",
        "++        guard(item)",
    ]
    assert found.by_patch == {"sum.py"}


@pytest.mark.parametrize("twice", ["@@ -1 +1 @@\n-a\n+c\n", "@@ -1,0 +1 @@\n+c\n@@ -1 +2 @@\n-a\n+d\n"])
def test_hunks_that_name_a_line_twice_are_compared_by_their_patches(twice: str) -> None:
    assert compared(one_line("x.py"), one_line("x.py") + twice).by_patch == {"x.py"}


TEXTS = some.lists(some.sampled_from("abc"), max_size=12)


def patch(old: list[str], new: list[str], context: int) -> str:
    lines = unified_diff(old, new, "a/x", "b/x", lineterm="", n=context)
    return "".join(f"{line}\n" for line in lines)


@given(TEXTS, TEXTS, TEXTS, some.integers(0, 3), some.integers(0, 3))
def test_what_differs_turns_the_file_after_one_round_into_that_after_the_other(
    base: list[str], one: list[str], other: list[str], context: int, wider: int
) -> None:
    found = compared(patch(base, one, context), patch(base, other, wider))
    if found.verdict != "changed" or found.by_patch:
        assert found.verdict != "changed" or one == other, "edits differ and come to the same"
        return
    (file,) = found.files
    result, shift = one.copy(), 0
    for line in (line for hunk in file.hunks for line in hunk.lines):
        if line.old:
            assert one[line.old - 1] == line.text
        if line.new:
            assert other[line.new - 1] == line.text
        if line.mark == "-":
            assert line.old
            del result[line.old - 1 + shift]
            shift -= 1
        elif line.mark == "+":
            assert line.new
            result.insert(line.new - 1, line.text)
            shift += 1
    assert result == other


def test_a_file_that_only_one_round_touches_is_named_as_such() -> None:
    assert told(compared(SUM, SUM + one_line("b.py"))) == [("b.py", "added", ["-a", "+b"])]
    assert told(compared(SUM + one_line("b.py"), SUM)) == [("b.py", "deleted", ["-b", "+a"])]


def test_a_mode_that_one_round_sets_is_a_difference_without_a_line() -> None:
    assert told(compared(SUM, SUM.replace("index", "old mode 100644\nnew mode 100755\nindex"))) == [
        ("sum.py", "modified", [])
    ]


def test_a_binary_file_of_both_rounds_is_called_opaque() -> None:
    image = "diff --git a/x.png b/x.png\nindex 1..2 100644\nBinary files a/x.png and b/x.png differ\n"
    assert compared(SUM + image, SUM + image) == Comparison("same", same=1, opaque=1)


def test_a_file_that_a_series_changes_twice_is_compared_as_one() -> None:
    series = mail(one_line("x.py")) + mail(one_line("x.py", "c"))
    found = compared(one_line("x.py"), series)
    assert told(found) == [("x.py", "modified", [" -a", " +b", "+-a", "++c"])]
    assert found.by_patch == {"x.py"}


def test_files_that_are_too_long_are_named_and_not_compared() -> None:
    long = f"--- a/x\n+++ b/x\n@@ -0,0 +1,{FILE_LINES + 1} @@\n" + "+value\n" * (FILE_LINES + 1)
    found = compared(long, long.replace("+value\n", "+other\n", 1))
    assert (found.verdict, found.files, found.too_long) == ("changed", (), ("x",))


def test_of_very_many_files_those_beyond_the_bound_are_named_and_not_compared() -> None:
    def side(word: str) -> str:
        return "".join(
            f"--- a/{number}\n+++ b/{number}\n@@ -0,0 +1,1000 @@\n" + f"+{word}\n" * 1000 for number in range(14)
        )

    found = compared(side("a"), side("b"))
    assert len(found.files) == 10
    assert len(found.too_long) == 4


FILES = some.lists(some.tuples(some.sampled_from("xyz"), some.sampled_from("abc")), max_size=5)


@given(FILES, FILES)
def test_two_rounds_are_the_same_where_they_make_the_same_change(
    one: list[tuple[str, str]], other: list[tuple[str, str]]
) -> None:
    before, after = ("".join(one_line(path, text) for path, text in files) for files in (one, other))
    found, back = compared(before, after), compared(after, before)
    assert {file.path for file in found.files} == {file.path for file in back.files}
    assert (found.verdict == "changed") == bool(found.files)
    assert compared(before, before).verdict == "same"


def test_nothing_is_compared_with_nothing() -> None:
    empty = Change((), (), (), 0.0)
    assert compare_rounds(empty, empty) == Comparison("same")
