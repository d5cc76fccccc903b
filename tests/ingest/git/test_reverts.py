"""A merge is taken back where most of its own lines go, and by nothing that a message or a copy of its lines claims."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import pytest

from tests.conftest import Count
from tests.ingest.git.git_history import History
from tests.ingest.git.git_world import NEW, TEXT, Files, Place, Work, land

ANA, MALLORY = "did:plc:ana22222222222222222222a", "did:plc:mallory2222222222222222a"
BEN = "did:plc:ben22222222222222222222a"
PYTHON = "def add(one, other):\n    if other is None:\n        return None\n    return one + other\n"
SCRIPT = "function add(one, other) {\n  if (!other) {\n    return null\n  }\n  return one + other\n}\n"
Found = set[tuple[str, str, str]]


def let_push(place: Place, did: str, since: datetime | None = None, until: datetime | None = None) -> None:
    """A right that the knot tells of."""
    with place.store.write() as txn:
        person = txn.person_ids([did], place.present)[did]
        row = {"repository_id": place.number, "contributor_id": person, "role": "collaborator", "learned_from": "knot"}
        txn.append("push_holders", [{**row, "held_from": since, "held_until": until}])


def reverted(found: Found) -> set[tuple[str, str]]:
    return {(pull, commit) for pull, kind, commit in found if kind == "reverted"}


@pytest.mark.parametrize("gone", ["    return None\n", "}\n", "    pass\n\n"])
def test_a_tidy_up_that_names_three_merges_and_takes_one_common_line_from_a_fourth_file_marks_none(
    work: Work, place: Place, gone: str
) -> None:
    """The attack of a stranger: one merged pull request used to mark up to 50 merges of others."""
    work.commit("Fourth", {"fourth.txt": f"start\n{gone}end\n"})
    honest = [
        land(work, place, "One", {"one.py": PYTHON + "\n\nclass Empty:\n    pass\n"})[1],
        land(work, place, "Two", {"two.js": SCRIPT})[1],
        land(work, place, "Three", {"three.py": PYTHON.replace("add", "subtract")})[1],
    ]
    message = f"Tidy up\n\nThis reverts commits {honest[0]}, {honest[1][:12]} and {honest[2]}."
    land(work, place, message, {"fourth.txt": "start\nend\n"}, MALLORY)
    assert place.follow() == set()


@pytest.mark.parametrize("did", [MALLORY, None])
def test_one_line_of_three_is_a_change_of_the_merge_and_no_revert_whoever_names_it(
    work: Work, place: Place, did: str | None
) -> None:
    pull, commit = land(work, place, "Add", {"a.txt": NEW})
    message = f"Tidy up\n\nThis reverts commit {commit}."
    files: Files = {"a.txt": NEW.replace("    gamma\n", "")}
    tidy = land(work, place, message, files, did)[1] if did else work.commit(message, files)
    assert place.follow() == {(pull, "patched", tidy)}


def test_two_lines_of_three_are_a_revert_with_conflicts_where_a_push_holder_says_so(work: Work, place: Place) -> None:
    pull, commit = land(work, place, "Add", {"a.txt": NEW})
    work.commit("Edit", {"a.txt": NEW.replace("beta = 1", "beta = 2")})
    _, back = land(work, place, f"Back\n\nThis reverts commit {commit}.", {"a.txt": TEXT}, MALLORY)
    assert reverted(place.follow()) == set()
    let_push(place, MALLORY)
    assert reverted(place.follow()) == {(pull, back)}


@pytest.mark.parametrize("landing", ["out of sight", "squashed under other words", "merged out of sight"])
def test_a_strangers_message_names_nothing_where_its_landing_was_not_noticed(
    work: Work, place: Place, landing: str
) -> None:
    """The attack: a rewrite of a merged line, whose text names the merge, and no pull request that it is known by."""
    _, commit = land(work, place, "Add", {"a.txt": TEXT + "value = 1\n"})
    message, files = f"Tidy\n\nThis reverts commit {commit}.", {"a.txt": TEXT + "value = 2\n"}
    if landing == "out of sight":
        work.commit(message, files)
    elif landing == "squashed under other words":
        place.offer(work.offer("HEAD", [("One", {"b.txt": "b\n"}), (message, files)]), MALLORY)
        place.look()
        work.commit(f"Two changes\n\n{message}", files | {"c.txt": "by hand\n"})
    else:
        work.git("checkout", "-q", "--detach")
        tip = work.commit(message, files)
        work.git("checkout", "-q", "main")
        work.git("merge", "-q", "--no-ff", "-m", message, tip)
    assert reverted(place.follow()) == set()


def test_a_claim_of_somebody_unknown_counts_where_the_merge_goes_and_next_to_nothing_comes(
    work: Work, place: Place
) -> None:
    """As `git revert` does where a neighbouring line was edited meanwhile, so that no patch-id is the inverse."""
    pull, commit = land(work, place, "Add", {"a.txt": NEW})
    other = land(work, place, "Other", {"d.txt": TEXT})[1]
    edited = TEXT.replace("line 8\n", "line eight\n")
    work.commit("Edit", {"a.txt": edited.replace("line 9\n", "line 9\n    alpha\n    beta = 1\n    gamma\n")})
    back = work.commit(f"Back\n\nThis reverts commits {commit} and {other}.", {"a.txt": edited})
    assert reverted(place.follow()) == {(pull, back)}


def test_a_message_of_a_pull_request_is_a_claim_unless_its_author_may_push(work: Work, place: Place) -> None:
    pull, commit = land(work, place, "Add", {"a.txt": NEW})
    claim = f"Back\n\nThis reverts commit {commit}."
    _, first = land(work, place, claim, {"a.txt": NEW.replace("    alpha\n    beta = 1\n", "")}, MALLORY)
    assert reverted(place.follow()) == set()
    let_push(place, MALLORY, until=place.present - timedelta(days=1))
    assert reverted(place.follow()) == set()
    let_push(place, MALLORY)
    assert reverted(place.follow()) == {(pull, first)}


def test_what_is_known_of_the_author_later_takes_a_mark_back(work: Work, place: Place) -> None:
    pull, commit = land(work, place, "Add", {"a.txt": NEW})
    let_push(place, MALLORY)
    claim = f"Back\n\nThis reverts commit {commit}."
    _, back = land(work, place, claim, {"a.txt": NEW.replace("    alpha\n    beta = 1\n", "")}, MALLORY)
    assert reverted(place.follow()) == {(pull, back)}
    with place.store.write() as txn:
        txn.execute("delete from push_holders where learned_from = 'knot'")
    assert reverted(place.follow()) == set()


def test_a_mark_of_an_older_version_goes_and_a_real_one_keeps_the_moment_from_which_it_was_known(
    work: Work, place: Place
) -> None:
    """As a store comes over: what was mined is there, and how far it was mined is forgotten."""
    wrong, commit = land(work, place, "Add", {"a.txt": NEW})
    right, other = land(work, place, "Other", {"b.txt": TEXT + "more\nand more\n"})
    tidy = work.commit(f"Tidy\n\nThis reverts commit {commit}.", {"a.txt": NEW.replace("    gamma\n", "")})
    work.git("revert", "--no-edit", other)
    back = work.head()
    place.land()
    early = place.present - timedelta(hours=1)
    row = {"kind": "reverted", "happened_at": early, "known_from": early, "carried_by": None}
    with place.store.write() as txn:
        txn.append("pull_followups", [row | {"pull_uri": wrong, "evidence": tidy}])
        txn.append("pull_followups", [row | {"pull_uri": right, "evidence": back}])
        txn.append("pull_followups", [row | {"pull_uri": right, "evidence": "f" * 40}])
    assert place.follow() == {(wrong, "patched", tidy), (right, "reverted", back), (right, "reverted", "f" * 40)}
    assert place.rows("select known_from from pull_followups where evidence = ?", back) == [{"known_from": early}]


def test_the_merge_commit_of_a_strangers_branch_may_carry_their_text_and_names_nothing(
    work: Work, place: Place
) -> None:
    _, commit = land(work, place, "Add", {"a.txt": NEW})
    mails = work.offer("HEAD", [("Tidy", {"a.txt": NEW.replace("    alpha\n    beta = 1\n", "")})])
    place.offer(mails, MALLORY)
    place.look()
    work.git("checkout", "-q", "--detach")
    work.am(mails)
    tip = work.head()
    work.git("checkout", "-q", "main")
    work.commit("Meanwhile", {"c.txt": "c\n"})
    work.git("merge", "-q", "--no-ff", "-m", f"Tidy\n\nThis reverts commit {commit}.", tip)
    assert reverted(place.follow()) == set()


def test_of_two_pull_requests_in_one_merge_commit_only_the_one_whose_lines_go_is_marked(
    work: Work, place: Place
) -> None:
    large = TEXT + "".join(f"more {number}\n" for number in range(19))
    series = [("Large", {"a.txt": large}), ("Small", {"b.txt": TEXT + "one more\n"})]
    pulls = []
    work.git("checkout", "-q", "--detach")
    for message, files in series:
        work.commit(message, files)
        pulls.append((work.patch(), message))
    tip = work.head()
    work.git("checkout", "-q", "main")
    uris = [place.offer(patch, title=message) for patch, message in pulls]
    place.look()
    work.commit("Meanwhile", {"c.txt": "c\n"})
    work.git("merge", "-q", "--no-ff", "-m", "Merge", tip)
    both = work.head()
    place.land()
    back = work.commit(f"Back\n\nThis reverts commit {both}.", {"a.txt": TEXT + "more 0\n"})
    assert reverted(place.follow()) == {(uris[0], back)}


def test_a_stranger_who_takes_a_whole_merge_back_is_found_by_what_they_did(work: Work, place: Place) -> None:
    pull, _ = land(work, place, "Add", {"a.txt": NEW})
    _, back = land(work, place, "Remove what nobody uses", {"a.txt": TEXT}, MALLORY)
    assert place.follow() == {(pull, "reverted", back)}


def test_a_copy_of_the_lines_that_is_removed_again_has_the_inverse_patch_id_and_takes_nothing_back(
    work: Work, place: Place
) -> None:
    land(work, place, "Add", {"a.txt": NEW})
    land(work, place, "Repeat", {"a.txt": NEW + NEW}, MALLORY)
    land(work, place, "Repeat less", {"a.txt": NEW + TEXT}, MALLORY)
    found = place.follow()
    assert not {pull for pull, _ in reverted(found) if ANA in pull}


def test_a_copy_of_a_revert_that_a_stranger_offers_afterwards_does_not_hide_it(work: Work, place: Place) -> None:
    pull, commit = land(work, place, "Add", {"a.txt": NEW})
    work.commit("Edit", {"a.txt": NEW.replace("beta = 1", "beta = 2")})
    _, back = land(work, place, f"Back\n\nThis reverts commit {commit}.", {"a.txt": TEXT}, BEN)
    let_push(place, BEN)
    place.look()
    place.offer(work.patch(), MALLORY)
    assert reverted(place.follow()) == {(pull, back)}


def test_a_revert_is_found_where_the_file_was_renamed_meanwhile(work: Work, place: Place) -> None:
    pull, commit = land(work, place, "Add", {"a.txt": NEW})
    work.git("mv", "a.txt", "moved.txt")
    work.commit("Rename")
    work.git("revert", "--no-edit", commit)
    assert place.follow() == {(pull, "reverted", work.head())}


CHANGES: dict[str, Files] = {
    "lines that go": {"a.txt": TEXT.replace("line 9\nline 10\n", "")},
    "lines that move": {"a.txt": TEXT.replace("line 2\nline 3\n", "") + "line 2\nline 3\n"},
    "a file that goes": {"b.txt": None},
    "a file of braces": {"braces.txt": "{\n}\n\n"},
    "a binary file": {"picture.png": bytes(range(256))},
    "a rename": {"a.txt": None, "z/y.txt": TEXT},
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_revert_of_what_adds_no_lines_is_found_and_naming_it_alone_is_none(
    work: Work, place: Place, name: str
) -> None:
    """A push-holder tells of it: of some of these no patch can prove that they landed."""
    mails = work.offer("HEAD", [("Change it all", CHANGES[name])]) if name != "a binary file" else None
    if mails is None:
        work.git("checkout", "-q", "--detach")
        work.commit("Change it all", CHANGES[name])
        mails = work.patch("HEAD~1", "--binary")
        work.git("checkout", "-q", "main")
    pull = place.offer(mails, title="Change it all")
    place.settle(pull)
    place.look()
    commit = work.am(mails)
    named = f"Other\n\nThis reverts commit {commit}."
    work.commit(named, {"c.txt": "c\n"})
    assert reverted(place.follow()) == set()
    work.git("revert", "--no-edit", commit)
    assert reverted(place.follow()) == {(pull, work.head())}


class Game:
    """One file of few different lines: a merge adds some, then strangers edit it and never take one of those away."""

    WORDS = ("alpha", "beta()", "pass", "    return None", "}", "", "x = 1")

    def __init__(self, work: Work, place: Place, draw: random.Random, name: str) -> None:
        self.work, self.place, self.draw, self.name = work, place, draw, name
        self.lines = [(self.word(), False) for _ in range(draw.randrange(4, 20))]

    def word(self) -> str:
        return self.draw.choice(self.WORDS)

    def text(self, lines: Sequence[tuple[str, bool]]) -> str:
        return "".join(f"{text}\n" for text, _ in lines)

    def merge(self) -> str:
        place = self.draw.randrange(len(self.lines) + 1)
        own = [(self.word(), True) for _ in range(self.draw.randrange(1, 5))]
        self.lines[place:place] = [*own, (f"own {self.name}", True)]
        self.least = Counter(text for text, _ in self.lines)
        return land(self.work, self.place, f"Add {self.name}", {self.name: self.text(self.lines)})[1]

    def edit(self, honest: Sequence[str]) -> None:
        """A stranger's commit that claims to revert every merge: pushed by somebody, or from a pull request."""
        lines = list(self.lines)
        for _ in range(self.draw.randrange(1, 6)):
            place = self.draw.randrange(len(lines) + 1)
            act = self.draw.choice(["add", "copy", "remove", "remove"])
            if act == "add":
                lines.insert(place, (self.word(), False))
            elif act == "copy":
                lines[place:place] = [(text, False) for text, own in self.lines if own]
            else:
                lines = [line for number, line in enumerate(lines) if line[1] or not place <= number < place + 4]
        left = Counter(text for text, own in lines)
        if lines == self.lines or any(left[text] < self.least[text] for text, own in lines if own):
            return  # fewer copies than before: no text tells which of them went
        self.lines = lines
        message = f"Edit\n\nThis reverts commits {', '.join(honest)}."
        files: Files = {self.name: self.text(lines)}
        if self.draw.random() < 0.3:
            land(self.work, self.place, message, files, MALLORY)
        else:
            self.work.commit(message, files)


def test_no_commit_marks_a_merge_whose_lines_all_stay(work: Work, place: Place, count: Count) -> None:
    for seed in (21, *range(count(0, 20))):  # in 21 a copy goes whose place a diff gives to the original
        draw = random.Random(seed)
        games = [Game(work, place, draw, f"game_{place.offered}_{seed}_{number}.py") for number in range(5)]
        work.commit("Begin", {game.name: game.text(game.lines) for game in games})
        honest = [game.merge() for game in games]
        for _ in range(12):
            draw.choice(games).edit(honest)
        marked = reverted(place.follow())
        assert not {pull for pull, _ in marked if ANA in pull}, seed


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
