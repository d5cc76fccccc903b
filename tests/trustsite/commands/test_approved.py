"""`manage.py approved`: exactly what is approved, for the maintainer's own clone."""

import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from ingest.git.patch import patch_id
from ingest.store.snapshots import publish
from scoring.handlers.actions import ActionMessage, apply_action
from scoring.queries import read
from tests.ingest.stream.frames import MARA, REPO, SEED, Frames, at
from tests.pipeline import Result
from tests.scoring.pipeline.offered_world import SECOND, a_new_round, offered_world
from tests.scoring.small import OFFERED, settled
from tests.standins.merging import Merging
from trustsite.standins import StandIns
from trustsite.standins.recording import Person, Repository, make_recording

HOST = "pds.example.test"


@pytest.fixture
def result(tmp_path: Path, settings: Settings) -> Iterator[Result]:
    settings.SNAPSHOT_DIR = tmp_path / "world" / "snapshots"
    settings.DIFF_CORPUS_DIR = tmp_path / "world" / "diffs"
    with offered_world(tmp_path / "world") as world:
        yield world


def approve(result: Result, uri: str) -> str:
    """Approve the newest round and show it; returns its patch-id."""
    with result.reading() as rows:
        seen = read.subjects(rows, [uri])[uri].seen
    assert seen.patch_id
    made_at = at(50)
    told = ActionMessage("approve", None, "", uri, SEED, seen.record_cid, seen.round, seen.patch_id, None, made_at)
    apply_action(result.store, f"key of {uri} {seen.round}", told, made_at)
    publish(result.store, result.folder / "snapshots")
    return seen.patch_id


def run(*arguments: str) -> str:
    out, err = StringIO(), StringIO()
    call_command("approved", *arguments, stdout=out, stderr=err)
    return out.getvalue() + err.getvalue()


def test_one_mailbox_for_each_holds_exactly_the_approved_change(result: Result, tmp_path: Path) -> None:
    wanted = {approve(result, OFFERED), approve(result, SECOND)}
    said = run("--mbox", str(tmp_path / "out"))
    files = list((tmp_path / "out").iterdir())
    assert {patch_id(file.read_text()) for file in files} == wanted
    assert all(re.fullmatch(r"approved-[0-9a-f]{16}\.mbox", file.name) for file in files)
    assert "git am --keep-cr" in said


def test_a_later_run_takes_away_what_is_no_longer_approved(result: Result, tmp_path: Path) -> None:
    approve(result, OFFERED)
    second = approve(result, SECOND)
    run("--mbox", str(tmp_path / "out"))
    a_new_round(result)
    publish(result.store, result.folder / "snapshots")
    run("--mbox", str(tmp_path / "out"))
    assert [patch_id(file.read_text()) for file in (tmp_path / "out").iterdir()] == [second]


def test_with_nothing_approved_no_command_is_told_that_would_find_no_file(result: Result, tmp_path: Path) -> None:
    publish(result.store, result.folder / "snapshots")
    assert run("--mbox", str(tmp_path / "out")) == "No approved pull request waits for a merge: 0 written.\n"


def test_a_folder_with_other_files_is_refused_since_git_am_would_take_them_too(result: Result, tmp_path: Path) -> None:
    approve(result, OFFERED)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "other.mbox").write_text("From mallory\n")
    with pytest.raises(CommandError, match="holds other files"):
        run("--mbox", str(tmp_path / "out"))
    assert len(list((tmp_path / "out").iterdir())) == 1


def test_a_link_left_in_the_folder_leads_nowhere(result: Result, tmp_path: Path) -> None:
    approve(result, OFFERED)
    folder, victim = tmp_path / "out", tmp_path / "victim"
    folder.mkdir()
    victim.write_text("mine")
    (folder / ".draft").symlink_to(victim)
    run("--mbox", str(folder))
    (written,) = folder.iterdir()
    written.unlink()
    written.symlink_to(victim)
    run("--mbox", str(folder))
    assert victim.read_text() == "mine"
    assert not written.is_symlink()


def test_a_folder_that_cannot_be_written_is_said_in_a_sentence(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    approve(result, OFFERED)
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandError, match=r"file cannot be used \(File exists\)"):
        run("--mbox", str(tmp_path / "file"))

    def full(path: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(CommandError, match=r"cannot be written \(No space left on device\)"):
        run("--mbox", str(tmp_path / "out"))


def test_a_patch_that_is_not_kept_is_said_and_its_old_file_goes(result: Result, tmp_path: Path) -> None:
    approve(result, OFFERED)
    run("--mbox", str(tmp_path / "out"))
    for kept in (result.folder / "diffs").rglob("*.patch.gz"):
        kept.unlink()
    with pytest.raises(CommandError, match="Some approved pull requests could not be written"):
        run("--mbox", str(tmp_path / "out"))
    assert list((tmp_path / "out").iterdir()) == []


def test_without_a_folder_it_lists_and_a_repository_narrows(result: Result) -> None:
    patch = approve(result, OFFERED)
    assert patch in run()
    assert patch in run("--repo", REPO)
    assert run("--repo", "did:plc:other") == ""


def merged(
    result: Result, settings: Settings, monkeypatch: pytest.MonkeyPatch, on: bool = True
) -> list[dict[str, str]]:
    """Have seed merge mara's pull request on the stand-in knot; what the knot took."""
    frames = Frames(settled("open"))
    people = [Person(did, f"{did[8:12]}.example.test", f"https://{HOST}", "") for did in (SEED, MARA)]
    repositories = [Repository(REPO, "seed/lantern", SEED, "knot.example.test", "spindle.example.test", (SEED,))]
    with result.store.write() as txn:
        txn.execute("update contributors set pds = ?", [f"https://{HOST}"])
        txn.execute("update pull_requests set record_cid = ? where pull_uri = ?", ["bafyrei1", OFFERED])
    recording = make_recording(frames, {}, people, repositories)
    with StandIns(recording) as stand_ins:
        settings.STAND_IN_ORIGIN, settings.MERGE_ON_FORGE = stand_ins.origin, on
        forge = Merging.beside(stand_ins, recording)
        monkeypatch.setattr("sys.stdin", StringIO(forge.sign_in(SEED) + "\n"))
        approve(result, OFFERED)
        call_command("merge_approved", OFFERED, "--as", SEED, stdout=StringIO())
        return forge.merged


def test_what_is_approved_can_be_merged_on_the_forge(
    result: Result, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    (taken,) = merged(result, settings, monkeypatch)
    assert taken["by"] == SEED
    assert taken["branch"] == "main"
    assert patch_id(taken["patch"]) == result.value("select patch_id from approvals")


def test_merging_on_the_forge_is_off_unless_it_is_switched_on(
    result: Result, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CommandError, match="MERGE_ON_FORGE=1"):
        merged(result, settings, monkeypatch, on=False)


def test_what_is_not_approved_is_not_merged(result: Result, settings: Settings) -> None:
    settings.MERGE_ON_FORGE = True
    publish(result.store, result.folder / "snapshots")
    with pytest.raises(CommandError, match="no valid approval"):
        call_command("merge_approved", OFFERED, "--as", SEED)
