"""Objections in the worker's file: whose count, how long they stand, and what they do to a decision."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ingest.records.registry import DEFAULT_AUTHORITY
from scoring.explain.sentences import sentence
from scoring.pipeline.interventions import (
    is_left_out,
    read_open_objections,
    record_objections,
    write_objection,
    write_wish,
)
from scoring.queries import read
from scoring.types import Lane
from tests.ingest.stream.frames import CREATED, MALLORY, MARA, REPO, Frames
from tests.pipeline import Result, prepared
from tests.scoring.small import feed
from tests.triage.worlds.small_site import CABIN, OFFERED, frames_of_it, play

OBJECTION = f"{DEFAULT_AUTHORITY}.objection"
OPT_OUT = f"{DEFAULT_AUTHORITY}.leaderboardOptOut"
NOON = datetime(2026, 10, 1, 12)


@pytest.fixture(name="world")
def world_fixture(tmp_path: Path) -> Iterator[Result]:
    """The small world, judged; mara's pull request waits in the normal queue."""
    with prepared(tmp_path, small_world) as result:
        yield result


def small_world(result: Result) -> None:
    play(result, frames_of_it())


def told(state: str = "open", pull_uri: str | None = OFFERED, **more: Any) -> dict[str, Any]:
    due_at = NOON + timedelta(days=30)
    row = {"did": MARA, "pull_uri": pull_uri, "record_cid": None, "state": state, "made_at": NOON, "due_at": due_at}
    return row | {"answered_at": None, "repo_key": None, "by_maintainer": False} | more


def objects(world: Result, did: str, text: str = "No", operation: str = "create", **record: object) -> None:
    frames = Frames()
    frames.extend([b""] * world.value("select count(*) from events"))  # so that its revision is a later one
    sent = {"text": text, "createdAt": CREATED, **record}
    frames.commit(did, OBJECTION, "one", sent, operation)
    feed(world, frames[-1:])


def open_now(world: Result) -> set[str]:
    with world.reading() as rows:
        return set(read_open_objections(rows))


def decision(world: Result) -> tuple[Lane, str]:
    world.judge()
    row = world.pull(OFFERED)
    assert row is not None
    return row.verdict.lane, row.verdict.reasons[0].code


@pytest.mark.parametrize("pull_uri", [OFFERED, None])
def test_an_open_objection_sends_the_pull_request_to_a_person_until_it_is_answered(
    world: Result, pull_uri: str | None
) -> None:
    before = decision(world)
    write_objection(world.store, "page:1", told(pull_uri=pull_uri))
    assert decision(world) == (Lane.NORMAL_QUEUE, "objection_open")
    row = world.pull(OFFERED)
    assert row is not None
    assert row.decided_exact == "The author objects to the score"
    assert row.would_change == "An answer to the objection lifts this; then it is judged like any other."
    write_objection(world.store, "page:1", told("rejected", pull_uri, answered_at=NOON))
    assert decision(world) == before


def test_an_objection_by_record_counts_and_its_edit_after_an_answer_counts_anew(world: Result) -> None:
    objects(world, MARA, subject=OFFERED)
    assert decision(world) == (Lane.NORMAL_QUEUE, "objection_open")
    with world.reading() as rows:
        (one,) = record_objections(rows)
    assert (one.did, one.pull_uri, one.text, one.due_at - one.seen_at) == (MARA, OFFERED, "No", timedelta(days=30))
    write_objection(world.store, one.uri, told("accepted", record_cid=one.record_cid, answered_at=NOON))
    assert open_now(world) == set()
    objects(world, MARA, "Still no", "update", subject=OFFERED)
    assert open_now(world) == {OFFERED}


def test_neither_answered_ones_nor_a_heap_of_them_hides_what_a_contributor_says(world: Result) -> None:
    frames = Frames()
    frames.extend([b""] * world.value("select count(*) from events"))
    before = len(frames)
    for number in range(600):
        frames.commit(f"did:plc:{number % 30:024d}", OBJECTION, f"o{number}", {"text": "No", "createdAt": CREATED})
    feed(world, frames[before:])
    objects(world, MARA, subject=OFFERED)
    with world.reading() as rows:
        found = record_objections(rows)
    assert (len(found), found[0].did) == (500, MARA)
    write_objection(world.store, found[0].uri, told("rejected", record_cid=found[0].record_cid, answered_at=NOON))
    with world.reading() as rows:
        assert MARA not in {one.did for one in record_objections(rows)}


def test_nobody_objects_for_somebody_else(world: Result) -> None:
    objects(world, MALLORY, subject=OFFERED)
    write_objection(world.store, "page:1", told(did=MALLORY))
    assert open_now(world) == set()
    with world.reading() as rows:
        assert record_objections(rows) == ()


def test_an_objection_without_a_pull_request_is_to_every_open_one_of_its_author(world: Result) -> None:
    objects(world, MARA)
    assert open_now(world) == {OFFERED}
    objects(world, MALLORY)
    assert open_now(world) == {OFFERED}


@pytest.mark.parametrize("pull_uri", [OFFERED, None])
def test_a_maintainer_speaks_about_their_own_repository_alone_and_the_row_says_so(
    world: Result, pull_uri: str | None
) -> None:
    """The attack: a maintainer of another repository had every open pull request of a contributor held."""
    before = decision(world)
    elsewhere = told(pull_uri=pull_uri, repo_key=CABIN, by_maintainer=True)
    for key in (CABIN, "did:plc:unknown"):
        write_objection(world.store, "page:1", elsewhere | {"repo_key": key})
        assert decision(world) == before
    write_objection(world.store, "page:1", elsewhere | {"repo_key": REPO})
    assert decision(world) == (Lane.NORMAL_QUEUE, "objection_open")
    row = world.pull(OFFERED)
    assert row is not None
    assert "A maintainer objects for the author" in row.decided_exact
    assert "bject" not in row.decided + row.sentence, "others learn that a person was asked, and no more"
    assert sentence(row.verdict.reasons[0]) == (
        "A maintainer of this repository objects in the contributor's name to this judgement, so a person decides."
    )
    write_objection(world.store, "page:2", told())
    world.judge()
    row = world.pull(OFFERED)
    assert row is not None
    assert sentence(row.verdict.reasons[0]) == "The contributor objects to this judgement, so a person decides."


def listed(world: Result) -> tuple[set[str], int]:
    with world.reading() as rows:
        board = read.leaderboard(rows, "score", True, 1)
    assert board.total == len(board.rows)
    return {row.person.did for row in board.rows}, board.left_out


def test_who_wishes_to_be_left_out_stands_on_no_leaderboard_and_is_counted(world: Result) -> None:
    everybody, nobody = listed(world)
    assert MARA in everybody
    assert nobody == 0
    write_wish(world.store, MARA, True, NOON)
    assert listed(world) == (everybody - {MARA}, 1)
    write_wish(world.store, MARA, False, NOON)
    assert listed(world) == (everybody, 0)


def test_of_a_record_and_a_wish_on_a_page_the_newer_counts(world: Result) -> None:
    frames = Frames()
    frames.commit(MARA, OPT_OUT, "self", {"createdAt": CREATED})
    feed(world, frames)
    changed_at = world.value("select changed_at from declarations")
    for told_at, left_out in ((changed_at - timedelta(days=1), True), (changed_at + timedelta(days=1), False)):
        write_wish(world.store, MARA, False, told_at)
        with world.reading() as rows:
            assert is_left_out(rows, MARA) is left_out
