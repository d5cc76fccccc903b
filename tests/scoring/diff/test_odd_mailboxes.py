"""Odd mailboxes applied by real git: no line comes with them that was not read, unless that is told."""

import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from ingest.git.apply_check import GitReading, compare_with_git
from scoring.diff.change import Change
from scoring.diff.parser import apply_git_reading, read_change
from tests.conftest import Count
from tests.scoring.diff.odd_mailboxes import FILES, Mailbox, make_mailbox

BASE = {line for lines in FILES.values() for line in lines}


class Clone:
    """A clone into which a knot would merge, with a few files of 12 lines."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.mailbox = folder / "clone", folder / "mailbox"
        self.folder.mkdir()
        self.git("init", "-q", "-b", "main")
        for name, lines in FILES.items():
            (self.folder / name).write_text("".join(f"{line}\n" for line in lines))
        self.git("add", "-A")
        self.git("commit", "-qm", "First")
        self.git("tag", "first")

    def git(self, *arguments: str) -> bool:
        """Run git; whether it succeeded."""
        names = ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL")
        alone = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "GIT_CONFIG_NOSYSTEM": "1"}
        alone |= {f"GIT_{name}": "k@example.test" for name in names}
        done = subprocess.run(["git", *arguments], cwd=self.folder, env=alone, capture_output=True, check=False)
        return done.returncode == 0

    def applied(self, data: bytes, *command: str) -> set[tuple[str, str]] | None:
        """(file, line) of what was not there before, for a text that git takes whole; None for any other."""
        self.mailbox.write_bytes(data)
        taken = self.git(*command, str(self.mailbox))
        added = self.added() if taken else None
        (self.folder / ".git" / "index.lock").unlink(missing_ok=True)  # git died on the text
        if not taken:
            self.git("am", "--abort")
        assert self.git("reset", "-q", "--hard", "first")
        assert self.git("clean", "-fdxq")
        return added

    def added(self) -> set[tuple[str, str]]:
        files = (place for place in self.folder.iterdir() if place.is_file())
        lines = ((place.name, line) for place in files for line in place.read_bytes().split(b"\n"))
        texts = ((name, line.rstrip(b"\r").decode("utf-8", "replace")) for name, line in lines)
        return {(name, line) for name, line in texts if line and line not in BASE}


@pytest.fixture(name="clone")
def clone_fixture(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def missing(added: set[tuple[str, str]], change: Change) -> set[tuple[str, str]]:
    """The lines that git added and the reading lacks. A moved or copied file may hold lines read elsewhere."""
    read = {(file.path, line.text.rstrip("\r")) for file in change.files for line in file.added()}
    moved = {file.path for file in change.files if file.kind in ("renamed", "copied")}
    texts = {text for _, text in read}
    return {(path, line) for path, line in added - read if not (path in moved and line in texts)}


def unseen(lacking: set[tuple[str, str]], change: Change) -> set[tuple[str, str]]:
    """Those whose text stands under no name, and in no file that was read as binary."""
    binary = {file.path for file in change.files if file.binary}
    texts = {line.text.rstrip("\r") for file in change.files for line in file.added()}
    return {(path, line) for path, line in lacking if path not in binary and line not in texts}


def read(box: Mailbox) -> tuple[Change, GitReading]:
    """The reading of a mailbox, and how git's compares with it."""
    reading = compare_with_git(box.data)
    assert reading is not None
    return read_change(box.data.decode("utf-8", "replace")), reading


def test_no_line_that_git_adds_is_unread_and_untold(clone: Clone, count: Count) -> None:
    told: Counter[str] = Counter()
    for seed in range(count(40, 2000)):
        box = make_mailbox(seed)
        change, reading = read(box)
        for command in (("am", "-q"), ("apply", "--index")):
            added = clone.applied(box.data, *command)
            if added is None:
                continue
            told["applied"] += 1
            lacking = missing(added, change)
            told["hidden"] += bool(lacking)
            if lacking:
                # Each of the two defences holds alone, so that neither rests on the other. Names that contradict each
                # other, and what is binary, are told by the first only: there git has the same lines before it.
                assert change.coverage < 1, (seed, box.kinds, lacking)
                assert reading.state != "same" or not unseen(lacking, change), (seed, box.kinds, lacking)
                assert apply_git_reading(change, reading).coverage < 1, seed
    assert told["applied"] > 0.5 * 2 * count(40, 2000), told
    assert told["hidden"] > 0.1 * 2 * count(40, 2000), told


def test_an_honest_mailbox_is_read_whole(count: Count) -> None:
    honest = [box for box in map(make_mailbox, range(count(150, 2000))) if not box.kinds]
    assert len(honest) > 0.05 * count(150, 2000)
    for box in honest:
        change, reading = read(box)
        assert (reading.state, change.coverage, change.problems) == ("same", 1, ()), box.data.decode()
