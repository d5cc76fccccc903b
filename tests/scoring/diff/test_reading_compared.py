"""Reading beside other readers: git on odd patches, an independent library on real ones."""

import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from unidiff import PatchSet

from scoring.diff.parser import read_change
from tests.conftest import Count
from tests.scoring.diff.patches import SIGNATURE, SUM, counts, mail, one_line

ODD = {
    "signature": SUM + SIGNATURE,
    "hunk shorter than its lines": SUM + "+hidden\n",
    "quoted": one_line("x").replace("a/x", '"a/f\\303\\274 \\"q\\""').replace("b/x", '"b/f\\303\\274 \\"q\\""'),
    "blanks": one_line("x y").replace("--- a/x y", "--- a/x y\t").replace("+++ b/x y", "+++ b/x y\t"),
    "blanks without lines": "diff --git a/x b/y b/x b/y\nold mode 100644\nnew mode 100755\n",
    "traversal": one_line("../../x"),
    "slashes": one_line("x").replace("a/x", "a/y//x").replace("b/x", "b/y//x"),
    "carriage returns": one_line("x", "b\r"),
    "all carriage returns": SUM.replace("\n", "\r\n"),
    "carriage return in a name": one_line("x\rq"),
    "no line ends": one_line("x", "b\u2028+c\rd\x0b\x0c\x85"),
    "submodule": one_line("s").replace("--- a", "index 1111111..2222222 160000\n--- a"),
    "mode": "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n",
    "rename": "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n",
    "quoted rename": 'diff --git a/x "b/x\\tq"\nrename from x\nrename to "x\\tq"\n',
    "binary": "diff --git a/i b/i\nindex 1111111..2222222 100644\nBinary files a/i and b/i differ\n",
    "other tools": "--- x/a.c.orig\t2019-01-01 10:00:00\n+++ x/a.c 2020-01-01 10:00:00 +0000\n@@ -1 +1 @@\n-a\n+b\n",
    "no names": "diff --git a/x b/x\nindex 1..2 100644\n@@ -1 +1 @@\n-a\n+b\n",
    "new and empty": "diff --git a/x b/x\nnew file mode 100644\nindex 0000000..e69de29\n",
    "deleted": "diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
    "null without a mode": "diff --git a/x b/x\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+b\n",
    "no prefix": one_line("x").replace("a/x", "src/x").replace("b/x", "src/x"),
    "diff in a message": mail(body=one_line("shown")),
    "two mails": mail() + mail(one_line("y")),
}
REFUSED = {
    "hunk longer than its lines": SUM.replace("-10,3 +10,4", "-10,4 +10,5"),
    "counts that do not fit": SUM.replace("-10,3 +10,4", "-10,3 +10,1"),
    "hunk of no file": SUM + "words\n@@ -9 +9 @@\n-a\n+b\n",
    "no header": "diff --git a/x b/x\n@@ -1 +1 @@\n-a\n+b\n",
    "two names": one_line("x").replace("+++ b/x\n", "+++ b/x\n+++ b/y\n"),
    "no last line end": SUM.removesuffix("\n"),
    "no common name": "diff --git a/x b/y\nindex 1..2\n@@ -1 +1 @@\n-a\n+b\n",
}


def by_git(text: str, folder: Path) -> list[tuple[str, int, int]] | None:
    """(path, added, removed) of each file as git counts; None where it refuses the patch."""
    command = ["git", "apply", "--numstat", "-z"]
    done = subprocess.run(command, input=text.encode(), cwd=folder, capture_output=True, check=False)
    if done.returncode:
        return None
    rows = [row.replace("-\t-\t", "0\t0\t").split("\t", 2) for row in done.stdout.decode().split("\0")[:-1]]
    return [(path, int(added), int(removed)) for added, removed, path in rows]


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_an_odd_patch_is_counted_as_git_counts_it(text: str, tmp_path: Path) -> None:
    assert counts(read_change(text).files) == by_git(text, tmp_path)


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_a_patch_that_git_refuses_has_a_problem(text: str, tmp_path: Path) -> None:
    assert by_git(text, tmp_path) is None
    change = read_change(text)
    assert change.problems
    assert change.coverage < 1


def test_real_diffs_are_read_as_an_independent_reader_reads_them(shared: Path, count: Count) -> None:
    table = pq.read_table(shared / "data/pr_diffs.parquet", columns=["diff", "truncated"])
    whole = [row["diff"] for row in table.to_pylist() if not row["truncated"]]
    for diff in whole[:: count(40, 1)]:
        change, other = read_change(diff), PatchSet(diff)
        assert change.problems == ()
        assert [row[1:] for row in counts(change.files)] == [(file.added, file.removed) for file in other]
        ours = [(line.old, line.new, line.text) for file in change.files for hunk in file.hunks for line in hunk.lines]
        lines = (line for file in other for hunk in file for line in hunk if line.line_type != "\\")
        assert ours == [(line.source_line_no, line.target_line_no, line.value.removesuffix("\n")) for line in lines]


def test_every_diff_that_was_cut_is_found_to_be_cut(shared: Path) -> None:
    table = pq.read_table(shared / "data/pr_diffs.parquet", columns=["diff"], filters=[("truncated", "=", True)])
    diffs = table.column("diff").to_pylist()
    changes = [read_change(diff) for diff in diffs]
    assert len(changes) > 1_000
    assert [diff[-80:] for diff, change in zip(diffs, changes, strict=True) if change.coverage == 1] == []
    assert all(change.problems for change in changes)
