"""Repositories are watched by the names that people use for them."""

from datetime import datetime

import pytest

from ingest.records import watched
from ingest.records.watched import REVIEWS, UnknownRepository, add_maintainer, find_repository, set_review
from ingest.store.database import Store
from tests.ingest.stream.frames import ANA, MALLORY, MARA, REPO, REPOSITORY, SEED, Frames, at, rows, take

NOW = datetime(2026, 11, 20)
URI = f"at://{SEED}/{REPOSITORY}/lantern"
WATCHED = (
    "select repo_key, review, watched_at from watched_repositories join repositories using (repository_id) order by 1"
)
MAINTAINERS = "select did, repository_id from maintainers join contributors using (contributor_id) order by 1, 2"


@pytest.fixture
def town(store: Store) -> Store:
    """The lantern of seed, a repository of mallory with the same name, and a pull request to an unknown one."""
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.repository(MALLORY)
    frames.pull(MARA, "one", target="did:plc:" + "u" * 24)
    take(store, frames)
    with store.write() as txn:
        txn.execute("update contributors set handle = 'seed.example.test'")  # everybody claims it
        txn.execute("update contributors set handle_verified = true where did = ?", [SEED])
    return store


def find(store: Store, name: str) -> int | None:
    with store.read() as found:
        return find_repository(found, name)


def number(store: Store, key: str = REPO) -> int:
    return rows(store, "select repository_id from repositories where repo_key = ?", key)[0][0]


@pytest.mark.parametrize("name", [REPO, URI, f"{SEED}/lantern", "seed.example.test/lantern"])
def test_a_repository_is_found_by_each_of_its_names(town: Store, name: str) -> None:
    assert find(town, name) == number(town)


@pytest.mark.parametrize(
    "name", ["", "/", "lantern", "seed.example.test", f"{MARA}/lantern", "did:plc:none", "x' or true --/lantern"]
)
def test_other_names_find_nothing(town: Store, name: str) -> None:
    assert find(town, name) is None


def test_a_handle_that_is_not_proven_finds_nothing(town: Store) -> None:
    with town.write() as txn:
        txn.execute("update contributors set handle_verified = false")
    assert find(town, "seed.example.test/lantern") is None


def test_a_deleted_repository_is_not_found_by_its_name(town: Store) -> None:
    with town.write() as txn:
        txn.execute("update repositories set deleted_at = ?", [NOW])
    assert find(town, f"{SEED}/lantern") is None
    assert find(town, REPO) == number(town)


def test_a_maintainer_makes_a_repository_watched_and_scores_due(town: Store) -> None:
    position = "select position_seq from hops where name = 'inputs'"
    before = rows(town, position)
    assert add_maintainer(town, ANA, [REPO, URI, f"{SEED}/lantern"], NOW) == [REPO]
    assert rows(town, WATCHED) == [(REPO, "deterministic", NOW)]
    assert rows(town, MAINTAINERS) == [(ANA, number(town))]
    assert rows(town, position) > before
    add_maintainer(town, MARA, [REPO], datetime(2027, 1, 1))
    assert rows(town, WATCHED) == [(REPO, "deterministic", NOW)]


def test_without_a_repository_it_is_the_whole_site(town: Store) -> None:
    assert add_maintainer(town, ANA, [], NOW) == []
    assert add_maintainer(town, ANA, [], NOW) == []
    assert rows(town, MAINTAINERS) == [(ANA, 0)]
    assert rows(town, WATCHED) == []


def test_an_unknown_repository_changes_nothing_and_says_what_to_do(town: Store) -> None:
    with pytest.raises(UnknownRepository, match=r"nobody/nothing is not known yet: name it as OWNER/NAME"):
        add_maintainer(town, ANA, [REPO, "nobody/nothing"], NOW)
    assert rows(town, MAINTAINERS) == []
    assert rows(town, WATCHED) == []
    assert rows(town, "select count(*) from contributors where did = ?", ANA) == [(0,)]


def test_a_recording_has_every_repository_watched_that_it_holds(town: Store) -> None:
    assert watched.watch_everything(town, NOW) == 2
    assert watched.watch_everything(town, NOW) == 0
    mine = f"at://{MALLORY}/{REPOSITORY}/lantern"
    assert rows(town, WATCHED) == [(mine, "deterministic", at(1)), (REPO, "deterministic", at(0))]


@pytest.mark.parametrize("mode", REVIEWS)
def test_the_review_of_a_watched_repository_is_chosen_and_scores_become_due(town: Store, mode: str) -> None:
    add_maintainer(town, ANA, [REPO], NOW)
    before = rows(town, "select position_seq from hops where name = 'inputs'")
    assert set_review(town, [f"{SEED}/lantern", REPO], mode) == [REPO]
    assert rows(town, WATCHED) == [(REPO, mode, NOW)]
    assert rows(town, "select position_seq from hops where name = 'inputs'") > before
    add_maintainer(town, MARA, [REPO], NOW)
    assert rows(town, WATCHED) == [(REPO, mode, NOW)], "a further maintainer does not change it"


def test_a_review_of_what_is_not_watched_or_no_mode_changes_nothing(town: Store) -> None:
    add_maintainer(town, ANA, [REPO], NOW)
    with pytest.raises(UnknownRepository, match=f"{MALLORY}/lantern is not watched"):
        set_review(town, [REPO, f"{MALLORY}/lantern"], "claude")
    with pytest.raises(UnknownRepository, match="not known yet"):
        set_review(town, [REPO, "nobody/nothing"], "claude")
    with pytest.raises(ValueError, match="review is one of off, deterministic, claude"):
        set_review(town, [REPO], "Claude")
    assert rows(town, WATCHED) == [(REPO, "deterministic", NOW)]
