"""Diffs that were taken back are known bad; a mark of clean clears one, and what was held for being like it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.records.pull_state import settle
from ingest.store.transaction import Rows
from scoring.diff.similarity import nearest_known_bad
from scoring.review.pending import Reviewing, review_due
from scoring.review.store import RULE
from scoring.scanners.submission import Knowledge
from tests.ingest.stream.frames import MARA, SEED, pull_uri
from tests.pipeline import Later, Result, by_scanners, prepared
from tests.scoring.offered import offer
from tests.scoring.pipeline.test_marks import mark
from tests.scoring.small import DAY, MERGED_AT, OFFERED, again, feed, settled, take

CODE = "".join(f"+def step_{word}(value): return {word}(value) + offset.{word}\n" for word in "abcdefgh")
PATCH = f"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,1 +1,9 @@\n print(1)\n{CODE}"
NEXT, LATER = pull_uri(MARA, "next"), MERGED_AT + 20 * DAY


def review(result: Result) -> None:
    def known(rows: Rows, uri: str) -> Knowledge:
        return Knowledge(likeness=nearest_known_bad(rows, uri))

    while review_due(result.store, Reviewing(result.policy.thresholds, result.folder / "diffs", known, by_scanners)):
        pass


def held(result: Result) -> bool:
    """Return whether the pull request that waits is said to be like one that turned out bad."""
    (found,) = result.rows("select findings from content_reviews where pull_uri = ?", [NEXT])
    return RULE in found["findings"]


@pytest.fixture(name="reverted")
def reverted_fixture(tmp_path: Path) -> Iterator[Result]:
    """Two pull requests with the same patch: one was merged and taken back, the other waits."""
    with prepared(tmp_path, merged_and_reverted) as result:
        yield result


def merged_and_reverted(result: Result) -> None:
    take(result, settled("open"))
    offer(result, PATCH)
    review(result)
    frames = Later(MERGED_AT)
    frames.status(SEED, OFFERED, "merged")
    frames.pull(MARA, "next")
    feed(result, frames)
    settle(result.store)
    offer(result, PATCH, uri=NEXT, ref="blob:next")
    found = {"pull_uri": OFFERED, "kind": "reverted", "evidence": "f" * 40, "carried_by": None}
    moments = {"happened_at": MERGED_AT + DAY, "known_from": MERGED_AT + DAY}
    with result.store.write() as txn:
        txn.append("pull_followups", [{**found, **moments}])
    again(result, LATER)
    review(result)


def test_a_change_like_one_that_was_taken_back_is_held(reverted: Result) -> None:
    assert held(reverted)


def test_a_mark_of_clean_clears_it_and_what_was_held_for_it_is_read_anew(reverted: Result) -> None:
    mark(reverted, "clean", now=LATER)
    again(reverted, LATER)
    review(reverted)
    assert not held(reverted)
    assert reverted.value("select count(*) from diff_vectors where known_bad") == 0
    mark(reverted, "needed_fix", key="two", minutes=1, now=LATER)
    again(reverted, LATER)
    review(reverted)
    assert reverted.value("select count(*) from diff_vectors where known_bad") == 1


def test_a_revert_that_no_longer_holds_clears_it_too(reverted: Result) -> None:
    with reverted.store.write() as txn:
        txn.execute("delete from pull_followups")
    review(reverted)
    assert not held(reverted)


def test_reviews_that_held_nothing_for_it_stay(reverted: Result) -> None:
    before = reverted.rows("select * from content_reviews where pull_uri = ?", [OFFERED])
    with reverted.store.write() as txn:
        txn.execute("delete from pull_followups")
    review(reverted)
    assert reverted.rows("select * from content_reviews where pull_uri = ?", [OFFERED]) == before
