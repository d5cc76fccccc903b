"""A patch and the file before it give the file as it will be, or nothing where they do not fit."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.diff.change import Change, FileChange, Hunk, Line
from scoring.diff.parser import read_change
from scoring.scanners.whole_files import ROW_BYTES, SHIFT, SIDES_BYTES, whole_files
from tests.conftest import count
from tests.scoring.diff.patched import change, patch

ROWS = st.lists(st.sampled_from(["a", "b", "c", "", "  d"]), min_size=1, max_size=30)


def text_of(rows: list[str]) -> str:
    return "".join(f"{row}\n" for row in rows)


def sides(made: Change, **base: str) -> list[str | None]:
    return [side.text if side else None for side in whole_files(made, {f"{name}.py": base[name] for name in base})]


@settings(max_examples=count(25, 5000))
@given(ROWS, ROWS, st.integers(0, 4))
def test_the_new_side_is_the_text_that_the_patch_was_made_for(old: list[str], new: list[str], context: int) -> None:
    made = read_change(patch("a.py", text_of(old), text_of(new), context))
    if old != new:
        (side,) = whole_files(made, {"a.py": text_of(old)})
        assert side is not None
        rows = side.text.split("\n")
        assert rows == [*new, ""]
        assert [line.text for line in side.lines if line] == [rows[n] for n, line in enumerate(side.lines) if line]
        assert {line.text for line in made.files[0].added()} <= set(new)


def test_each_added_line_stands_at_its_own_number() -> None:
    made = change({"a.py": (text_of([f"x{n}" for n in range(40)]), text_of([f"x{n}" for n in range(0, 40, 3)]))})
    (side,) = whole_files(made, {"a.py": text_of([f"x{n}" for n in range(40)])})
    assert side is not None
    assert [line.new for line in side.lines if line] == [row for row, line in enumerate(side.lines, 1) if line]


def test_a_hunk_that_moved_since_is_found_and_one_that_moved_too_far_is_not() -> None:
    made = change({"a.py": ("one\ntwo\nthree\n", "one\nTWO\nthree\n")})
    assert sides(made, a="new\n" * 7 + "one\ntwo\nthree\n") == ["new\n" * 7 + "one\nTWO\nthree\n"]
    assert sides(made, a="new\n" * (SHIFT + 1) + "one\ntwo\nthree\n") == [None]


def test_what_does_not_match_is_unknown() -> None:
    made = change({"a.py": ("one\ntwo\n", "one\nTWO\n"), "b.py": ("one\n", "two\n")})
    assert sides(made) == [None, None]
    assert sides(made, a="one\nother\n", b="one\n") == [None, "two\n"]


def test_an_added_file_is_known_without_any_base_and_a_deleted_one_is_not() -> None:
    made = change({"a.py": ("", "one\ntwo\n"), "b.py": ("one\n", "")})
    assert sides(made, b="one\n") == ["one\ntwo\n", None]


def test_parts_of_a_series_build_on_each_other() -> None:
    first, second = patch("a.py", "", "one\ntwo\nthree\n"), patch("a.py", "one\ntwo\nthree\n", "one\nTWO\nthree\n")
    assert sides(read_change(first + second)) == ["one\ntwo\nthree\n", "one\nTWO\nthree\n"]
    assert sides(read_change(second + second), a="one\ntwo\nthree\n") == ["one\nTWO\nthree\n", None]


def test_a_renamed_file_is_read_under_its_old_name() -> None:
    header = (
        "diff --git a/a.py b/b.py\nsimilarity index 60%\nrename from a.py\nrename to b.py\n--- a/a.py\n+++ b/b.py\n"
    )
    made = read_change(header + "@@ -1,2 +1,2 @@\n one\n-two\n+TWO\n")
    assert sides(made, a="one\ntwo\n") == ["one\nTWO\n"]


def test_many_hunks_over_a_file_of_equal_lines_end_soon() -> None:
    rows = [Line(" ", 1, 1, "x")] * 200 + [Line("-", 1, None, "y")]
    hunks = tuple(Hunk(start, start, "", tuple(rows)) for start in random.Random(3).sample(range(1, 100_000), 300))
    file = FileChange("a.py", "a.py", "modified", hunks)
    assert whole_files(Change((file,), (), (), 1.0), {"a.py": "x\n" * 100_000}) == (None,)


def test_many_parts_of_one_large_file_are_kept_within_a_bound() -> None:
    text = ("x" * 99 + "\n") * 10_000
    head = "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,1 +1,2 @@\n"
    firsts = ["x" * 99, *map(str, range(39))]
    made = read_change("".join(f"{head}+{number}\n {first}\n" for number, first in enumerate(firsts)))
    told = whole_files(made, {"a.txt": text})
    known = [side for side in told if side is not None]
    assert len(told) == 40
    assert 10 < len(known) < 40
    assert sum(len(side.text) + ROW_BYTES * len(side.lines) for side in known) < SIDES_BYTES + 2 * len(text)
    assert told[len(known) :] == (None,) * (40 - len(known))
