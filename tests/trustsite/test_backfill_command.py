"""`manage.py backfill` as a process: refused, done by itself where no worker runs, handed over where one does."""

import json
import signal
from pathlib import Path

import pytest

from ingest.backfill.turn import NOBODY_NAMED
from ingest.snapshot import SnapshotReader, current_number
from tests.trustsite import runs
from tests.trustsite.recordings import ANA, MARA, small
from tests.waiting import wait_for
from trustsite import drive
from trustsite.management.commands.backfill import told
from trustsite.standins import StandIns


@pytest.fixture
def marked(tmp_path: Path) -> Path:
    """A marked drive."""
    root = tmp_path / "drive"
    root.mkdir()
    drive.mark(root)
    return root


def test_what_is_no_account_or_kind_of_record_is_refused_in_one_sentence(marked: Path) -> None:
    status, out, err = runs.run("backfill", "--did", "ana.example.test", DATA_ROOT=marked)
    assert (status, out) == (2, "")
    assert "give the account's DID" in err
    status, out, err = runs.run("backfill", "--collection", "com.example.post", DATA_ROOT=marked)
    assert (status, out) == (2, "")
    assert "is not read here" in err


def test_it_is_done_at_once_where_no_worker_runs(marked: Path) -> None:
    status, out, err = runs.run("backfill", "--json", DATA_ROOT=marked)
    assert status == 0, err
    summary = json.loads(out)
    assert (summary["state"], summary["why"], summary["accounts"]) == ("done", "by_hand", 0)
    assert summary["notes"] == [NOBODY_NAMED]
    assert current_number(marked / "snapshots") == 1


def test_a_running_worker_does_it_after_the_first_run_that_it_began_itself(marked: Path) -> None:
    with StandIns(small()) as peers:  # its DIDs are no real ones: nobody is asked about them
        worker = runs.start("worker", DATA_ROOT=marked, JETSTREAM_URLS=peers.jetstream_url)
        try:
            wait_for(lambda: current_number(marked / "snapshots") > 0)
            status, out, err = runs.run("backfill", DATA_ROOT=marked)
            assert status == 0, err
            assert "0 of 2 accounts read, 0 absent, 2 failed" in out
            assert NOBODY_NAMED in out
            assert f"2 x not a did:plc or did:web ({ANA}, {MARA})" in out
        finally:
            worker.send_signal(signal.SIGTERM)
            assert runs.finish(worker, timeout=runs.STOP_SECONDS)[0] == 0
    with SnapshotReader(marked / "snapshots").pin() as snapshot:
        assert snapshot is not None
        found = {row["reason"]: row["state"] for row in snapshot.rows("select reason, state from backfills")}
    assert found == {"first_start": "done", "by_hand": "done"}


def test_a_summary_says_what_could_not_be_had_and_why() -> None:
    missing = [{"reason": "it was tombstoned", "accounts": 2, "examples": ["did:plc:a", "did:plc:b"]}]
    numbers = {"done": 8, "accounts": 10, "absent": 2, "failed": 0, "seconds": 61.2}
    numbers |= {"records": 1200, "logged": 1000, "deletes": 3}
    assert told({**numbers, "not_had": missing, "notes": ["a host failed"]}).splitlines() == [
        "8 of 10 accounts read, 2 absent, 0 failed, in 61 s.",
        "1,200 records listed: 1,000 new here, 3 of ours were deleted meanwhile.",
        "Could not be had:",
        "  a host failed",
        "  2 x it was tombstoned (did:plc:a, did:plc:b)",
    ]
