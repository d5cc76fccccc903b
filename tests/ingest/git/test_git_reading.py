"""A patch's text as git itself splits, decodes and counts it, beside what is read of it here."""

import gzip
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as some

from ingest.errors import FetchProblem
from ingest.git import apply_check
from ingest.git.apply_check import GitReading, compare_with_git
from ingest.git.patch import is_from_line, store_patch, unpack
from ingest.lookups import rounds
from scoring.diff.parser import read_change
from tests.conftest import Count
from tests.ingest.git.git_world import Work
from tests.ingest.lookups.asked import World, cid_of
from tests.scoring.diff.hidden_mails import behind, hidden_mail, ways
from tests.scoring.diff.patches import FROM, SUM, mail, one_line

HIDDEN_AT = mail().count("\n") + 1  # where the second mail begins
SAME = GitReading("same")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("way", ways())
def test_a_hidden_mail_is_another_reading_from_its_first_line_on(way: str) -> None:
    assert compare_with_git(behind(SUM, way).encode()) == GitReading("different", HIDDEN_AT)


@pytest.mark.parametrize(
    "text",
    [
        SUM,
        mail(),
        mail() + mail(one_line("y")),
        f"\n\n{mail()}",
        mail().removeprefix(FROM),
        mail(body="Words.\n\nFrom: Real Author <real@example.test>\n"),
        mail(subject="[PATCH] Grüße an alle, auch wenn die Zeile lang wird\n und gefaltet"),
        mail(Content_Type="text/plain; charset=UTF-8", Content_Transfer_Encoding="8bit", body="Grüße\n"),
        mail(one_line("x", "b\r")),
        "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n",
        "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n",
        f"Index: x\n{'=' * 60}\n{one_line('x').split(chr(10), 1)[1]}",
    ],
)
def test_what_git_reads_alike_is_the_same(text: str) -> None:
    assert compare_with_git(text.encode()) == SAME


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"# HG changeset patch\n# User x\nMend\n\n{SUM}", 1),
        (f"# This series applies on GIT commit {'0' * 40}\none.patch\n", 1),
        (f"Mend it\n\nFrom: Ana <ana@example.test>\n\n---\n{SUM}", 1),
        (mail("".join(f" {line}\n" for line in SUM.splitlines()), Content_Type="text/plain; format=flowed"), 1),
    ],
)
def test_what_git_rewrites_first_is_another_reading(text: str, line: int) -> None:
    assert compare_with_git(text.encode()) == GitReading("different", line)


@pytest.mark.parametrize(
    "text",
    [
        SUM.replace("-10,3 +10,4", "-10,4 +10,5"),
        mail(Content_Type="text/plain; charset=no-such-charset", body="Grüße\n"),
    ],
)
def test_what_git_cannot_take_apart_does_not_pass(text: str) -> None:
    reading = compare_with_git(text.encode())
    assert reading is not None
    assert reading.state in ("refused", "different")


NUL_NAMES = ['"a/setup.py\\000.md"', "a/setup.py\0.md"]


@pytest.mark.parametrize("name", NUL_NAMES)
def test_a_path_that_git_takes_from_another_name_than_is_read_is_another_reading(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"--- {name}\n+++ {name}\n@@ -1 +1,2 @@\n s1\n+print()\n"
    assert compare_with_git(text.encode()) == SAME  # the name is cut where git cuts it
    monkeypatch.setattr(apply_check, "changed_path", lambda _first, _headers: "setup.py\0.md")
    assert compare_with_git(text.encode()) == GitReading("different")


@pytest.mark.parametrize("body", ["", "--- a/x\n+++ b/y\n@@ -1 +1,2 @@\n s1\n+print()\n"])
def test_the_new_path_of_a_renamed_file_is_compared_too(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\n{body}"
    assert compare_with_git(text.encode()) == SAME
    monkeypatch.setattr(apply_check, "changed_path", lambda _first, _headers: "x")
    assert compare_with_git(text.encode()) == GitReading("different")


def test_a_path_from_which_git_takes_no_folder_is_another_reading() -> None:
    """After a name without a folder git takes no folder from any other name of the text."""
    text = "".join(f"--- {name}\n+++ {name}\n@@ -1 +1,2 @@\n s1\n+x\n" for name in ("top.py", "src/setup.py"))
    assert compare_with_git(text.encode()) == GitReading("different")


ODD_NAMES = [
    "x y",
    '"a\\tb"',
    "a//b",
    '"a\\303\\274"',
    "ü",
    '"a\\\\000"',
    "x.orig",
    "a\rb",
    '"a\\"b"',
    "a\0b",
    '"a\\000b"',
]
CONVENTIONS = [
    "diff --git {old} {new}\n--- {old}\n+++ {new}\n",
    "diff --git {old} {new}\nindex 1111111..2222222 100644\n--- {old}\n+++ {new}\n",
    "--- {old}\n+++ {new}\n",
    "--- {old}\t2024-01-01 10:00:00.000 +0000\n+++ {new}\t2024-01-01 10:00:00.000 +0000\n",
]


@pytest.mark.parametrize("headers", CONVENTIONS)
@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_are_the_paths_of_git(name: str, headers: str) -> None:
    old, new = (f'"{side}/{name[1:]}' if name.startswith('"') else f"{side}/{name}" for side in "ab")
    text = f"{headers.format(old=old, new=new)}@@ -1 +1,2 @@\n s1\n+x\n"
    if "\r" in name and "+0000" in headers:  # git ends a name at a carriage return, but not one with a time behind it
        assert compare_with_git(text.encode()) == GitReading("different")
        return
    assert compare_with_git(text.encode()) == SAME
    (row,) = subprocess.run(
        ["git", "apply", "--numstat", "-z"], input=text.encode(), capture_output=True, check=True
    ).stdout.split(b"\0")[:-1]
    assert [file.path for file in read_change(text).files] == [row.split(b"\t", 2)[2].decode()]


def test_a_series_of_more_mails_than_are_read_is_not_given_to_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    text = f"{FROM}\n" * 501
    assert compare_with_git(text.encode()) == GitReading("different", 1001)


def test_without_git_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert compare_with_git(mail().encode()) is None


@pytest.mark.parametrize("script", ["exec sleep 600", "exit 3", "yes", "kill -9 $$"])
def test_a_git_that_hangs_fails_or_talks_without_end_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    (tmp_path / "git").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(apply_check, "SECONDS", 0.5)
    assert compare_with_git(mail().encode()) is None


def put_git(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A git that runs this shell script, in which $REAL is the real one."""
    real = shutil.which("git")
    (folder / "git").write_text(f'#!/bin/sh\nREAL={real}\n{script}\nexec "$REAL" "$@"\n')
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize(
    "script",
    ["sleep 600", "kill -9 $$", "exit 137", "exit 127", "echo 'fatal: x: No space left on device' >&2; exit 128"],
)
def test_a_child_that_dies_or_hangs_over_one_text_has_not_refused_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    put_git(tmp_path, f'case "$*" in *mailinfo*) {script} ;; esac', monkeypatch)
    monkeypatch.setattr(apply_check, "SECONDS", 2.0)
    assert compare_with_git(mail().encode()) is None


def test_a_complaint_of_git_about_a_text_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_git(tmp_path, "case \"$*\" in *mailinfo*) echo 'fatal: bad mail' >&2; exit 128 ;; esac", monkeypatch)
    assert compare_with_git(mail().encode()) == GitReading("refused")


def test_a_worker_that_stops_is_not_a_fault_of_the_text() -> None:
    assert compare_with_git(mail().encode(), lambda: FetchProblem("closed", closed=True)) in (None, SAME)


def test_nothing_of_the_text_is_left_on_the_drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply_check.tempfile, "tempdir", str(tmp_path))
    assert compare_with_git(behind(SUM, "a tab").encode()) is not None
    assert list(tmp_path.iterdir()) == []


def test_neither_configuration_nor_environment_reaches_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".gitconfig").write_text("[mailinfo]\n\tscissors = true\n[apply]\n\twhitespace = error-all\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "else"))
    assert compare_with_git(mail(one_line("x", "b  "), body="From: X <x@example.test>\n-- >8 --\n").encode()) == SAME


WORDS = ("From ", "from ", "x", ":", "1", "12", "00:00:00", " 2001", " 91", " 90", "+", "-", "é", "0", *" \t\v\r")
PIECES = some.sampled_from(WORDS)
LINES = some.lists(PIECES, max_size=12).map("".join)
DATED = some.builds(
    "From {}{}:{}{}{}".format, LINES, some.sampled_from(["1:0", "00:00", "2:00", "0:0"]), PIECES, PIECES, LINES
)


def test_the_lines_at_which_mails_begin_are_those_of_git(tmp_path: Path) -> None:
    @given(some.lists(LINES | DATED, min_size=10, max_size=20))
    def compare(lines: list[str]) -> None:
        text = FROM + "".join(f"{line}\nbetween\n" for line in lines)
        folder = tmp_path / "mails"
        for left in folder.glob("*"):
            left.unlink()
        folder.mkdir(exist_ok=True)
        subprocess.run(["git", "mailsplit", f"-o{folder}"], input=text.encode(), check=True, capture_output=True)
        begun = [file.read_bytes().split(b"\n")[0] for file in sorted(folder.iterdir())]  # without the last CR
        ours = [line.encode() for line in lines if is_from_line(line.encode())]
        assert begun[1:] == [line.removesuffix(b"\r") for line in ours]

    compare()


def test_what_git_format_patch_writes_is_the_same(tmp_path: Path) -> None:
    work = Work(tmp_path / "work")
    work.commit("First", {"a.txt": "a\n", "gone.txt": "x\n"})
    work.git("config", "user.name", "Jürgen Müller")
    mails = work.offer(
        "HEAD",
        [
            ("Ein sehr langer Titel, der über eine Zeile hinausgeht: Grüße an alle, die ihn lesen", {"a.txt": "ü\n"}),
            ("Move and delete\n\nFrom here on.\n\n---\nwords", {"gone.txt": None, "b.txt": "x\n", "ü.txt": "ü\n"}),
            ("A picture", {"p.bin": bytes(range(256))}),
            ("Nothing at the end", {"a.txt": "no line end"}),
        ],
    )
    assert compare_with_git(mails) == SAME


def test_every_real_patch_is_the_same(shared: Path, count: Count) -> None:
    blobs = pq.read_table(shared / "data/replay/blobs.parquet", columns=["data"]).column("data").to_pylist()
    for data in blobs[:: count(100, 1)]:
        assert compare_with_git(unpack(data, 4_000_000)[0]) == SAME


def kept(world: World, text: str, ref: str) -> None:
    """A patch as a version before this comparison kept it."""
    world.change("update pull_requests set patch_ref = ?", ref)
    world.change(
        "insert into patches (pull_uri, patch_ref, sha256, bytes, files, added, removed, state, proves, series, "
        "change_ids) values ('at://a/1', ?, ?, 1, 1, 1, 1, 'read', true, [], [])",
        ref,
        store_patch(world.folder, text),
    )


def test_a_patch_that_is_fetched_is_compared_as_it_came(world: World) -> None:
    sent = gzip.compress(behind(SUM, "the header twice").encode())
    world.blobs[cid_of(sent)] = sent
    world.offer("at://a/2", 1, cid_of(sent))
    world.identities()
    world.patches()
    told = world.rows("select git_reading, git_line from patches order by pull_uri")
    assert told == [("same", None), ("different", HIDDEN_AT)]


def test_patches_that_an_older_version_kept_are_compared_once(world: World) -> None:
    kept(world, mail(), "blob:one")
    kept(world, behind(SUM, "two blanks"), "blob:two")
    before = world.inputs()
    assert rounds.compare_kept(world.store, world.fetcher, world.folder) == 2
    told = world.rows("select git_reading, git_line from patches order by patch_ref")
    assert told == [("same", None), ("different", HIDDEN_AT)]
    assert world.inputs() > before
    assert rounds.compare_kept(world.store, world.fetcher, world.folder) == 0


def test_while_git_is_away_patches_wait_for_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(world, mail() + hidden_mail(SUM), "blob:one")
    with monkeypatch.context() as away:
        away.setenv("PATH", "/nowhere")
        assert rounds.compare_kept(world.store, world.fetcher, world.folder) == 0
    assert rounds.compare_kept(world.store, world.fetcher, world.folder) == 1


def test_texts_over_which_git_dies_wait_while_the_others_are_compared(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        kept(world, mail(one_line(f"file{number}")), f"blob:{number}")
    dying = tmp_path / "dying"
    dying.mkdir()
    with monkeypatch.context() as broken:
        put_git(dying, 'case "$*" in *mailinfo*) kill -9 $$ ;; esac', broken)
        asked = [rounds.compare_kept(world.store, world.fetcher, world.folder) for _ in range(2)]
    waiting = "select count(*), max(attempts) from fetches where kind = 'git_reading' and outcome = 'failed'"
    assert asked == [0, 0]
    assert world.rows(waiting) == [(4, 1)]  # two a turn, each another one
    assert rounds.compare_kept(world.store, world.fetcher, world.folder) == 1
    world.change("update fetches set due_clock = fetched_clock")
    assert rounds.compare_kept(world.store, world.fetcher, world.folder) == 4
    assert world.rows("select distinct git_reading from patches where patch_ref <> ''") == [("same",)]
    assert world.rows(waiting) == [(0, None)]
