"""One repository under several names, and people who claim what is not theirs."""

import pytest

from ingest.records import watched as watch
from ingest.store.database import Store
from tests.ingest.stream.frames import (
    ANA,
    MALLORY,
    MARA,
    REPO,
    REPOSITORY,
    SEED,
    Frames,
    at,
    digest_of,
    pull_uri,
    rows,
    take,
)

URI = f"at://{SEED}/{REPOSITORY}/lantern"
OTHER = "did:plc:" + "o" * 24
OWNERS = "select repo_key, did from repositories left join contributors on contributor_id = owner_id order by repo_key"
TARGETS = "select pull_uri, repo_key from pull_requests join repositories using (repository_id) order by pull_uri"
feeds = pytest.mark.parametrize("one_by_one", [True, False])


def feed(store: Store, frames: Frames, one_by_one: bool) -> None:
    for batch in [[frame] for frame in frames] if one_by_one else [frames]:
        take(store, batch)


@feeds
@pytest.mark.parametrize("first", ["record", "uri", "did"])
def test_a_repository_is_one_whichever_name_came_first(store: Store, first: str, one_by_one: bool) -> None:
    frames = Frames()
    writes = {
        "uri": lambda: frames.pull(MARA, "by-uri", target=URI),
        "did": lambda: frames.pull(MARA, "by-did", target=REPO),
        "record": lambda: frames.repository(SEED, repoDid=REPO),
    }
    for name in sorted(writes, key=lambda name: name != first):
        writes[name]()
    feed(store, frames, one_by_one)
    assert rows(store, OWNERS) == [(REPO, SEED)]
    assert rows(store, TARGETS) == [(pull_uri(MARA, "by-did"), REPO), (pull_uri(MARA, "by-uri"), REPO)]
    aliases = "select count(distinct alias), count(distinct repository_id) from repository_aliases"
    assert rows(store, aliases) == [(2, 1)]


@feeds
def test_an_old_record_that_learns_its_did_takes_its_pull_requests_along(store: Store, one_by_one: bool) -> None:
    frames = Frames()
    frames.repository(SEED)
    frames.pull(MARA, "one", target=URI)
    feed(store, frames, one_by_one)
    assert rows(store, OWNERS) == [(URI, SEED)]
    frames.pull(MARA, "two", target=REPO)
    frames.repository(SEED, operation="update", repoDid=REPO)
    feed(store, frames, one_by_one)
    assert rows(store, OWNERS) == [(REPO, SEED)]
    assert [key for _, key in rows(store, TARGETS)] == [REPO, REPO]


def test_what_was_watched_under_both_names_is_watched_once(store: Store) -> None:
    frames = Frames()
    frames.repository(SEED)
    frames.pull(MARA, "one", target=URI)
    frames.pull(MARA, "two", target=REPO)
    take(store, frames)
    for name in (URI, REPO):
        watch.add_maintainer(store, ANA, [name], at(9))
    frames.repository(SEED, operation="update", repoDid=REPO)
    take(store, frames)
    watched = "select repo_key from {} join repositories using (repository_id)"
    assert rows(store, watched.format("watched_repositories")) == [(REPO,)]
    assert rows(store, watched.format("maintainers")) == [(REPO,)]


@feeds
@pytest.mark.parametrize("target", ["did", "uri"])
def test_who_claims_a_did_that_has_an_owner_becomes_none_and_takes_nothing(
    store: Store, target: str, one_by_one: bool
) -> None:
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.pull(MARA, "one", target=REPO if target == "did" else URI)
    frames.repository(MALLORY, "mine", repoDid=REPO)
    frames.repository(MALLORY, "mine", "update", repoDid=REPO, name="lantern", knot="evil.example.test")
    feed(store, frames, one_by_one)
    assert rows(store, OWNERS) == [(f"at://{MALLORY}/{REPOSITORY}/mine", MALLORY), (REPO, SEED)]
    assert rows(store, TARGETS) == [(pull_uri(MARA, "one"), REPO)]
    assert rows(store, "select knot from repositories where repo_key = ?", REPO) == [("knot.example.test",)]
    frames.delete(MALLORY, REPOSITORY, "mine")
    frames.status(MALLORY, pull_uri(MARA, "one"), "merged")
    feed(store, frames, one_by_one)
    assert rows(store, "select state from pull_requests") == [("open",)]
    assert rows(store, "select deleted_at from repositories where repo_key = ?", REPO) == [(None,)]


@feeds
def test_a_repository_of_ones_own_that_claims_another_later_stays_what_it_was(store: Store, one_by_one: bool) -> None:
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.repository(MALLORY, "mine", repoDid=OTHER)
    frames.repository(MALLORY, "mine", "update", repoDid=REPO)
    feed(store, frames, one_by_one)
    assert rows(store, OWNERS) == [(OTHER, MALLORY), (REPO, SEED)]


@feeds
def test_a_key_that_is_used_again_for_another_repository_joins_nothing(store: Store, one_by_one: bool) -> None:
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.pull(MARA, "one", target=URI)
    frames.delete(SEED, REPOSITORY, "lantern")
    frames.repository(SEED, repoDid=OTHER)
    frames.pull(MARA, "two", target=URI)
    feed(store, frames, one_by_one)
    assert rows(store, OWNERS) == [(OTHER, SEED), (REPO, SEED)]
    assert rows(store, TARGETS) == [(pull_uri(MARA, "one"), REPO), (pull_uri(MARA, "two"), OTHER)]
    assert rows(store, "select repo_key from repositories where deleted_at is null") == [(OTHER,)]


@feeds
def test_a_deleted_repository_keeps_its_owner_and_comes_back(store: Store, one_by_one: bool) -> None:
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.delete(SEED, REPOSITORY, "lantern")
    feed(store, frames, one_by_one)
    assert rows(store, "select deleted_at from repositories") == [(at(1),)]
    frames.repository(MALLORY, repoDid=REPO)
    frames.repository(SEED, repoDid=REPO)
    feed(store, frames, one_by_one)
    assert rows(store, "select repo_key from repositories where deleted_at is null order by 1") == [
        (f"at://{MALLORY}/{REPOSITORY}/lantern",),
        (REPO,),
    ]


def test_a_repository_without_a_name_is_called_by_its_key(store: Store) -> None:
    frames = Frames()
    frames.repository(SEED, name=None, repoDid=REPO)
    take(store, frames)
    assert rows(store, "select name, rkey from repositories") == [("lantern", "lantern")]


def test_thousands_of_claims_in_a_batch_take_moments(store: Store) -> None:
    frames = Frames()
    for number in range(2_000):
        frames.repository(MALLORY, f"r{number}")
        frames.pull(MALLORY, f"p{number}", target=f"did:plc:{number:024d}")
    take(store, frames)
    for number in range(2_000):
        frames.repository(MALLORY, f"r{number}", "update", repoDid=f"did:plc:{number:024d}")
    take(store, frames)
    assert rows(store, "select count(*), count(distinct repository_id) from repositories") == [(2_000, 2_000)]
    before = digest_of(store)
    take(store, frames)
    assert digest_of(store) == before


RECORDS = "select repo_key, name, rkey, deleted_at from repositories order by repo_key"


@feeds
def test_a_repository_stands_while_one_of_its_records_does(store: Store, one_by_one: bool) -> None:
    frames = Frames()
    frames.repository(SEED, "rr", repoDid=REPO)
    frames.repository(SEED, "rs", repoDid=REPO)
    frames.repository(SEED, "rs", "update", repoDid=OTHER)
    feed(store, frames, one_by_one)
    assert rows(store, RECORDS) == [(OTHER, "rs", "rs", None), (REPO, "rr", "rr", None)]
    frames.repository(SEED, "rr", "update", repoDid=OTHER)
    feed(store, frames, one_by_one)
    assert rows(store, RECORDS) == [(OTHER, "rr", "rr", None), (REPO, "rr", "rr", at(3))]


@feeds
@pytest.mark.parametrize("gone", [("rr", "rs"), ("rs", "rr")])
def test_a_repository_is_deleted_with_the_last_of_its_records(
    store: Store, gone: tuple[str, str], one_by_one: bool
) -> None:
    frames = Frames()
    frames.repository(SEED, "rr", repoDid=REPO)
    frames.repository(SEED, "rs", repoDid=REPO)
    frames.delete(SEED, REPOSITORY, gone[0])
    feed(store, frames, one_by_one)
    assert rows(store, RECORDS) == [(REPO, gone[1], gone[1], None)]
    frames.delete(SEED, REPOSITORY, gone[1])
    feed(store, frames, one_by_one)
    assert rows(store, RECORDS) == [(REPO, gone[1], gone[1], at(3))]


def test_thousands_of_records_of_one_repository_leave_it_in_moments(store: Store) -> None:
    frames = Frames()
    for number in range(1_000):
        frames.repository(MALLORY, f"r{number:04d}", repoDid=REPO)
    for number in range(1_000):
        frames.delete(MALLORY, REPOSITORY, f"r{number:04d}")
    take(store, frames)
    assert rows(store, "select deleted_at from repositories") == [(at(1_999),)]
