"""The scoring hop: when it works, what it writes, and that a repetition changes nothing."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import scoring.pipeline.score
from ingest.records.watched import watch_everything
from ingest.store.database import StreamClock
from ingest.store.digest import digest
from ingest.store.transaction import Rows
from scoring.config.policy import Policy
from scoring.thresholds import Thresholds
from scoring.types import Evidence, Pair, Verdict
from tests.conftest import Count
from tests.ingest.stream.frames import ANA, MALLORY, MARA, REPO, SEED, Frames, at, pull_uri
from tests.pipeline import OPEN_LANE, Result, opened
from tests.scoring.offered import end_lookups, offer
from tests.scoring.small import DAY, MERGED_AT, OFFERED, again, feed, settled, take
from tests.standins.load import bulk

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


def test_a_pass_that_died_before_its_last_commit_decided_nothing_and_is_repeated_once(
    result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(scoring.pipeline.score, "_replace_decisions", die)
        with pytest.raises(KeyboardInterrupt):
            take(result, settled("open"))
    assert sizes(result) == [3, 3, 0], "people are written in groups before"
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
    read = scoring.pipeline.score.read_evidence

    def arrive(rows: Rows, pairs: set[Pair]) -> dict[Pair, Evidence]:
        feed(result, frames[late:])
        return read(rows, pairs)

    with monkeypatch.context() as busy:
        busy.setattr(scoring.pipeline.score, "read_evidence", arrive)
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
    with opened(tmp_path, OPEN_LANE) as result:
        frames = settled()
        frames.vouch(SEED, MARA)
        frames.pull(MARA, "next")
        take(result, frames, MERGED_AT + 20 * DAY)
        offer(result, uri=pull_uri(MARA, "next"))
        end_lookups(result)
        result.review()
        again(result, MERGED_AT + 20 * DAY)
        row = result.pull(pull_uri(MARA, "next"))
        assert row is not None
        estimate = row.verdict.estimate
        assert (str(row.verdict.lane), estimate.probability) == ("fast_lane", pytest.approx((0.53 * 5 + 1) / 6))
        assert result.value("select probability_bp from current_decisions") == 6083
        assert '"t_high":0.6' in result.value("select thresholds from current_decisions")
        assert row.repository_key == REPO


def test_passes_after_each_stage_leave_what_one_pass_over_everything_leaves(tmp_path: Path, count: Count) -> None:
    recording = bulk(count(40, 400), count(80, 1_000))
    frames, stages, digests = recording.frames, 6, []
    for name, ends in (("stages", [len(frames) * n // stages for n in range(1, stages + 1)]), ("once", [len(frames)])):
        with opened(tmp_path / name) as result:
            before = 0
            for end in ends:
                feed(result, frames[before:end])
                watch_everything(result.store, StreamClock(result.store).now())
                result.judge()
                before = end
            with result.reading() as rows:
                digests.append(digest(rows))
    assert {table for table in digests[0] if digests[0][table] != digests[1][table]} <= {"ingest_state"}


def test_a_pass_judges_only_those_whom_something_touched(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    judge, judged = scoring.pipeline.score.judge, list[Evidence]()

    def counted(evidence: Evidence, *rules: Any) -> Verdict:
        judged.append(evidence)
        return judge(evidence, *rules)

    monkeypatch.setattr(scoring.pipeline.score, "judge", counted)
    frames = settled("open")
    frames.pull(MALLORY, "other")
    take(result, frames, at(10))
    assert judged
    judged.clear()
    again(result, at(11))
    assert judged == []
    frames.vouch(SEED, MARA)
    take(result, frames, at(12))
    assert judged
    assert all(one.structural_trust > 0 for one in judged), "of mallory, whom nobody vouches for, nothing changed"


def test_other_settings_or_rules_judge_everyone_anew(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    take(result, settled("open"), at(10))
    assert result.judge() == 0
    result.policy = Policy(thresholds=Thresholds(t_low=0.2))
    assert result.judge() == 2
    assert result.judge() == 0
    monkeypatch.setattr(scoring.pipeline.score, "GATE_VERSION", "newer")
    assert result.judge() == 2
    assert result.judge() == 0
