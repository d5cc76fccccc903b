"""Changes of accounts that stand in no public log are kept, by the stream's own clock."""

from datetime import timedelta
from pathlib import Path

import pytest

from ingest.erasure.erase import erase
from ingest.store.database import Store
from tests.ingest.erasure.planted import folders_below
from tests.ingest.stream.frames import ANA, MARA, SEED, Frames, at, rows, take

WEB = "did:web:ana.example.test"
TOLD = "select did, kind, seen_at from account_changes join contributors using (contributor_id) order by all"


def a_story() -> Frames:
    frames = Frames()
    frames.vouch(SEED, MARA)
    frames.vouch(WEB, MARA)
    return frames


@pytest.mark.parametrize("status", ["deactivated", "takendown", "suspended", None])
@pytest.mark.parametrize("batches", [1, 3])
def test_an_account_that_was_gone_came_back_once(store: Store, status: str | None, batches: int) -> None:
    frames = a_story()
    frames.account(MARA, active=False, **({"status": status} if status else {}))
    frames.account(MARA, active=True)
    frames.account(MARA, active=True)
    if batches == 1:
        take(store, frames)
    else:
        for number in range(len(frames)):
            take(store, frames[number : number + 1])
    assert rows(store, TOLD) == [(MARA, "returns", at(3))]


def test_an_account_that_was_slowed_down_or_always_there_did_not_come_back(store: Store) -> None:
    frames = a_story()
    frames.account(MARA, active=True)
    frames.account(MARA, active=False, status="throttled")
    frames.account(MARA, active=True)
    take(store, frames)
    assert rows(store, TOLD) == []


def test_whatever_an_identity_event_means_is_kept_only_of_who_keeps_no_log(store: Store) -> None:
    frames = a_story()
    frames.identity(WEB)
    frames.identity(MARA)
    frames.identity(ANA)
    take(store, frames)
    assert rows(store, TOLD) == [(WEB, "identity", at(2))]


def test_who_was_erased_and_writes_again_came_back(kept: Store, tmp_path: Path) -> None:
    frames = a_story()
    take(kept, frames)
    erase(kept, MARA, "by_request", at(5), folders_below(tmp_path))
    assert rows(kept, "select count(*) from contributors where did = ?", MARA) == [(0,)]
    later = Frames([b"{}"] * 100)
    later.vouch(MARA, SEED)
    later.vouch(MARA, WEB)
    take(kept, later[100:])
    assert rows(kept, TOLD) == [(MARA, "returns", at(100))]
    take(kept, later[100:])
    assert rows(kept, TOLD) == [(MARA, "returns", at(100))]


def test_an_erasure_takes_these_rows_too(kept: Store, tmp_path: Path) -> None:
    frames = a_story()
    frames.identity(WEB)
    take(kept, frames)
    erase(kept, WEB, "by_request", at(2) + timedelta(days=1), folders_below(tmp_path))
    assert rows(kept, "select count(*) from account_changes") == [(0,)]
