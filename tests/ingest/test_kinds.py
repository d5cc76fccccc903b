"""Every smaller kind of record: as Tangled writes it, as it wrote it once, and as nobody should."""

import json
from datetime import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingest import records
from ingest.records import REGISTRY, SmallRecord, Unreadable
from ingest.store import SCHEMA, Store
from tests.conftest import count
from tests.ingest import hostile
from tests.ingest.stream import ANA, CREATED, MARA, REPO, Frames, at, letters, pull_uri, rows, take

PULL_URI = pull_uri(ANA, "3mxf3x7ivft22")
ISSUE_URI = f"at://{ANA}/sh.tangled.repo.issue/3mxf3x7ivft22"
STRING_URI = f"at://{ANA}/sh.tangled.string/k1"
LABEL_URI = f"at://{ANA}/sh.tangled.label.definition/bug"
OWN = "org.sunstead"
MARKDOWN = {"$type": "sh.tangled.markup.markdown", "text": "Well made", "original": "**Well made**"}
STRONG = {"uri": PULL_URI, "cid": "bafyreicccc"}
SEEN = datetime(2026, 10, 8, 18, 34, 15)

# Collection, record key, record, and what the row says of it.
SHAPES: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    (
        "feed.comment",
        "c",
        {"subject": STRONG, "body": MARKDOWN, "pullRoundIdx": 2, "replyTo": STRONG},
        {
            "form": "feed",
            "subject_uri": PULL_URI,
            "subject_cid": "bafyreicccc",
            "body": "Well made",
            "round": 2,
            "reply_to": PULL_URI,
        },
    ),
    (
        "feed.comment",
        "c",
        {"subject": {"uri": PULL_URI}, "body": "plain"},
        {"body": "plain", "round": None, "subject_cid": None},
    ),
    (
        "repo.pull.comment",
        "c",
        {"pull": PULL_URI, "body": "Old"},
        {"form": "pull", "subject_uri": PULL_URI, "body": "Old"},
    ),
    (
        "repo.issue.comment",
        "c",
        {"issue": ISSUE_URI, "body": "Old", "replyTo": ISSUE_URI},
        {"form": "issue", "subject_uri": ISSUE_URI, "reply_to": ISSUE_URI},
    ),
    ("repo.issue", "i", {"repo": REPO, "title": "Dark"}, {"repository": REPO, "title": "Dark", "body": ""}),
    (
        "repo.issue",
        "i",
        {"repo": f"at://{ANA}/sh.tangled.repo/x", "repoDid": REPO, "body": None},
        {"repository": f"at://{ANA}/sh.tangled.repo/x", "title": ""},
    ),
    ("repo.issue", "i", {"repo": None, "repoDid": REPO}, {"repository": REPO}),
    (
        "repo.issue.state",
        "s",
        {"issue": ISSUE_URI, "state": "sh.tangled.repo.issue.state.closed"},
        {"issue_uri": ISSUE_URI, "state": "closed", "back_written": False},
    ),
    (
        "repo.issue.state",
        "3mxf3x7ivft22",
        {"issue": ISSUE_URI, "state": "sh.tangled.repo.issue.state.triaged"},
        {"state": "triaged", "back_written": True},
    ),
    ("graph.follow", "f", {"subject": ANA}, {"subject": ANA}),
    ("feed.star", "f", {"subject": {"$type": "sh.tangled.feed.star#repo", "did": REPO}}, {"subject": REPO}),
    ("feed.star", "f", {"subject": {"uri": STRING_URI}}, {"subject": STRING_URI}),
    ("feed.star", "f", {"subject": STRING_URI}, {"subject": STRING_URI}),
    ("feed.star", "f", {"subjectDid": REPO}, {"subject": REPO}),
    ("feed.reaction", "r", {"subject": PULL_URI, "reaction": "🚀"}, {"subject_uri": PULL_URI, "reaction": "🚀"}),
    (
        "label.definition",
        "bug",
        {"name": "bug", "valueType": {"type": "null", "format": "any", "enum": None}, "scope": None},
        {"name": "bug", "value_type": '{"type":"null","format":"any","enum":[]}'},
    ),
    (
        "label.op",
        "o",
        {"subject": ISSUE_URI, "add": [{"key": LABEL_URI, "value": "true"}, 3], "delete": None, "performedAt": CREATED},
        {
            "subject_uri": ISSUE_URI,
            "added": f'[{{"key":"{LABEL_URI}","value":"true"}}]',
            "removed": "[]",
            "written_at": datetime(2026, 9, 21, 14),
        },
    ),
    (
        "repo.collaborator",
        "c",
        {"repo": REPO, "subject": ANA},
        {"form": "collaborator", "repository": REPO, "subject": ANA},
    ),
    ("repo.collaboratorInvite", ANA, {}, {"form": "invite", "repository": None, "subject": ANA}),
    ("repo.collaboratorAcceptance", "a", {}, {"form": "acceptance", "repository": None, "subject": MARA}),
    ("knot", "knot.example.test", {}, {"kind": "knot", "host": "knot.example.test"}),
    ("spindle", "localhost:6555", {}, {"kind": "spindle", "host": "localhost:6555"}),
    (
        "knot.member",
        "m",
        {"subject": ANA, "domain": "knot.example.test"},
        {"kind": "knot", "subject": ANA, "host": "knot.example.test"},
    ),
    ("knot.member", ANA, {}, {"subject": ANA, "host": None}),
    (
        "spindle.member",
        "m",
        {"subject": ANA, "instance": "spindle.example.test"},
        {"kind": "spindle", "subject": ANA, "host": "spindle.example.test"},
    ),
    (
        "actor.profile",
        "self",
        {
            "bluesky": True,
            "description": "Hi",
            "links": [
                "https://a.example/x",
                "http://b.example",
                "javascript:alert(1)",
                "",
                None,
                "https://late.example",
            ],
            "pinnedRepositories": [f"at://{ANA}/sh.tangled.repo/x", ""],
            "preferredHandle": "",
        },
        {
            "bluesky": True,
            "description": "Hi",
            "links": '["https://a.example/x"]',
            "pinned": f'["at://{ANA}/sh.tangled.repo/x"]',
            "preferred_handle": None,
        },
    ),
    ("publicKey", "k", {"key": "ssh-ed25519 AAAA", "name": "laptop"}, {"name": "laptop", "key": "ssh-ed25519 AAAA"}),
    (
        "publicKey",
        "k",
        {"key": "ssh-rsa B", "createdAt": None, "created": "2025-03-01T00:00:00Z"},
        {"name": "", "written_at": datetime(2025, 3, 1)},
    ),
    (
        "string",
        "s",
        {"filename": "a.py", "description": "", "contents": "x"},
        {"filename": "a.py", "description": ""},
    ),
    (
        "repo.artifact",
        "a",
        {"name": "disk.iso", "repo": f"at://{ANA}/sh.tangled.repo/x", "tag": {"$bytes": "u7u7"}},
        {"repository": f"at://{ANA}/sh.tangled.repo/x", "name": "disk.iso", "tag": "u7u7"},
    ),
    ("repo.artifact", "a", {"name": "disk.iso", "repoDid": REPO, "tag": 3}, {"repository": REPO, "tag": None}),
]
NOTHINGS = [
    ("feed.comment", "c", {"body": MARKDOWN}),
    ("repo.issue", "i", {"title": "Dark"}),
    ("repo.issue.state", "s", {"issue": ISSUE_URI}),
    ("graph.follow", "f", {"subject": "ana"}),
    ("feed.star", "f", {"subject": {"did": "x"}}),
    ("feed.reaction", "r", {"subject": PULL_URI, "reaction": ""}),
    ("label.definition", "l", {"name": None}),
    ("label.op", "o", {"add": []}),
    ("repo.collaborator", "c", {"repo": REPO}),
    ("repo.collaboratorInvite", "c", {}),
    ("knot", "no_host", {}),
    ("knot.member", "m", {"domain": "knot.example.test"}),
    ("publicKey", "k", {"key": "x" * 16_385}),
    ("string", "s", {"contents": "x"}),
    ("repo.artifact", "a", {"name": "disk.iso"}),
]


def table_of(collection: str) -> str:
    return REGISTRY.kinds[collection].table


@pytest.mark.parametrize(("name", "rkey", "record", "expected"), SHAPES)
def test_each_shape_becomes_a_row(
    store: Store, name: str, rkey: str, record: dict[str, Any], expected: dict[str, Any]
) -> None:
    collection = f"sh.tangled.{name}"
    frames = Frames()
    frames.commit(MARA, collection, rkey, {"$type": collection, "createdAt": CREATED} | record)
    take(store, frames)
    columns = ", ".join(["uri", *expected])
    assert letters(store) == []
    found = rows(store, f"select {columns} from {table_of(collection)}")
    assert found == [(f"at://{MARA}/{collection}/{rkey}", *expected.values())]


@pytest.mark.parametrize(("name", "rkey", "record"), NOTHINGS)
def test_what_says_too_little_is_a_dead_letter_with_the_reason(
    store: Store, name: str, rkey: str, record: dict[str, Any]
) -> None:
    frames = Frames()
    frames.commit(MARA, f"sh.tangled.{name}", rkey, record)
    frames.commit(MARA, "sh.tangled.graph.follow", "after", {"subject": ANA})
    take(store, frames)
    (reason,) = letters(store)
    assert reason.split(" ")[0] in ("a", "an", "labels")
    assert rows(store, "select uri from follows") == [(f"at://{MARA}/sh.tangled.graph.follow/after",)]


def test_every_registered_kind_has_a_shape_here() -> None:
    """A new entry in the registry needs a line above."""
    judged = {records.REPOSITORY, records.PULL, records.STATUS, records.VOUCH}
    told = {f"sh.tangled.{name}" for name, *_ in SHAPES}
    assert set(REGISTRY.kinds) - judged - REGISTRY.own == told


def test_an_edit_keeps_when_a_record_was_first_seen_and_a_delete_keeps_the_row(store: Store) -> None:
    name = "sh.tangled.feed.comment"
    frames = Frames()
    frames.commit(MARA, name, "c", {"subject": STRONG, "body": "One"})
    frames.commit(MARA, name, "c", {"subject": STRONG, "body": "Two"}, "update")
    frames.delete(MARA, name, "c")
    frames.delete(MARA, name, "never")
    for split in (frames[:1], frames[1:]):
        take(store, split)
    columns = "body, record_cid, seen_at, changed_at, deleted_at"
    assert rows(store, f"select {columns} from comments") == [("Two", "bafyrei1", at(0), at(1), at(2))]
    frames.commit(MARA, name, "c", {"subject": STRONG, "body": "Three"})
    take(store, frames)
    assert rows(store, f"select {columns} from comments") == [("Three", "bafyrei4", at(0), at(4), None)]


def test_nobody_deletes_what_another_wrote(store: Store) -> None:
    frames = Frames()
    frames.commit(MARA, "sh.tangled.graph.follow", "f", {"subject": ANA})
    frames.delete(ANA, "sh.tangled.graph.follow", "f")
    take(store, frames)
    assert rows(store, "select deleted_at from follows") == [(None,)]


def own(name: str, record: object, rkey: str) -> SmallRecord:
    body = json.dumps(record)
    told = records.Event(1, "i", "t", "commit", MARA, f"{OWN}.{name}", rkey, "create", "r", "c", SEEN, False, body)
    found = records.read(told)
    assert isinstance(found, SmallRecord)
    return found


def test_a_jurisdiction_is_about_its_author_whatever_else_it_says() -> None:
    found = own("jurisdiction", {"country": "CH", "region": "CH-ZH", "note": "n" * 5000, "subject": ANA}, "self")
    assert found.values["kind"] == "jurisdiction"
    assert found.values["subject"] is None
    assert json.loads(found.values["value"]) == {"country": "CH", "region": "CH-ZH", "note": "n" * 1000}


@pytest.mark.parametrize("country", ["ch", "Switzerland", "C1", None, 3, ["CH"]])
def test_a_jurisdiction_needs_a_country_code(country: object) -> None:
    with pytest.raises(Unreadable, match="without a readable country"):
        own("jurisdiction", {"country": country}, "self")


def test_an_objection_names_what_it_disputes_or_its_author_altogether() -> None:
    assert own("objection", {"text": "No", "subject": PULL_URI}, "o").values["subject"] == PULL_URI
    assert own("objection", {"text": "No"}, "o").values["subject"] is None
    with pytest.raises(Unreadable, match="without a readable text"):
        own("objection", {"subject": PULL_URI}, "o")


def test_an_opt_out_is_one_record_of_its_author() -> None:
    assert own("leaderboardOptOut", {}, "self").values == {
        "kind": "leaderboard_opt_out",
        "subject": None,
        "value": "{}",
    }
    with pytest.raises(Unreadable, match="under another key"):
        own("leaderboardOptOut", {}, "another")


def test_an_assessment_pins_a_version_and_holds_whole_numbers() -> None:
    record = {"subject": STRONG, "decision": "fast_lane", "evaluator": "1", "clean": 912, "contentRisk": 1001}
    found = own("assessment", record | {"reasons": ["a", 3, "b" * 100]}, "x").values
    assert found["subject"] == PULL_URI
    value = {"subject_cid": "bafyreicccc", "decision": "fast_lane", "clean": 912, "reasons": ["a", "b" * 64]}
    assert json.loads(found["value"]) == value | {"evaluator": "1"}


def test_declarations_are_kept_and_make_their_author_known(store: Store) -> None:
    frames = Frames()
    frames.commit(MARA, f"{OWN}.leaderboardOptOut", "self", {"createdAt": CREATED})
    frames.commit(ANA, "com.somebody.leaderboardOptOut", "self", {"createdAt": CREATED})
    take(store, frames)
    assert rows(store, "select kind, deleted_at from declarations") == [("leaderboard_opt_out", None)]
    assert rows(store, "select did, first_seen_at from contributors") == [(MARA, at(0))]


def test_the_operator_chooses_the_authority_of_our_records() -> None:
    registry = records.build_registry("com.example")
    assert registry.wanted_collections()[:2] == ["sh.tangled.*", "com.example.assessment"]
    assert registry.is_ours("com.example.objection")
    assert not registry.is_ours(f"{OWN}.objection")
    assert records.wanted_collections("com.example") == registry.wanted_collections()


@pytest.mark.parametrize(
    "name", ["", "com", "com.", "Com.Example", "com..example", "sh.tangled", "a b.c", "com.x*", "c." * 200]
)
def test_what_is_no_domain_of_ones_own_is_no_authority(name: str) -> None:
    with pytest.raises(ValueError, match="not a domain of yours"):
        records.build_registry(name)


def test_known_fields_are_told_for_known_collections_only() -> None:
    assert records.known_fields("sh.tangled.graph.follow") == {"$type", "subject", "createdAt"}
    assert records.known_fields("sh.tangled.unknown") is None


KEYS = st.sampled_from(["self", "3mxf3x7ivft22", ANA, "knot.example.test"])


@settings(max_examples=count(150, 5000))
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
    told = records.Event(1, "i", "t", "commit", MARA, collection, rkey, "create", "r", "c", SEEN, False, body)
    found, refusal = None, "none"
    try:
        found = records.read(told)
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


@settings(max_examples=count(25, 1000))
@given(
    words=st.lists(
        st.tuples(st.sampled_from(sorted(REGISTRY.kinds)), KEYS, hostile.records, st.booleans()),
        min_size=1,
        max_size=12,
    )
)
def test_a_batch_of_whatever_ends_in_rows_or_letters(
    hostile_store: Store, words: list[tuple[str, str, Any, bool]]
) -> None:
    """Each record is a row or a dead letter, and none stops the batch."""
    frames = Frames()
    ((start,),) = rows(hostile_store, "select coalesce(max(event_seq), 0) from events")
    frames.extend([b""] * start)
    for collection, rkey, record, deletes in words:
        frames.commit(MARA, collection, rkey, record)
        if deletes:
            frames.delete(MARA, collection, rkey)
    take(hostile_store, frames[start:])
    behind = "select max(event_seq) - (select position_seq from hops where name = 'derive') from events"
    assert rows(hostile_store, behind) == [(0,)]
    lettered = {name for (name,) in rows(hostile_store, "select event_id from dead_letters")}
    for collection, rkey, _, _ in words:
        table = table_of(collection)
        if table in ("repositories", "vouches"):
            continue
        key = {"pull_requests": "pull_uri", "statuses": "status_uri"}.get(table, "uri")
        uri = f"at://{MARA}/{collection}/{rkey}"
        puts = rows(
            hostile_store,
            "select event_id from events where collection = ? and rkey = ? and operation <> 'delete'",
            collection,
            rkey,
        )
        has_row = bool(rows(hostile_store, f"select 1 from {table} where {key} = ?", uri))
        assert has_row == any(event_id not in lettered for (event_id,) in puts)


@pytest.fixture(scope="module")
def hostile_store(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One store that takes all of it."""
    store = Store.open(tmp_path_factory.mktemp("kinds") / "trust.duckdb")
    store.bind("test")
    yield store
    store.close()
