"""From the log to the tables: what stands, what is history, and the same whatever the batches."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.erasure.erase import erase
from ingest.records.derive import derive
from ingest.store.database import Store
from ingest.stream.load import load
from tests.conftest import count
from tests.ingest.conftest import Open
from tests.ingest.erasure.planted import folders_below
from tests.ingest.stream.frames import (
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
from tests.stores import fresh_store, statements_noted

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
    frames.commit(ANA, VOUCH, MARA, {"kind": "vouch", "subject": MALLORY})  # the key says who is vouched for
    frames.vouch(ANA, MARA, operation, kind="denounce")
    feed(store, frames)
    assert rows(store, "select did from contributors order by contributor_id") == [(ANA,), (MARA,)]
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
def test_an_edit_keeps_when_and_under_which_title_it_was_opened_and_a_swapped_patch_is_a_new_round(
    store: Store, feed: type
) -> None:
    frames = Frames()
    frames.pull(MARA, "one")
    frames.pull(MARA, "one", "update", blobs=[BLOB + "b"], title="Better", createdAt="2020-01-01T00:00:00Z")
    frames.pull(MARA, "one", "update", blobs=[BLOB + "b", BLOB + "c"], title="Better still")
    feed(store, frames)
    columns = "title, opened_title, opened_at, seen_at, changed_at, round, round_count, patch_ref, record_cid"
    opened = at(0).replace(minute=0, second=0, microsecond=0)
    found = ("Better still", "Mend the lamp", opened, at(0), at(2), 1, 2, f"blob:{BLOB}c", "bafyrei2")
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
    assert rows(store, "select state, merge_proof from pull_requests") == [("merged", "verified")]
    frames.delete(SEED, STATUS, "s")
    feed(store, frames)
    assert rows(store, "select state, merge_proof, merged_at from pull_requests") == [("open", None, None)]


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


@settings(max_examples=count(5, 300))
@given(plan=st.lists(steps, min_size=2, max_size=25), data=st.data())
def test_any_split_into_batches_ends_in_the_same_tables(
    plan: list[tuple[str, ...]], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    frames = play(plan)
    folder = tmp_path_factory.mktemp("split")
    whole, single, split = (fresh_store(folder / name) for name in ("whole", "single", "split"))
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


def test_thousands_of_retractions_over_many_vouches_take_few_statements(store: Store) -> None:
    size, frames = count(3_000, 10_000), Frames()
    for number in range(size):
        frames.vouch(MALLORY, f"did:plc:{number:024d}")
    for number in range(size):
        frames.delete(MALLORY, VOUCH, f"did:plc:{number:024d}")
    load(store, SOURCE, frames)
    with statements_noted() as statements:
        while derive(store):
            pass
    assert len(statements) < size / 10  # one UPDATE for each took minutes
    assert rows(store, STANDING) == []


def test_a_pull_request_of_200_rounds_that_is_rewritten_again_and_again_takes_few_statements(store: Store) -> None:
    frames = Frames()
    for _ in range(count(100, 1000)):
        frames.pull(MALLORY, "one", "update", blobs=[f"{BLOB}{number}" for number in range(200)])
    load(store, SOURCE, frames)
    with statements_noted() as statements:
        while derive(store):
            pass
    assert len(statements) < len(frames)
    assert rows(store, "select count(*) from pull_rounds") == [(200,)]


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
