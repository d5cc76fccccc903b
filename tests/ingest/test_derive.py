"""From the log to the tables: what stands, what is history, and the same whatever the batches."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingest.derive import derive
from ingest.load import load
from ingest.store import Store
from tests.conftest import count
from tests.ingest import hostile
from tests.ingest.conftest import Open
from tests.ingest.stream import (
    ANA,
    BLOB,
    FIRST_US,
    MALLORY,
    MARA,
    PULL,
    REPO,
    REPOSITORY,
    SEED,
    SOURCE,
    STATUS,
    STRANGER,
    VOUCH,
    Frames,
    at,
    digest_of,
    letters,
    pull_uri,
    rows,
    take,
)

STANDING = "select kind from vouches where superseded_at is null"
HISTORY = "select kind, superseded_by from vouches order by event_seq"
ONE = pull_uri(MARA, "one")


def one_by_one(store: Store, frames: Frames) -> None:
    for frame in frames:
        take(store, [frame])


def at_once(store: Store, frames: Frames) -> None:
    take(store, frames)


both_ways = pytest.mark.parametrize("feed", [one_by_one, at_once])


@both_ways
@pytest.mark.parametrize("operation", ["create", "update"])
def test_a_put_overwrites_a_vouch_and_keeps_the_history(store: Store, feed: type, operation: str) -> None:
    frames = Frames()
    frames.vouch(ANA, MARA)
    frames.vouch(ANA, MARA, operation, kind="denounce")
    feed(store, frames)
    assert rows(store, STANDING) == [("denounce",)]
    assert rows(store, HISTORY) == [("vouch", "put"), ("denounce", None)]
    assert rows(store, "select superseded_at from vouches where kind = 'vouch'") == [(at(1),)]
    assert rows(store, "select count(*) from events") == [(2,)]


@both_ways
def test_a_delete_retracts_and_a_new_vouch_stands_again(store: Store, feed: type) -> None:
    frames = Frames()
    frames.vouch(ANA, MARA)
    frames.delete(ANA, VOUCH, MARA)
    frames.delete(ANA, VOUCH, MARA)
    feed(store, frames)
    assert rows(store, STANDING) == []
    frames.vouch(ANA, MARA)
    feed(store, frames)
    assert rows(store, HISTORY) == [("vouch", "delete"), ("vouch", None)]


@both_ways
def test_a_vouch_of_one_is_no_vouch_of_the_other(store: Store, feed: type) -> None:
    frames = Frames()
    frames.vouch(ANA, MARA)
    frames.vouch(MARA, ANA)
    frames.vouch(SEED, MARA)
    frames.delete(MARA, VOUCH, ANA)
    feed(store, frames)
    assert rows(store, HISTORY) == [("vouch", None), ("vouch", "delete"), ("vouch", None)]


def test_a_vouch_is_never_newer_than_it_was_seen(store: Store) -> None:
    frames = Frames()
    frames.vouch(ANA, MARA, createdAt="2099-01-01T00:00:00Z")
    frames.vouch(ANA, SEED, createdAt="2020-01-01T00:00:00Z")
    take(store, frames)
    assert rows(store, "select written_at from vouches order by event_seq")[0] == (at(0),)


def test_a_vouch_for_what_is_no_did_names_nobody(store: Store) -> None:
    frames = Frames()
    frames.vouch(ANA, "did:x")
    frames.vouch(ANA, "did:plc:")
    frames.delete(ANA, VOUCH, "did:x")
    take(store, frames)
    assert rows(store, "select did from contributors") == [(ANA,)]
    assert len(letters(store)) == 2


@both_ways
def test_an_edit_keeps_when_it_was_opened_and_a_swapped_patch_is_a_new_round(store: Store, feed: type) -> None:
    frames = Frames()
    frames.pull(MARA, "one")
    frames.pull(MARA, "one", "update", blobs=[BLOB + "b"], title="Better", createdAt="2020-01-01T00:00:00Z")
    frames.pull(MARA, "one", "update", blobs=[BLOB + "b", BLOB + "c"])
    feed(store, frames)
    columns = "title, opened_at, seen_at, changed_at, round, round_count, patch_ref, record_cid"
    opened = at(0).replace(minute=0, second=0, microsecond=0)
    found = ("Mend the lamp", opened, at(0), at(2), 1, 2, f"blob:{BLOB}c", "bafyrei2")
    assert rows(store, f"select {columns} from pull_requests") == [found]
    assert rows(store, "select round, patch_ref, record_cid from pull_rounds order by seen_at") == [
        (0, f"blob:{BLOB}", "bafyrei0"),
        (0, f"blob:{BLOB}b", "bafyrei1"),
        (1, f"blob:{BLOB}c", "bafyrei2"),
    ]


def test_the_recorded_edit_of_lichen_leaves_both_versions_and_the_moment_it_was_opened(
    store: Store, shared: Path
) -> None:
    path = shared / "examples" / "jetstream" / "tangled_live_2026-10-08.ndjson"
    take(store, path.read_bytes().splitlines())
    uri = pull_uri("did:plc:qfngkejlw4ghji2myc73hbdh", "3mxf3x7ivft22")
    log = "select operation from events where did || '/' || collection || '/' || rkey = ? order by event_seq"
    assert rows(store, log, uri.removeprefix("at://")) == [("create",), ("update",)]
    ((opened, seen, changed),) = rows(
        store, "select opened_at, seen_at, changed_at from pull_requests where pull_uri = ?", uri
    )
    assert opened.isoformat().startswith("2026-10-08T18:34:11.31")
    assert opened <= seen < changed
    # The edit dropped `repoDid`, and it is one repository all the same.
    assert rows(store, "select repo_key from repositories") == [("did:plc:wj53zt2oo653zr3wgnvn4llg",)]
    assert letters(store) == []


@both_ways
def test_a_pull_request_without_a_patch_that_can_be_read_names_none(store: Store, feed: type) -> None:
    frames = Frames()
    frames.pull(MARA, "one", rounds=None)
    frames.pull(MARA, "two", rounds=[{"patchBlob": 3}])
    feed(store, frames)
    assert rows(store, "select round_count, patch_ref from pull_requests order by pull_uri") == [(0, None), (1, None)]


@both_ways
def test_a_deleted_pull_request_is_abandoned_and_one_that_comes_back_is_open(store: Store, feed: type) -> None:
    frames = Frames()
    frames.pull(MARA, "one")
    frames.delete(MARA, PULL, "one")
    feed(store, frames)
    assert rows(store, "select state, state_at from pull_requests") == [("abandoned", at(1))]
    frames.pull(MARA, "one")
    feed(store, frames)
    assert rows(store, "select state, opened_at < seen_at from pull_requests") == [("open", True)]


@both_ways
def test_a_status_may_come_before_its_pull_request_and_its_deletion_counts(store: Store, feed: type) -> None:
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.status(SEED, ONE, "merged", "s")
    frames.pull(MARA, "one")
    feed(store, frames)
    assert rows(store, "select state, merge_verified from pull_requests") == [("merged", True)]
    frames.delete(SEED, STATUS, "s")
    feed(store, frames)
    assert rows(store, "select state, merge_verified, merged_at from pull_requests") == [("open", False, None)]


@both_ways
def test_nobody_can_delete_what_another_wrote(store: Store, feed: type) -> None:
    frames = Frames()
    frames.pull(MARA, "one")
    frames.vouch(ANA, MARA)
    frames.delete(MALLORY, PULL, "one")
    frames.delete(MALLORY, VOUCH, MARA)
    feed(store, frames)
    assert rows(store, "select deleted_at from pull_requests") == [(None,)]
    assert rows(store, STANDING) == [("vouch",)]


@both_ways
@pytest.mark.parametrize(
    ("account", "expected"),
    [
        ({"active": False, "status": "deactivated"}, "deactivated"),
        ({"active": False, "status": "x" * 100}, "x" * 32),
        ({"active": False}, "inactive"),
        ({"active": False, "status": 10**400}, "inactive"),
        ({"active": True, "status": "takendown"}, "active"),
    ],
)
def test_account_events_say_how_an_account_stands(
    store: Store, feed: type, account: dict[str, object], expected: str
) -> None:
    frames = Frames()
    frames.vouch(ANA, MARA)
    frames.account(MARA, **account)
    frames.identity(MARA)
    feed(store, frames)
    assert dict(rows(store, "select did, account_status from contributors")) == {ANA: "active", MARA: expected}


@pytest.mark.parametrize("account", [{}, {"active": "no"}, {"active": None}])
def test_an_account_event_that_does_not_say_changes_nothing(store: Store, account: dict[str, object]) -> None:
    frames = Frames()
    frames.vouch(ANA, MARA)
    frames.account(MARA, active=False)
    frames.account(MARA, **account)
    take(store, frames)
    assert rows(store, "select account_status from contributors where did = ?", MARA) == [("inactive",)]
    assert len(letters(store)) == 1


def test_an_identity_event_asks_for_a_new_look_at_the_did(store: Store) -> None:
    frames = Frames()
    frames.vouch(ANA, MARA)
    take(store, frames)
    with store.write() as txn:
        for did in (ANA, MARA):
            txn.execute("insert into fetches values ('identity', ?, 'found', null, 0, null, now()::timestamp)", [did])
    frames.identity(MARA)
    take(store, frames)
    assert rows(store, "select subject from fetches") == [(ANA,)]


@settings(max_examples=count(100, 2000))
@example(collection=PULL, record={"title": "a\0b", "target": {"repo": REPO}, "rounds": [[[]]] * 300})
@example(collection=PULL, record={"target": {"repo": REPO}, "body": "x" * 1_000_000})
@example(collection=VOUCH, record={"kind": 10**400})
@example(collection=VOUCH, record={"createdAt": "0001-01-01T00:00:00+14:00"})
@given(collection=st.sampled_from([REPOSITORY, PULL, STATUS, VOUCH]), record=hostile.records)
def test_no_record_stops_a_batch(hostile_store: Store, collection: str, record: object) -> None:
    frames = Frames()
    (start,) = rows(hostile_store, "select coalesce(max(event_seq), 0) from events")[0]
    frames.extend([b""] * start)  # new revisions, later moments
    frames.commit(MALLORY, collection, ANA, record)
    frames.vouch(ANA, MARA)
    take(hostile_store, frames[start:])
    behind = "select max(event_seq) - (select position_seq from hops where name = 'derive') from events"
    assert rows(hostile_store, behind) == [(0,)]
    assert rows(
        hostile_store, f"{STANDING} and voucher_id = (select contributor_id from contributors where did = ?)", ANA
    )


@pytest.fixture(scope="module")
def hostile_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One store that takes all of it."""
    opened = Store.open(tmp_path_factory.mktemp("hostile") / "trust.duckdb")
    opened.bind(SOURCE)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    "record",
    [
        '{"kind":"vouch","kind":"denounce"}',
        '{"a":' * 300 + "1" + "}" * 300,
        '{"a":' * 5000 + "1" + "}" * 5000,
        '{"kind": 1' + "0" * 5000 + "}",
        '{"createdAt": 1e999}',
        '{"reason": "\\u0000\\uffff"}',
        '{"reason": "\\ud83d"}',
        "[" * 900 + "]" * 900,
    ],
)
@pytest.mark.parametrize("collection", [PULL, VOUCH, "sh.tangled.feed.star"])
def test_no_text_stops_a_batch(store: Store, collection: str, record: str) -> None:
    part = f'{{"rev":"r","operation":"create","collection":"{collection}","rkey":"{SEED}","cid":"c","record":{record}}}'
    frame = f'{{"did":"{MALLORY}","time_us":{FIRST_US},"kind":"commit","commit":{part}}}'
    frames = Frames()
    frames.vouch(ANA, MARA)
    take(store, [frame.encode(), *frames])
    assert rows(store, f"{STANDING} and subject_id = (select contributor_id from contributors where did = ?)", MARA)


PEOPLE = (SEED, ANA, MARA, MALLORY)
person, key = st.sampled_from(PEOPLE), st.sampled_from(["one", "two"])
steps = st.one_of(
    st.tuples(st.just("vouch"), person, person, st.sampled_from(["create", "update"])),
    st.tuples(st.just("unvouch"), person, person),
    st.tuples(st.just("pull"), person, key, st.sampled_from([REPO, f"at://{SEED}/{REPOSITORY}/lantern", "nothing"])),
    st.tuples(st.just("delete"), person, st.sampled_from([PULL, STATUS, REPOSITORY]), key),
    st.tuples(st.just("status"), person, person, key, st.sampled_from(["open", "closed", "merged"])),
    st.tuples(
        st.just("repository"), person, st.sampled_from(["lantern", "one"]), st.sampled_from([REPO, REPO + "2", None])
    ),
    st.tuples(st.just("account"), person, st.booleans()),
    st.tuples(st.just("identity"), person),
)


def play(plan: list[tuple[str, ...]]) -> Frames:
    frames = Frames()
    for name, *rest in plan:
        match name:
            case "unvouch":
                frames.delete(rest[0], VOUCH, rest[1])
            case "pull":
                frames.pull(rest[0], rest[1], target=rest[2], blobs=[f"{BLOB}{len(frames)}"])
            case "status":
                frames.status(rest[0], pull_uri(rest[1], rest[2]), rest[3], rkey=rest[2])
            case "repository":
                frames.repository(rest[0], rest[1], repoDid=rest[2])
            case "account":
                frames.account(rest[0], active=rest[1])
            case _:
                getattr(frames, name)(*rest)
    return frames


@settings(max_examples=count(15, 300))
@given(plan=st.lists(steps, min_size=2, max_size=25), data=st.data())
def test_any_split_into_batches_ends_in_the_same_tables(
    plan: list[tuple[str, ...]], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    frames = play(plan)
    folder = tmp_path_factory.mktemp("split")
    whole, single, split = (Store.open(folder / name) for name in ("whole", "single", "split"))
    try:
        for one in (whole, single, split):
            one.bind(SOURCE)
        take(whole, frames)
        load(single, SOURCE, frames)
        while derive(single, rows=1):
            pass
        take(single, [])
        cut = data.draw(st.integers(1, len(frames) - 1), label="cut")
        take(split, frames[:cut])
        take(split, frames[max(cut - 3, 0) :])
        assert digest_of(single) == digest_of(whole)
        assert digest_of(split) == digest_of(whole)
    finally:
        for one in (whole, single, split):
            one.close()


def test_a_batch_is_bounded_in_bytes(store: Store) -> None:
    frames = Frames()
    for number in range(6):
        frames.pull(MARA, f"pull{number}", body="x" * 10_000)
    frames.commit(MARA, "sh.tangled.string", "gist", {"contents": "x" * 100_000})
    load(store, SOURCE, frames)
    done = []
    while derived := derive(store, size=25_000):
        done.append(derived)
    assert done == [3, 3, 1]  # a batch ends with the record that goes over the bound


@pytest.mark.parametrize("size", [10_000])
def test_ten_thousand_retractions_over_many_vouches_take_seconds(store: Store, size: int) -> None:
    frames = Frames()
    for number in range(size):
        frames.vouch(MALLORY, f"did:plc:{number:024d}")
    for number in range(size):
        frames.delete(MALLORY, VOUCH, f"did:plc:{number:024d}")
    load(store, SOURCE, frames)
    began = time.monotonic()
    while derive(store):
        pass
    assert time.monotonic() - began < 10  # 1.5 s alone; one UPDATE for each took minutes
    assert rows(store, STANDING) == []


def test_a_pull_request_of_200_rounds_that_is_rewritten_again_and_again_takes_seconds(store: Store) -> None:
    frames = Frames()
    for _ in range(count(100, 1000)):
        frames.pull(MALLORY, "one", "update", blobs=[f"{BLOB}{number}" for number in range(200)])
    load(store, SOURCE, frames)
    began = time.monotonic()
    while derive(store):
        pass
    assert time.monotonic() - began < 20
    assert rows(store, "select count(*) from pull_rounds") == [(200,)]


def test_unreadable_records_are_dead_letters_with_their_event(store: Store, open_store: Open) -> None:
    frames = Frames()
    frames.commit(MALLORY, VOUCH, ANA, {"kind": "adore"})
    frames.commit(MALLORY, VOUCH, ANA, {"kind": "adore"}, "update")
    frames.commit(MALLORY, PULL, "one", json.loads("[]"))
    frames.vouch(STRANGER, ANA)
    take(store, frames)
    assert letters(store) == ["a vouch of unknown kind 'adore'"] * 2 + ["a record that is not an object"]
    assert rows(store, "select count(*) from dead_letters semi join events using (event_id)") == [(3,)]
    one_by_one(open_store("again"), frames)
    assert digest_of(open_store("third")) != digest_of(store)
