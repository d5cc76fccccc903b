"""Outcomes that became known after a certificate was made are added to it by files of their own."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingest.store.transaction import Rows
from scoring.certificates.certificate import (
    Certificate,
    LaterOutcome,
    Side,
    case_name,
    load_certificate,
    to_seconds,
    write_certificate,
)
from scoring.certificates.in_force import LaneOutcome
from scoring.certificates.issue import add_later_outcomes, certify
from scoring.certificates.verify import compare_with_store, differences, differences_to_previous, write_successors
from scoring.config.repository import DEFAULTS
from scoring.pipeline.lane_thresholds import read_outcomes
from tests.pipeline import Result, prepared
from tests.scoring import small
from tests.scoring.certificates.certified_cases import TERMS
from tests.scoring.certificates.certified_cases import settled as certified_cases
from tests.scoring.small import DAY, MERGED_AT, OFFERED, settled

QUIET = MERGED_AT + 14 * DAY  # mined clean from here on
MADE = (MERGED_AT + DAY).replace(microsecond=0)
NOW = QUIET + DAY
LONG = MADE - 99 * DAY  # before anything that is judged here


def one_merged(result: Result) -> None:
    small.take(result, settled(), NOW)


@pytest.fixture
def merged(tmp_path: Path) -> Iterator[Result]:
    """Mara's pull request, merged and quiet for its window."""
    with prepared(tmp_path / "store", one_merged) as result:
        yield result


def certificate(side: Side = "high", **changes: Any) -> Certificate:
    """One that was made the day after mara's was merged."""
    shift = np.datetime64(MADE, "us") - np.datetime64("2026-03-10T12:30:00", "us")
    columns = certified_cases()
    moved = replace(columns, opened_at=columns.opened_at + shift, **changes)
    return certify(moved, replace(TERMS, side=side, label="label_clean"), {}, MADE)


def answer(result: Result, key: str, would_merge: bool, known_from: datetime, uri: str = OFFERED) -> None:
    row = {"audit_key": key, "pull_uri": uri, "repository_id": 1, "record_cid": None, "round": 0, "patch_id": None}
    told = {"odds": 0.25, "drawn_at": MADE, "would_merge": would_merge, "because": "", "actor_id": None}
    with result.store.write() as txn:
        txn.append("audits", [row | told | {"answered_at": known_from, "known_from": known_from}])


def flag(result: Result) -> None:
    """A low P(clean) had sent mara's pull request to a person."""
    with result.store.write() as txn:
        txn.execute(
            "insert into scores select * replace ('flagged' as score_id, ? as pull_uri, 'needs_human' as lane, "
            """'[{"code":"low_probability","params":{}}]' as reasons, ?::timestamp as as_of) from scores limit 1""",
            [OFFERED, MERGED_AT],
        )


def written(result: Result, folder: Path, now: datetime) -> list[Path]:
    with result.store.read() as rows:
        return write_successors(rows, folder, 14, now)


def test_an_audited_outcome_makes_a_successor_and_the_next_one_a_link_more(merged: Result, tmp_path: Path) -> None:
    first = certificate()
    kept = write_certificate(tmp_path, first)
    assert written(merged, tmp_path, MADE + 9 * DAY) == [], "nothing became known"
    answer(merged, "before", True, MADE - DAY, "at://before")  # it is in the certificate already
    answer(merged, "one", False, MADE + DAY)
    answer(merged, "two", True, MADE + 2 * DAY)  # on another round: the first answer counts
    (path,) = written(merged, tmp_path, MADE + 9 * DAY)
    more = load_certificate(path)
    assert more.later == (LaterOutcome(case_name(MADE, OFFERED), to_seconds(MADE + DAY), 1.0, 0.25),)
    assert (more.previous, differences_to_previous(more, first)) == (kept.stem, [])
    assert differences(path.read_bytes(), path.stem, MADE + 9 * DAY) == []
    assert written(merged, tmp_path, MADE + 20 * DAY) == [], "each outcome is added once"
    answer(merged, "three", True, MADE + 10 * DAY, "at://other")
    (next_path,) = written(merged, tmp_path, MADE + 20 * DAY)
    last = load_certificate(next_path)
    assert (len(last.later), differences_to_previous(last, more)) == (2, [])
    with merged.store.read() as rows:
        assert compare_with_store(rows, last, 14, MADE + 20 * DAY) == ([], 0)


def test_within_a_week_of_the_newest_outcome_and_after_it_expired_nothing_is_written(
    merged: Result, tmp_path: Path
) -> None:
    write_certificate(tmp_path, certificate())
    answer(merged, "one", True, MADE + DAY)
    assert written(merged, tmp_path, MADE + 6 * DAY) == []
    assert written(merged, tmp_path, MADE + timedelta(days=90)) == []
    assert len(written(merged, tmp_path, MADE + 8 * DAY)) == 1
    answer(merged, "two", True, MADE + 9 * DAY, "at://other")
    assert written(merged, tmp_path, MADE + timedelta(days=91)) == []


def test_of_t_low_the_outcomes_of_what_it_sent_to_a_person_are_added(merged: Result, tmp_path: Path) -> None:
    write_certificate(tmp_path, certificate("low"))
    answer(merged, "one", False, MADE + DAY)  # the fast lane's, not this one's
    assert written(merged, tmp_path, NOW) == []
    flag(merged)
    (path,) = written(merged, tmp_path, NOW)
    added = LaterOutcome(case_name(MADE, OFFERED), to_seconds(QUIET), 0.0, 1.0)
    assert load_certificate(path).later == (added,)
    with merged.store.read() as rows:
        forged = load_certificate(path)
        assert compare_with_store(rows, forged, 14, NOW) == ([], 0)


def test_an_outcome_that_was_turned_round_is_found(merged: Result, tmp_path: Path) -> None:
    answer(merged, "one", False, MADE + DAY)
    row = LaterOutcome(case_name(MADE, OFFERED), to_seconds(MADE + DAY), 0.0, 0.25)
    forged = add_later_outcomes(certificate(), "00" * 32, [row])
    with merged.store.read() as rows:
        (found,), _ = compare_with_store(rows, forged, 14, NOW)
    assert found.endswith("is not what the store says.")


def clean_outcomes(rows: Rows, number: int, since: datetime | None) -> tuple[LaneOutcome, ...]:
    return read_outcomes(rows, "", {number: DEFAULTS}, 50, NOW, since).repositories[number].clean


def test_clean_work_counts_against_t_low_where_its_author_had_a_record(merged: Result) -> None:
    (number,) = (row["repository_id"] for row in merged.rows("select repository_id from labels"))
    flag(merged)
    with merged.store.read() as rows:
        assert clean_outcomes(rows, number, MADE) == (), "it was her first"
    with merged.store.write() as txn:
        txn.execute("update labels set known_from = known_from - interval 99 day")
        txn.execute(
            "insert into labels select * replace (? as pull_uri, known_from + interval 99 day as known_from) "
            "from labels",
            ["at://second"],
        )
        txn.execute("insert into pull_requests select * replace (? as pull_uri) from pull_requests", ["at://second"])
    with merged.store.read() as rows:
        assert clean_outcomes(rows, number, MADE) == (LaneOutcome(QUIET, False),)
        assert clean_outcomes(rows, number, None) == ()


def test_of_what_the_fast_lane_let_through_only_answers_count_against_t_low_and_for_as_many_as_their_odds_say(
    merged: Result,
) -> None:
    (number,) = (row["repository_id"] for row in merged.rows("select repository_id from labels"))
    with merged.store.write() as txn:
        txn.execute(
            "insert into labels select * replace ('at://first' as pull_uri, ? as known_from) from labels", [LONG]
        )
        txn.execute(
            "insert into scores select * replace ('waved' as score_id, ? as pull_uri, 'fast_lane' as lane) "
            "from scores limit 1",
            [OFFERED],
        )
    with merged.store.read() as rows:
        assert clean_outcomes(rows, number, MADE) == (), "that nobody complained says nothing"
    answer(merged, "one", True, MADE + DAY)
    with merged.store.read() as rows:
        assert clean_outcomes(rows, number, MADE) == (LaneOutcome(MADE + DAY, False, 4.0),)
    with merged.store.write() as txn:
        txn.execute("update audits set would_merge = false")
    with merged.store.read() as rows:
        assert clean_outcomes(rows, number, MADE) == (), "it was not clean"
