"""The lists behind the queue: settled pull requests are found by title, author and file, and stay bounded."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import get_args

import pytest

from scoring.queries import read
from scoring.queries.read import Settled, SettledOutcome, SettledQuery
from tests.ingest.stream.frames import ANA, MARA, REPO, SEED, pull_uri
from tests.pipeline import Result, opened
from tests.scoring.small import DAY, MERGED_AT, settled, take
from trustsite.world import World

FIRST, SECOND, THIRD = (pull_uri(MARA, "offered"), pull_uri(ANA, "second"), pull_uri(ANA, "third"))
HOSTILE = ["%", "_", "'", '"', "\\", "); drop table events; --", "*", "\N{RIGHT-TO-LEFT OVERRIDE}", "x" * 100, "\n"]
MANY = 3_000


def listed(result: Result, **query: object) -> Settled:
    """One page of the list."""
    with result.reading() as rows:
        return read.settled(rows, SettledQuery(**query))  # ty: ignore[invalid-argument-type]


def uris(result: Result, **query: object) -> list[str]:
    return [row.uri for row in listed(result, **query).rows]


@pytest.fixture
def lantern(tmp_path: Path) -> Iterator[Result]:
    """Of three pull requests one is merged, one is closed and one is open."""
    with opened(tmp_path) as result:
        frames = settled()
        frames.pull(ANA, "second", title="Sweep the 100% stairs")
        frames.pull(ANA, "third", title="Oil the hinges")
        frames.status(SEED, SECOND, "closed")
        take(result, frames)
        yield result


def test_merged_and_closed_ones_are_listed_the_newest_first_and_open_ones_are_not(lantern: Result) -> None:
    found = listed(lantern)
    assert [row.uri for row in found.rows] == [SECOND, FIRST]
    assert [row.settled_at for row in found.rows] == sorted((row.settled_at for row in found.rows), reverse=True)
    assert (found.total, found.page, found.pages) == (2, 1, 1)
    assert found.repositories == ((REPO, "lantern"),)


def test_it_is_searched_by_title_author_and_file(lantern: Result) -> None:
    with lantern.store.write() as txn:
        txn.execute("update contributors set handle = 'ana.example', handle_verified = true where did = ?", [ANA])
        txn.execute("update contributors set handle = 'ana.fake', handle_verified = false where did = ?", [MARA])
    assert uris(lantern, text="SWEEP the 100%") == [SECOND]
    assert uris(lantern, text="ANA.exam") == [SECOND]
    assert uris(lantern, text=MARA) == [FIRST]
    assert uris(lantern, text="ana.fake") == [], "a handle that is not proven finds nobody"
    assert uris(lantern, text="a.py") == []
    with lantern.store.write() as txn:
        txn.execute("insert into pull_pages (pull_uri, number, url) values (?, 12, 'https://f.example/12')", [SECOND])
    assert uris(lantern, text="lantern #12") == [SECOND]
    touch = {"pull_uri": FIRST, "patch_ref": "blob:x", "kinds": [], "paths": ["src/Gate.py", "b.py"], "whole": True}
    with lantern.store.write() as txn:
        txn.execute("update pull_requests set patch_ref = 'blob:x' where pull_uri = ?", [FIRST])
        txn.append("touched_files", [touch])
    assert uris(lantern, text="src/gate.PY") == [FIRST]
    assert uris(lantern, text="Gate.py b.py") == []


def test_it_is_narrowed_by_repository_and_outcome(lantern: Result) -> None:
    assert uris(lantern, outcome="closed", repository=REPO) == [SECOND]
    assert uris(lantern, outcome="uncounted") == [FIRST]
    assert uris(lantern, repository="did:plc:elsewhere") == []
    take(lantern, settled(), MERGED_AT + 20 * DAY)
    assert uris(lantern, outcome="clean") == [FIRST]
    assert uris(lantern, outcome="uncounted") == []
    with lantern.store.write() as txn:
        txn.execute("update labels set clean = false where pull_uri = ?", [FIRST])
    assert uris(lantern, outcome="bad") == [FIRST]


def test_outcomes_share_out_all_that_is_settled_in_the_simulated_network(played: Result, world: World) -> None:
    parts = [listed(played, outcome=outcome).total for outcome in get_args(SettledOutcome) if outcome]
    whole = listed(played)
    assert sum(parts) == whole.total > 0
    watched = {key for key, _ in whole.repositories}
    assert watched == set(world.watched.values())


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_words_are_only_words(lantern: Result, text: str) -> None:
    assert uris(lantern, text=text) == ([SECOND] if text == "%" else [])
    assert listed(lantern).total == 2


def test_thousands_are_shown_a_page_at_a_time_and_a_page_too_far_is_the_last(lantern: Result) -> None:
    with lantern.store.write() as txn:
        txn.execute(
            "insert into pull_requests by name select p.* replace (p.pull_uri || '-' || n as pull_uri, "
            "state_at - to_seconds(n) as state_at) from pull_requests p, range(1, ?) r(n) where p.pull_uri = ?",
            [MANY + 1, SECOND],
        )
    first, last = listed(lantern), listed(lantern, page=10_000)
    assert (len(first.rows), first.total, first.pages) == (50, MANY + 2, 61)
    assert (last.page, len(last.rows)) == (61, 2)
    middle = listed(lantern, page=2)
    assert first.rows[-1].settled_at >= middle.rows[0].settled_at
    assert not {row.uri for row in first.rows} & {row.uri for row in middle.rows}


def test_what_a_hidden_account_sent_is_not_listed(lantern: Result) -> None:
    with lantern.store.write() as txn:
        txn.execute("update contributors set account_status = 'takendown' where did = ?", [ANA])
    assert uris(lantern) == [FIRST]
    assert uris(lantern, text=ANA) == []


def asked(result: Result, viewer: str = SEED, keys: tuple[str, ...] = (REPO,), days: int = 20) -> dict[str, datetime]:
    """What the weekly question would name so many days after the merge."""
    before = MERGED_AT + timedelta(days=days - 14)
    with result.reading() as rows:
        return read.unmarked_merges(rows, viewer, keys, before - 28 * DAY, before, 10)


def test_the_question_names_merges_of_ones_own_repositories_once_they_are_old_enough(lantern: Result) -> None:
    assert asked(lantern) == {FIRST: MERGED_AT}
    assert asked(lantern, keys=("",)) == {FIRST: MERGED_AT}
    assert asked(lantern, keys=("did:plc:elsewhere",)) == {}
    assert asked(lantern, viewer=MARA) == {}, "nobody marks their own"
    assert asked(lantern, days=13) == {}
    assert asked(lantern, days=60) == {}


def test_the_question_names_the_newest_merge_first(lantern: Result) -> None:
    later = "state_at + interval 1 day as state_at, merged_at + interval 1 day as merged_at"
    with lantern.store.write() as txn:
        txn.execute(
            "insert into pull_requests by name "
            f"select * replace (pull_uri || 'x' as pull_uri, {later}) from pull_requests where pull_uri = ?",
            [FIRST],
        )
    assert list(asked(lantern, days=22)) == [f"{FIRST}x", FIRST]


def test_the_question_leaves_out_what_git_or_a_person_answered(lantern: Result) -> None:
    evidence = {"pull_uri": FIRST, "kind": "reverted", "happened_at": MERGED_AT, "known_from": MERGED_AT}
    with lantern.store.write() as txn:
        txn.append("pull_followups", [evidence | {"evidence": "abc", "carried_by": None}])
    assert asked(lantern) == {}


def test_the_state_of_a_row_tells_its_round_its_group_and_how_many_comments_there_are(lantern: Result) -> None:
    with lantern.reading() as rows:
        before = read.row_states(rows, [THIRD, SECOND])
        row = read.pull(rows, THIRD)
    assert row is not None
    assert before.keys() == {THIRD}
    assert before[THIRD].seen == read.Seen(row.record_cid, row.round, row.patch_id)
    assert (before[THIRD].lane, before[THIRD].comments) == (row.verdict.lane, 0)


def test_what_is_snoozed_is_in_no_group_and_no_count(played: Result) -> None:
    whole = played.queue()
    gone = whole.groups[0].rows[0].uri
    rest = played.queue(read.QueueQuery(snoozed=(gone,)))
    assert gone not in {row.uri for group in rest.groups for row in group.rows}
    assert sum(rest.counts.values()) == sum(whole.counts.values()) - 1
