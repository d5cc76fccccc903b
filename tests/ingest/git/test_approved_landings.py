"""From an approval over the maintainer's own clone to the target branch: with real git, as people merge."""

from datetime import datetime, timedelta

import pytest

from ingest.git.patches import patch_id
from scoring.diff.mailbox import MailSource, write_mailbox
from scoring.handlers.actions import ActionMessage, apply_action
from scoring.pipeline.interventions import settle_approvals
from tests.ingest.git.git_world import OWNER, TEXT, Place, Work
from tests.scoring.diff.hidden_mails import INSTALL, ways

SOURCE = MailSource("did:plc:" + "m" * 24, "mara.example", "Mend the lamp", datetime(2026, 3, 1))


def approve(place: Place, uri: str) -> str:
    """The owner approves what stands; returns its patch-id."""
    (seen,) = place.rows(
        "select p.record_cid, p.round, t.patch_id from pull_requests p join patches t using (pull_uri, patch_ref) "
        "where p.pull_uri = ?",
        uri,
    )
    told = ActionMessage(
        "approve", None, "", uri, OWNER, seen["record_cid"], seen["round"], seen["patch_id"], None, place.present
    )
    assert apply_action(place.store, "one", told, place.present)
    return seen["patch_id"]


def state(place: Place) -> str:
    settle_approvals(place.store, place.present)
    (row,) = place.rows("select state from approvals")
    return row["state"]


@pytest.mark.parametrize("changes", [1, 2])
def test_what_git_am_makes_of_the_approved_mails_is_found_as_merged_as_approved(
    work: Work, place: Place, changes: int
) -> None:
    steps = [("One", {"a.txt": "new\n" + TEXT}), ("Two", {"b.txt": TEXT + "end\n"})][:changes]
    mails = work.offer("HEAD", steps)
    pull = place.offer(mails)
    place.present += timedelta(hours=1)
    approved = approve(place, pull)
    place.look()
    assert state(place) == "in force"
    assert patch_id(mails.decode()) == approved
    work.am(write_mailbox(mails.decode(), approved, SOURCE).encode())
    place.land()
    assert state(place) == "merged as approved"


def test_another_round_on_the_target_branch_is_found_as_something_else(work: Work, place: Place) -> None:
    old = work.offer("HEAD", [("Fix", {"a.txt": "old\n" + TEXT})])
    new = work.offer("HEAD", [("Fix", {"a.txt": "new\n" + TEXT})])
    pull = place.offer(old)
    place.present += timedelta(hours=1)
    place.revise(pull, new, 1)
    place.look()
    approve(place, pull)
    work.am(old)
    place.land()
    assert state(place) == "merged something else"


@pytest.mark.parametrize("way", ways())
def test_a_merge_that_may_have_brought_a_hidden_mail_is_not_merged_as_approved(
    work: Work, place: Place, way: str
) -> None:
    mails = work.offer("HEAD", [("Fix", {"a.txt": "new\n" + TEXT})]) + ways()[way].encode()
    pull = place.offer(mails)
    place.present += timedelta(hours=1)
    place.look()
    approve(place, pull)
    work.am(mails)
    assert (work.folder / "install.sh").read_text() in INSTALL.replace("\n+", "\n")
    place.land()
    assert state(place) == "merged something else"
    assert place.rows("select reason from approvals") == [{"reason": "not_read"}]
    assert state(place) == "merged something else"


def test_a_later_round_with_the_same_patch_and_a_hidden_mail_is_not_merged_as_approved(
    work: Work, place: Place
) -> None:
    mails = work.offer("HEAD", [("Fix", {"a.txt": "new\n" + TEXT})])
    pull = place.offer(mails)
    place.present += timedelta(hours=1)
    place.look()
    approve(place, pull)
    place.revise(pull, mails + ways()["a tab"].encode(), 1)
    work.am(mails + ways()["a tab"].encode())
    place.land()
    assert state(place) == "merged something else"
