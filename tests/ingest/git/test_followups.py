"""The fate of merged lines: every revert and every change of them is found, and nothing else is."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.conftest import Count
from tests.ingest.git.git_history import History
from tests.ingest.git.git_world import NEW, TEXT, Place, Work, land


def landed(work: Work, place: Place, content: str = NEW) -> tuple[str, str]:
    """A pull request that adds three lines, merged by mail."""
    return land(work, place, "Add", {"a.txt": content})


def test_a_revert_is_found_by_its_message_and_dated_by_when_it_appeared(work: Work, place: Place) -> None:
    pull, commit = landed(work, place)
    work.commit("Around", {"a.txt": NEW.replace("line 8\n", "line eight\n").replace("line 10\n", "line ten\n")})
    work.git("revert", "--no-edit", "HEAD")
    work.git("revert", "--no-edit", commit)
    assert place.follow() == {(pull, "reverted", work.head())}
    (row,) = place.rows("select happened_at, known_from, carried_by from pull_followups")
    assert row == {"happened_at": place.present, "known_from": place.present, "carried_by": None}
    assert place.follow() == {(pull, "reverted", work.head())}


def test_a_revert_of_a_revert_brings_the_change_again_and_that_can_be_reverted_too(work: Work, place: Place) -> None:
    pull, commit = landed(work, place)
    work.git("revert", "--no-edit", commit)
    first = work.head()
    work.git("revert", "--no-edit", first)
    again = work.head()
    assert place.follow() == {(pull, "reverted", first)}
    fixed = work.commit("Fix", {"a.txt": NEW.replace("beta = 1", "beta = 2")})
    work.commit("Unfix", {"a.txt": NEW})
    work.git("revert", "--no-edit", again)
    found = place.follow()
    assert found >= {(pull, "reverted", first), (pull, "reverted", work.head()), (pull, "patched", fixed)}
    assert {kind for _, kind, _ in found if kind == "reverted"} == {"reverted"}
    assert sum(kind == "reverted" for _, kind, _ in found) == 2


def test_a_series_is_reverted_by_one_commit(work: Work, place: Place) -> None:
    mails = work.offer("HEAD", [("One", {"a.txt": NEW}), ("Two", {"a.txt": NEW.replace("line 20\n", "twenty\n")})])
    pull = place.offer(mails)
    place.look()
    work.am(mails)
    back = work.commit("All of it", {"a.txt": TEXT})
    assert place.follow() == {(pull, "reverted", back)}


def test_a_merge_commit_is_reverted_as_a_whole(work: Work, place: Place) -> None:
    mails = work.offer("HEAD", [("Add", {"a.txt": NEW})])
    pull = place.offer(mails)
    place.look()
    work.git("checkout", "-q", "--detach")
    work.am(mails)
    tip = work.head()
    work.git("checkout", "-q", "main")
    work.commit("Meanwhile", {"c.txt": "c\n"})
    work.git("merge", "-q", "--no-ff", "-m", "Merge", tip)
    assert place.follow() == set()
    work.git("revert", "--no-edit", "-m", "1", work.head())
    assert place.follow() == {(pull, "reverted", work.head())}


def test_a_changed_line_is_found_through_renames_moves_and_edits_around_it(work: Work, place: Place) -> None:
    pull, _ = landed(work, place)
    work.commit("Around", {"a.txt": "top\n" + NEW.replace("line 2\n", "")})
    work.git("mv", "a.txt", "moved.txt")
    work.commit("Rename")
    moved = "".join(f"{line}\n" for line in work.lines("moved.txt"))
    work.commit(
        "Move", {"moved.txt": moved.replace("    alpha\n    beta = 1\n    gamma\n", "") + "alpha\nbeta = 1\ngamma\n"}
    )
    assert place.follow() == set()
    fix = work.commit(
        "Fix", {"moved.txt": "".join(f"{line}\n" for line in work.lines("moved.txt")).replace("1\n", "2\n")}
    )
    assert place.follow() == {(pull, "patched", fix)}


def test_a_change_on_a_branch_is_shown_by_its_own_commit(work: Work, place: Place) -> None:
    pull, _ = landed(work, place)
    work.git("checkout", "-q", "--detach")
    work.commit("Other", {"b.txt": TEXT + "other\n"})
    fix = work.commit("Fix", {"a.txt": NEW.replace("beta = 1", "beta = 2")})
    work.git("checkout", "-q", "main")
    work.commit("Meanwhile", {"c.txt": "c\n"})
    work.git("merge", "-q", "--no-ff", "-m", "Merge", fix)
    assert place.follow() == {(pull, "patched", fix)}


def test_the_pull_request_that_brought_the_change_is_named(work: Work, place: Place) -> None:
    pull, _ = landed(work, place)
    second, fix = landed(work, place, NEW.replace("beta = 1", "beta = 2"))
    assert place.follow() == {(pull, "patched", fix)}
    assert place.rows("select carried_by from pull_followups") == [{"carried_by": second}]


NEGATIVES: dict[str, Callable[[Work], object]] = {
    "nothing": lambda work: work.commit("Nothing"),
    "other lines": lambda work: work.commit("Other", {"a.txt": NEW.replace("line 9\n", "nine\n")}),
    "other file": lambda work: work.commit("Other", {"b.txt": "short\n"}),
    "between": lambda work: work.commit("Between", {"a.txt": NEW.replace("    beta", "    inserted\n    beta")}),
    "indent": lambda work: work.commit("Indent", {"a.txt": NEW.replace("    ", "\t\t")}),
    "rename": lambda work: work.commit("Rename", {"a.txt": None, "z/y.txt": NEW}),
    "move": lambda work: work.commit("Move", {"a.txt": TEXT, "b.txt": TEXT + "    alpha\n    beta = 1\n    gamma\n"}),
    "crlf": lambda work: work.commit("Line ends", {"a.txt": NEW.replace("\n", "\r\n")}),
    "blank lines": lambda work: work.commit("Blank", {"a.txt": NEW.replace("    beta", "\n\n    beta")}),
}


@pytest.mark.parametrize("name", NEGATIVES)
def test_what_leaves_the_lines_alone_is_no_finding(work: Work, place: Place, name: str) -> None:
    landed(work, place)
    NEGATIVES[name](work)
    assert place.follow() == set()


def test_a_change_after_the_window_is_no_finding(work: Work, place: Place) -> None:
    landed(work, place)
    place.present += timedelta(days=15)
    work.commit("Fix", {"a.txt": NEW.replace("beta = 1", "beta = 2")})
    assert place.follow() == set()


def test_a_longer_window_has_merges_followed_again_whose_window_had_ended(work: Work, place: Place) -> None:
    pull, _ = landed(work, place)
    place.present += timedelta(days=15)
    fix = work.commit("Fix", {"a.txt": NEW.replace("beta = 1", "beta = 2")})
    assert place.follow() == set()
    assert place.rows("select followed from landings") == [{"followed": True}]
    place.present += timedelta(days=30)
    assert place.follow(10) == set()
    assert place.follow(20) == {(pull, "patched", fix)}
    assert place.rows("select followed from landings") == [{"followed": True}]


def test_a_cherry_pick_to_another_branch_is_no_finding(work: Work, place: Place) -> None:
    _, commit = landed(work, place)
    work.git("checkout", "-q", "-b", "release", "HEAD~1")
    work.git("cherry-pick", commit)
    work.git("revert", "--no-edit", "HEAD")
    work.git("checkout", "-q", "main")
    assert place.follow() == set()


def test_what_nobody_proves_is_not_followed_until_a_push_holder_tells_of_it(work: Work, place: Place) -> None:
    mails = work.offer("HEAD", [("Add", {"a.txt": NEW})])
    pull = place.offer(mails, witnessed=False)
    place.look()
    work.am(mails)
    fix = work.commit("Fix", {"a.txt": NEW.replace("beta = 1", "beta = 2")})
    assert place.follow() == set()
    place.settle(pull)
    assert place.follow() == {(pull, "patched", fix)}


def test_a_random_history_gives_back_exactly_what_was_planted(work: Work, place: Place, count: Count) -> None:
    """Some 60 commits; the histories of a full run follow one another in the same repository, in other files."""
    for seed in range(count(1, 20)):
        history = History(work, place, seed)
        acts = [history.revert, history.fix, history.quiet, history.noise] * 3
        history.draw.shuffle(acts)
        known = place.follow()
        for act in acts:
            act()
        assert place.follow() - known == history.planted
