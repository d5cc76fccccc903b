"""The queue that pages and JSON are told: groups that add up, every order on every page, and what narrows it."""

from typing import get_args

import pytest

from scoring import read
from scoring.answers import GroupKey, QueueQuery
from scoring.verdict import Lane
from tests.pipeline import Result, all_rows
from trustsite.world import World


def test_groups_add_up_to_the_counts(played: Result) -> None:
    queue = played.queue()
    assert [group.key for group in queue.groups] == [
        key for key in get_args(GroupKey) if key in {g.key for g in queue.groups}
    ]
    for group in queue.groups:
        assert (
            group.total == len(group.rows) == (queue.own_count if group.key == "own" else queue.counts[Lane(group.key)])
        )
        assert group.oldest == min(row.opened_at for row in group.rows)
        newcomers = [row.opened_at for row in group.rows if row.first_timer]
        assert group.oldest_first_timer == min(newcomers, default=None)
    assert len(queue.repositories) == 3


def test_a_pull_request_bears_its_number_on_the_forge_once_that_is_known(played: Result) -> None:
    row = all_rows(played)[0]
    assert (row.label, row.page) == (f"{row.repository_name} · {row.uri[-5:]}", None)
    page = {"pull_uri": row.uri, "number": 12, "url": "https://tangled.org/o/r/pulls/12"}
    with played.store.write() as txn:
        txn.append("pull_pages", [page])
    shown = played.pull(row.uri)
    with played.store.write() as txn:
        txn.execute("delete from pull_pages")
    assert shown is not None
    assert (shown.label, shown.page) == (f"{row.repository_name} #12", page["url"])


@pytest.mark.parametrize("sort", ["findings", "oldest", "newest", "lowest"])
def test_every_order_is_kept_over_pages(played: Result, sort: read.QueueSort) -> None:
    whole = {group.key: group.rows for group in played.queue(QueueQuery(sort=sort)).groups}
    for rows in whole.values():
        ages = [row.opened_at for row in rows]
        if sort == "lowest":
            chances = [row.verdict.estimate.probability for row in rows]
            assert chances == sorted(chances, key=lambda p: (p is None, p or 0))
        elif sort == "findings":
            assert rows == tuple(sorted(rows, key=lambda row: ((row.content_risk or 0) < 0.1, row.opened_at)))
        else:
            assert ages == sorted(ages, reverse=sort == "newest")
    for key, rows in whole.items():
        size, paged = 4, []
        for page in range(1, -(-len(rows) // size) + 1):
            (group,) = played.queue(QueueQuery(bucket=key, sort=sort, page=page, size=size)).groups
            assert group.total == len(rows)
            paged += group.rows
        assert tuple(paged) == rows
        (last,) = played.queue(QueueQuery(bucket=key, sort=sort, page=99, size=size)).groups
        assert last.rows == rows[(len(rows) - 1) // size * size :]


def test_findings_come_first_and_the_size_of_a_change_is_none(played: Result) -> None:
    def normal_queue(sort: read.QueueSort = "findings") -> tuple[read.QueueRow, ...]:
        return next(group.rows for group in played.queue(QueueQuery(sort=sort)).groups if group.key == "normal_queue")

    newest = normal_queue("newest")[0]
    places = {}
    for risk in (0.10, 0.09, newest.content_risk):  # a low finding, a large change, what it had
        with played.store.write() as txn:
            sql = "update current_decisions set content_risk = ? where pull_uri = ?"
            txn.execute(sql, [risk, newest.uri])
        places[risk] = [row.uri for row in normal_queue()].index(newest.uri)
    assert places[0.10] < places[0.09] == len(normal_queue()) - 1


def test_a_preview_shows_the_first_rows_of_every_group(played: Result) -> None:
    whole, cut = played.queue(), played.queue(QueueQuery(size=2))
    assert [(g.key, g.rows[:2], g.total, g.oldest) for g in whole.groups] == [
        (g.key, g.rows, g.total, g.oldest) for g in cut.groups
    ]


def test_the_queue_is_narrowed_by_text_repository_and_bucket(played: Result, world: World) -> None:
    mara = world.cast["mara"]
    assert {row.author.did for row in all_rows(played, QueueQuery(text="mara.EXAMPLE"))} == {mara}
    assert {row.author.did for row in all_rows(played, QueueQuery(text=mara))} == {mara}
    assert {row.repository_name for row in all_rows(played, QueueQuery(text="tidepo"))} == {"tidepool"}
    title = all_rows(played)[0].title
    assert title in {row.title for row in all_rows(played, QueueQuery(text=title.upper()))}
    key = world.watched["driftwood"]
    assert {row.repository_key for row in all_rows(played, QueueQuery(repository=key))} == {key}
    assert all(row.own for row in all_rows(played, QueueQuery(bucket="own")))
    narrowed = played.queue(QueueQuery(text="nothing %_' is called so", bucket="needs_human"))
    assert narrowed.groups == ()
    assert narrowed.counts == played.queue().counts, "the tiles count all of them"
    assert not all_rows(played, QueueQuery(repository="unknown"))


def test_a_handle_that_is_not_proven_finds_and_names_nobody(played: Result, world: World) -> None:
    teo = world.cast["teo"]
    drifter = next(row for row in all_rows(played) if row.author.did == world.cast["drifter"])
    assert drifter.author.name.startswith("did:plc:")
    assert {row.author.did for row in all_rows(played, QueueQuery(text="teo.example"))} == {teo}


def test_first_timers_and_regulars_are_everybody_in_the_queue_who_may_not_push(played: Result) -> None:
    with played.reading() as rows:
        newcomers, regulars = read.fares(rows)
    shown = [row for group in played.queue().groups if group.key != "own" for row in group.rows]
    for fare in (newcomers, regulars):
        its = [row for row in shown if row.first_timer == fare.first_timers]
        assert fare.open == len(its)
        assert fare.lanes[Lane.FAST_LANE] == sum(row.verdict.lane is Lane.FAST_LANE for row in its)
        assert fare.oldest_opened_at == min(row.opened_at for row in its)
        assert fare.median_opened_at in {row.opened_at for row in its}
        assert fare.decided > 0
        assert fare.median_days is not None
    assert (newcomers.first_timers, regulars.first_timers) == (True, False)
