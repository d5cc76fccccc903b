"""The scoring hop: when it works, what it writes, and that a repetition changes nothing."""

from datetime import timedelta
from pathlib import Path

import pytest

import scoring.score
from ingest.digest import digest
from scoring.gate import Thresholds
from scoring.policy import Policy
from tests.ingest.stream import ANA, MALLORY, MARA, REPO, SEED, Frames, at, pull_uri
from tests.pipeline import Result, opened
from tests.scoring.offered import offer
from tests.scoring.small import DAY, MERGED_AT, OFFERED, again, feed, settled, take

TABLES = ("scores", "current_scores", "current_decisions")


def sizes(result: Result) -> list[int]:
    return [result.value(f"select count(*) from {table}") for table in TABLES]


def test_without_anything_to_judge_nothing_is_written(result: Result) -> None:
    assert result.judge() == 0
    assert sizes(result) == [0, 0, 0]


def test_a_second_pass_finds_nothing_to_do(result: Result) -> None:
    assert take(result, settled("open")) == 2
    before = sizes(result)
    assert result.judge() == 0
    assert sizes(result) == before


def test_history_grows_only_where_something_of_substance_changed(result: Result) -> None:
    take(result, settled("open"), at(10))
    first = result.value("select count(*) from scores")
    again(result, at(10) + timedelta(hours=3))
    assert result.value("select count(*) from scores") == first
    frames = Frames(settled("open"))
    frames.vouch(SEED, MARA)
    take(result, frames, at(10) + timedelta(hours=4))
    new = result.rows("select contributor_id, repository_id, pull_uri, reasons from scores order by as_of")[first:]
    assert [row["pull_uri"] for row in new].count(OFFERED) == 1
    assert {row["contributor_id"] for row in new} == {
        result.value("select contributor_id from contributors where did = ?", [MARA])
    }
    assert all("trust_path" in row["reasons"] for row in new)


def test_the_current_rows_are_always_of_the_newest_pass(result: Result) -> None:
    take(result, settled("open"), at(10))
    again(result, at(10) + 5 * DAY)
    for table in TABLES[1:]:
        assert result.rows(f"select distinct as_of from {table}") == [{"as_of": at(10) + 5 * DAY}]
    assert result.score(MARA).as_of == at(10) + 5 * DAY


def test_a_pass_that_died_before_its_commit_leaves_nothing_and_is_repeated_once(
    result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = scoring.score._replace

    def die(txn: object, table: str, rows: object) -> None:
        if table == "current_decisions":
            raise KeyboardInterrupt
        replace(txn, table, rows)  # ty: ignore[invalid-argument-type]

    with monkeypatch.context() as broken:
        broken.setattr(scoring.score, "_replace", die)
        with pytest.raises(KeyboardInterrupt):
            take(result, settled("open"))
    assert sizes(result) == [0, 0, 0]
    assert result.judge() == 2
    assert sizes(result) == [4, 3, 1]
    assert result.value("select count(distinct (pull_uri, contributor_id, repository_id)) from scores") == 4
    assert result.judge() == 0


def test_what_arrives_while_a_pass_is_under_way_waits_for_the_next(
    result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = settled("open")
    late = len(frames)
    frames.pull(MALLORY, "late")
    read = scoring.score.names

    def arrive(rows: object) -> dict[int, str]:
        feed(result, frames[late:])
        return read(rows)  # ty: ignore[invalid-argument-type]

    with monkeypatch.context() as busy:
        busy.setattr(scoring.score, "names", arrive)
        assert take(result, frames[:late]) == 2
    assert result.pull(pull_uri(MALLORY, "late")) is None
    assert result.judge() == 3, "the position is that of the inputs which the pass began with"
    assert result.pull(pull_uri(MALLORY, "late")) is not None


def test_a_reopened_pull_request_is_judged_and_a_settled_one_leaves_the_queue(result: Result) -> None:
    take(result, settled("closed"))
    assert result.pull(OFFERED) is None
    frames = Frames(settled("closed"))
    frames.status(SEED, OFFERED, "open")
    take(result, frames)
    assert result.pull(OFFERED) is not None


def test_the_same_world_gives_the_same_rows_whatever_numbers_people_got(tmp_path: Path) -> None:
    frames = settled()
    for voucher, subject in ((SEED, ANA), (ANA, MARA), (SEED, MALLORY), (MALLORY, MARA)):
        frames.vouch(voucher, subject)
    frames.pull(ANA, "second")
    digests = []
    for name, first in (("one", ()), ("other", (MALLORY, MARA, ANA, SEED))):
        with opened(tmp_path / name) as result:
            with result.store.write() as txn:
                txn.person_ids(first)
            take(result, frames, MERGED_AT + 20 * DAY)
            with result.reading() as rows:
                digests.append(digest(rows))
    differing = {table for table in digests[0] if digests[0][table] != digests[1][table]}
    assert differing <= {"ingest_state"}
    numbers = ("features", "trust", "seeds", "labels", "current_scores", "current_decisions")
    assert set(numbers) <= set(digests[0])


def test_a_threshold_is_stored_with_what_it_decided(tmp_path: Path) -> None:
    with opened(tmp_path, Policy(thresholds=Thresholds(t_high=0.6))) as result:
        frames = settled()
        frames.vouch(SEED, MARA)
        frames.pull(MARA, "next")
        take(result, frames, MERGED_AT + 20 * DAY)
        offer(result, uri=pull_uri(MARA, "next"))
        result.review()
        again(result, MERGED_AT + 20 * DAY)
        row = result.pull(pull_uri(MARA, "next"))
        assert row is not None
        estimate = row.verdict.estimate
        assert (str(row.verdict.lane), estimate.probability) == ("fast_lane", pytest.approx((0.53 * 5 + 1) / 6))
        assert result.value("select probability_bp from current_decisions") == 6083
        assert '"t_high":0.6' in result.value("select thresholds from current_decisions")
        assert row.repository_key == REPO
