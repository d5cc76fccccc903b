"""From the log to the tables: what stands, what is history, and the same whatever the batches."""

import json
from pathlib import Path

import pytest

from ingest.store.database import Store
from tests.ingest.conftest import Open
from tests.ingest.stream.frames import (
    ANA,
    BLOB,
    MALLORY,
    MARA,
    PULL,
    REPO,
    SEED,
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
