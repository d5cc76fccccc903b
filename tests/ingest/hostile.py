"""Hostile records: any JSON, with the names that Tangled's records use."""

from hypothesis import strategies as st

from tests.ingest.stream.frames import ANA, BLOB, MARA, PULL, REPO, REPOSITORY

NAMES = [
    "target",
    "repo",
    "repoDid",
    "branch",
    "rounds",
    "versions",
    "base",
    "head",
    "patchBlob",
    "ref",
    "$link",
    "cid",
    "patch",
    "createdAt",
    "kind",
    "reason",
    "evidences",
    "pull",
    "status",
    "name",
    "knot",
    "spindle",
    "title",
    "body",
    "source",
    "targetRepo",
    "active",
    "subject",
    "uri",
    "did",
    "issue",
    "state",
    "reaction",
    "add",
    "delete",
    "key",
    "value",
    "valueType",
    "enum",
    "links",
    "filename",
    "tag",
    "$bytes",
    "country",
    "decision",
    "evaluator",
    "text",
]
SENSIBLE = [
    REPO,
    BLOB,
    "vouch",
    "denounce",
    "2026-01-01T00:00:00Z",
    "a" * 40,
    "CH",
    "https://ana.example.test/",
    f"at://{ANA}/{REPOSITORY}/lantern",
    f"at://{MARA}/{PULL}/one",
]
names = st.sampled_from(NAMES) | st.text(max_size=4)
leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(SENSIBLE)
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner), max_leaves=12)
records = values | st.dictionaries(names, values)
