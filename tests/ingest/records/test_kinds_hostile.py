"""Whatever anybody writes of any kind: a bounded row, or refused in few words."""

import json
from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingest.records.fields import Event, SmallRecord, Unreadable
from ingest.records.registry import REGISTRY
from ingest.store.database import SCHEMA, Store
from tests.conftest import count
from tests.ingest import hostile
from tests.ingest.records.test_kinds import PULL_URI, STRONG, table_of
from tests.ingest.records.test_kinds_own import OWN, SEEN
from tests.ingest.stream.frames import ANA, MARA, PULL, REPO, VOUCH, Frames, rows, take

KEYS = st.sampled_from(["self", "3mxf3x7ivft22", ANA, "knot.example.test"])


@settings(max_examples=count(60, 5000))
@example("sh.tangled.actor.profile", "self", {"links": ["https://" + "x" * 1_000_000]})
@example("sh.tangled.actor.profile", "self", {"preferredHandle": "a-" * 500_000})
@example(
    "sh.tangled.label.op", "o", {"subject": PULL_URI, "add": [{"key": "k" * 10_000, "value": "v" * 10_000}] * 10_000}
)
@example("sh.tangled.label.definition", "o", {"name": "n" * 10**6, "valueType": {"enum": ["e" * 1000] * 10_000}})
@example(
    f"{OWN}.assessment", "o", {"subject": STRONG, "decision": "d" * 10**6, "evaluator": "e", "reasons": ["r"] * 10**5}
)
@given(st.sampled_from(sorted(REGISTRY.kinds)), KEYS, hostile.records)
def test_whatever_is_written_is_a_bounded_row_or_refused_in_few_words(collection: str, rkey: str, record: Any) -> None:
    body = json.dumps(record)
    told = Event(1, "i", "t", "commit", MARA, collection, rkey, "create", "r", "c", SEEN, False, body)
    found, refusal = None, "none"
    try:
        found = REGISTRY.read(told)
    except Unreadable as reason:
        refusal = str(reason)
    assert 0 < len(refusal) < 200
    if isinstance(found, SmallRecord):
        assert len(msgspec.json.encode(found.values)) < 450_000
        assert found.values.keys() <= columns_of(REGISTRY.kinds[collection].table)


def columns_of(table: str) -> set[str]:
    """The columns that the schema gives a table."""
    if table not in COLUMNS:
        text = (SCHEMA / "4_records.sql").read_text()
        body = text.split(f"create table {table} (")[1].split("\n);")[0]
        COLUMNS[table] = {line.split()[0] for line in body.splitlines() if line.strip()}
    return COLUMNS[table]


COLUMNS: dict[str, set[str]] = {}


@settings(max_examples=count(10, 1000))
@example(words=[(PULL, "self", {"title": "a\0b", "target": {"repo": REPO}, "rounds": [[[]]] * 300}, False)])
@example(words=[(PULL, "self", {"target": {"repo": REPO}, "body": "x" * 1_000_000}, False)])
@example(words=[(VOUCH, ANA, {"kind": 10**400}, False)])
@example(words=[(VOUCH, ANA, {"createdAt": "0001-01-01T00:00:00+14:00"}, True)])
@given(
    words=st.lists(
        st.tuples(st.sampled_from(sorted(REGISTRY.kinds)), KEYS, hostile.records, st.booleans()),
        min_size=1,
        max_size=12,
    )
)
def test_a_batch_of_whatever_ends_in_rows_or_letters(scratch: Store, words: list[tuple[str, str, Any, bool]]) -> None:
    """Each record is a row or a dead letter, and none stops the batch."""
    frames = Frames()
    ((start,),) = rows(scratch, "select coalesce(max(event_seq), 0) from events")
    frames.extend([b""] * start)
    for collection, rkey, record, deletes in words:
        frames.commit(MARA, collection, rkey, record)
        if deletes:
            frames.delete(MARA, collection, rkey)
    take(scratch, frames[start:])
    behind = "select max(event_seq) - (select position_seq from hops where name = 'derive') from events"
    assert rows(scratch, behind) == [(0,)]
    lettered = {name for (name,) in rows(scratch, "select event_id from dead_letters")}
    for collection, rkey, _, _ in words:
        table = table_of(collection)
        if table in ("repositories", "vouches"):
            continue
        key = {"pull_requests": "pull_uri", "statuses": "status_uri"}.get(table, "uri")
        uri = f"at://{MARA}/{collection}/{rkey}"
        puts = rows(
            scratch,
            "select event_id from events where collection = ? and rkey = ? and operation <> 'delete'",
            collection,
            rkey,
        )
        has_row = bool(rows(scratch, f"select 1 from {table} where {key} = ?", uri))
        assert has_row == any(event_id not in lettered for (event_id,) in puts)
