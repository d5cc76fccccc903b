"""Past decisions: each is kept once with all that it was made from, and comes out again from that."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.records.watched import watch_everything
from ingest.store.database import StreamClock
from scoring.gate.decide import NOTABLE, differ_notably, judge_inputs, read_inputs
from scoring.pipeline.stored import reason_codes
from scoring.queries.past_decisions import judge_again, replay_decision, why_json, why_lines
from tests.conftest import Count, simulated_network
from tests.ingest.stream.frames import MARA, SEED, Frames, at
from tests.pipeline import OPEN_LANE, Result, opened
from tests.scoring.offered import CLEAN, offer
from tests.scoring.small import OFFERED, again, settled, take
from trustsite.standins import StandIns
from trustsite.standins.recording import open_recording

DECISIONS = "select * from scores where pull_uri is not null order by data_version, as_of"
SHOWN = "select pull_uri, as_of, lane, record_cid, round, patch_id, reasons from current_decisions"
Shown = dict[str, Any]


@dataclass(frozen=True)
class Played:
    """The end of a replay, and every row that the queue showed on the way."""

    result: Result
    shown: list[Shown]


@pytest.fixture(scope="module", name="played")
def played_fixture(tmp_path_factory: pytest.TempPathFactory, prove: bool, shared: Path) -> Iterator[Played]:
    """The simulated network in stages; at full counts the real history of four projects, with patches and reviews."""
    recording = open_recording(shared / "data" / "replay") if prove else simulated_network().recording
    frames, stages = recording.frames, 60 if prove else 3
    with StandIns(recording) as peers, opened(tmp_path_factory.mktemp("played"), OPEN_LANE) as result:
        result.peers = peers if prove else None  # the scanners take 15 s for the simulated network
        played = Played(result, [])
        for stage in range(stages):
            result.play(frames[len(frames) * stage // stages : len(frames) * (stage + 1) // stages])
            watch_everything(result.store, StreamClock(result.store).now())
            result.play(())
            result.judge()
            played.shown.extend(result.rows(SHOWN))
        yield played


def test_every_decision_of_a_replay_comes_out_again_from_what_it_kept(played: Played, count: Count) -> None:
    decisions = played.result.rows(DECISIONS)
    assert len(decisions) >= count(60, 1_000)
    replayed = [judge_again(row) for row in decisions]
    assert [found.row["score_id"] for found in replayed if not found.is_same] == []
    assert all(found.same_rules for found in replayed)
    assert len({found.told.lane for found in replayed}) > 1


def test_what_the_queue_showed_at_any_moment_is_what_was_in_force_then(played: Played) -> None:
    last = {(row["pull_uri"], row["as_of"]): row for row in played.shown}
    with played.result.reading() as rows:
        for (uri, moment), row in last.items():
            found = replay_decision(rows, uri, moment)
            assert found is not None
            assert found.is_same
            told = [found.row[name] for name in ("lane", "record_cid", "round", "patch_id")]
            assert told == [row[name] for name in ("lane", "record_cid", "round", "patch_id")]
            assert reason_codes(found.row["reasons"]) == reason_codes(row["reasons"])


def test_nothing_is_decided_twice_in_a_row_from_the_same_inputs(played: Played) -> None:
    last: dict[str, tuple[object, ...]] = {}
    for row in played.result.rows(DECISIONS):
        judged = (row["record_cid"], row["round"], row["patch_id"], row["inputs"])
        assert last.get(row["pull_uri"]) != judged
        last[row["pull_uri"]] = judged


def test_a_pass_over_the_same_inputs_writes_no_row(result: Result) -> None:
    take(result, settled("open"), at(10))
    before = result.rows("select score_id from scores order by 1")
    for minutes in (1, 2):
        again(result, at(10) + timedelta(minutes=minutes))
    assert result.rows("select score_id from scores order by 1") == before


def test_the_same_events_give_decisions_of_the_same_ids(tmp_path: Path) -> None:
    ids = []
    for name in ("one", "other"):
        with opened(tmp_path / name) as result:
            take(result, settled("open"), at(10))
            frames = Frames(settled("open"))
            frames.vouch(SEED, MARA)
            take(result, frames, at(11))
            ids.append([row["score_id"] for row in result.rows(DECISIONS)])
    assert ids[0] == ids[1]
    assert len(ids[0]) == 2


def test_a_vouch_that_is_taken_back_leaves_three_decisions_and_the_last_one_in_force(result: Result) -> None:
    frames = settled("open")
    take(result, frames, at(10))
    frames.vouch(SEED, MARA)
    take(result, frames, at(11))
    frames.delete(SEED, "sh.tangled.graph.vouch", MARA)
    take(result, frames, at(12))
    decisions = result.rows(DECISIONS)
    assert decisions[0]["inputs"] == decisions[2]["inputs"]
    assert len({row["score_id"] for row in decisions}) == 3
    with result.reading() as rows:
        for hour, row in zip((10, 11, 12), decisions, strict=True):
            found = replay_decision(rows, OFFERED, at(hour))
            assert found is not None
            assert found.row["score_id"] == row["score_id"]
        assert replay_decision(rows, OFFERED, at(9)) is None


def test_a_reopened_pull_request_of_the_same_inputs_is_not_decided_again(result: Result) -> None:
    frames = settled("open")
    take(result, frames, at(10))
    frames.status(MARA, OFFERED, "closed")
    take(result, frames, at(11))
    assert result.pull(OFFERED) is None
    frames.status(MARA, OFFERED, "open")
    take(result, frames, at(12))
    assert result.pull(OFFERED) is not None
    assert len(result.rows(DECISIONS)) == 1


def test_a_review_and_a_new_round_each_lead_to_a_fresh_decision_that_names_what_it_judged(result: Result) -> None:
    take(result, settled("open"), at(10))
    offer(result)
    again(result, at(11))
    result.review()
    again(result, at(12))
    offer(result, CLEAN.replace("print(2)", "print(3)"), ref="blob:two")
    again(result, at(13))
    first, offered, reviewed, second = result.rows(DECISIONS)
    assert [row["content_risk"] is None for row in (first, offered, reviewed, second)] == [True, True, False, True]
    assert first["patch_id"] is None
    assert offered["patch_id"] == reviewed["patch_id"] != second["patch_id"]
    assert read_inputs(reviewed["inputs"]).review_version


def test_what_was_decided_by_other_rules_is_told_apart_and_fails(result: Result) -> None:
    take(result, settled("open"), at(10))
    row = result.rows(DECISIONS)[0]
    changed = msgspec.json.decode(row["inputs"]) | {"gate_version": "of old"}
    changed["evidence"]["denounced_by_seed"] = True
    found = judge_again(row | {"inputs": msgspec.json.encode(changed).decode()})
    assert not found.is_same
    assert why_lines(found)[-1].endswith("The rules have changed since.")
    assert why_json(found)["is_same"] is False


def test_a_decision_of_a_version_that_kept_no_inputs_is_shown_and_cannot_be_judged_again(result: Result) -> None:
    take(result, settled("open"), at(10))
    found = judge_again(result.rows(DECISIONS)[0] | {"inputs": None})
    assert not found.is_same
    assert "cannot be judged again" in why_lines(found)[-1]


def test_inputs_without_the_fields_that_came_later_are_read(result: Result) -> None:
    take(result, settled("open"), at(10))
    whole = msgspec.json.decode(result.rows(DECISIONS)[0]["inputs"])
    old = {name: whole[name] for name in ("evidence", "content", "circumstances", "thresholds", "prior", "strength")}
    inputs = read_inputs(msgspec.json.encode(old).decode())
    assert judge_inputs(inputs) == judge_inputs(read_inputs(msgspec.json.encode(whole).decode()))


@given(st.floats(0, 1), st.floats(0, 1))
def test_only_a_figure_that_moves_by_half_a_point_is_notable(one: float, other: float) -> None:
    differs = differ_notably({"a": [one], "settled": 1}, {"a": [other], "settled": 2})
    assert differs is (abs(one - other) >= NOTABLE)


@pytest.mark.parametrize("after", [{"a": 2}, {"a": None}, {}, {"a": 1, "b": False}, {"a": [1]}])
def test_anything_else_that_differs_is_notable(after: object) -> None:
    assert differ_notably({"a": 1}, after)
    assert not differ_notably(after, after)
