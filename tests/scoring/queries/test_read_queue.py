"""The queue that pages and JSON are told: groups that add up, every order on every page, and what narrows it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import get_args

import pytest

from scoring.queries import read
from scoring.queries.queue import LANE_KEYS
from scoring.queries.queue_order import TURN
from scoring.queries.types import GroupKey, QueueQuery
from scoring.types import Lane
from tests.pipeline import Result, all_rows
from trustsite.world import World


def test_groups_add_up_to_the_counts(played: Result) -> None:
    queue = played.queue()
    assert [group.key for group in queue.groups] == [
        key for key in get_args(GroupKey) if key in {g.key for g in queue.groups}
    ]
    for group in queue.groups:
        assert group.total == len(group.rows) == (queue.own_count if group.key == "own" else queue.counts[group.key])
        waiting = [row for row in group.rows if row.place and row.place.cause != "author"]
        assert group.oldest == min((row.opened_at for row in waiting), default=None)
        newcomers = [row.opened_at for row in waiting if row.first_timer]
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


@pytest.mark.parametrize("sort", ["oldest", "newest", "lowest"])
def test_every_order_is_kept_over_pages(played: Result, sort: read.QueueSort) -> None:
    whole = {group.key: group.rows for group in played.queue(QueueQuery(sort=sort)).groups}
    for rows in whole.values():
        ages = [row.opened_at for row in rows]
        if sort == "lowest":
            chances = [row.verdict.estimate.probability for row in rows]
            assert chances == sorted(chances, key=lambda p: (p is None, p or 0))
        else:
            last = [bool(row.place) and row.place.cause == "author" for row in rows]
            assert last == sorted(last), "what its author has to answer does not wait"
            waiting = [age for age, is_last in zip(ages, last, strict=True) if not is_last]
            assert waiting == sorted(waiting, reverse=sort == "newest")
    for key, rows in whole.items():
        size, paged = 4, []
        for page in range(1, -(-len(rows) // size) + 1):
            (group,) = played.queue(QueueQuery(bucket=key, sort=sort, page=page, size=size)).groups
            assert group.total == len(rows)
            paged += group.rows
        assert tuple(paged) == rows
        (last,) = played.queue(QueueQuery(bucket=key, sort=sort, page=99, size=size)).groups
        assert last.rows == rows[(len(rows) - 1) // size * size :]


@pytest.fixture
def altered(played: Result) -> Iterator[Result]:
    """The same store; afterwards its decisions, pull requests and comments are what they were."""
    tables = ("current_decisions", "pull_requests", "comments", "maintainer_actions", "audits")
    kept = {table: played.rows(f"select * from {table}") for table in tables}
    yield played
    with played.store.write() as txn:
        for table, rows in kept.items():
            txn.execute(f"delete from {table}")
            if rows:
                txn.append(table, rows)


def needing_review(played: Result) -> list[read.QueueRow]:
    """The rows that need review, as the page shows them to somebody who chose nothing."""
    return next(list(group.rows) for group in played.queue().groups if group.key == "normal_queue")


def place_of(played: Result, row: read.QueueRow) -> int:
    return [one.uri for one in needing_review(played)].index(row.uri)


def decide(played: Result, row: read.QueueRow, column: str, value: object) -> None:
    with played.store.write() as txn:
        txn.execute(f"update current_decisions set {column} = ? where pull_uri = ?", [value, row.uri])


def comment(played: Result, row: read.QueueRow, did: str, day: int) -> None:
    said = datetime(2099, 1, day)
    author = played.value("select contributor_id from contributors where did = ?", [did])
    about = {"uri": f"at://{did}/{day}", "author_id": author, "form": "pull", "subject_uri": row.uri, "body": "Why?"}
    with played.store.write() as txn:
        txn.append("comments", [about | dict.fromkeys(("written_at", "seen_at", "changed_at"), said)])


def test_rows_of_one_author_with_one_title_say_how_many_they_are(
    altered: Result,
) -> None:
    author = max((row.author.did for row in all_rows(altered)), key=[row.author.did for row in all_rows(altered)].count)
    first, second, third = [row for row in all_rows(altered) if row.author.did == author][:3]
    other = next(row for row in all_rows(altered) if row.author.did != author)
    with altered.store.write() as txn:
        for row in (first, second, other):
            txn.execute("update pull_requests set title = 'feat(tls): same title' where pull_uri = ?", [row.uri])
    found = {row.uri: row.alike for row in all_rows(altered)}
    assert [found[row.uri] for row in (first, second, third, other)] == [2, 2, 1, 1]
    narrowed = altered.queue(QueueQuery(repository=first.repository_key, snoozed=(second.uri,)))
    assert [row.alike for group in narrowed.groups for row in group.rows if row.uri == first.uri] == [1]


def test_a_row_tells_what_of_its_author_was_reverted_within_thirty_days(played: Result) -> None:
    row = next(row for row in all_rows(played) if row.verdict.lane is Lane.FAST_LANE and not row.own)
    assert "reverted lately" not in row.sentence
    merged = played.rows(
        "select pull_uri, author_id, repository_id from pull_requests join contributors on contributor_id = author_id "
        "where state = 'merged' and did = ? order by pull_uri limit 2",
        [row.author.did],
    )
    for days, pull in zip((29, 31), merged, strict=True):
        then = row.as_of - timedelta(days=days)
        mark = {"actor_id": 1, "outcome": "reverted", "clean": False, "made_at": then, "known_from": then}
        with played.store.write() as txn:
            txn.append("marks", [{**pull, **mark}])
    shown = played.pull(row.uri)
    with played.store.write() as txn:
        txn.execute("delete from marks where pull_uri in (select unnest(?))", [[pull["pull_uri"] for pull in merged]])
    assert shown is not None
    assert "1 reverted lately" in shown.decided


def test_each_row_of_a_list_has_its_place_also_on_a_later_page(played: Result) -> None:
    for group in played.queue().groups:
        places = [row.place for row in group.rows]
        assert [(place.number, place.total) for place in places if place] == [
            (number, group.total) for number in range(1, group.total + 1)
        ]
        (last,) = played.queue(QueueQuery(bucket=group.key, page=99, size=4)).groups
        assert [row.place for row in last.rows] == places[(len(places) - 1) // 4 * 4 :]


def test_a_stronger_finding_moves_a_change_up_past_older_ones(altered: Result) -> None:
    youngest = max((row for row in needing_review(altered) if not row.first_timer), key=lambda row: row.opened_at)
    decide(altered, youngest, "probability", 0.97)
    places = []
    for risk in (0.05, 0.10, 0.45, 0.8):  # without a finding, with a low, a medium and a high one
        decide(altered, youngest, "content_risk", risk)
        places.append(place_of(altered, youngest))
    assert places[0] >= places[1] > places[2] > places[3]


@pytest.mark.parametrize("would_merge", [None, True, False], ids=["unanswered", "would-merge", "would-not"])
def test_what_the_audit_drew_is_flagged_with_its_person_as_in_the_inbox(
    altered: Result, would_merge: bool | None
) -> None:
    drawn = needing_review(altered)[0]
    decide(altered, drawn, "lane", "needs_human")
    decide(altered, drawn, "reasons", '[{"code":"audit_drawn","params":{"odds":0.3}}]')
    if would_merge is not None:
        answer = {"audit_key": "a", "odds": 0.3, "would_merge": would_merge, "because": "read it", "estimated": False}
        moments = dict.fromkeys(("drawn_at", "answered_at", "known_from"), datetime(2099, 1, 1))
        read_then = (
            "select pull_uri, record_cid, round, patch_id, repository_id from current_decisions where pull_uri = ?"
        )
        with altered.store.write() as txn:
            txn.append("audits", [answer | moments | one for one in txn.rows(read_then, [drawn.uri])])
    with altered.reading() as rows:
        page = read.contributor(rows, drawn.author.did)
        assert page is not None
        flagged = {line.uri for line in page.pulls if line.flagged}
        lane = read.lanes(rows, [drawn.uri], QueueQuery())[drawn.uri]
    assert (drawn.uri in flagged) == (lane == "needs_human") == (would_merge is False)


def test_the_place_of_what_the_audit_sealed_tells_nothing_of_its_risk_and_chance(altered: Result) -> None:
    sealed = needing_review(altered)[0]
    decide(altered, sealed, "reasons", '[{"code":"audit_drawn","params":{"odds":0.3}}]')
    places = set()
    for risk, chance in ((None, None), (0.0, 0.99), (0.9, 0.02)):
        decide(altered, sealed, "content_risk", risk)
        decide(altered, sealed, "probability", chance)
        with altered.reading() as rows:
            places.add(read.queue_order(rows, QueueQuery(bucket="normal_queue")).index(sealed.uri))
    assert len(places) == 1


def test_what_waits_for_its_author_comes_after_what_waits_for_a_maintainer(altered: Result, world: World) -> None:
    """Until the author answers; a stranger's comment changes no turn."""
    rows = [row for row in needing_review(altered) if not row.first_timer]
    for row in rows:
        decide(altered, row, "probability", 0.55)
        decide(altered, row, "content_risk", 0.0)
    places = [place_of(altered, rows[0])]
    owner = "select did from repositories join contributors on contributor_id = owner_id where repo_key = ?"
    speakers = (world.cast["mallory"], altered.value(owner, [rows[0].repository_key]), rows[0].author.did)
    for day, speaker in enumerate(speakers, 1):
        comment(altered, rows[0], speaker, day)
        places.append(place_of(altered, rows[0]))
    before, by_a_stranger, by_a_maintainer, by_the_author = places
    assert before == by_a_stranger == by_the_author < by_a_maintainer
    for day in range(4, 9):
        comment(altered, rows[0], rows[0].author.did, day)
    assert place_of(altered, rows[0]) == before, "more words of the author gain nothing"


def asked(result: Result, row: read.QueueRow, kind: str = "request_changes", **changes: object) -> None:
    """What a maintainer decided on the page, as the worker keeps it."""
    given: dict[str, object] = {"action_key": f"{kind} {row.uri} {changes}", "kind": kind, "note": "", "actor_id": 1}
    named = {"pull_uri": row.uri, "round": row.round, "patch_id": row.patch_id, "record_cid": row.record_cid}
    place = result.value("select repository_id from repositories where repo_key = ?", [row.repository_key])
    made = dict.fromkeys(("made_at", "known_from"), datetime(2098, 1, 1)) | {"repository_id": place}
    with result.store.write() as txn:
        txn.append("maintainer_actions", [given | named | made | changes])


def turns(result: Result) -> set[str]:
    """The rows that say that they wait for their author."""
    return {row.uri for group in result.queue().groups for row in group.rows if row.on_author}


def test_a_request_for_changes_makes_it_the_authors_turn_until_they_answer(altered: Result) -> None:
    rows = [row for row in needing_review(altered) if not row.first_timer]
    for row in rows:
        decide(altered, row, "probability", 0.55)
        decide(altered, row, "content_risk", 0.0)
    known, before = turns(altered), place_of(altered, rows[0])
    asked(altered, rows[0])
    assert turns(altered) == known | {rows[0].uri}
    assert place_of(altered, rows[0]) > before
    comment(altered, rows[0], rows[0].author.did, 1)
    assert turns(altered) == known
    shown = needing_review(altered)
    assert shown[0].uri == rows[0].uri, "who asked reads the answer first"
    assert shown[0].place is not None
    assert shown[0].place.cause == "changed"
    asked(altered, rows[0], "release", made_at=datetime(2098, 1, 2))
    assert needing_review(altered)[0].uri != rows[0].uri, "and not where the request was taken back"


def test_an_answer_on_this_site_gives_the_turn_back_also_from_a_word_on_the_forge(
    altered: Result, world: World
) -> None:
    row = next(row for row in needing_review(altered) if not row.first_timer and not row.on_author)
    owner = "select did from repositories join contributors on contributor_id = owner_id where repo_key = ?"
    known, moment = turns(altered), datetime(2100, 1, 1)  # the stream's clock stands from here on
    comment(altered, row, altered.value(owner, [row.repository_key]), 1)
    asked(altered, row, made_at=moment, known_from=moment)
    for seconds, is_answered in ((-1, False), (10, False), (11, True)):
        asked(altered, row, "answer", made_at=moment + timedelta(seconds=seconds), known_from=moment)
        assert (turns(altered) == known) == is_answered, "what can be undone was not read yet"
    asked(altered, row, made_at=moment + timedelta(minutes=1), known_from=moment)
    assert turns(altered) == known | {row.uri}, "somebody asked again"


def test_a_new_round_ends_the_authors_turn_and_so_does_taking_the_request_back(altered: Result) -> None:
    first, second, *_ = [row for row in needing_review(altered) if not row.on_author]
    known = turns(altered)
    asked(altered, first, round=first.round + 1)
    asked(altered, second, patch_id="0" * 64)
    assert turns(altered) == known, "they are about another round and another patch"
    asked(altered, first)
    assert turns(altered) == known | {first.uri}
    asked(altered, first, "release", made_at=datetime(2098, 1, 2))
    assert turns(altered) == known


def test_requests_for_changes_bring_the_longest_waiting_first_timer_nearer_like_any_verdict(altered: Result) -> None:
    read_first = []
    for _ in range(TURN):
        read_first.append(next(row for row in needing_review(altered) if not row.on_author))
        asked(altered, read_first[-1])
    assert any(row.first_timer for row in read_first)


def test_a_verdict_on_the_first_row_leaves_the_order_of_the_others_as_it_was(altered: Result) -> None:
    for _ in range(TURN):
        first, *others = (row.uri for row in needing_review(altered))
        with altered.store.write() as txn:
            txn.execute("update pull_requests set state = 'closed' where pull_uri = ?", [first])
            txn.execute("delete from current_decisions where pull_uri = ?", [first])
        assert [row.uri for row in needing_review(altered)] == others


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
    called = all_rows(played)[0]
    for words in (called.label, called.label[-5:], f"{called.repository_name} {called.label[-5:]}"):
        assert [row.uri for row in all_rows(played, QueueQuery(text=words))] == [called.uri], words
    key = world.watched["driftwood"]
    assert {row.repository_key for row in all_rows(played, QueueQuery(repository=key))} == {key}
    assert all(row.own for row in all_rows(played, QueueQuery(bucket="own")))
    narrowed = played.queue(QueueQuery(text="nothing %_' is called so", bucket="needs_human"))
    assert narrowed.groups == ()
    assert sum(narrowed.counts.values()) == 0
    assert not all_rows(played, QueueQuery(repository="unknown"))


def test_the_text_finds_the_files_of_the_newest_round(played: Result) -> None:
    touching = (
        "select t.pull_uri, t.paths[1] as path from touched_files t semi join pull_requests using (pull_uri, patch_ref)"
    )
    rows, paths = all_rows(played), {row["pull_uri"]: row["path"] for row in played.rows(touching)}
    path = next(paths[row.uri] for row in rows if row.uri in paths)
    found = {row.uri for row in all_rows(played, QueueQuery(text=path.upper()))}
    assert found == {row.uri for row in rows if paths.get(row.uri) == path}


def test_the_counts_follow_repository_and_text_and_no_bucket(played: Result, world: World) -> None:
    for query in (
        QueueQuery(repository=world.watched["driftwood"]),
        QueueQuery(text="tidepo"),
        QueueQuery(since=all_rows(played)[0].opened_at),
        QueueQuery(text="mara"),
    ):
        whole, narrowed = played.queue(query), played.queue(replace(query, bucket="needs_human"))
        totals = {group.key: group.total for group in whole.groups}
        assert totals
        assert narrowed.counts == whole.counts == {lane: totals.get(lane, 0) for lane in LANE_KEYS}
        assert narrowed.own_count == whole.own_count == totals.get("own", 0)


def test_what_is_counted_as_new_is_what_the_list_of_the_new_shows(played: Result) -> None:
    moments = sorted(row.opened_at for row in all_rows(played))
    for moment in (moments[0], moments[len(moments) // 2], moments[-1]):
        shown = all_rows(played, QueueQuery(since=moment))
        assert [row for row in shown if row.own or row.opened_at < moment] == []
        with played.reading() as rows:
            assert read.opened_since(rows, moment) == len(shown)


def test_a_handle_that_is_not_proven_finds_and_names_nobody(played: Result, world: World) -> None:
    teo = world.cast["teo"]
    drifter = next(row for row in all_rows(played) if row.author.did == world.cast["drifter"])
    assert drifter.author.name.startswith("did:plc:")
    assert {row.author.did for row in all_rows(played, QueueQuery(text="teo.example"))} == {teo}


DECIDED_BEFORE = """
select p.pull_uri from pull_requests p join pull_requests o using (author_id, repository_id)
where o.state in ('merged', 'closed') and o.state_at >= o.opened_at and o.state_at < p.opened_at
"""


def test_first_timers_and_regulars_are_everybody_in_the_queue_who_may_not_push(played: Result) -> None:
    with played.reading() as rows:
        newcomers, regulars = read.fares(rows)
        answers = read.answers(rows, rows.value("select max(as_of) from current_scores"))
        known = {row["pull_uri"] for row in rows.rows(DECIDED_BEFORE)}
    assert known, "somebody comes back"
    shown = [row for group in played.queue().groups if group.key != "own" for row in group.rows]
    for fare, waiting in zip((newcomers, regulars), answers, strict=True):
        its = [row for row in shown if (row.uri not in known) == fare.first_timers]
        assert fare.open == len(its) == waiting.waiting + waiting.heard, "one card has one meaning of the word"
        fast = fare.lanes["fast_lane"] + fare.lanes["would_be_fast_lane"]
        assert fast == sum(row.verdict.lane is Lane.FAST_LANE for row in its)
        assert fare.oldest_opened_at == min(row.opened_at for row in its)
        assert fare.median_opened_at in {row.opened_at for row in its}
        assert fare.decided > 0
        assert fare.median_days is not None
    assert (newcomers.first_timers, regulars.first_timers) == (True, False)
