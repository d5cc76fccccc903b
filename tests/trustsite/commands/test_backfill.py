"""`manage.py backfill` as a process: refused, done by itself where no worker runs, handed over where one does."""

import json
import signal
import time
from io import StringIO
from itertools import chain, count, repeat
from pathlib import Path
from unittest.mock import Mock

import pytest
from django.core.management import CommandError, call_command
from msgspec.structs import replace
from pytest_django import Settings

from ingest.atproto.identity import CONNECT
from ingest.backfill.runs import Progress
from ingest.backfill.turn import NOBODY_NAMED, BackfillProblem
from ingest.errors import StoreProblem
from ingest.store.snapshots import SnapshotReader, current_number
from ingest.worker.status import DEAD_SECONDS, Status, encode, write_page
from tests.stores import use_own_store
from tests.trustsite import runs
from tests.trustsite.standins.recordings import ANA, MARA, small
from tests.waiting import wait_for
from trustsite import drive
from trustsite.management.commands import backfill
from trustsite.management.commands.backfill import told, waits_for
from trustsite.standins import StandIns


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--did", "ana.example.test"), "give the account's DID"),
        (("--collection", "com.example.post"), "is not read here"),
    ],
)
def test_what_is_no_account_or_kind_of_record_is_refused_in_one_sentence(
    arguments: tuple[str, str], sentence: str
) -> None:
    with pytest.raises(CommandError, match=sentence) as refused:
        call_command("backfill", *arguments)
    assert (refused.value.returncode, str(refused.value).count("\n")) == (2, 0)


def test_it_is_done_at_once_where_no_worker_runs(tmp_path: Path, settings: Settings) -> None:
    use_own_store(tmp_path, settings)
    settings.BACKFILL_HOSTS, settings.STAGING_DIR, out = [], tmp_path / "staging", StringIO()
    call_command("backfill", "--json", stdout=out, stderr=StringIO())
    summary = json.loads(out.getvalue())
    assert (summary["state"], summary["why"], summary["accounts"]) == ("done", "by_hand", 0)
    assert summary["notes"] == [NOBODY_NAMED]
    assert current_number(tmp_path / "snapshots") == 1


def test_a_running_worker_does_it_after_the_first_run_that_it_began_itself(tmp_path: Path) -> None:
    marked = tmp_path / "drive"
    marked.mkdir()
    drive.mark(marked)
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


FINDING, LISTING, DONE = (Progress(state, 2, 0, 0) for state in ("finding", "listing", "done"))


def status_of(written_at: float = 100.0, **problems: str) -> Status:
    return replace(Status(written_at=written_at), **problems)


@pytest.mark.parametrize(
    ("status", "found", "words"),
    [
        (status_of(), FINDING, ""),
        (None, None, "the worker does not answer: start it again"),
        (status_of(100.0 - DEAD_SECONDS - 1), LISTING, "the worker does not answer: start it again"),
        (
            status_of(backfill_problem="no backfill host answered", listener_problem="x"),
            FINDING,
            "no backfill host answered",
        ),
        (status_of(store_problem="the drive is gone", backfill_problem="x"), LISTING, "the drive is gone"),
        (status_of(publisher_problem="no room"), None, "how far it is cannot be shown (no room)"),
        (
            status_of(listener_problem="no route"),
            None,
            "the event stream comes first, and it is unreachable (no route)",
        ),
        (status_of(listener_problem="no route"), LISTING, ""),  # for which the stream is not needed
    ],
)
def test_what_a_run_waits_for_is_told_by_the_worker(status: Status | None, found: Progress | None, words: str) -> None:
    assert waits_for(status, found, 100.0) == words


def test_each_reason_is_told_once_and_when_it_has_gone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(backfill, "LOOK_SECONDS", 0)
    looks = iter([None, FINDING, FINDING, LISTING, DONE])
    reasons = iter(["the worker does not answer", "the network is away", "the network is away", "", "too late"])
    backfill._follow(lambda: next(looks), lambda found: None, explain=lambda found: next(reasons))
    assert capsys.readouterr().err.splitlines() == [
        f"It waits: the worker does not answer. {backfill.BY_ITSELF}",
        f"It waits: the network is away. {backfill.BY_ITSELF}",
        "It goes on.",
    ]


def test_beside_a_worker_without_a_network_it_ends_with_the_refusal_that_it_gives_alone(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_own_store(tmp_path, settings)
    settings.STATUS_PATH = tmp_path / "worker.json"
    offline = f"No server can be reached from here (no address). {CONNECT}"
    write_page(settings.STATUS_PATH, encode(status_of(time.time(), backfill_problem=offline)))
    held = Mock(side_effect=StoreProblem("the store is held by process 7"))
    monkeypatch.setattr(backfill, "open_store", held)
    monkeypatch.setattr(backfill, "ask_worker", lambda name, arguments: {"run": "1"})
    monkeypatch.setattr(backfill, "PATIENCE_SECONDS", 0)
    with pytest.raises(CommandError) as refused:
        call_command("backfill")
    assert str(refused.value) == f"{offline}. {backfill.GOES_ON}"


def test_a_wait_that_ended_does_not_count_against_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds, reasons = count(0, 50), chain(["x", "x", "", "x", "x"], repeat("the network is away"))
    monkeypatch.setattr(backfill, "time", Mock(monotonic=lambda: next(seconds)))
    shown: list[Progress] = []
    with pytest.raises(BackfillProblem, match="the network is away"):
        backfill._follow(lambda: FINDING, shown.append, explain=lambda found: next(reasons))
    assert len(shown) == 6, "three looks before the reason went away for once count for nothing"


def test_a_summary_says_what_could_not_be_had_and_why() -> None:
    missing = [{"reason": "it was tombstoned", "accounts": 2, "examples": ["did:plc:a", "did:plc:b"]}]
    numbers = {"done": 8, "accounts": 10, "absent": 2, "failed": 0, "seconds": 61.2}
    numbers |= {"records": 1200, "logged": 1000, "deletes": 3}
    assert told({**numbers, "not_had": missing, "notes": ["a host failed"]}).splitlines() == [
        "8 of 10 accounts read, 2 absent, 0 failed, in 61 s.",
        "1,200 records listed: 1,000 new here, 3 of ours were deleted meanwhile.",
        "Could not be read:",
        "  a host failed",
        "  2 x it was tombstoned (did:plc:a, did:plc:b)",
    ]
