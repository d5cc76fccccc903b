"""Patches: read within bounds, counted like git, named by the change alone, kept under their hash."""

import gzip
import hashlib
import os
import random
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as some
from unidiff import PatchSet

from ingest.git.patch import Patch, PatchProblem, load_patch, patch_id, read_patch, store_patch
from tests.growth import in_linear_time

LIMIT = 1_000_000
DIFF = """diff --git a/sum.py b/sum.py
index 1111111..2222222 100644
--- a/sum.py
+++ b/sum.py
@@ -10,3 +10,4 @@ def total(items):
     result = 0
-    for item in items[1:]:
+    for item in items:
+        check(item)
         result += item
"""
MAIL = (
    """From 773444192f16f6abde8acda30cea47cd7a46fe5e Mon Sep 17 00:00:00 2001
From: Ana <ana@example.test>
Date: Mon, 13 Nov 2017 22:06:44 +0000
Subject: [PATCH] Count the first item too

@@ -1 +1 @@ is how a hunk starts.
---
 sum.py | 3 ++-
"""
    + DIFF
    + "-- \n2.45.0\n\n"
)


def read(text: str) -> Patch:
    return read_patch(text.encode(), LIMIT)


def test_a_mail_and_its_bare_diff_are_one_change() -> None:
    mail, bare = read(MAIL), read(DIFF)
    assert (mail.state, mail.files, mail.added, mail.removed) == ("read", 1, 2, 1)
    assert mail.patch_id == bare.patch_id == patch_id(DIFF) is not None
    assert mail.text == MAIL


def test_a_gzipped_patch_reads_like_the_plain_one() -> None:
    assert read_patch(gzip.compress(MAIL.encode()), LIMIT) == read(MAIL)
    halves = gzip.compress(MAIL[:300].encode()) + gzip.compress(MAIL[300:].encode())
    assert read_patch(halves, LIMIT) == read(MAIL)


def test_a_series_counts_every_commit_and_its_order_does_not_matter() -> None:
    other = MAIL.replace("sum.py", "mean.py")
    series = read(MAIL + other)
    assert (series.state, series.files, series.added, series.removed) == ("read", 2, 4, 2)
    assert series.patch_id == read(other + MAIL).patch_id
    assert series.patch_id not in (read(MAIL).patch_id, read(other).patch_id, read(MAIL + MAIL).patch_id)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("@@ -10,3 +10,4 @@ def total(items):", "@@ -99,3 +120,4 @@"),
        ("1111111..2222222", "3333333..4444444"),
        ("items[1:]", "items [1:] "),
        ("Count the first item too", "Something else"),
        ("2017", "2031"),
        ("2.45.0", "2.50.1"),
    ],
)
def test_what_is_not_the_change_leaves_the_patch_id(old: str, new: str) -> None:
    assert old in MAIL
    assert read(MAIL.replace(old, new)).patch_id == read(MAIL).patch_id


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("+        check(item)", "+        trust(item)"),
        ("     result = 0", "     result = 1"),
        ("sum.py", "total.py"),
        ("-    for item in items[1:]:", "     for item in items[1:]:"),
        ("index 1111111", "old mode 100644\nnew mode 100755\nindex 1111111"),
        ("+        check(item)\n", "+        check\n+(item)\n"),
    ],
)
def test_another_change_has_another_patch_id(old: str, new: str) -> None:
    assert old in MAIL
    assert read(MAIL.replace(old, new)).patch_id != read(MAIL).patch_id


def test_classes_are_those_of_git(tmp_path: Path) -> None:
    """Diffs that git made of random edits, moved, reworded and changed: equal for us exactly where equal for git."""
    draw = random.Random(7)
    diffs = [made_by_git(tmp_path, draw) for _ in range(6)]
    diffs += [diff.replace("@@ -", "@@ -1", 1) for diff in diffs]
    diffs += [diff.replace("line 1", "line  1\t") for diff in diffs[:6]]
    diffs += ["A message\n\n" + diff + "-- \n2.45.0\n" for diff in diffs[:6]]
    diffs += [diff.replace("new line", "now line", 1) for diff in diffs[:6]]
    theirs = [by_git(diff) for diff in diffs]
    ours = [patch_id(diff) for diff in diffs]
    assert None not in ours
    assert len(set(theirs)) == 12
    for first in range(len(diffs)):
        for second in range(first):
            assert (theirs[first] == theirs[second]) is (ours[first] == ours[second]), (diffs[first], diffs[second])


def test_the_order_of_files_does_not_matter_as_in_git(tmp_path: Path) -> None:
    parts = [DIFF, DIFF.replace("sum.py", "mean.py")]
    assert by_git("".join(parts)) == by_git("".join(reversed(parts)))
    assert patch_id("".join(parts)) == patch_id("".join(reversed(parts)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0",
        "no patch at all\n",
        DIFF.removesuffix("         result += item\n"),
        DIFF + "+    os.system(item)\n",
        DIFF.replace("-10,3 +10,4", "-10,9 +10,9"),
        DIFF.replace("-10,3 +10,4", "-0,0 +0,0"),
        DIFF.replace("-10,3 +10,4", "-10,99999999999 +10,4"),
        DIFF.replace("@@ -10,3 +10,4 @@", "@@@ -10,3 -10,3 +10,4 @@@"),
        "@@ -1 +1 @@\n-a\n+b\n",
        DIFF + "\nwords\n@@ -1 +1 @@\n-a\n+b\n",
    ],
)
def test_what_git_would_not_apply_whole_is_malformed(text: str) -> None:
    patch = read(text)
    assert (patch.state, patch.patch_id, patch.text) == ("malformed", None, text)


def test_a_broken_gzip_is_malformed() -> None:
    whole = gzip.compress(MAIL.encode())
    for broken in (whole[:-9], whole[:20], b"\x1f\x8b", whole + b"rubbish", b"\x1f\x8b" + os.urandom(200)):
        assert read_patch(broken, LIMIT).state == "malformed"


def test_files_without_hunks_and_binary_files_are_read() -> None:
    renamed = "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n"
    binary = "diff --git a/i.png b/i.png\nindex 1111111..2222222 100644\nBinary files a/i.png and b/i.png differ\n"
    packed = "diff --git a/b b/b\nindex 11..22 100644\nGIT binary patch\nliteral 3\nKcmZQzWMT#Y01f~L\n\n"
    patch = read(renamed + binary + packed)
    assert (patch.state, patch.files, patch.added, patch.removed) == ("read", 3, 0, 0)
    assert patch_id(binary) != patch_id(binary.replace("2222222", "3333333"))
    assert patch_id(packed) != patch_id(packed.replace("Kcm", "Kcn"))


def test_a_plain_diff_without_git_headers_is_read() -> None:
    plain = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n--- a/y\n+++ b/y\n@@ -0,0 +1 @@\n+c\n"
    patch = read(plain)
    assert (patch.state, patch.files, patch.added, patch.removed) == ("read", 2, 2, 1)


def test_a_bomb_is_cut_at_the_limit() -> None:
    patch = read_patch(gzip.compress(b"+" * 50_000_000), 100_000)
    assert (patch.state, patch.text, patch.patch_id) == ("oversized", "", None)
    members = gzip.compress(b"line\n" * 10_000) * 50
    assert len(read_patch(members, 100_000).text) <= 100_000
    assert read_patch(members, 100_000).state == "oversized"


def test_an_oversized_patch_keeps_its_whole_lines_up_to_the_limit() -> None:
    patch = read_patch((DIFF * 10).encode(), len(DIFF) + 7)
    assert (patch.state, patch.text, patch.patch_id, patch.added) == ("oversized", DIFF, None, 2)
    assert read_patch(DIFF.encode(), len(DIFF)).state == "read"


@pytest.mark.parametrize(
    "line",
    [
        "diff --git " + "://" * 100_000 + " " * 300_000 + "\t\n",
        "Binary files " + "a and " * 150_000 + "\n",
        "@@ -" + "1" * 900_000 + "\n",
        "--- a\n+++ b\n" * 70_000,
        "@@ -1,0 +1,0 @@\n" * 60_000,
        "diff --git a/x b/x\n" * 50_000,
    ],
    ids=["names", "binary", "digits", "headers", "hunks", "files"],
)
def test_no_line_makes_reading_slow(line: str) -> None:
    """The regular expressions of a common diff library need minutes to years for the first two."""
    in_linear_time(read, lambda size: line[:size], len(line), 2)


@given(some.binary(max_size=500))
@example(b"\x1f\x8b\x08\x00")
def test_no_bytes_make_reading_raise(data: bytes) -> None:
    for given_bytes in (data, gzip.compress(data), gzip.compress(data)[:-3]):
        assert read_patch(given_bytes, 200).state in ("read", "malformed", "oversized")


PIECES = [
    "diff --git a/x b/x\n", "--- a/x\n", "+++ b/x\n", "+++ /dev/null\n", "@@ -1 +1 @@\n", "@@ -1,2 +0,0 @@\n", "-a\n",
    "+b\n", " c\n", "\n", "\\ No newline at end of file\n", "-- \n", "---\n", "index 1..2\n", "GIT binary patch\n",
    "literal 3\n", "From 773444192f16f6abde8acda30cea47cd7a46fe5e Mon\n", "index \n", "@@ -1 +1 @@", "Binary files ",
]  # fmt: skip


@given(some.lists(some.sampled_from(PIECES), max_size=30))
def test_no_order_of_lines_makes_reading_raise(lines: list[str]) -> None:
    patch = read("".join(lines))
    assert (patch.patch_id is None) is (patch.state != "read")
    assert patch_id(patch.text) == patch.patch_id
    assert patch.added <= lines.count("+b\n") + lines.count("+++ b/x\n") + lines.count("+++ /dev/null\n")


def test_real_patches_count_as_an_independent_reader_counts_them(shared: Path) -> None:
    blobs = pq.read_table(shared / "data/replay/blobs.parquet", columns=["data"]).column("data").to_pylist()
    for blob in blobs[::4]:
        patch, other = read_patch(blob, 10 * LIMIT), PatchSet(gzip.decompress(blob).decode("utf-8", "replace"))
        assert patch.state == "read"
        assert (patch.files, patch.added, patch.removed) == (len(other), other.added, other.removed)


def test_a_kept_patch_comes_back_and_keeping_it_again_changes_nothing(tmp_path: Path) -> None:
    text = MAIL + "ünïcode \r\n"
    name = store_patch(tmp_path, text)
    place = tmp_path / name[:2] / f"{name}.patch.gz"
    before = place.stat()
    assert store_patch(tmp_path, text) == name == hashlib.sha256(text.encode()).hexdigest()
    assert (place.stat().st_ino, place.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert load_patch(tmp_path, name) == text
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [place.name]


def test_names_on_disk_come_from_the_hash_alone(tmp_path: Path) -> None:
    for text in ("../../etc/passwd", "diff --git a/../../x b/../../x\n", "\0", ""):
        store_patch(tmp_path / "diffs", text)
    names = [str(path.relative_to(tmp_path / "diffs")) for path in tmp_path.rglob("*") if path.is_file()]
    assert len(names) == 4
    assert all(
        len(name) == 2 + 1 + 64 + len(".patch.gz") and set(name[:2]) <= set("0123456789abcdef") for name in names
    )


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "A" * 64, "0" * 63, "0" * 64 + "\n", "0" * 64])
def test_a_name_that_is_no_kept_patch_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(PatchProblem):
        load_patch(tmp_path, name)


def test_a_damaged_or_exchanged_file_is_noticed(tmp_path: Path) -> None:
    name = store_patch(tmp_path, MAIL)
    place = tmp_path / name[:2] / f"{name}.patch.gz"
    place.write_bytes(place.read_bytes()[:-5])
    with pytest.raises(PatchProblem, match="cannot be read"):
        load_patch(tmp_path, name)
    place.write_bytes(gzip.compress(b"something else"))
    with pytest.raises(PatchProblem, match="another text"):
        load_patch(tmp_path, name)


def made_by_git(folder: Path, draw: random.Random) -> str:
    """A diff of two random files, by git itself."""
    lines = [f"line {number}" for number in range(draw.randrange(20, 40))]
    edited = [line for line in lines if draw.random() > 0.1]
    for _ in range(3):
        edited.insert(draw.randrange(len(edited)), f"new line {draw.random()}")
    for name, content in (("old", lines), ("new", edited)):
        (folder / name).write_text("\n".join(content) + "\n")
    command = ["git", "diff", "--no-index", "--no-color", "old", "new"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


def by_git(diff: str) -> str:
    """What `git patch-id --stable` calls a diff."""
    command = ["git", "patch-id", "--stable"]
    return subprocess.run(command, input=diff, capture_output=True, text=True, check=True).stdout.split()[0]
