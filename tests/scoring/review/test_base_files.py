"""The files that a change touches are read from the mirror of its target branch, within bounds."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from ingest.git import history
from ingest.git.mirror import mirror_path
from scoring.review.settings import base_files_in
from tests.ingest.git.git_world import Work
from tests.pipeline import Result
from tests.scoring.diff.patched import change
from tests.scoring.small import OFFERED, settled, take

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
