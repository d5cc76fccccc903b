"""Reading a patch: what git would apply is read, what it would not is a finding, and nothing is silent."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from scoring.diff.change import Change, FileChange, Line
from scoring.diff.parser import read_change
from scoring.types import Severity
from tests.scoring.diff.patches import FROM, SIGNATURE, SUM, counts, mail, one_line, rendered


def rules(change: Change) -> list[str]:
    return [problem.rule for problem in change.problems]


def only(text: str) -> FileChange:
    """The one file of a patch that is read whole."""
    change = read_change(text)
    assert (change.problems, len(change.files)) == ((), 1)
    return change.files[0]


def test_a_diff_is_read_with_the_numbers_of_both_sides() -> None:
    change = read_change(SUM)
    (hunk,) = change.files[0].hunks
    assert hunk.lines == (
        Line(" ", 10, 10, "    result = 0"),
        Line("-", 11, None, "    for item in items[1:]:"),
        Line("+", None, 11, "    for item in items:"),
        Line("+", None, 12, "        check(item)"),
        Line(" ", 12, 13, "        result += item"),
    )
    assert (hunk.section, hunk.old_start, hunk.new_start, hunk.whole) == ("def total(items):", 10, 10, True)
    assert (change.problems, change.mails, change.coverage) == ((), (), 1.0)


@pytest.mark.parametrize(
    ("header", "kind", "path", "old_path"),
    [
        ("similarity index 100%\nrename from x\nrename to y z\n", "renamed", "y z", "x"),
        ("similarity index 100%\ncopy from x\ncopy to y z\n", "copied", "y z", "x"),
        ("old mode 100644\nnew mode 100755\n", "mode", "x", "x"),
        ("new file mode 100644\nindex 0000000..e69de29\n", "added", "x", "x"),
        ("deleted file mode 100644\nindex e69de29..0000000\n", "deleted", "x", "x"),
        ("deleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "deleted", "x", "x"),
        ("new file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n", "added", "x", "x"),
        ("index 1..2 100644\n@@ -1 +1 @@\n-a\n+b\n", "modified", "x", "x"),
    ],
)
def test_the_kind_of_a_change_is_told_by_its_header(header: str, kind: str, path: str, old_path: str) -> None:
    file = only(f"diff --git a/x b/x\n{header}")
    assert (file.kind, file.path, file.old_path) == (kind, path, old_path)


def test_modes_make_scripts_links_and_submodules_known() -> None:
    script = only("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n")
    assert (script.old_mode, script.new_mode) == ("100644", "100755")
    link = only("diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+/etc/passwd\n")
    assert (link.symlink, link.old_mode, link.new_mode) == (True, None, "120000")
    bump = one_line("lib").replace("--- a", "index 1111111..2222222 160000\n--- a")
    assert read_change(bump).files[0].submodule


def test_what_a_binary_file_or_a_submodule_holds_was_not_read() -> None:
    binary = "diff --git a/i.png b/i.png\nindex 1..2 100644\nBinary files a/i.png and b/i.png differ\n"
    packed = "diff --git a/b b/b\nindex 11..22 100644\nGIT binary patch\nliteral 3\nKcmZQzWMT#Y01f~L\n\n"
    for text in (binary, packed):
        assert (only(text).binary, read_change(text).coverage) == (True, 0.0)
    assert read_change(one_line("lib").replace("--- a", "index 1..2 160000\n--- a")).coverage == 2 / 3
    assert counts(read_change(packed + SUM).files) == [("b", 0, 0), ("sum.py", 2, 1)]


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ('"b/f\\303\\274 \\"q\\"\\t.txt"', 'fü "q"\t.txt'),
        ("b/with blanks\t", "with blanks"),
        ("b/two///slashes", "two/slashes"),
        ("b/name\rrest", "name"),
        ("other/prefix", "prefix"),
        ("bare", "bare"),
        ('"b/\\377"', "\ufffd"),
        ("b/\u2028", "\u2028"),
    ],
)
def test_names_are_read_as_git_reads_them(written: str, path: str) -> None:
    assert only(f"--- /dev/null\n+++ {written}\n@@ -0,0 +1 @@\n+a\n").path == path


def test_a_time_behind_a_name_is_no_part_of_it() -> None:
    text = "--- x/a.c.orig\t2020-01-01 10:00:00 +0000\n+++ x/a.c 2020-01-01 10:00:00.1234 +0000\n@@ -1 +1 @@\n-a\n+b\n"
    assert only(text).path == "a.c"


def test_line_ends_belong_to_the_line_and_nothing_else_ends_one() -> None:
    text = one_line("x", "b\x0b\x0c\x85\u2028\rc\r")
    assert [line.text for line in only(text).added()] == ["b\x0b\x0c\x85\u2028\rc\r"]
    assert [line.text for line in only(SUM.replace("\n", "\r\n")).added()][-1] == "        check(item)\r"


def test_lines_without_a_last_line_end_are_read() -> None:
    marker = "\\ No newline at end of file\n"
    text = f"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n{marker}+b\n{marker}@@ -5 +5 @@\n-q\n+r\n"
    assert counts((only(text),)) == [("x", 2, 2)]


def test_an_empty_line_stands_for_an_empty_line_of_context() -> None:
    assert counts((only("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n\n-a\n+b\n"),)) == [("x", 1, 1)]


def test_the_trailer_of_a_mail_is_no_content() -> None:
    change = read_change(mail() + mail())
    assert (counts(change.files), change.problems) == ([("sum.py", 2, 1)] * 2, ())


def test_a_diff_that_a_message_shows_is_no_file() -> None:
    shown = "".join(f"    {line}\n" for line in one_line("shown").splitlines())
    change = read_change(mail(body=shown + "@@ -1 +1 @@\n-a\n+b\n- a list\n+ of points\n"))
    assert (counts(change.files), change.problems) == ([("sum.py", 2, 1)], ())


def test_a_diff_at_the_margin_of_a_message_is_a_file_as_it_is_for_git_am() -> None:
    assert counts(read_change(mail(body=one_line("real"))).files) == [("real", 1, 1), ("sum.py", 2, 1)]


def test_a_file_that_was_only_touched_changes_nothing() -> None:
    change = read_change("diff --git a/touched b/touched\n" + SUM)
    assert (counts(change.files), change.problems) == ([("sum.py", 2, 1)], ())


@pytest.mark.parametrize("hidden", ["+    os.system(item)\n", "-    check(item)\n", "         context\n"])
def test_lines_behind_a_hunk_that_claims_to_be_shorter_are_a_finding(hidden: str) -> None:
    change = read_change(SUM + hidden)
    (problem,) = change.problems
    assert (problem.rule, problem.severity, problem.file) == ("text_outside", Severity.MED, "sum.py")
    assert problem.quote == hidden.rstrip("\n")
    assert change.coverage < 1


def test_lines_of_a_change_between_the_hunks_and_the_signature_of_a_mail_are_a_finding() -> None:
    assert rules(read_change(mail(SUM + "\n+    os.system(item)\n"))) == ["text_outside"]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "no_file"),
        ("\0", "no_file"),
        ("Looks good to me.\n", "no_file"),
        ("@@ -1 +1 @@\n-a\n+b\n", "stray_hunk"),
        (SUM + "words\n@@ -1 +1 @@\n-a\n+b\n", "stray_hunk"),
        (SUM.replace("@@ -10,3 +10,4 @@", "@@@ -10,3 -10,3 +10,4 @@@"), "stray_hunk"),
        (SUM.replace("-10,3", "-99999999999,3"), "stray_hunk"),
        (SUM.removesuffix("         result += item\n"), "cut_hunk"),
        (SUM.replace("-10,3 +10,4", "-10,9 +10,9"), "cut_hunk"),
        (SUM.replace("-10,3 +10,4", "-10,9 +10,9") + SUM, "corrupt_hunk"),
        (SUM.replace("-10,3 +10,4", "-10,3 +10,1"), "corrupt_hunk"),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n a\n", "corrupt_hunk"),
        ("--- a/x\n+++ b/x\n@@ -1,0 +1,0 @@\n", "corrupt_hunk"),
        (SUM.removesuffix("m\n"), "cut_text"),
        ("diff --git a/x b/x\nnew file mode 100644\n", "cut_file"),
        ("diff --git a/x b/x\ndeleted file mode 100644\nindex 1..0\n", "cut_file"),
        ("diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\nindex 1..2 100644\n", "cut_file"),
        ("diff --git a/x b/y\nindex 1..2\n@@ -1 +1 @@\n-a\n+b\n", "unreadable_file"),
        ("diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n", "unreadable_file"),
        ("diff --git a/x b/x\nnew file mode 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "unreadable_file"),
        ("diff --git a/x b/x\nold mode rwxr-x\nnew mode 100755\n", "unreadable_file"),
        (one_line("x").replace("+++ b/x\n", "+++ b/x\n+++ b/y\n"), "unreadable_file"),
        ("diff --git a/x b/x\nrename from x\nrename to y\n--- a/x\n+++ b/z\n@@ -1 +1 @@\n-a\n+b\n", "unreadable_file"),
    ],
)
def test_what_git_would_refuse_is_a_finding_and_lowers_coverage(text: str, rule: str) -> None:
    change = read_change(text)
    assert rule in rules(change)
    assert change.coverage < 1


@pytest.mark.parametrize("path", ["../../etc/cron.d/x", ".git/hooks/post-checkout", "a/.GIT/config", "a/./b", "a/"])
def test_a_path_that_git_refuses_is_a_finding_and_keeps_its_characters(path: str) -> None:
    change = read_change(one_line(path))
    assert rules(change) == ["unsafe_path"]
    assert change.files[0].path == path


@pytest.mark.parametrize("name", ['"{}/setup.py\\000.md"', "{}/setup.py\0.md"])
@pytest.mark.parametrize("line", ["diff --git {old} {new}\n", ""])
def test_a_name_ends_at_its_nul_and_the_change_does_not_count_as_fully_read(name: str, line: str) -> None:
    old, new = name.format("a"), name.format("b")
    change = read_change(f"{line.format(old=old, new=new)}--- {old}\n+++ {new}\n@@ -1 +1,2 @@\n s1\n+import os\n")
    assert [(file.path, file.old_path) for file in change.files] == [("setup.py", "setup.py")]
    assert rules(change) == ["nul_in_name"]
    assert change.problems[0].explanation.endswith("See line 1 of the patch's text.")
    assert change.coverage < 1


def test_a_cut_hunk_keeps_its_lines_and_says_that_it_is_cut() -> None:
    (hunk,) = read_change(SUM.removesuffix("         result += item\n")).files[0].hunks
    assert (len(hunk.lines), hunk.whole) == (4, False)


def test_coverage_is_the_share_of_changed_lines_that_were_read() -> None:
    assert read_change(SUM.replace("-10,3 +10,4", "-10,3 +10,11")).coverage == 3 / 10
    assert read_change(SUM + "+a\n+b\n").coverage == 3 / 5
    assert read_change("").coverage == 0.0


PIECES = [
    *SUM.splitlines(keepends=True), *one_line("y").splitlines(keepends=True), FROM, SIGNATURE, "From: a@b.c\n", "\n",
    "Subject: =?utf-8?q?=?=\n", "Content-Type: multipart/mixed\n", "+++ /dev/null\n", "--- /dev/null\n", "\\ No\n",
    "rename from x\n", "rename to y\n", "new file mode 160000\n", "GIT binary patch\n", "literal 3\n", "---\n",
    "@@ -1,2 +0,0 @@\n", "@@ -0,0 +0,0 @@\n", 'diff --git "a/\\', "diff --git a/ b/\n", "\r\n", "\ud800\n",
    "@@ -1 +1 @@",
]  # fmt: skip


@given(some.lists(some.one_of(some.sampled_from(PIECES), some.text(max_size=20)), max_size=40).map("".join))
def test_no_text_makes_reading_raise_and_none_is_read_in_silence(text: str) -> None:
    change = read_change(text)
    assert 0 <= change.coverage <= 1
    assert change.files or change.problems
    assert (change.coverage < 1) >= any(problem.type == "oversized" for problem in change.problems)
    for file in change.files:
        for hunk in file.hunks:
            old, new = max(hunk.old_start, 1), max(hunk.new_start, 1)
            for line in hunk.lines:
                assert line.old == (None if line.mark == "+" else old)
                assert line.new == (None if line.mark == "-" else new)
                old, new = old + (line.mark != "+"), new + (line.mark != "-")


LINES = some.text(some.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=30)
MARKED = some.lists(some.tuples(some.sampled_from("+- "), LINES), max_size=12).map(lambda lines: [*lines, ("+", "")])


@given(some.lists(MARKED, min_size=1, max_size=4))
def test_hunks_written_again_are_the_text_that_was_read(hunks: list[list[tuple[str, str]]]) -> None:
    text, start = "--- a/x\n+++ b/x\n", 1
    for lines in hunks:
        old, new = (sum(mark != other for mark, _ in lines) for other in "+-")
        text += f"@@ -{start},{old} +{start},{new} @@ def f():\n" + "".join(f"{mark}{line}\n" for mark, line in lines)
        start += 100
    (file,) = read_change(text).files
    assert "--- a/x\n+++ b/x\n" + "".join(rendered(hunk) for hunk in file.hunks) == text
