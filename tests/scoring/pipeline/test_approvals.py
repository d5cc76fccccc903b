"""Approvals in the store: each counts for exactly what was seen, until it is merged, changed, closed or taken back."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from scoring.handlers.actions import ActionMessage, apply_action
from scoring.pipeline.interventions import IN_FORCE, MERGED, MERGED_ELSE, read_outdated_pulls, settle_approvals
from scoring.queries import read
from tests.ingest.stream.frames import MARA, PULL, REPO, SEED, Frames, at, pull_record
from tests.pipeline import Result
from tests.scoring.pipeline.offered_world import a_new_round, learn, offered_world
from tests.scoring.small import OFFERED, settled

NOW = at(100)


@pytest.fixture
def offered(tmp_path: Path) -> Iterator[Result]:
    """Mara's open pull request with a patch that was read, and two of ana's."""
    with offered_world(tmp_path) as result:
        yield result


def newest(result: Result) -> read.Seen:
    with result.reading() as rows:
        return read.subjects(rows, [OFFERED])[OFFERED].seen


def told(result: Result, kind: str = "approve", **changes: Any) -> ActionMessage:
    """What seed did with mara's newest round."""
    seen = newest(result)
    payload: Mapping[str, Any] = {
        "kind": kind,
        "outcome": "",
        "note": "",
        "pull_uri": OFFERED,
        "person": SEED,
        "record_cid": seen.record_cid,
        "round": seen.round,
        "patch_id": seen.patch_id,
        "batch": "",
        "made_at": "2026-09-21T14:20:00+00:00",
    }
    return ActionMessage.read({**payload, **changes})


def approve(result: Result, key: str = "one", now: datetime = NOW, **changes: Any) -> bool:
    return apply_action(result.store, key, told(result, **changes), now)


def approvals(result: Result) -> list[tuple[str, str | None]]:
    return [(row["state"], row["reason"]) for row in result.rows("select * from approvals order by action_key")]


def approved(result: Result) -> list[str]:
    with result.reading() as rows:
        return [one.key for one in read.approved(rows)]


def test_an_approval_is_in_force_and_leaves_the_lanes(offered: Result) -> None:
    assert approve(offered)
    offered.judge(NOW)
    assert approvals(offered) == [("in force", None)]
    assert approved(offered) == ["one"]
    queue = offered.queue()
    assert sum(queue.counts.values()) == 2
    assert OFFERED not in {row.uri for group in queue.groups for row in group.rows}


def test_an_approval_of_ones_own_work_is_void_from_the_start(offered: Result) -> None:
    approve(offered, person=MARA)
    assert approvals(offered) == [("voided", "own")]
    assert approved(offered) == []
    a_new_round(offered)
    with offered.reading() as rows:
        assert read.changed_after(rows) == {}, "nor does it move a later round to the top"


@pytest.mark.parametrize("state", [IN_FORCE, MERGED, MERGED_ELSE])
def test_an_older_approval_of_ones_own_work_counts_nowhere_and_says_why(offered: Result, state: str) -> None:
    """As older versions took it, whatever was found on the target branch since."""
    approve(offered, person=MARA)
    landed(offered, newest(offered).patch_id)
    with offered.store.write() as txn:
        txn.execute("update approvals set state = ?, reason = null", [state])
    assert approved(offered) == [], "before any hop has run"
    assert settle_approvals(offered.store, NOW) == 1
    assert approvals(offered) == [("voided", "own")]
    assert settle_approvals(offered.store, NOW) == 0
    with offered.reading() as rows:
        (told,) = read.past_actions(rows, OFFERED)
        assert read.incident(rows, OFFERED, NOW) is None
    assert (told.state, told.reason) == ("voided", "own")


def test_the_same_key_again_changes_nothing(offered: Result) -> None:
    assert approve(offered)
    assert not approve(offered)
    assert offered.value("select count(*) from maintainer_actions") == 1


@pytest.mark.parametrize("other", [{"record_cid": "bafyother"}, {"round": 7}, {"patch_id": "0" * 64}])
def test_an_approval_that_names_another_record_round_or_patch_is_void_from_the_start(
    offered: Result, other: dict[str, Any]
) -> None:
    approve(offered, **other)
    assert approvals(offered) == [("voided", "changed_before")]
    assert approved(offered) == []


def test_a_round_that_arrives_after_an_approval_voids_it_before_any_hop_has_run(offered: Result) -> None:
    approve(offered)
    a_new_round(offered)
    assert approved(offered) == []
    with offered.reading() as rows:
        assert read_outdated_pulls(rows) == {OFFERED}
        changed = read.changed_after(rows)[OFFERED]
    assert changed.approver.did == SEED
    assert changed.seen != newest(offered)


def test_the_hop_records_the_void_once_and_gives_the_gate_work(offered: Result) -> None:
    approve(offered)
    a_new_round(offered)
    offered.judge(NOW)
    before = offered.value("select position_seq from hops where name = 'inputs'")
    assert settle_approvals(offered.store, NOW) == 1
    assert approvals(offered) == [("voided", "changed_after")]
    assert offered.value("select position_seq from hops where name = 'inputs'") == before + 1
    assert settle_approvals(offered.store, NOW) == 0


def test_what_changed_after_an_approval_is_first_in_its_group(offered: Result) -> None:
    approve(offered)
    a_new_round(offered)
    offered.judge(NOW)
    for sort in ("need", "lowest", "oldest", "newest"):
        (group,) = offered.queue(read.QueueQuery(sort=sort)).groups
        assert group.rows[0].uri == OFFERED
        assert group.total == 3


def test_an_approval_of_what_stands_now_ends_the_word_that_it_changed(offered: Result) -> None:
    approve(offered)
    a_new_round(offered)
    settle_approvals(offered.store, NOW)
    approve(offered, key="two")
    with offered.reading() as rows:
        assert read_outdated_pulls(rows) == set()
    assert approvals(offered) == [("voided", "changed_after"), ("in force", None)]


def test_a_record_edited_without_a_new_round_voids_too_since_its_target_may_have_changed(offered: Result) -> None:
    approve(offered)
    frames = Frames(settled("open"))
    record = pull_record() | {"target": {"repo": REPO, "branch": "release"}}
    frames.commit(MARA, PULL, "offered", record, "update")
    learn(offered, frames)
    assert newest(offered).round == 0
    assert approved(offered) == []


def test_a_closed_pull_request_has_no_approval_in_force(offered: Result) -> None:
    approve(offered)
    frames = Frames(settled("open"))
    frames.status(SEED, OFFERED, "closed")
    learn(offered, frames)
    assert approved(offered) == []
    settle_approvals(offered.store, NOW)
    assert approvals(offered) == [("voided", "closed")]


def test_a_release_takes_an_approval_back_and_both_stay_on_record(offered: Result) -> None:
    approve(offered)
    apply_action(offered.store, "two", told(offered, "release"), NOW)
    assert approvals(offered) == [("released", None)]
    assert approved(offered) == []
    with offered.reading() as rows:
        assert [action.kind for action in read.past_actions(rows, OFFERED)] == ["approve", "release"]


def test_a_corrected_outcome_keeps_both(offered: Result) -> None:
    for key, outcome in (("one", "clean"), ("two", "needed_fix")):
        apply_action(offered.store, key, told(offered, "outcome", outcome=outcome), NOW)
    with offered.reading() as rows:
        assert [action.outcome for action in read.past_actions(rows, OFFERED)] == ["clean", "needed_fix"]
    known = offered.rows("select known_from, made_at from maintainer_actions")
    assert {row["known_from"] for row in known} == {NOW}
    assert {row["made_at"] for row in known} == {datetime(2026, 9, 21, 14, 20)}


@pytest.mark.parametrize("wrong", [{"kind": "merge"}, {"outcome": "clean"}, {"kind": "outcome", "outcome": "great"}])
def test_a_message_that_no_form_of_ours_could_send_is_refused(offered: Result, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no action is called"):
        told(offered, **wrong)


def test_an_action_on_something_erased_leaves_nothing_and_is_not_tried_for_ever(offered: Result) -> None:
    assert not apply_action(offered.store, "one", told(offered, pull_uri=OFFERED + "x"), NOW)
    assert offered.value("select count(*) from maintainer_actions") == 0


def landed(
    result: Result,
    patch_id: str | None,
    proof: str = "patch_id",
    when: datetime | None = None,
    commit_id: str = "c0ffee",
) -> None:
    """The mirror shows a commit with this change on the target branch."""
    repository = result.value("select repository_id from repositories where repo_key = ?", [REPO])
    seen = when or NOW + timedelta(minutes=1)
    commit = {"repository_id": repository, "commit_id": commit_id, "patch_id": patch_id, "proves": True, "subject": "s"}
    times = {"authored_at": seen, "committed_at": seen, "appeared_at": seen, "absent_at": NOW}
    landing = {"pull_uri": OFFERED, "commit_id": commit_id, "branch": "main", "round": 0, "landed_at": seen}
    with result.store.write() as txn:
        txn.upsert("commits", [commit | times | {"reverts": []}])
        txn.upsert("landings", [landing | {"proof": proof, "followed": False, "proven": True}])


def test_the_approved_patch_on_the_target_branch_is_merged_as_approved(offered: Result) -> None:
    approve(offered)
    landed(offered, newest(offered).patch_id)
    settle_approvals(offered.store, NOW)
    assert approvals(offered) == [("merged as approved", None)]
    assert offered.value("select evidence from approvals") == "c0ffee"
    assert approved(offered) == []


def test_another_patch_of_the_pull_request_on_the_target_branch_is_something_else(offered: Result) -> None:
    approve(offered)
    landed(offered, "1" * 64)
    settle_approvals(offered.store, NOW)
    assert approvals(offered) == [("merged something else", None)]


def test_what_landed_before_the_approval_says_nothing_about_it(offered: Result) -> None:
    approve(offered)
    landed(offered, "1" * 64, when=NOW - timedelta(minutes=1))
    settle_approvals(offered.store, NOW)
    assert approvals(offered) == [("in force", None)]


def test_a_merge_by_the_word_of_the_forge_waits_for_the_mirror(offered: Result) -> None:
    approve(offered)
    frames = Frames(settled("open"))
    frames.status(SEED, OFFERED, "merged")
    learn(offered, frames)
    settle_approvals(offered.store, NOW)
    assert approvals(offered) == [("in force", None)]
    assert approved(offered) == [], "nobody merges it a second time"


def test_a_mirror_read_after_the_merge_without_the_approved_patch_shows_something_else_until_it_appears(
    offered: Result,
) -> None:
    approve(offered)
    frames = Frames(settled("open"))
    frames.status(SEED, OFFERED, "merged")
    learn(offered, frames)
    mirror = {"repository_id": offered.value("select repository_id from approvals"), "state": "fetched", "bytes": 1}
    with offered.store.write() as txn:
        txn.upsert("mirrors", [mirror | {"refs": "{}", "read_refs": "{}", "read_at": NOW}])
    settle_approvals(offered.store, NOW)
    assert approvals(offered) == [("merged something else", None)]
    landed(offered, newest(offered).patch_id)
    settle_approvals(offered.store, NOW)
    assert approvals(offered) == [("merged as approved", None)]


def test_a_squash_counts_only_where_its_round_had_one_patch(offered: Result) -> None:
    approve(offered)
    landed(offered, None, "squash")
    settle_approvals(offered.store, NOW)
    assert approvals(offered) == [("merged as approved", None)]


def test_a_series_is_merged_as_approved_only_when_every_mail_of_it_landed(offered: Result) -> None:
    with offered.store.write() as txn:
        txn.execute("update patches set series = ['one', 'two'] where pull_uri = ?", [OFFERED])
    approve(offered)
    landed(offered, "one", "series", commit_id="c1")
    landed(offered, "three", "series", commit_id="c2")
    settle_approvals(offered.store, NOW)
    assert approvals(offered) == [("merged something else", None)]
    landed(offered, "two", "series", commit_id="c3")
    settle_approvals(offered.store, NOW)
    assert approvals(offered) == [("merged as approved", None)]
