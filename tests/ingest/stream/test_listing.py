"""A listing is logged where the log does not say it yet, and no order of arrival makes it wrong."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.records.derive import derive
from ingest.store.archive import archive
from ingest.store.database import Store
from ingest.stream.load import Listed, load, load_listing
from tests.conftest import count
from tests.ingest.stream.frames import ANA, FIRST_US, MARA, PULL, SOURCE, at, digest_of, letters, rows
from tests.stores import fresh_store
from trustsite.world.network import encode_tid

SHOWN = Listed(MARA, PULL, "one", "create", "cid-1", encode_tid(FIRST_US), at(0), b'{"title":"One"}')
EVENTS = "select did, collection, rkey, operation, rev, cid, late, source from events order by event_seq"


def rev(second: float) -> str:
    return encode_tid(FIRST_US + int(second * 1_000_000))


def frame(second: float, did: str = MARA, rkey: str = "one", operation: str = "create", cid: str = "cid-1") -> bytes:
    commit: dict[str, object] = {"rev": rev(second), "operation": operation, "collection": PULL, "rkey": rkey}
    if operation != "delete":
        commit |= {"cid": cid, "record": {"title": cid}}
    time_us = FIRST_US + int(second * 1_000_000)
    return msgspec.json.encode({"did": did, "time_us": time_us, "kind": "commit", "commit": commit})


def late(store: Store) -> list[bool]:
    return [is_late for (is_late,) in rows(store, "select late from events order by event_seq")]


def test_a_listed_record_is_logged_once_and_makes_its_author_known(store: Store) -> None:
    assert load_listing(store, [SHOWN, SHOWN]) == 1
    assert load_listing(store, [SHOWN, replace(SHOWN, rev=rev(9))]) == 0
    assert rows(store, EVENTS) == [(MARA, PULL, "one", "create", rev(0), "cid-1", False, "backfill")]
    assert store.seen_since(MARA) == at(0)
    assert store.people.newest_rev == {MARA: rev(0)}


def test_a_listing_adds_nothing_to_what_the_stream_brought(store: Store) -> None:
    load(store, SOURCE, [frame(1), frame(2, operation="update", cid="cid-2")])
    assert load_listing(store, [replace(SHOWN, cid="cid-2", rev=rev(9))]) == 0
    assert load_listing(store, [replace(SHOWN, cid="cid-3", rev=rev(9))]) == 1
    assert late(store) == [False, False, False]


def test_a_listing_that_is_older_than_a_live_delete_is_late(store: Store) -> None:
    load(store, SOURCE, [frame(1), frame(5, operation="delete")])
    assert load_listing(store, [replace(SHOWN, rev=rev(3))]) == 1
    assert late(store) == [False, False, True]


def test_what_is_gone_from_a_listing_is_deleted_once(store: Store) -> None:
    load(store, SOURCE, [frame(1)])
    gone = replace(SHOWN, operation="delete", cid=None, rev=rev(7), body=b"")
    assert load_listing(store, [gone]) == 1
    assert load_listing(store, [replace(gone, rev=rev(8))]) == 0
    assert load_listing(store, [replace(SHOWN, rev=rev(9))]) == 1, "it was written again"


def test_what_was_archived_counts_too(store: Store, tmp_path: Path) -> None:
    load(store, SOURCE, [frame(1), frame(2, rkey="two")])
    while derive(store):
        pass
    assert archive(store, tmp_path, 30, 0, at(0)) == 2
    assert load_listing(store, [replace(SHOWN, rev=rev(9))]) == 0
    assert load(store, SOURCE, [frame(1), frame(2, rkey="two")]).events == 0


@pytest.mark.parametrize(
    "change",
    [
        {"did": "mara"},
        {"collection": "a b"},
        {"rkey": "a/b"},
        {"operation": "update"},
        {"body": b""},
        {"body": b"{"},
        {"body": b'{"a": "\xff"}'},
        {"rev": "r" * 1000},
        {"seen_at": at(-(10**9))},
    ],
)
def test_what_cannot_be_read_is_a_dead_letter_and_costs_itself_alone(store: Store, change: dict[str, object]) -> None:
    listed = [SHOWN, replace(SHOWN, **({"rkey": "bad"} | change)), replace(SHOWN, rkey="two")]
    assert load_listing(store, listed) == 2
    assert load_listing(store, listed) == 0
    (reason,) = letters(store)
    assert reason.startswith("a listed record that cannot be read: ")


def test_operations_of_one_commit_share_its_rev_and_are_all_logged(store: Store) -> None:
    together = [frame(1, rkey=str(number)) for number in range(4)]
    assert load(store, SOURCE, together[:2]).events == 2
    assert load(store, SOURCE, together).events == 2
    assert load(store, SOURCE, together).events == 0
    assert late(store) == [False] * 4


def test_a_rev_that_tells_no_order_makes_nothing_late_and_nothing_surely_new(store: Store) -> None:
    odd = [frame(second).replace(rev(second).encode(), name) for second, name in ((1, b"rev9"), (2, b"rev10"))]
    assert load(store, SOURCE, odd).events == 2
    assert load(store, SOURCE, odd[::-1]).events == 0
    assert late(store) == [False, False]
    assert store.people.newest_rev == {}


def test_the_newest_rev_outlives_the_process(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "trust.duckdb")
    store.bind(SOURCE)
    load(store, SOURCE, [frame(5)])
    store.close()
    store = Store.open(tmp_path / "trust.duckdb")
    load(store, SOURCE, [frame(5), frame(3, rkey="two"), frame(6, rkey="three")])
    assert late(store) == [False, True, False]
    store.close()


@settings(max_examples=count(8, 500))
@given(data=st.data())
def test_batches_in_any_order_and_number_give_one_log(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    seconds = st.integers(0, 12)
    events = st.builds(frame, seconds, st.sampled_from([ANA, MARA]), st.sampled_from("abc"), cid=st.sampled_from("xy"))
    raws = data.draw(st.lists(events, max_size=30), label="frames")
    folder, order = tmp_path_factory.mktemp("log"), data.draw(st.permutations(raws), label="order")
    stores = [fresh_store(folder / name) for name in ("whole", "pieces")]
    try:
        for one in stores:
            one.bind(SOURCE)
        load(stores[0], SOURCE, order)
        while order:
            size = data.draw(st.integers(1, len(order)))
            for _ in range(data.draw(st.integers(1, 2))):
                load(stores[1], SOURCE, order[:size])
            order = order[size:]
        assert digest_of(stores[0]) == digest_of(stores[1])
        _check_log(stores[1], raws)
    finally:
        for one in stores:
            one.close()


def _check_log(store: Store, raws: list[bytes]) -> None:
    """Every event once, and late exactly where a higher rev of its DID stands before it."""
    frames = [msgspec.json.decode(raw) for raw in raws]
    logged = rows(store, "select did, rkey, operation, rev, late from events order by event_seq")
    names = [(did, rkey, operation, told) for did, rkey, operation, told, _ in logged]
    wanted = {(f["did"], f["commit"]["rkey"], f["commit"]["operation"], f["commit"]["rev"]) for f in frames}
    assert sorted(names) == sorted(wanted)
    for place, (did, _, _, told, is_late) in enumerate(logged):
        assert is_late == any(other[0] == did and other[3] > told for other in logged[:place])
