"""Every smaller kind of record: as Tangled writes it, as it wrote it once, and as nobody should."""

from datetime import datetime
from typing import Any

import pytest

from ingest.records import registry
from ingest.records.registry import REGISTRY
from ingest.store.database import Store
from tests.ingest.stream.frames import ANA, CREATED, MARA, REPO, Frames, at, letters, pull_uri, rows, take

PULL_URI = pull_uri(ANA, "3mxf3x7ivft22")
ISSUE_URI = f"at://{ANA}/sh.tangled.repo.issue/3mxf3x7ivft22"
STRING_URI = f"at://{ANA}/sh.tangled.string/k1"
LABEL_URI = f"at://{ANA}/sh.tangled.label.definition/bug"
STRONG = {"uri": PULL_URI, "cid": "bafyreicccc"}
MARKDOWN = {"$type": "sh.tangled.markup.markdown", "text": "Well made", "original": "**Well made**"}

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
    judged = {registry.REPOSITORY, registry.PULL, registry.STATUS, registry.VOUCH, registry.ACCOUNT_CLAIM}
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


def test_known_fields_are_told_for_known_collections_only() -> None:
    assert REGISTRY.known_fields("sh.tangled.graph.follow") == {"$type", "subject", "createdAt"}
    assert REGISTRY.known_fields("sh.tangled.unknown") is None
