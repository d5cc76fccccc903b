"""Diffs are kept while a pull request may still need them, then only their numbers are."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from ingest.backup.manifest import backups
from ingest.erasure.erase import drop_old_diffs, drop_stray_diffs
from ingest.git.patch import PatchProblem, load_patch, store_patch
from ingest.store.database import Store
from tests.ingest.stream.frames import ANA, MARA, REPO, SEED, Frames, at, pull_uri, rows, take


def offer(store: Store, pull: str, sha256: str) -> None:
    numbers = {"bytes": 1, "files": 1, "added": 1, "removed": 0, "patch_id": "x", "state": "read", "proves": True}
    row = {"pull_uri": pull, "patch_ref": "blob:a", "sha256": sha256, "series": [], "change_ids": []}
    with store.write() as txn:
        txn.append("patches", [numbers | row])


def settled_and_open(store: Store) -> tuple[str, str]:
    """A pull request that is closed and one that is open."""
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.pull(ANA, "closed")
    frames.pull(MARA, "open")
    frames.status(SEED, pull_uri(ANA, "closed"), "closed")
    take(store, frames)
    return pull_uri(ANA, "closed"), pull_uri(MARA, "open")


def test_a_settled_pull_request_loses_its_diff_after_so_many_days_and_keeps_its_numbers(
    store: Store, tmp_path: Path
) -> None:
    closed, opened = settled_and_open(store)
    old, held = store_patch(tmp_path, "old"), store_patch(tmp_path, "held")
    offer(store, closed, old)
    offer(store, opened, held)
    assert drop_old_diffs(store, tmp_path, at(3) + timedelta(days=365), 365) == 0
    assert drop_old_diffs(store, tmp_path, at(4) + timedelta(days=365), 365) == 1
    assert rows(store, "select pull_uri, sha256, added from patches order by all") == [
        (closed, None, 1),
        (opened, held, 1),
    ]
    assert load_patch(tmp_path, held) == "held"
    with pytest.raises(PatchProblem):
        load_patch(tmp_path, old)


def test_a_diff_that_an_open_pull_request_offers_too_stays(store: Store, tmp_path: Path) -> None:
    closed, opened = settled_and_open(store)
    shared = store_patch(tmp_path, "shared")
    offer(store, closed, shared)
    offer(store, opened, shared)
    assert drop_old_diffs(store, tmp_path, at(0) + timedelta(days=9_000), 365) == 0
    assert load_patch(tmp_path, shared) == "shared"


def test_a_file_that_no_row_names_goes_once_it_is_a_day_old(store: Store, tmp_path: Path) -> None:
    closed, _ = settled_and_open(store)
    held, stray, young = (store_patch(tmp_path, text) for text in ("held", "stray", "young"))
    offer(store, closed, held)
    for name in (held, stray):
        os.utime(tmp_path / name[:2] / f"{name}.patch.gz", (0, 0))
    young_at = (tmp_path / young[:2] / f"{young}.patch.gz").stat().st_mtime
    assert drop_stray_diffs(store, tmp_path, young_at + 60) == 1
    assert {path.name[:64] for path in tmp_path.rglob("*.gz")} == {held, young}


def test_backups_are_listed_oldest_first_with_the_day_on_which_they_expire(tmp_path: Path) -> None:
    assert backups(tmp_path / "none", 30) == []
    for name, made in (("b", 86_400), ("a", 0)):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (made, made))
    found = backups(tmp_path, 30)
    assert [(backup.path.name, f"{backup.expires_at:%Y-%m-%d}") for backup in found] == [
        ("a", "1970-01-31"),
        ("b", "1970-02-01"),
    ]
