"""Commits: the same name for a change whether it was mailed or landed; no content makes reading one fail."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ingest.git.history import parse_commit, read_commits, read_diffs
from ingest.git.patch import Patch, read_patch
from ingest.git.process import Git
from tests.ingest.git.git_world import Work


@pytest.fixture(name="work")
def work_fixture(tmp_path: Path) -> Work:
    work = Work(tmp_path / "work")
    crlf = "".join(f"line {number}\r\n" for number in range(20))
    text = "".join(f"line {number}\n" for number in range(20))
    work.commit(
        "First", {"a.txt": text, "b.txt": text + "more\n", "dos.txt": crlf, "image.bin": b"\0one" + os.urandom(99)}
    )
    return work


def mailed(work: Work) -> Patch:
    return read_patch(work.patch(), 1_000_000)


def landed(work: Work) -> tuple[str | None, bool]:
    ((_, diff),) = read_diffs(Git(work.folder / ".git"), [work.head()])
    assert diff is not None
    return (diff.identity() if diff.files else None), diff.proves


TEXT = "".join(f"line {number}\n" for number in range(20))
CHANGES: dict[str, dict[str, str | bytes | None]] = {
    "edit": {"a.txt": TEXT.replace("line 7", "line seven")},
    "rename": {"a.txt": None, "moved/a b.txt": TEXT},
    "rename and edit": {"a.txt": None, "c.txt": TEXT.replace("line 3", "line three")},
    "crlf": {"dos.txt": TEXT.replace("\n", "\r\n").replace("line 2", "line two")},
    "binary": {"image.bin": b"\0two" + bytes(range(200))},
    "new binary": {"other.bin": b"\0" * 500},
    "no line end": {"a.txt": TEXT + "last"},
    "odd names": {'qu"ote.txt': "x\n", "new\nline.txt": "y\n", "ünï.txt": "z\n"},
    "not utf-8": {"a.txt": TEXT.encode() + b"\xff\xfe\n"},
    "delete": {"b.txt": None},
    "form feed": {"a.txt": TEXT.replace("line 9", "line\x0c9 \x1e\x85")},
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_has_one_name_as_mail_and_as_commit(work: Work, name: str) -> None:
    work.commit(name, CHANGES[name])
    mail = mailed(work)
    assert mail.state == "read"
    assert (mail.patch_id, mail.proves) == landed(work)
    assert mail.series == (mail.patch_id,)
    assert mail.proves


def test_a_mode_alone_has_one_name_and_proves(work: Work) -> None:
    (work.folder / "a.txt").chmod(0o755)
    work.commit("mode")
    assert (mailed(work).patch_id, True) == landed(work)


def test_a_binary_change_is_another_where_its_content_is_another(work: Work) -> None:
    work.commit("binary", {"image.bin": b"\0two"})
    first = mailed(work)
    work.commit("back", {"image.bin": b"\0three"})
    assert mailed(work).patch_id not in (first.patch_id, None)


@pytest.mark.parametrize(
    "content",
    [
        TEXT.replace("line 7", "line  7"),
        TEXT.replace("line 7", "\tline 7"),
        TEXT + "\n\n",
        TEXT.replace("line 7", "line\n7"),
    ],
)
def test_white_space_alone_proves_nothing(work: Work, content: str) -> None:
    work.commit("space", {"a.txt": content})
    assert mailed(work).proves is False
    assert landed(work)[1] is False


def test_an_empty_commit_has_no_name(work: Work) -> None:
    work.commit("Nothing")
    assert landed(work) == (None, False)


def test_a_series_names_each_mail_and_what_it_claims(work: Work) -> None:
    start = work.head()
    first = work.commit("One\n\nChange-Id: I0001", {"a.txt": TEXT + "one\n"})
    second = work.commit(
        "Two\n\nText.\n\nChange-Id: I0002\nSigned-off-by: Ana <ana@example.test>", {"a.txt": TEXT + "two\n"}
    )
    series = read_patch(work.patch(start), 1_000_000)
    names = [diff.identity() for _, diff in read_diffs(Git(work.folder / ".git"), [first, second]) if diff]
    assert list(series.series) == names
    assert series.change_ids == ("I0001", "I0002")
    headed = read_patch(work.patch(start, "--add-header=Change-Id: Itangled"), 1_000_000)
    assert headed.series == series.series
    assert "Itangled" in headed.change_ids


def test_a_diff_that_is_too_large_or_unreadable_is_left_out_and_the_others_are_read(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = [work.commit(str(size), {"big.txt": "x" * 40 + f"\n{size}\n" * size}) for size in (1, 30_000, 2)]
    monkeypatch.setattr("ingest.git.history.DIFF_LIMIT", 100_000)
    found = list(read_diffs(Git(work.folder / ".git"), [*commits, "0" * 40, commits[0]]))
    assert [commit for commit, _ in found] == [*commits, "0" * 40, commits[0]]
    assert [diff is not None for _, diff in found] == [True, False, False, False, True]


def test_a_tree_that_unfolds_without_end_is_given_up(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten levels of ten names for one tree: 10 kB that stand for ten thousand million files."""
    tree = work.git("hash-object", "-w", "--stdin", given=b"bomb\n")
    entries = "".join(f"100644 blob {tree}\tf{number}\n" for number in range(10))
    for _ in range(10):
        tree = work.git("mktree", given=entries.encode())
        entries = "".join(f"040000 tree {tree}\td{number}\n" for number in range(10))
    bomb = work.git("commit-tree", tree, "-p", "HEAD", "-m", "bomb")
    monkeypatch.setattr("ingest.git.history.DIFF_SECONDS", 1.0)
    found = dict(read_diffs(Git(work.folder / ".git"), [bomb, work.head()]))
    assert found[bomb] is None
    assert found[work.head()] is not None


def test_what_a_commit_says_of_itself_is_read(work: Work) -> None:
    commit = work.commit(
        "A subject\nover two lines\n\nThis reverts commit 0123456789abcdef0123456789abcdef01234567.\n"
        "Also: This reverts commits abcdef1, 1234567 and fedcba9.\n\nChange-Id: Iabc\n"
    )
    (told,) = read_commits(Git(work.folder / ".git"), [commit, "f" * 40])
    assert told.subject == "A subject over two lines"
    assert told.reverts == ("0123456789abcdef0123456789abcdef01234567", "abcdef1", "1234567", "fedcba9")
    assert (told.change_id, told.committed_at, told.signature) == ("Iabc", work.clock, None)


def test_signature_and_change_id_headers_are_kept_raw() -> None:
    data = (
        b"tree 1\nparent 2\nauthor A <a@b> 1700000000 +0330\ncommitter C <c@d> 1700000100 -0800\nchange-id zzkw\n"
        b"gpgsig -----BEGIN SSH SIGNATURE-----\n U1NI\n -----END SSH SIGNATURE-----\n\nSubject\n"
    )
    told = parse_commit("f" * 40, data)
    assert told.signature == "-----BEGIN SSH SIGNATURE-----\nU1NI\n-----END SSH SIGNATURE-----"
    assert (told.change_id, told.parents, told.authored_at.year) == ("zzkw", ("2",), 2023)


PIECES = [b"tree ", b"parent ", b"author ", b"committer ", b"> 99999999999999 +0000", b"> -5 +0", b"\n", b"\n\n", b" ",
          b"gpgsig ", b"\0", b"\xff", b"change-id ", b"This reverts commit ", b"abcdef0", b"Change-Id: "]  # fmt: skip


@given(some.lists(some.one_of(some.sampled_from(PIECES), some.binary(max_size=20)), max_size=40))
def test_no_commit_object_makes_reading_raise(pieces: list[bytes]) -> None:
    told = parse_commit("f" * 40, b"".join(pieces))
    told.subject.encode()
    assert "\0" not in told.subject + (told.signature or "")
    assert told.committed_at.year >= 1970
