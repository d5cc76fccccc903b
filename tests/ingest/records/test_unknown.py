"""Unknown shapes are counted, the same whatever the batches, and nobody can fill the table."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.records.derive import derive
from ingest.store.database import Store
from ingest.stream.load import load
from tests.conftest import count
from tests.ingest.conftest import Open
from tests.ingest.stream.frames import ANA, MARA, SOURCE, STATUS, VOUCH, Frames, at, digest_of, pull_uri, rows, take
from tests.stores import fresh_store

SHAPES = "select collection, what, sightings, first_seen_at, last_seen_at from unknown_shapes order by what"
FOLLOW = "sh.tangled.graph.follow"
OTHERS = "select sightings from unknown_shapes where collection = '(others)' and what = '(others)'"


def test_collections_fields_and_values_that_are_new_are_counted(store: Store) -> None:
    frames = Frames()
    frames.commit(MARA, FOLLOW, "one", {"subject": ANA, "colour": 3, "$type": FOLLOW})
    frames.commit(MARA, FOLLOW, "two", {"subject": ANA, "colour": None})
    frames.status(MARA, pull_uri(MARA, "one"), "approved")
    frames.commit(MARA, "sh.tangled.brand.new", "one", {"anything": 1})
    frames.vouch(ANA, MARA, kind="adore")
    frames.vouch(ANA, MARA, kind=3)
    take(store, frames)
    assert rows(store, SHAPES) == [
        ("sh.tangled.brand.new", "collection", 1, at(3), at(3)),
        (FOLLOW, "field:colour", 2, at(0), at(1)),
        (VOUCH, "value:kind=(no text)", 1, at(5), at(5)),
        (VOUCH, "value:kind=adore", 1, at(4), at(4)),
        (STATUS, f"value:status={STATUS}.approved", 1, at(2), at(2)),
    ]


def test_known_records_count_nothing(store: Store) -> None:
    frames = Frames()
    frames.repository(ANA)
    frames.pull(MARA, "one")
    frames.status(ANA, pull_uri(MARA, "one"), "merged")
    frames.vouch(ANA, MARA, reason="good", evidences=[])
    frames.delete(ANA, VOUCH, MARA)
    take(store, frames)
    assert rows(store, SHAPES) == []


def test_a_thousand_shapes_are_kept_and_the_rest_is_summed(store: Store) -> None:
    frames = Frames()
    frames.commit(MARA, FOLLOW, "known", {"subject": ANA, "colour": 1})
    for number in range(12):
        author = f"did:plc:{number:024d}"  # one account may not write so much in an hour
        fields = {f"{number} {n}" * 99: n for n in range(5000)}
        frames.commit(author, FOLLOW, f"wide{number}", {"subject": ANA} | fields)
    frames.commit(MARA, FOLLOW, "again", {"subject": ANA, "colour": 2})
    take(store, frames)
    assert rows(store, "select count(*), max(strlen(what)) from unknown_shapes") == [(1001, 106)]
    # A hundred names are counted of one record.
    assert rows(store, OTHERS) == [(201,)]
    assert rows(store, "select sightings from unknown_shapes where what = 'field:colour'") == [(2,)]


names = st.sampled_from(["colour", "shape", "subject", "size"])


@settings(max_examples=count(5, 200))
@given(words=st.lists(st.dictionaries(names, st.integers(), max_size=4), min_size=2, max_size=12), data=st.data())
def test_counts_do_not_depend_on_the_batches(
    words: list[dict[str, Any]], data: st.DataObject, tmp_path_factory: Any
) -> None:
    frames = Frames()
    for number, word in enumerate(words):
        frames.commit(MARA, data.draw(st.sampled_from([FOLLOW, "sh.tangled.x", "sh.tangled.y"])), f"k{number}", word)
    folder = tmp_path_factory.mktemp("unknown")
    digests = []
    for name, size in (("whole", 1000), ("single", 1), ("some", 3)):
        store = fresh_store(folder / name)
        store.bind(SOURCE)
        load(store, SOURCE, frames)
        while derive(store, rows=size):
            pass
        digests.append(digest_of(store)["unknown_shapes"])
        store.close()
    assert len(set(digests)) == 1


def test_a_crash_in_the_middle_of_a_batch_counts_nothing_twice(open_store: Open, monkeypatch: Any) -> None:
    frames = Frames()
    frames.commit(MARA, FOLLOW, "one", {"subject": ANA, "colour": 3})
    store = open_store("crashed")
    load(store, SOURCE, frames)
    with monkeypatch.context() as patched:
        patched.setattr("ingest.store.database.Transaction.inputs_changed", lambda self: 1 / 0)
        try:
            derive(store)
        except ZeroDivisionError:
            assert rows(store, SHAPES) == []
    derive(store)
    assert [row[2] for row in rows(store, SHAPES)] == [1]
