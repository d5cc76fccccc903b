"""A person's mark of an outcome outranks what was mined, from when it was known, and both are kept."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from scoring.handlers.actions import ActionMessage, apply_action
from scoring.queries import read
from tests.ingest.stream.frames import ANA, MARA, REPO, SEED
from tests.pipeline import Result, prepared
from tests.scoring import small
from tests.scoring.small import DAY, MERGED_AT, OFFERED, again, counts, settled

QUIET = MERGED_AT + 14 * DAY  # mined clean from here on
MARKED = MERGED_AT + 20 * DAY
NOON = datetime(2026, 11, 20, 12)


def mark(
    result: Result, outcome: str, key: str = "one", minutes: int = 0, now: datetime = MARKED, **changes: Any
) -> None:
    """What a person marked so many minutes after noon, taken in at `now`."""
    made_at = f"{(NOON + timedelta(minutes=minutes)).isoformat()}+00:00"
    told = {"kind": "outcome", "outcome": outcome, "note": "", "pull_uri": OFFERED, "person": SEED, "batch": ""}
    seen = {"record_cid": None, "round": 0, "patch_id": None, "made_at": made_at}
    assert apply_action(result.store, key, ActionMessage.read({**told, **seen, **changes}), now)


def labels(result: Result) -> list[tuple[bool, datetime]]:
    return [(row["clean"], row["known_from"]) for row in result.rows("select clean, known_from from labels")]


def kept(result: Result) -> tuple[str, bool | None, datetime | None]:
    (row,) = result.rows("select outcome, mined_clean, mined_from from marks")
    return row["outcome"], row["mined_clean"], row["mined_from"]


@pytest.fixture
def merged(tmp_path: Path) -> Iterator[Result]:
    """Mara's pull request, merged and quiet for its window, judged the day after it was marked."""
    with prepared(tmp_path, one_merged) as result:
        yield result


def one_merged(result: Result) -> None:
    small.take(result, settled(), MARKED)
    assert labels(result) == [(True, QUIET)]


def test_a_mark_outranks_what_was_mined_before_and_keeps_it(merged: Result) -> None:
    mark(merged, "needed_fix")
    again(merged, MARKED)
    assert labels(merged) == [(False, MARKED)]
    assert kept(merged) == ("needed_fix", True, QUIET)
    assert counts(merged, MARA)[:2] == (0, 1)


def test_a_mark_before_anything_was_mined_counts_at_once_and_what_is_mined_later_is_kept_beside_it(
    result: Result,
) -> None:
    small.take(result, settled(), MERGED_AT + DAY)
    mark(result, "reverted", now=MERGED_AT + DAY)
    again(result, MERGED_AT + DAY)
    assert counts(result, MARA) == (0, 1, 1, 1, 0), "it waits for nothing any more"
    assert kept(result) == ("reverted", None, None)
    again(result, MARKED)
    assert labels(result) == [(False, MERGED_AT + DAY)]
    assert kept(result) == ("reverted", True, QUIET)


@pytest.mark.parametrize("word", ["open", "closed"])
def test_a_mark_on_what_was_not_merged_counts_nothing(result: Result, word: str) -> None:
    small.take(result, settled(word), MERGED_AT + DAY)
    mark(result, "reverted", now=MERGED_AT + DAY)
    before = counts(result, MARA)
    again(result, MERGED_AT + DAY)
    assert counts(result, MARA) == before
    assert result.value("select count(*) from marks") == 0


def test_a_mark_is_not_known_before_it_took_effect(merged: Result) -> None:
    mark(merged, "reverted", now=MARKED + DAY)
    again(merged, MARKED + DAY - timedelta(microseconds=1))
    assert labels(merged) == [(True, QUIET)]
    again(merged, MARKED + DAY)
    assert labels(merged) == [(False, MARKED + DAY)]


def test_a_mark_that_agrees_does_not_make_the_label_known_later(merged: Result) -> None:
    mark(merged, "clean")
    again(merged, MARKED)
    assert labels(merged) == [(True, QUIET)]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_newest_mark_counts_in_whatever_order_they_arrive_and_all_are_kept(
    merged: Result, order: tuple[int, ...]
) -> None:
    outcomes = ("reverted", "clean", "needed_fix")
    for place in order:
        mark(merged, outcomes[place], key=f"mark {place}", minutes=place)
    again(merged, MARKED)
    assert kept(merged)[0] == "needed_fix"
    assert labels(merged) == [(False, MARKED)]
    assert merged.value("select count(*) from maintainer_actions") == 3


@pytest.mark.parametrize("person", [MARA, ANA])
def test_a_mark_of_the_author_or_of_somebody_who_is_no_maintainer_there_counts_nothing(
    merged: Result, person: str
) -> None:
    mark(merged, "reverted", person=person)
    again(merged, MARKED)
    assert labels(merged) == [(True, QUIET)]
    assert merged.value("select count(*) from marks") == 0


def test_not_even_a_maintainer_marks_a_change_of_their_own(merged: Result) -> None:
    merged.watch([REPO], [MARA])
    mark(merged, "reverted", person=MARA)
    again(merged, MARKED)
    assert labels(merged) == [(True, QUIET)]


def test_a_mark_counts_while_its_author_maintains_the_repository(merged: Result) -> None:
    merged.watch([REPO], [ANA])
    mark(merged, "reverted", person=ANA)
    again(merged, MARKED)
    assert labels(merged) == [(False, MARKED)]
    with merged.store.write() as txn:
        txn.execute("delete from maintainers where contributor_id = ?", [txn.person_ids([ANA])[ANA]])
    again(merged, MARKED)
    assert labels(merged) == [(True, QUIET)]


def test_the_contributors_page_and_the_history_tell_of_both(merged: Result) -> None:
    with merged.reading() as rows:
        assert read.outcome_in_words(rows, OFFERED) is None
    mark(merged, "needed_fix")
    again(merged, MARKED)
    with merged.reading() as rows:
        page = read.contributor(rows, MARA)
        told = read.outcome_in_words(rows, OFFERED)
    assert page is not None
    name = merged.score(SEED).person.name
    assert page.pulls[0].outcome == f"marked needed a fix by {name}; clean merge"
    assert told == f"marked needed a fix by {name}; Git shows it clean"


def test_an_answer_of_the_audit_stays_beside_the_mined_label_and_replaces_neither(merged: Result) -> None:
    row = {"audit_key": "a", "pull_uri": OFFERED, "repository_id": 1, "record_cid": None, "round": 0, "patch_id": None}
    told = {"odds": 0.5, "drawn_at": MERGED_AT, "would_merge": False, "because": "untested", "actor_id": None}
    with merged.store.write() as txn:
        txn.append("audits", [row | told | {"answered_at": MERGED_AT, "known_from": MERGED_AT}])
    again(merged, MARKED)
    assert labels(merged) == [(True, QUIET)]
    mark(merged, "reverted")
    again(merged, MARKED)
    assert merged.rows("select would_merge, odds from audits") == [{"would_merge": False, "odds": 0.5}]
    assert merged.rows("select mined_clean, mined_from from marks") == [{"mined_clean": True, "mined_from": QUIET}]


def test_a_mark_of_clean_stands_for_a_revert_that_was_found_and_the_pages_name_its_commit(merged: Result) -> None:
    commit = "1f0c" * 10
    found = {"pull_uri": OFFERED, "kind": "reverted", "evidence": commit, "carried_by": None}
    with merged.store.write() as txn:
        moments = {"happened_at": MERGED_AT + DAY, "known_from": MERGED_AT + DAY}
        txn.append("pull_followups", [{**found, **moments}])
        number = txn.value("select repository_id from pull_requests where pull_uri = ?", [OFFERED])
        told = {
            "repository_id": number,
            "commit_id": commit,
            "patch_id": None,
            "proves": True,
            "subject": "Take <it> back",
        }
        rest = {"change_id": None, "reverts": [], "signature": None, "absent_at": None}
        dates = dict.fromkeys(("authored_at", "committed_at", "appeared_at"), MERGED_AT)
        txn.append("commits", [{**told, **rest, **dates}])
    again(merged, MARKED)
    assert [clean for clean, _ in labels(merged)] == [False]
    words = 'reverted by commit 1f0c1f0c1f0c ("Take <it> back")'
    with merged.reading() as rows:
        page, board = read.contributor(rows, MARA), read.leaderboard(rows, "reverts", True, 1)
    assert page is not None
    assert (page.pulls[0].outcome, page.pulls[0].watched) == (f"merged, then {words}", True)
    assert {row.person.did: row.reverts for row in board.rows}[MARA] == 1
    mark(merged, "clean")
    again(merged, MARKED)
    assert [clean for clean, _ in labels(merged)] == [True]
    assert counts(merged, MARA)[:2] == (1, 0)
    with merged.reading() as rows:
        told = read.outcome_in_words(rows, OFFERED)
        board = read.leaderboard(rows, "reverts", True, 1)
    assert told is not None
    assert told.startswith("marked clean by ")
    assert told.endswith(f"; Git shows {words}")
    assert {row.person.did: row.reverts for row in board.rows}[MARA] == 0
