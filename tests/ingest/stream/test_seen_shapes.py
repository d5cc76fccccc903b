"""A sample of frames lists every field with its types, the unknown ones, and never more than its bounds."""

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ingest.stream import inspect
from ingest.stream.inspect import Sample
from tests.ingest.stream.frames import ANA, CREATED, MARA, PULL, STRANGER, VOUCH, Frames

KNOWN = {VOUCH: frozenset({"kind", "createdAt"}), PULL: frozenset({"title", "target", "rounds", "createdAt"})}


def sampled(frames: list[bytes]) -> dict[str, object]:
    sample = Sample(KNOWN.get)
    for frame in frames:
        sample.add(frame)
    return sample.report()


def one(frames: Frames, collection: str) -> dict[str, object]:
    return sampled(frames)["collections"][collection]  # ty: ignore[not-subscriptable]


def test_collections_and_operations_are_counted_the_commonest_first() -> None:
    frames = Frames()
    frames.vouch(ANA, MARA)
    frames.vouch(ANA, MARA, "update", kind="denounce")
    frames.delete(ANA, VOUCH, MARA)
    frames.commit(ANA, "com.example.new", "1", {"a": 1})
    frames.identity(STRANGER)
    frames.append(b"no frame")
    told = sampled(frames)
    assert (told["frames"], told["unreadable"], told["kinds"]) == (6, 1, {"commit": 4, "identity": 1})
    found = told["collections"]
    assert list(found) == [VOUCH, "com.example.new"]  # ty: ignore[invalid-argument-type]
    assert one(frames, VOUCH)["operations"] == {"create": 1, "update": 1, "delete": 1}
    assert (one(frames, VOUCH)["records"], one(frames, VOUCH)["registered"]) == (2, True)
    assert (one(frames, "com.example.new")["registered"], one(frames, "com.example.new")["unknown_fields"]) == (
        False,
        ["a"],
    )


def test_fields_are_told_with_their_types_and_how_many_records_have_them() -> None:
    frames = Frames()
    frames.pull(ANA, "1", versions=None, labels=["did:plc:x", "at://did:plc:x/y/z", 1, 1.5, True])
    frames.pull(ANA, "2")
    found = one(frames, PULL)
    fields = found["fields"]
    assert fields["title"] == {"seen": 2, "types": {"text": 2}}  # ty: ignore[not-subscriptable]
    assert fields["versions"] == {"seen": 1, "types": {"null": 1}}  # ty: ignore[not-subscriptable]
    assert fields["createdAt"] == {"seen": 2, "types": {"time": 2}}  # ty: ignore[not-subscriptable]
    assert fields["target.repo"]["types"] == {"did": 2}  # ty: ignore[not-subscriptable]
    assert fields["rounds[].patchBlob"]["types"] == {"object blob": 2}  # ty: ignore[not-subscriptable]
    assert fields["labels[]"] == {  # ty: ignore[not-subscriptable]
        "seen": 1,
        "types": {"did": 1, "at-uri": 1, "integer": 1, "number": 1, "boolean": 1},
    }
    assert found["unknown_fields"] == ["body", "labels", "source", "versions"]


def test_a_record_that_is_no_object_is_told_as_such() -> None:
    frames = Frames()
    frames.commit(ANA, VOUCH, MARA, ["a", None])
    assert one(frames, VOUCH)["fields"] == {
        "(record)": {"seen": 1, "types": {"list": 1}},
        "[]": {"seen": 1, "types": {"text": 1, "null": 1}},
    }


def test_hostile_numbers_of_collections_and_fields_are_bounded() -> None:
    frames = Frames()
    for number in range(inspect.COLLECTION_LIMIT + 50):
        frames.commit(ANA, f"com.example.c{number}", "1", {})
    for number in range(10):
        frames.commit(ANA, "com.example.c0", "1", {f"{number}-{index}" + "x" * 500: 1 for index in range(200)})
    told = sampled(frames)
    assert len(told["collections"]) == inspect.COLLECTION_LIMIT  # ty: ignore[invalid-argument-type]
    assert told["commits_of_further_collections"] == 50
    found = one(frames, "com.example.c0")
    assert len(found["fields"]) == inspect.FIELD_LIMIT  # ty: ignore[invalid-argument-type]
    assert found["further_fields"] == 2000 - inspect.FIELD_LIMIT
    assert max(map(len, found["fields"])) <= inspect.NAME_LIMIT  # ty: ignore[invalid-argument-type]


def test_depth_and_length_of_a_record_are_bounded() -> None:
    deep: object = 1
    for _ in range(500):
        deep = {"a": deep}
    frames = Frames()
    frames.commit(ANA, VOUCH, MARA, {"deep": deep, "long": list(range(10_000))})
    fields = one(frames, VOUCH)["fields"]
    assert fields["long[]"]["types"] == {"integer": inspect.ITEM_LIMIT}  # ty: ignore[not-subscriptable]
    assert max(path.count("a") for path in fields) < inspect.DEPTH_LIMIT + 1  # ty: ignore[not-iterable]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=10), inner, max_size=5),
    max_leaves=20,
)


@given(st.lists(json_values | st.fixed_dictionaries({"kind": json_values, "commit": json_values}), max_size=10))
def test_no_frame_breaks_a_sample_and_every_frame_is_counted(values: list[object]) -> None:
    told = sampled([msgspec.json.encode(value) for value in values])
    assert told["frames"] == len(values)
    assert json.loads(json.dumps(told)) == told


@given(st.binary(max_size=100))
def test_bytes_that_are_no_frame_are_unreadable(raw: bytes) -> None:
    assert sampled([raw])["unreadable"] in (0, 1)


def test_created_is_a_time() -> None:
    frames = Frames()
    frames.commit(ANA, VOUCH, MARA, {"createdAt": CREATED})
    assert one(frames, VOUCH)["unknown_fields"] == []
