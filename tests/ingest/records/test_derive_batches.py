"""The hop under load and under fire: any cut into batches, any record, any amount."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.records.derive import derive
from ingest.store.database import Store
from ingest.stream.load import load
from tests.conftest import count
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
    VOUCH,
    Frames,
    digest_of,
    pull_uri,
    rows,
    take,
)
from tests.stores import fresh_store, statements_noted

STANDING = "select kind from vouches where superseded_at is null"


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
