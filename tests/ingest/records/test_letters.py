"""Dead letters read again once the code has learned: applied where they belong, kept where they still say nothing."""

import json
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from ingest.records.dead_letters import LETTER_LIMIT, LetterBound
from ingest.records.derive import derive
from ingest.records.fields import Unreadable
from ingest.store.database import Store
from ingest.stream.load import load
from ingest.stream.reread_letters import Retried, retry_dead_letters
from tests.conftest import Manage
from tests.ingest.conftest import Open
from tests.ingest.stream.frames import (
    ANA,
    FIRST_US,
    MARA,
    SEED,
    SOURCE,
    VOUCH,
    Frames,
    at,
    digest_of,
    letters,
    rows,
    take,
)
from trustsite import drive

FOLLOW = "sh.tangled.graph.follow"


def of_another_day(store: Store, frames: Frames) -> None:
    """Take frames with code that cannot read any follow."""
    known = store.registry
    store.registry = replace(known, kinds={**known.kinds, FOLLOW: replace(known.kinds[FOLLOW], read=_refuse)})
    take(store, frames)
    store.registry = known


def _refuse(record: object, event: object) -> NoReturn:
    raise Unreadable("a follow in a form that nobody knows yet")


def test_what_can_be_read_by_now_is_applied_and_its_letter_goes(store: Store) -> None:
    frames = Frames()
    frames.commit(MARA, FOLLOW, "one", {"subject": ANA})
    frames.commit(MARA, VOUCH, ANA, {"kind": "adore"})
    of_another_day(store, frames)
    assert len(letters(store)) == 2
    assert retry_dead_letters(store) == Retried(2, 1, 1)
    assert rows(store, "select subject, seen_at from follows") == [(ANA, at(0))]
    assert letters(store) == ["a vouch of unknown kind 'adore'"]
    assert retry_dead_letters(store) == Retried(1, 0, 1)


def test_the_tables_are_those_of_code_that_always_knew(store: Store, open_store: Open) -> None:
    frames = Frames()
    for rkey, shape in (("a", "pp"), ("b", "pd"), ("c", "pdp"), ("d", "ppd"), ("e", "p")):
        for step in shape:
            if step == "p":
                frames.commit(MARA, FOLLOW, rkey, {"subject": SEED if len(frames) % 2 else ANA})
            else:
                frames.delete(MARA, FOLLOW, rkey)
    of_another_day(store, frames)
    retry_dead_letters(store)
    plain = open_store("plain")
    take(plain, frames)
    # The same deletes and the same last words; a row that a letter gave back was first seen when its record was.
    assert digest_of(store)["follows"] == digest_of(plain)["follows"]


def test_a_newer_version_stands_although_the_letter_is_read_after_it(store: Store) -> None:
    frames = Frames()
    frames.commit(MARA, FOLLOW, "one", {"subject": ANA})
    of_another_day(store, frames)
    frames.commit(MARA, FOLLOW, "one", {"subject": SEED}, "update")
    take(store, frames)
    retry_dead_letters(store)
    assert rows(store, "select subject, seen_at, changed_at from follows") == [(SEED, at(0), at(1))]


def test_a_reason_is_brought_up_to_date_and_the_place_kept(store: Store) -> None:
    frames = Frames()
    frames.commit(MARA, FOLLOW, "one", {"subject": "nobody"})
    of_another_day(store, frames)
    before = rows(store, "select letter_seq, event_id, found_clock, body from dead_letters")
    assert retry_dead_letters(store) == Retried(1, 0, 1)
    assert letters(store) == ["a follow of nobody that can be read"]
    assert rows(store, "select letter_seq, event_id, found_clock, body from dead_letters") == before


def test_a_frame_that_can_be_read_by_now_is_loaded_and_derived(store: Store) -> None:
    frames = Frames()
    frames.commit(MARA, FOLLOW, "one", {"subject": ANA})
    load(store, SOURCE, ["{", frames[0]])
    with store.write() as txn:
        lost = {"letter_id": "x", "letter_seq": 7, "event_id": None, "source": SOURCE, "reason": "a frame of old"}
        frames.commit(MARA, FOLLOW, "two", {"subject": SEED})
        txn.append("dead_letters", [lost | {"body": frames[1].decode(), "found_clock": at(0)}])
    assert retry_dead_letters(store) == Retried(2, 1, 1)
    assert rows(store, "select subject from follows order by uri") == [(ANA,), (SEED,)]
    assert [reason[:27] for reason in letters(store)] == ["a frame that cannot be read"]
    assert rows(store, "select count(*) from dead_letters where letter_id like 'retried%'") == [(0,)]


@pytest.mark.parametrize("most", [10, 1_000])
def test_what_the_log_holds_no_more_is_not_called_applied_and_stops_no_other(store: Store, most: int) -> None:
    """A replaced record loses its body after a month; what an erased one said is not in the log at all."""
    frames = Frames()
    for number in range(70):
        frames.commit(MARA, FOLLOW, f"a{number}", {"subject": ANA})
    of_another_day(store, frames)
    LetterBound(store, most).keep()
    with store.write() as txn:
        txn.execute("update events set body = null where event_seq <= 60")
    told = retry_dead_letters(store)
    assert (told.applied, told.left) == (10, 60)
    assert rows(store, "select count(*) from follows") == [(10,)]


def test_what_was_cut_or_never_came_by_the_stream_is_left_alone(store: Store) -> None:
    with store.write() as txn:
        letter = {"letter_seq": 1, "event_id": None, "reason": "old", "found_clock": at(0)}
        txn.append("dead_letters", [letter | {"letter_id": "a", "source": SOURCE, "body": "x" * LETTER_LIMIT}])
        txn.append(
            "dead_letters", [letter | {"letter_id": "b", "letter_seq": 2, "source": "backfill", "body": "at://"}]
        )
    assert retry_dead_letters(store) == Retried(0, 0, 2)
    assert letters(store) == ["old", "old"]


def test_a_crash_while_frames_are_read_again_loses_none(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = Frames()
    frames.commit(MARA, FOLLOW, "two", {"subject": SEED})
    load(store, SOURCE, ["{", "}"])
    with store.write() as txn:
        lost = {"letter_id": "x", "letter_seq": 7, "event_id": None, "source": SOURCE, "reason": "a frame of old"}
        txn.append("dead_letters", [lost | {"body": frames[0].decode(), "found_clock": at(0)}])
    with monkeypatch.context() as patched:
        patched.setattr("ingest.stream.reread_letters.load", lambda *told: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            retry_dead_letters(store)
    assert len(letters(store)) == 3
    assert retry_dead_letters(store) == Retried(3, 1, 2)
    assert rows(store, "select subject from follows") == [(SEED,)]


def test_an_account_event_that_was_overtaken_is_not_applied(store: Store) -> None:
    frames = Frames()
    frames.vouch(ANA, MARA)
    frames.account(MARA, active=False, status="deleted")
    frames.account(MARA, active=True)
    take(store, frames)
    ((event_id,),) = rows(store, "select event_id from events where event_seq = 2")
    with store.write() as txn:
        row = {"letter_id": "x", "letter_seq": 1, "event_id": event_id, "source": SOURCE, "reason": "?", "body": ""}
        txn.append("dead_letters", [row | {"found_clock": at(0)}])
    assert retry_dead_letters(store) == Retried(1, 1, 0)
    assert rows(store, "select account_status from contributors where did = ?", MARA) == [("active",)]


def test_the_command_says_what_it_did(manage: Manage, tmp_path: Path) -> None:
    drive.mark(tmp_path)
    store = Store.open(tmp_path / "duckdb" / "trust.duckdb")
    store.bind("jetstream")
    frame = {"did": MARA, "time_us": FIRST_US, "kind": "commit", "commit": {"operation": "create"}}
    load(store, "jetstream", [json.dumps(frame)])
    while derive(store):
        pass
    store.close()
    done = manage("retry_dead_letters", DATA_ROOT=tmp_path)
    assert (done.returncode, done.stdout) == (0, "1 read again, 0 applied, 1 left.\n"), done.stderr
