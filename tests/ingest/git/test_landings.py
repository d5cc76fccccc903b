"""Landings: a merge is proven by the change's arrival after it was offered, and by nothing that its author says."""

from collections.abc import Mapping
from datetime import datetime, timedelta

import pytest

from ingest.backfill.runs import begin, end, next_run
from ingest.git.patch import patch_id
from ingest.stream.early import Gap, record_gap
from scoring.diff.mailbox import MailSource, write_mailbox
from scoring.handlers.actions import ActionMessage, apply_action
from scoring.pipeline.interventions import settle_approvals
from tests.ingest.git.git_world import OWNER, TEXT, Place, Work
from tests.scoring.diff.hidden_mails import INSTALL, ways

ANA, MALLORY = "did:plc:ana22222222222222222222a", "did:plc:mallory2222222222222222a"


def change(name: str, line: int, word: str) -> dict[str, str]:
    return {name: TEXT.replace(f"line {line}\n", f"{word}\n")}


def test_a_change_that_landed_by_mail_is_proven_though_its_commit_is_another(work: Work, place: Place) -> None:
    mails = work.offer("HEAD", [("Fix", change("a.txt", 3, "three"))])
    pull = place.offer(mails)
    place.look()
    work.commit("Meanwhile", change("b.txt", 9, "nine"))
    commit = work.am(mails)
    assert place.land() == [(pull, "patch_id", True)]
    assert place.rows("select commit_id, landed_at from landings") == [
        {"commit_id": commit, "landed_at": place.present}
    ]
    assert place.land() == [(pull, "patch_id", True)]


def test_a_series_is_proven_when_each_of_its_mails_landed(work: Work, place: Place) -> None:
    mails = work.offer("HEAD", [("One", change("a.txt", 3, "x")), ("Two", {"a.txt": TEXT + "end\n"})])
    pull = place.offer(mails)
    place.look()
    first, rest = mails.split(b"\nFrom ", 1)
    work.am(first + b"\n")
    assert place.land() == []
    work.am(b"From " + rest)
    assert place.land() == [(pull, "series", True)] * 2


def test_a_squash_of_a_series_is_proven_by_applying_it(work: Work, place: Place) -> None:
    steps = [
        ("One", change("a.txt", 3, "x")),
        ("Two", {"a.txt": None, "c.txt": TEXT + "end\n"}),
        ("Three", {"c.txt": TEXT}),
    ]
    mails = work.offer("HEAD", [*steps, ("Four", {"c.txt": "new\n" + TEXT, "b.txt": "short\n"})])
    pull = place.offer(mails)
    place.look()
    work.commit("Meanwhile", {"d.txt": "d\n"})
    commit = work.commit("Squashed", {"a.txt": None, "c.txt": "new\n" + TEXT, "b.txt": "short\n"})
    assert place.land() == [(pull, "squash", True)]
    assert place.rows("select commit_id from landings") == [{"commit_id": commit}]


def test_a_merge_commit_and_a_rebase_are_proven(work: Work, place: Place) -> None:
    work.git("checkout", "-q", "-b", "fork")
    work.commit("Fork", change("a.txt", 3, "x"))
    pull = place.offer(work.patch())
    work.git("checkout", "-q", "main")
    tip = work.git("rev-parse", "fork")
    work.git("branch", "-q", "-D", "fork")
    other = work.offer("HEAD", [("Other", change("b.txt", 3, "x"))])
    second = place.offer(other)
    place.look()
    work.commit("Meanwhile", {"d.txt": "d\n"})
    work.git("merge", "-q", "--no-ff", "-m", "Merge", tip)
    work.commit("Rebased", change("b.txt", 3, "x"))
    assert place.land() == sorted([(pull, "patch_id", True), (second, "patch_id", True)])


def test_other_context_is_proven_by_applying_it(work: Work, place: Place) -> None:
    mails = work.offer("HEAD", [("Fix", change("a.txt", 3, "three"))])
    wide = mails.replace(b"@@ -1,7 +1,7 @@\n line 0\n", b"@@ -2,6 +2,6 @@\n")
    assert wide != mails
    pull = place.offer(wide)
    place.look()
    work.am(mails)
    assert place.land() == [(pull, "squash", True)]


def test_a_round_that_was_superseded_is_no_proof_and_the_newest_is(work: Work, place: Place) -> None:
    old = work.offer("HEAD", [("Fix", change("a.txt", 3, "three"))])
    new = work.offer("HEAD", [("Fix", change("a.txt", 3, "drei"))])
    pull = place.offer(old)
    place.present += timedelta(hours=1)
    place.revise(pull, new, 1)
    place.look()
    work.am(old)
    assert place.land() == [(pull, "patch_id", False)]
    work.commit("Back", {"a.txt": TEXT})
    work.am(new)
    assert (pull, "patch_id", True) in place.land()


def test_another_branch_is_no_target_and_an_absent_target_is_the_knots_own_branch(work: Work, place: Place) -> None:
    mails = work.offer("HEAD", [("Fix", change("a.txt", 3, "three"))])
    other, own = (
        place.offer(mails, branch="release"),
        place.offer(work.offer("HEAD", [("Own", change("b.txt", 3, "x"))]), branch=None),
    )
    place.look()
    work.am(mails)
    work.commit("Own", change("b.txt", 3, "x"))
    assert place.land() == [(own, "patch_id", True)]
    work.git("branch", "release")
    assert place.land() == sorted([(own, "patch_id", True), (other, "patch_id", True)])


# Attacks: none of these proves a merge.
def test_a_landed_commit_that_is_offered_again_proves_nothing(work: Work, place: Place) -> None:
    work.commit("Own", change("a.txt", 3, "three"))
    place.look()
    pull = place.offer(work.patch(), MALLORY)
    place.look()
    work.commit("Back", {"a.txt": TEXT})
    work.commit("Again", change("a.txt", 3, "three"))
    assert place.land() == [(pull, "patch_id", False)]


def test_a_copy_of_a_maintainers_branch_proves_nothing_even_rebased_or_squashed(work: Work, place: Place) -> None:
    work.git("checkout", "-q", "-b", "feature")
    start = work.git("rev-parse", "main")
    work.commit("One", change("a.txt", 3, "three"))
    work.commit("Two", {"a.txt": TEXT.replace("line 3\n", "three\n") + "end\n"})
    mails = work.patch(start)
    work.git("checkout", "-q", "main")
    place.look()
    place.offer(mails, MALLORY)
    place.look()
    work.commit("Meanwhile", {"d.txt": "d\n"})
    work.git("merge", "-q", "--squash", "feature")
    work.commit("Squashed")
    assert [proven for _, _, proven in place.land()] == [False]
    work.git("reset", "-q", "--hard", "HEAD~1")
    work.am(mails)
    assert {proven for _, _, proven in place.land()} == {False}


def feature(work: Work, *steps: Mapping[str, str | bytes | None]) -> bytes:
    """A maintainer's branch of several commits, which stays on the knot; the same change as one mail."""
    work.git("checkout", "-q", "-b", "feature")
    for number, files in enumerate(steps):
        work.commit(f"Step {number}", files)
    work.git("checkout", "-q", "--detach", "main")
    work.git("merge", "-q", "--squash", "feature")
    work.commit("All of it")
    mails = work.patch()
    work.git("checkout", "-q", "main")
    return mails


STEPS: dict[str, list[Mapping[str, str | bytes | None]]] = {
    "lines": [change("a.txt", 3, "three"), {"a.txt": TEXT.replace("line 3\n", "drei\n") + "end\n"}],
    "renamed on the way": [{"c.txt": "new\n"}, {"c.txt": None, "d.txt": "new\nnewer\n"}],
    "binary": [{"c.bin": b"\0\1"}, {"d.bin": b"\0\2", "c.bin": b"\0\3"}],
    "taken away": [{"a.txt": TEXT.replace("line 3\n", "")}, {"a.txt": TEXT.replace("line 3\nline 4\n", "")}],
}


@pytest.mark.parametrize("name", STEPS)
def test_a_maintainers_branch_of_several_commits_copied_as_one_and_squashed_later_proves_nothing(
    name: str, work: Work, place: Place
) -> None:
    mails = feature(work, *STEPS[name])
    place.offer(mails, MALLORY)
    place.look()
    work.commit("Meanwhile", {"e.txt": "e\n"})
    work.git("merge", "-q", "--squash", "feature")
    work.commit("Squashed")
    assert [proven for _, _, proven in place.land()] == [False]


def test_a_copy_of_a_branch_whose_file_was_renamed_meanwhile_proves_nothing(work: Work, place: Place) -> None:
    steps = [change("a.txt", 3, "three"), {"a.txt": TEXT.replace("line 3\n", "three\n") + "end\n"}]
    feature(work, *steps)
    work.commit("Rename", {"a.txt": None, "z.txt": TEXT})
    renamed = {"z.txt": TEXT.replace("line 3\n", "three\n") + "end\n"}
    place.offer(work.offer("HEAD", [("Copy", renamed)]), MALLORY)
    place.look()
    work.commit("Squashed", renamed)
    assert [proven for _, _, proven in place.land()] == [False]


def test_what_was_taken_back_and_comes_again_as_one_commit_is_not_the_copys(work: Work, place: Place) -> None:
    both = {"a.txt": TEXT.replace("line 3\n", "three\n") + "end\n"}
    work.commit("One", change("a.txt", 3, "three"))
    work.commit("Two", both)
    work.commit("Back", {"a.txt": TEXT})
    place.look()
    place.offer(work.offer("HEAD", [("Copy", both)]), MALLORY)
    place.look()
    work.commit("Again", both)
    assert [proven for _, _, proven in place.land()] == [False]


def test_an_own_change_is_proven_beside_branches_that_hold_some_of_its_lines(work: Work, place: Place) -> None:
    feature(work, change("a.txt", 3, "three"), {"a.txt": TEXT + "end\n"})
    own = {"a.txt": TEXT.replace("line 3\n", "three\n") + "own\n"}
    mails = work.offer("HEAD", [("Own", own)])
    pull = place.offer(mails)
    place.look()
    work.am(mails)
    assert place.land() == [(pull, "patch_id", True)]


def test_a_copy_of_somebodys_pull_request_proves_nothing_in_any_dress(work: Work, place: Place) -> None:
    mails = work.offer("HEAD", [("One", change("a.txt", 3, "x")), ("Two", change("b.txt", 5, "y"))])
    first = place.offer(mails)
    one = work.offer("HEAD", [("Both", {**change("a.txt", 3, "x"), **change("b.txt", 5, "y")})])
    copies = [place.offer(mails, MALLORY), place.offer(one, MALLORY)]
    place.look()
    work.am(mails)
    found = place.land()
    assert {pull for pull, _, proven in found if proven} == {first}
    assert {pull for pull, _, _ in found} <= {first, *copies}


def test_a_squash_of_somebodys_pull_request_is_not_the_copys(work: Work, place: Place) -> None:
    mails = work.offer("HEAD", [("One", change("a.txt", 3, "x")), ("Two", {"a.txt": TEXT + "y\n"})])
    first = place.offer(mails)
    place.offer(work.offer("HEAD", [("Both", {"a.txt": TEXT + "y\n"})]), MALLORY)
    place.look()
    work.commit("Squashed", {"a.txt": TEXT + "y\n"})
    assert {pull for pull, _, proven in place.land() if proven} == {first}


def test_what_a_listing_brought_proves_nothing_and_what_it_offers_may_be_older(work: Work, place: Place) -> None:
    mails = work.offer("HEAD", [("Fix", change("a.txt", 3, "three"))])
    place.offer(mails, MALLORY, witnessed=True)
    place.offer(mails, ANA, witnessed=False)
    place.look()
    work.am(mails)
    assert {proven for _, _, proven in place.land()} == {False}


def test_white_space_and_nothing_prove_nothing(work: Work, place: Place) -> None:
    place.offer(work.offer("HEAD", [("Space", change("a.txt", 3, "line  3"))]), MALLORY)
    place.offer(work.offer("HEAD", [("Nothing", {})]), MALLORY)
    place.look()
    work.commit("Space", change("a.txt", 3, "  line 3"))
    work.commit("Nothing")
    assert {proven for _, _, proven in place.land()} <= {False}


def test_a_copied_change_id_and_title_prove_nothing_and_find_only_what_was_verified(work: Work, place: Place) -> None:
    title = "A title of some length"
    uri = place.offer(
        work.offer("HEAD", [(f"{title}\n\nChange-Id: I1", change("a.txt", 3, "m"))]), MALLORY, title=title
    )
    other = place.offer(work.offer("HEAD", [("Else", change("a.txt", 4, "m"))]), MALLORY, title=title)
    place.look()
    work.commit(f"{title}\n\nChange-Id: I1", change("b.txt", 7, "seven"))
    assert place.land() == []
    place.settle(uri)
    place.settle(other)
    assert place.land() == [(uri, "change_id", False), (other, "subject", False)]


def test_a_landing_that_came_while_nobody_looked_is_not_proven(work: Work, place: Place) -> None:
    mails = work.offer("HEAD", [("Fix", change("a.txt", 3, "three"))])
    place.offer(mails)
    work.am(mails)
    assert [proven for _, _, proven in place.land()] == [False]


def test_a_proof_stays_when_a_listing_later_claims_an_older_offer(work: Work, place: Place) -> None:
    mails = work.offer("HEAD", [("Fix", change("a.txt", 3, "three"))])
    pull = place.offer(mails)
    place.look()
    work.am(mails)
    assert place.land() == [(pull, "patch_id", True)]
    place.offer(mails, MALLORY, witnessed=False)
    assert (pull, "patch_id", True) in place.land()


def test_nothing_is_proven_while_a_backfill_may_still_list_an_earlier_offer(work: Work, place: Place) -> None:
    mails = work.offer("HEAD", [("Fix", change("a.txt", 3, "three"))])
    run_id = begin(place.store, "first_start")
    copy = place.offer(mails, MALLORY)
    place.look()
    work.am(mails)
    assert place.land() == []
    first = place.offer(mails, witnessed=False, after=-timedelta(minutes=30))
    run = next_run(place.store)
    assert run is not None
    assert run.run_id == run_id
    end(place.store, run)
    assert place.land() == sorted([(copy, "patch_id", False), (first, "patch_id", False)])


def test_a_gap_that_waits_for_its_backfill_holds_proofs_back_and_one_asked_for_by_hand_does_not(
    work: Work, place: Place
) -> None:
    mails = work.offer("HEAD", [("Fix", change("a.txt", 3, "three"))])
    pull = place.offer(mails)
    place.look()
    work.am(mails)
    record_gap(place.store, Gap("test", 1, 2, "a test"))
    assert place.land() == []
    run = next_run(place.store)
    assert run is not None
    assert place.land() == []
    end(place.store, run)
    begin(place.store, "by_hand", [MALLORY])
    assert place.land() == [(pull, "patch_id", True)]


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
