"""The difference between two rounds: by file, without what a rebase moves."""

from hypothesis import given
from hypothesis import strategies as some

from scoring.diff.change import Change
from scoring.diff.compare import FILE_LINES, Comparison, compare_rounds
from scoring.diff.parser import read_change
from tests.scoring.diff.patches import SUM, mail, one_line


def compared(before: str, after: str) -> Comparison:
    return compare_rounds(read_change(before), read_change(after))


def told(found: Comparison) -> list[tuple[str, str, list[str]]]:
    """(path, kind, lines with both marks) of each file that differs."""
    return [
        (file.path, file.kind, [line.mark + line.text for hunk in file.hunks for line in hunk.lines])
        for file in found.files
    ]


def test_a_round_that_only_moved_makes_the_same_change() -> None:
    moved = SUM.replace("@@ -10,3 +10,4 @@", "@@ -40,3 +41,4 @@").replace("1111111..2222222", "3333333..4444444")
    assert compared(SUM, mail(moved)) == Comparison("same", same=1)


def test_a_rebase_onto_other_lines_without_a_change_of_its_own_is_called_one() -> None:
    assert compared(SUM, SUM.replace("result = 0", "result = start")) == Comparison("rebased", same=1)


def test_a_changed_line_is_shown_with_the_marks_of_both_rounds() -> None:
    found = compared(SUM + one_line("b.py"), SUM.replace("check(item)", "guard(item)") + one_line("b.py"))
    (differing,) = told(found)
    assert differing[:2] == ("sum.py", "modified")
    assert [line for line in differing[2] if line[0] != " "] == ["-+        check(item)", "++        guard(item)"]
    assert (found.verdict, found.same) == ("changed", 1)


def test_a_file_that_only_one_round_touches_is_named_as_such() -> None:
    assert told(compared(SUM, SUM + one_line("b.py"))) == [("b.py", "added", ["+-a", "++b"])]
    assert told(compared(SUM + one_line("b.py"), SUM)) == [("b.py", "deleted", ["--a", "-+b"])]


def test_a_mode_that_one_round_sets_is_a_difference_without_a_line() -> None:
    assert told(compared(SUM, SUM.replace("index", "old mode 100644\nnew mode 100755\nindex"))) == [
        ("sum.py", "modified", [])
    ]


def test_a_binary_file_of_both_rounds_is_called_opaque() -> None:
    image = "diff --git a/x.png b/x.png\nindex 1..2 100644\nBinary files a/x.png and b/x.png differ\n"
    assert compared(SUM + image, SUM + image) == Comparison("same", same=1, opaque=1)


def test_a_file_that_a_series_changes_twice_is_compared_as_one() -> None:
    series = mail(one_line("x.py")) + mail(one_line("x.py", "c"))
    assert told(compared(one_line("x.py"), series)) == [("x.py", "modified", [" -a", " +b", "+-a", "++c"])]


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
