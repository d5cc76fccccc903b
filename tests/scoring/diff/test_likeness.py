"""Copies of a change known bad are recognised, and two different changes are not taken for copies."""

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.store.database import Store
from scoring.diff.change import Change
from scoring.diff.parser import read_change
from scoring.diff.similarity import DIMENSIONS, cosine, nearest_known_bad, record_vector, vector_of
from scoring.scanners import near_duplicates
from scoring.scanners.near_duplicates import NEAR
from scoring.scanners.submission import Knowledge
from tests.conftest import Count
from tests.scoring.scanners.written import added_lines, change_of, found
from tests.stores import fresh_store

BAD, OTHER = "at://did:plc:mallory/sh.example.pull/1", "at://did:plc:ana/sh.example.pull/2"
CODE = "\n".join(f"def step_{word}(value): return {word}(value) + offset.{word}" for word in "abcdefgh")
FIRST_PLACES = [32, 74, 331, 434]  # of the largest entries of CODE's vector
NEW_WORDS = ("value", "name", "item", "result", "data", "count", "index", "total")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = fresh_store(tmp_path / "trust.duckdb")
    yield opened
    opened.close()


def changed_words(change: Change, share: float, draw: random.Random) -> Change:
    """The change with a share of the words that it adds replaced by others."""

    def other(word: re.Match[str]) -> str:
        return draw.choice(NEW_WORDS) if draw.random() < share else word[0]

    files = tuple(
        replace(
            file,
            hunks=tuple(
                replace(
                    hunk,
                    lines=tuple(
                        replace(line, text=re.sub(r"\w+", other, line.text)) if line.mark == "+" else line
                        for line in hunk.lines
                    ),
                )
                for hunk in file.hunks
            ),
        )
        for file in change.files
    )
    return replace(change, files=files)


def test_a_copy_is_found_with_its_pull_request(store: Store) -> None:
    with store.write() as txn:
        assert record_vector(txn, BAD, "blob:1", change_of(added_lines(CODE)), known_bad=True)
    with store.read() as rows:
        near = nearest_known_bad(rows)(change_of(added_lines(CODE.replace("    ", "\t"), "elsewhere/b.py")))
    assert near is not None
    assert near[0] == pytest.approx(1, abs=1e-6)
    assert near[1] == BAD


def test_what_is_not_known_bad_or_is_the_same_pull_request_is_no_match(store: Store) -> None:
    change = change_of(added_lines(CODE))
    with store.write() as txn:
        record_vector(txn, OTHER, "blob:1", change, known_bad=False)
        record_vector(txn, BAD, "blob:1", change, known_bad=True)
    with store.read() as rows:
        assert nearest_known_bad(rows, own=BAD)(change) is None
        assert nearest_known_bad(rows, own=OTHER)(change) is not None


def test_a_later_judgement_of_the_same_round_counts(store: Store) -> None:
    change = change_of(added_lines(CODE))
    with store.write() as txn:
        record_vector(txn, BAD, "blob:1", change, known_bad=True)
    with store.write() as txn:
        record_vector(txn, BAD, "blob:1", change, known_bad=False)
    with store.read() as rows:
        assert rows.value("select count(*) from diff_vectors") == 1
        assert nearest_known_bad(rows)(change) is None


def test_too_little_text_has_no_vector_and_is_like_nothing(store: Store) -> None:
    small = change_of(added_lines("x = 1"))
    assert vector_of(small) is None
    with store.write() as txn:
        assert not record_vector(txn, BAD, "blob:1", small, known_bad=True)
    with store.read() as rows:
        assert nearest_known_bad(rows)(small) is None
        assert nearest_known_bad(rows)(change_of(added_lines(CODE))) is None


def test_lock_files_and_removed_lines_do_not_count() -> None:
    whole = vector_of(change_of(added_lines(CODE)))
    more = vector_of(change_of(added_lines(CODE), added_lines(CODE * 3, "poetry.lock")))
    assert whole is not None
    assert more is not None
    assert np.array_equal(whole, more)


def test_vectors_are_the_same_in_every_process() -> None:
    vector = vector_of(change_of(added_lines(CODE)))
    assert vector is not None
    assert (vector.dtype, len(vector)) == (np.float32, DIMENSIONS)
    assert [int(place) for place in np.argsort(-np.abs(vector), kind="stable")[:4]] == FIRST_PLACES


@given(st.text(max_size=400))
def test_any_text_has_a_vector_of_length_one_or_none(text: str) -> None:
    vector = vector_of(change_of(added_lines(text.replace("\r", " "))))
    assert vector is None or float(np.linalg.norm(vector)) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(("likeness", "rules"), [(0.99, ["like-known-bad"]), (NEAR, ["like-known-bad"]), (0.8, [])])
def test_a_near_copy_is_a_finding_whose_sentence_names_nobody(likeness: float, rules: list[str]) -> None:
    knowledge = Knowledge(likeness=lambda _: (likeness, BAD))
    findings = found(near_duplicates.scan, added_lines("x"), knowledge=knowledge)
    assert [finding.rule for finding in findings] == rules
    assert all(BAD not in finding.explanation and finding.quote == BAD for finding in findings)


def test_nan_is_near_nothing() -> None:
    assert (
        found(near_duplicates.scan, added_lines("x"), knowledge=Knowledge(likeness=lambda _: (float("nan"), BAD))) == []
    )


def test_copies_of_real_changes_are_near_and_pairs_of_different_ones_are_not(shared: Path, count: Count) -> None:
    """NEAR lies between: 95 % of copies with 5 % of their words changed reach it, of pairs one in a thousand."""
    table = pq.read_table(shared / "data" / "pr_diffs.parquet", columns=["diff"])
    draw = random.Random(9)
    changes = [
        read_change(text)
        for text in table.take(draw.sample(range(table.num_rows), count(250, 4_000)))["diff"].to_pylist()
    ]
    kept = [(change, vector) for change in changes if (vector := vector_of(change)) is not None]
    copies = [(vector, vector_of(changed_words(change, 0.05, draw))) for change, vector in kept[:500]]
    near = [cosine(vector, copy) >= NEAR for vector, copy in copies if copy is not None]
    likeness = np.array([vector for _, vector in kept]) @ np.array([vector for _, vector in kept]).T
    pairs = likeness[np.triu_indices(len(kept), 1)]
    assert np.mean(near) >= 0.95
    assert np.mean(pairs >= NEAR) < 0.001
