"""Real frames, bent in every way: each becomes rows or a dead letter, none stops the stream, none comes twice."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.records.dead_letters import LETTER_LIMIT
from ingest.store.database import Store
from tests.conftest import count
from tests.ingest import hostile
from tests.ingest.stream.frames import digest_of, rows, take

RECORDED = ["jetstream/tangled_live_2026-10-08.ndjson", "jetstream/expected_v1.jsonl", "jetstream/golden_v1.jsonl"]
TIMES = st.sampled_from([-1, 0, 1, 10**15, 2**53, 2**63, 2**64, 1e300, float("nan"), "1", None, True])
PLACES = ["did", "kind", "time_us", "commit", "identity", "account"]
INSIDE = ["rev", "operation", "collection", "rkey", "record", "cid", "seq", "active", "status", "handle"]
odd = (
    hostile.values
    | TIMES
    | st.sampled_from(
        ["", "\0", "\ud800", "did:plc:" + "a" * 5000, "../../etc", "'; drop table events --", "{}" * 9999]
    )
)


@pytest.fixture(scope="module", name="real")
def real_fixture(shared: Path) -> list[dict[str, Any]]:
    """A recorded frame of each kind, collection and operation."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for name in RECORDED:
        for line in (shared / "examples" / name).read_text().splitlines():
            frame = json.loads(line)
            commit = frame.get("commit") or {}
            found.setdefault((frame.get("kind"), commit.get("collection"), commit.get("operation")), frame)
    return list(found.values())


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place inside a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, one in inner for path in [(*here, key), *paths(one, (*here, key))]]


def bend(data: st.DataObject, frame: dict[str, Any], others: list[dict[str, Any]]) -> bytes | str:
    """The frame with a few things changed, taken away, put in or taken over from another; perhaps no JSON at all."""
    frame = copy.deepcopy(frame)
    for _ in range(data.draw(st.integers(0, 4))):
        found = paths(frame)
        if not found:
            break
        *way, last = data.draw(st.sampled_from(found))
        holder: Any = frame
        for step in way:
            holder = holder[step]
        match data.draw(st.sampled_from(["change", "remove", "add", "swap"])):
            case "change":
                holder[last] = data.draw(odd)
            case "remove":
                del holder[last]
            case "add" if isinstance(holder, dict):
                holder[data.draw(hostile.names | st.sampled_from(PLACES + INSIDE))] = data.draw(odd)
            case _:
                holder[last] = copy.deepcopy(data.draw(st.sampled_from(others)).get("commit", {}))
    text = json.dumps(frame, ensure_ascii=data.draw(st.booleans()))
    raw = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(data.draw(st.sampled_from([0, 0, 0, 1, 3]))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.sampled_from([None, None, None, len(raw) // 2]))
    return text if data.draw(st.booleans()) else bytes(raw[:cut])


@settings(max_examples=count(15, 3000), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_bent_frames_are_taken_in_whole_or_put_aside_and_never_twice(
    scratch: Store, real: list[dict[str, Any]], data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.sampled_from(real), min_size=1, max_size=8))
    frames = [bend(data, frame, real) for frame in chosen]
    take(scratch, frames)
    behind = "select max(event_seq) - (select position_seq from hops where name = 'derive') from events"
    assert rows(scratch, behind) in ([(0,)], [(None,)])
    assert (
        rows(scratch, "select * from dead_letters where strlen(body) > ? or strlen(reason) > 300", 4 * LETTER_LIMIT)
        == []
    )
    assert rows(scratch, "select 1 from pull_requests where state = 'merged' and merge_proof is null limit 1") == []
    before = digest_of(scratch)
    take(scratch, frames)
    assert digest_of(scratch) == before
