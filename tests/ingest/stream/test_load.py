"""Frames into the log: each exactly once, with the cursor or not at all, whatever the frames are."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.store.database import Store
from ingest.store.transaction import Transaction
from ingest.stream.frames import LARGEST_FRAME
from ingest.stream.load import load
from tests.conftest import count
from tests.ingest.conftest import Open
from tests.ingest.stream.frames import (
    ANA,
    FIRST_US,
    MARA,
    PULL,
    SOURCE,
    STRANGER,
    VOUCH,
    Frames,
    digest_of,
    letters,
    rows,
)
from tests.stores import fresh_store

LOGGED = "select did, collection, rkey, operation from events order by event_seq"


def small() -> Frames:
    """A stranger's identity, two vouches, a pull request that is changed, an account event of its author."""
    frames = Frames()
    frames.identity(STRANGER)
    frames.vouch(ANA, MARA)
    frames.pull(MARA, "one")
    frames.pull(MARA, "one", "update", title="Better")
    frames.account(MARA, active=True)
    frames.vouch(MARA, ANA)
    return frames


def frame(**changes: Any) -> bytes:
    part = {"operation": "create", "collection": PULL, "rkey": "one", "rev": "r", "cid": "c", "record": {}}
    part |= changes.pop("commit", {})
    return json.dumps({"did": ANA, "time_us": FIRST_US, "kind": "commit", "commit": part} | changes).encode()


def cursor(store: Store) -> int:
    return rows(store, "select cursor_us from ingest_state")[0][0]


def test_frames_are_logged_in_the_order_of_their_arrival(store: Store) -> None:
    loaded = load(store, SOURCE, small())
    assert (loaded.events, loaded.letters, loaded.cursor_us) == (5, 0, FIRST_US + 5_000_000)
    assert rows(store, LOGGED) == [
        (ANA, VOUCH, MARA, "create"),
        (MARA, PULL, "one", "create"),
        (MARA, PULL, "one", "update"),
        (MARA, None, None, None),
        (MARA, VOUCH, ANA, "create"),
    ]


@pytest.mark.parametrize("rewind", [1, 3, 6])
def test_a_rewound_stream_adds_nothing(store: Store, rewind: int) -> None:
    frames = small()
    load(store, SOURCE, frames)
    before = digest_of(store)
    loaded = load(store, SOURCE, frames[-rewind:])
    assert (loaded.events, loaded.cursor_us) == (0, FIRST_US + 5_000_000)
    assert digest_of(store) == before


def test_what_repeats_within_a_batch_is_logged_once(store: Store) -> None:
    frames = small()
    assert load(store, SOURCE, [*frames, *frames, b"{", b"{"]).events == 5
    assert len(letters(store)) == 1


@settings(max_examples=count(8, 300))
@given(data=st.data())
def test_any_cut_and_any_rewind_ends_in_the_same_tables(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    frames = [*small(), b"no frame", *small()[:2]]
    folder = tmp_path_factory.mktemp("cut")
    stores = [fresh_store(folder / name) for name in ("whole", "cut")]
    try:
        for one in stores:
            one.bind(SOURCE)
        load(stores[0], SOURCE, frames)
        cuts = sorted(data.draw(st.sets(st.integers(1, len(frames) - 1)), label="cuts"))
        for begin, end in pairwise([0, *cuts, len(frames)]):
            load(stores[1], SOURCE, frames[max(begin - data.draw(st.integers(0, 3)), 0) : end])
        assert digest_of(stores[0]) == digest_of(stores[1])
    finally:
        for one in stores:
            one.close()


def test_a_failure_leaves_neither_rows_nor_cursor(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    load(store, SOURCE, small()[:2])
    before = digest_of(store)

    def fail(*_: object) -> None:
        raise duckdb.IOException("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "register_people", fail)
        with pytest.raises(duckdb.IOException):
            load(store, SOURCE, [*small(), b"no frame"])
    assert digest_of(store) == before
    assert load(store, SOURCE, small()).events == 4


UNREADABLE = (
    b"",
    b"no frame",
    b'{"did"',
    b"[]",
    b"null",
    b"\xff\xfe",
    frame(did=None),
    frame(did="ana"),
    frame(did="did:plc:a b"),
    frame(time_us=0),
    frame(time_us=-1),
    frame(time_us=10**15 * 9),
    frame(time_us=10**30),
    frame(time_us="soon"),
    frame(kind=3),
    frame(commit={"operation": "put"}),
    frame(commit={"rkey": "a/b"}),
    frame(commit={"rkey": "a\x00b"}),
    frame(commit={"rkey": ""}),
    frame(commit={"rkey": "k" * 513}),
    frame(commit={"collection": "a b"}),
    frame(commit={"rev": "r" * 1000}),
    b'{"did":"%s","time_us":%d,"kind":"commit"}' % (ANA.encode(), FIRST_US),
    b'{"did":"%s","time_us":%d,"kind":"commit","commit":null}' % (ANA.encode(), FIRST_US),
    frame().replace(b'"record": {}', b'"record": {"a": "\xff"}'),
    frame().replace(b'"record": {}', b'"record": {"a": "\\ud800"}'),
    frame().replace(b'"record": {}', b'"record": NaN'),
    frame().replace(b'"record": {}', b'"record": ' + b"[" * 100_000),
    frame().replace(b', "record": {}', b""),
)


def test_what_cannot_be_read_is_kept_once_as_a_dead_letter(store: Store) -> None:
    wrong = []
    for number, raw in enumerate(UNREADABLE):
        load(store, SOURCE, [*small()[:2], raw, *small()[2:]])
        load(store, SOURCE, [raw, raw])
        *before, reason = letters(store)
        if len(before) != number or "\n" in reason or not reason.startswith("a frame that cannot be read: "):
            wrong.append((raw[:200], reason))
    assert wrong == []
    assert len(rows(store, LOGGED)) == 5


@pytest.mark.parametrize("raw", ['{"did": "\ud800"}', '{"a": "\x00"}', frame().decode() + "\ud800"])
def test_text_that_is_no_unicode_is_a_dead_letter(store: Store, raw: str) -> None:
    assert load(store, SOURCE, [raw]).letters == 1
    assert load(store, SOURCE, [raw]).letters == 0


@pytest.mark.parametrize("kind", ["account", "identity", "sync"])
def test_an_event_about_somebody_known_without_its_part_or_of_an_unknown_kind_is_a_dead_letter(
    store: Store, kind: str
) -> None:
    event = {"time_us": FIRST_US + 9_000_000, "kind": kind}
    load(store, SOURCE, [*small(), json.dumps({"did": MARA} | event).encode()])
    load(store, SOURCE, [json.dumps({"did": STRANGER} | event).encode()])
    assert len(letters(store)) == 1


def test_a_last_frame_that_cannot_be_read_is_passed_all_the_same(store: Store) -> None:
    last = FIRST_US + 99_000_000
    assert load(store, SOURCE, [frame(time_us=last, commit={"rkey": "a/b"})]).cursor_us == last


def test_a_frame_larger_than_any_record_is_a_dead_letter_and_passed(store: Store) -> None:
    raw = frame(commit={"record": "x" * LARGEST_FRAME})
    loaded = load(store, SOURCE, [raw])
    assert (loaded.events, loaded.letters, loaded.cursor_us) == (0, 1, FIRST_US)
    ((body,),) = rows(store, "select body from dead_letters")
    assert len(store.long_texts.read(body)) == 65_536


def test_two_unreadable_frames_that_begin_alike_are_two_letters(store: Store) -> None:
    load(store, SOURCE, [b"x" * 70_000 + b"1", b"x" * 70_000 + b"2"])
    assert len(letters(store)) == 2


def test_identity_events_count_only_from_the_first_record_on(store: Store) -> None:
    frames = Frames()
    frames.identity(MARA)
    frames.pull(MARA, "one")
    frames.identity(MARA)
    load(store, SOURCE, frames)
    assert rows(store, "select kind from events order by event_seq") == [("commit",), ("identity",)]
    assert rows(store, "select dropped_strangers from ingest_state") == [(1,)]
    # A rewind brings the first again, and now she is known.
    load(store, SOURCE, frames)
    assert rows(store, "select count(*) from events") == [(2,)]
    assert rows(store, "select dropped_strangers from ingest_state") == [(1,)]


def test_other_collections_stay_in_the_log_and_make_nobody_known(store: Store) -> None:
    frames = Frames()
    frames.commit(STRANGER, "app.bsky.feed.post", "hello", {"text": "hello"})
    frames.identity(STRANGER)
    load(store, SOURCE, frames)
    assert rows(store, "select collection from events") == [("app.bsky.feed.post",)]
    assert rows(store, "select count(*) from contributors") == [(0,)]


def test_the_time_of_a_frame_tells_no_events_apart(store: Store) -> None:
    for rev in ("r", None):
        twice = [frame(time_us=FIRST_US + n, commit={"rev": rev, "rkey": f"key-of-{rev}"}) for n in range(2)]
        assert load(store, SOURCE, twice).events == 1
        assert load(store, SOURCE, twice).events == 0


def test_every_recorded_frame_loads_and_strangers_do_not_grow_the_log(
    open_store: Open, store: Store, shared: Path
) -> None:
    folder = shared / "examples" / "jetstream"
    lines = [
        line for name in ("golden_v1.jsonl", "expected_v1.jsonl") for line in (folder / name).read_bytes().splitlines()
    ]
    live = (folder / "tangled_live_2026-10-08.ndjson").read_bytes().splitlines()
    assert (len(lines), len(live)) == (162, 8)
    load(store, SOURCE, lines)
    load(store, SOURCE, live)
    assert letters(store) == []
    commits = {line for line in [*lines, *live] if b'"kind": "commit"' in line or b'"kind":"commit"' in line}
    kinds = dict(rows(store, "select kind, count(*) from events group by kind"))
    assert kinds == {"commit": len({_identity_of(line) for line in commits})}
    (dropped,) = rows(store, "select dropped_strangers from ingest_state")[0]
    assert dropped >= 3


def _identity_of(line: bytes) -> tuple[object, ...]:
    found = json.loads(line)
    commit = found["commit"]
    return found["did"], commit["collection"], commit["rkey"], commit["rev"], commit["operation"]


def test_ten_thousand_frames_of_one_person_load_in_moments(store: Store) -> None:
    frames = Frames()
    for number in range(10_000):
        frames.vouch(MARA, f"did:plc:{number:024d}")
    assert load(store, SOURCE, frames).events == 10_000
    assert load(store, SOURCE, frames).events == 0
    assert rows(store, "select count(*), count(distinct contributor_id) from contributors") == [(10_001, 10_001)]
