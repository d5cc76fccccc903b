"""Labels, windows and features: what counts, from when, and in whose word."""

from datetime import datetime, timedelta

import pytest

from tests.ingest.stream.frames import ANA, MALLORY, MARA, PULL, REPO, SEED, Frames, at, pull_uri
from tests.pipeline import Result
from tests.scoring.small import DAY, MERGED_AT, OFFERED, again, counts, settled, take

MICROSECOND = timedelta(microseconds=1)


def follow_up(result: Result, happened_at: datetime, known_from: datetime) -> None:
    row = {"pull_uri": OFFERED, "kind": "reverted", "happened_at": happened_at, "known_from": known_from}
    with result.store.write() as txn:
        txn.append("pull_followups", [row | {"evidence": "c0ffee"}])


def hold(result: Result, did: str, held_from: datetime | None, held_until: datetime | None = None) -> None:
    """What the knot of seed's repository said of somebody."""
    with result.store.write() as txn:
        number = txn.value("select repository_id from repositories where repo_key = ?", [REPO])
        row = {"repository_id": number, "role": "collaborator", "learned_from": "knot", "held_from": held_from}
        txn.append("push_holders", [row | {"held_until": held_until, "contributor_id": txn.person_ids([did])[did]}])


def land(result: Result, landed_at: datetime, proven: bool = True) -> None:
    row = {"pull_uri": OFFERED, "commit_id": "c0ffee", "branch": "main", "round": 0, "landed_at": landed_at}
    with result.store.write() as txn:
        txn.append("landings", [row | {"proof": "patch_id", "proven": proven, "followed": False}])


def test_a_merge_waits_for_13_days_and_counts_from_the_14th(result: Result) -> None:
    take(result, settled(), MERGED_AT + 14 * DAY - MICROSECOND)
    assert counts(result, MARA) == (0, 0, 1, 1, 1)
    assert result.score(MARA).verdict.estimate.probability is None
    again(result, MERGED_AT + 14 * DAY)
    assert counts(result, MARA) == (1, 0, 1, 1, 0)
    assert result.score(MARA).verdict.estimate.cases == 1


def test_a_window_that_closes_without_any_event_is_noticed_within_a_day(result: Result) -> None:
    take(result, settled(), MERGED_AT + 13 * DAY)
    assert result.judge(MERGED_AT + 14 * DAY - MICROSECOND) == 0
    assert result.judge(MERGED_AT + 14 * DAY) > 0
    assert counts(result, MARA) == (1, 0, 1, 1, 0)


def test_a_revert_turns_the_label_from_the_moment_it_was_known(result: Result) -> None:
    take(result, settled(), MERGED_AT + 20 * DAY)
    follow_up(result, MERGED_AT + 3 * DAY, MERGED_AT + 30 * DAY)
    again(result, MERGED_AT + 29 * DAY)
    assert counts(result, MARA) == (1, 0, 1, 1, 0)
    again(result, MERGED_AT + 30 * DAY)
    assert counts(result, MARA) == (0, 1, 1, 1, 0)
    assert result.value("select known_from from labels") == MERGED_AT + 30 * DAY


def test_an_early_revert_settles_before_the_window_ends(result: Result) -> None:
    take(result, settled(), MERGED_AT + DAY)
    follow_up(result, MERGED_AT + DAY, MERGED_AT + 2 * DAY)
    again(result, MERGED_AT + 2 * DAY)
    assert counts(result, MARA) == (0, 1, 1, 1, 0)


def test_a_fix_after_the_window_is_no_trouble(result: Result) -> None:
    take(result, settled(), MERGED_AT + DAY)
    follow_up(result, MERGED_AT + 15 * DAY, MERGED_AT + 15 * DAY)
    again(result, MERGED_AT + 40 * DAY)
    assert counts(result, MARA) == (1, 0, 1, 1, 0)


def test_a_refusal_counts_when_it_was_seen(result: Result) -> None:
    take(result, settled("closed"), at(2) - MICROSECOND)
    assert counts(result, MARA) == (0, 0, 0, 0, 0)
    again(result, at(2))
    assert counts(result, MARA) == (0, 1, 0, 1, 0)


@pytest.mark.parametrize("actor", [MARA, MALLORY])
@pytest.mark.parametrize("word", ["merged", "closed"])
def test_the_word_of_the_author_or_of_a_stranger_is_no_label(result: Result, actor: str, word: str) -> None:
    take(result, settled(word, actor), MERGED_AT + 30 * DAY)
    assert counts(result, MARA) == (0, 0, 0, 0, 0)


def test_an_own_pull_request_merged_by_oneself_is_no_label(result: Result) -> None:
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.pull(SEED, "own")
    frames.status(SEED, pull_uri(SEED, "own"), "merged")
    take(result, frames, MERGED_AT + 30 * DAY)
    assert counts(result, SEED) == (0, 0, 0, 0, 0)


@pytest.mark.parametrize(("last", "expected"), [("open", (0, 0, 0, 0, 0)), ("merged", (1, 0, 1, 1, 0))])
def test_the_last_word_of_a_push_holder_stands(result: Result, last: str, expected: tuple[int, ...]) -> None:
    frames = settled("closed")
    frames.status(SEED, OFFERED, last)
    frames.status(MARA, OFFERED, "closed")
    take(result, frames, MERGED_AT + 30 * DAY)
    assert counts(result, MARA) == expected


def test_a_status_that_its_push_holder_deleted_says_nothing(result: Result) -> None:
    frames = settled("closed")
    frames.delete(SEED, f"{PULL}.status", "status2")
    take(result, frames, MERGED_AT + 30 * DAY)
    assert counts(result, MARA) == (0, 0, 0, 0, 0)


def test_a_back_written_merge_waits_from_when_it_was_seen(result: Result) -> None:
    frames = settled("open")
    frames.status(SEED, OFFERED, "merged", rkey="offered")
    take(result, frames, at(3) + 14 * DAY - MICROSECOND)
    assert counts(result, MARA) == (0, 0, 1, 1, 1)
    again(result, at(3) + 14 * DAY)
    assert counts(result, MARA) == (1, 0, 1, 1, 0)


@pytest.mark.parametrize(("vouched", "cases"), [(False, 0), (True, 1)])
def test_a_repository_counts_where_a_seed_vouches_for_its_owner(result: Result, vouched: bool, cases: int) -> None:
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.repository(ANA, "elsewhere", repoDid="did:plc:" + "e" * 24)
    frames.pull(MARA, "there", target="did:plc:" + "e" * 24)
    frames.status(ANA, pull_uri(MARA, "there"), "merged")
    if vouched:
        frames.vouch(SEED, ANA)
    take(result, frames, MERGED_AT + 30 * DAY)
    assert result.score(MARA).verdict.estimate.cases == cases
    assert counts(result, MARA)[2:] == (0, 0, 0), "elsewhere is not here"


def test_nothing_seen_after_the_present_is_used(result: Result) -> None:
    frames = settled()
    frames.vouch(SEED, MARA)
    before = len(frames)
    frames.vouch(SEED, MARA, "update", kind="denounce")
    frames.vouch(SEED, ANA)
    frames.status(SEED, OFFERED, "closed")
    present = at(before - 1)
    take(result, frames[:before], present)
    sql = "select did, f.* from features f join contributors using (contributor_id) where did <> ? order by all"
    trust = "select did, t.* from trust t join contributors using (contributor_id) order by all"
    seen = result.rows(sql, [ANA]), result.rows(trust)
    take(result, frames[before:], present)
    assert (result.rows(sql, [ANA]), result.rows(trust)) == seen
    again(result, at(len(frames)))
    assert result.score(MARA, REPO).verdict.reasons[0].code == "denounced_by_seed"


def test_a_push_holders_own_pull_requests_are_apart_and_never_count_towards_a_certificate(result: Result) -> None:
    frames = settled("closed")
    frames.pull(SEED, "own")
    take(result, frames)
    queue = result.queue()
    assert [(group.key, group.total) for group in queue.groups] == [("own", 1)]
    assert (queue.own_count, sum(queue.counts.values())) == (1, 0)
    assert result.value("select value from meta where key = 'settled'") == "1"


@pytest.mark.parametrize("word", ["approved", "closed", "merged"])
def test_what_landed_is_a_merge_from_when_it_appeared_whatever_is_said_later(result: Result, word: str) -> None:
    take(result, settled(word))
    land(result, at(1))
    again(result, at(1) + 14 * DAY - MICROSECOND)
    assert counts(result, MARA) == (0, 0, 1, 1, 1)
    again(result, at(1) + 14 * DAY)
    assert counts(result, MARA) == (1, 0, 1, 1, 0)


@pytest.mark.parametrize("word", ["approved", "closed", "merged"])
def test_a_landing_that_proves_nothing_changes_nothing(result: Result, word: str) -> None:
    take(result, settled(word), at(40))
    before = counts(result, MARA)
    land(result, at(1), proven=False)
    again(result, at(40))
    assert counts(result, MARA) == before


def test_a_landing_is_not_known_before_it_was_seen(result: Result) -> None:
    take(result, settled("closed"), at(40))
    land(result, at(50))
    again(result, at(49))
    assert counts(result, MARA) == (0, 1, 0, 1, 0)
    again(result, at(50))
    assert counts(result, MARA) == (0, 0, 1, 1, 1)


def test_a_push_holder_who_opens_again_takes_a_landing_back(result: Result) -> None:
    take(result, settled("open"))
    land(result, at(1))
    again(result, MERGED_AT + 30 * DAY)
    assert counts(result, MARA) == (0, 0, 0, 0, 0)


def test_a_revert_counts_from_a_landing_too(result: Result) -> None:
    take(result, settled("approved"))
    land(result, at(1))
    follow_up(result, at(1) + 3 * DAY, at(1) + 4 * DAY)
    again(result, at(1) + 4 * DAY)
    assert counts(result, MARA) == (0, 1, 1, 1, 0)


@pytest.mark.parametrize(
    ("held_from", "held_until", "own"),
    [(None, None, True), (at(1), None, True), (at(2), None, False), (None, at(1), False)],
)
def test_what_its_author_could_push_alone_is_no_track_record(
    result: Result, held_from: datetime | None, held_until: datetime | None, own: bool
) -> None:
    take(result, settled("approved"))
    hold(result, MARA, held_from, held_until)
    land(result, at(1))
    again(result, MERGED_AT + 30 * DAY)
    assert counts(result, MARA) == ((0, 0, 0, 0, 0) if own else (1, 0, 1, 1, 0))


@pytest.mark.parametrize(("held_until", "cases"), [(at(2), 0), (at(3), 1), (None, 1)])
def test_a_word_counts_for_who_held_the_right_when_it_was_seen(
    result: Result, held_until: datetime | None, cases: int
) -> None:
    take(result, settled("merged", ANA))
    hold(result, ANA, at(0), held_until)
    again(result, MERGED_AT + 30 * DAY)
    assert counts(result, MARA)[0] == cases
    seeds = result.rows("select did from seeds join contributors using (contributor_id) where repository_id > 0")
    assert (ANA in {row["did"] for row in seeds}) == (held_until is None), "only who may push now is a seed"
