"""Labels on open pull requests: whoever may push says which stand, and nobody else does."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scoring.queries import changes
from tests.conftest import count
from tests.ingest.stream.frames import ANA, CREATED, MALLORY, MARA, REPO, SEED, Frames, at, pull_uri
from tests.pipeline import Result, opened
from tests.scoring.small import feed, take

PULL = pull_uri(MARA, "offered")
DEFINITION = "sh.tangled.label.definition"
Operands = Sequence[tuple[str, str]]


def definition(key: str) -> str:
    return f"at://{SEED}/{DEFINITION}/{key}"


def label(frames: Frames, author: str, key: str, add: Operands = (), delete: Operands = (), second: int = 0) -> None:
    """One record about `PULL`; operands are keys of definitions with values."""
    told = {
        name: [{"key": definition(key), "value": value} for key, value in pairs]
        for name, pairs in (("add", add), ("delete", delete))
    }
    moment = CREATED.replace("00Z", f"{second:02}Z")
    frames.commit(author, "sh.tangled.label.op", key, {"subject": PULL, "performedAt": moment, **told})


@pytest.fixture
def lantern(tmp_path: Path) -> Iterator[Result]:
    """Seed's repository with one open pull request and two defined labels."""
    with opened(tmp_path) as result:
        frames = Frames()
        frames.repository(SEED, repoDid=REPO)
        frames.pull(MARA, "offered")
        for key, name in (("bug", "Bug"), ("assignee", "assignee")):
            made = {"name": name, "valueType": {"type": "null", "format": "any"}, "scope": [], "createdAt": CREATED}
            frames.commit(SEED, DEFINITION, key, made)
        take(result, frames)
        yield result


def labels_after(result: Result, frames: Frames) -> tuple[str, ...]:
    feed(result, frames)
    row = result.pull(PULL)
    assert row is not None
    return row.labels


def test_a_label_reads_as_its_name_and_one_with_a_value_as_both(lantern: Result) -> None:
    frames = Frames()
    label(frames, SEED, "one", [("bug", "null"), ("assignee", ANA), ("good-first-issue", "null"), ("size", "small")])
    who = lantern.value("select coalesce(handle, did) from contributors where did = ?", [ANA]) or ANA
    assert labels_after(lantern, frames) == ("Bug", f"assignee: {who}", "good-first-issue", "size: small")


def test_nobody_without_push_access_labels_even_their_own(lantern: Result) -> None:
    frames = Frames()
    label(frames, MARA, "own", [("bug", "null")])
    label(frames, MALLORY, "other", [("reviewed", "null")])
    assert labels_after(lantern, frames) == ()
    after = Frames()
    label(after, SEED, "one", [("bug", "null")])
    label(after, MARA, "away", delete=[("bug", "null")], second=9)
    assert labels_after(lantern, after) == ("Bug",)


def test_the_last_word_about_a_label_holds_and_a_deleted_record_says_nothing(lantern: Result) -> None:
    frames = Frames()
    label(frames, SEED, "later", delete=[("bug", "null")], second=8)
    label(frames, SEED, "first", [("bug", "null"), ("size", "small")], second=3)
    assert labels_after(lantern, frames) == ("size: small",)
    after = Frames()
    after.delete(SEED, "sh.tangled.label.op", "later")
    assert labels_after(lantern, after) == ("Bug", "size: small")


def test_hundreds_of_labels_and_long_ones_stay_bounded(lantern: Result) -> None:
    frames = Frames()
    for number in range(4):
        label(frames, SEED, f"many{number}", [(f"{number}-{one:02}" + "x" * 100, "y" * 300) for one in range(90)])
    found = labels_after(lantern, frames)
    assert len(found) == changes.SHOWN
    assert max(map(len, found)) <= 2 * changes.LONGEST + 2


WORDS = st.lists(
    st.tuples(
        st.lists(st.sampled_from("abc"), unique=True, max_size=3),
        st.lists(st.sampled_from("abc"), unique=True, max_size=3),
    ),
    max_size=6,
)


@settings(max_examples=count(10, 600), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=WORDS)
def test_what_stands_is_what_applying_each_record_in_its_order_leaves(
    lantern: Result, words: list[tuple[list[str], list[str]]]
) -> None:
    standing: set[str] = set()
    author = lantern.value("select owner_id from repositories where repo_key = ?", [REPO])
    with lantern.store.write() as txn:
        txn.execute("delete from label_operations")
        for second, told in enumerate(words):
            added, removed = ([{"key": definition(key), "value": ""} for key in keys] for keys in told)
            standing = standing - set(told[1]) | set(told[0])
            about = {"uri": f"at://{SEED}/op/{second}", "author_id": author, "subject_uri": PULL}
            said = {"added": json.dumps(added), "removed": json.dumps(removed)}
            moments = dict.fromkeys(("written_at", "seen_at", "changed_at"), at(second))
            txn.append("label_operations", [about | said | moments])
    with lantern.reading() as rows:
        assert changes.pull_labels(rows, [PULL]).get(PULL, ()) == tuple(sorted(standing))
