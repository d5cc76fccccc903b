"""The operator's word decides who owns a repository, not that of whoever wrote a record first."""

from datetime import datetime

import pytest

from ingest.records.pull_state import settle
from ingest.records.watched import add_maintainer, is_known
from ingest.store.database import Store
from tests.ingest.stream.frames import ANA, MALLORY, MARA, REPO, REPOSITORY, SEED, Frames, at, pull_uri, rows, take

NOW = datetime(2026, 11, 20)
URI = f"at://{SEED}/{REPOSITORY}/lantern"
STOLEN = f"at://{MALLORY}/{REPOSITORY}/stolen"
OTHER = "did:plc:" + "o" * 24
OWNERS = (
    "select repo_key, did, r.rkey, r.name, r.knot, r.spindle, r.deleted_at from repositories r "
    "left join contributors on contributor_id = owner_id order by repo_key"
)
MINE = (REPO, SEED, "lantern", "lantern", "knot.example.test", "ci.example.test", None)
THEIRS = (STOLEN, MALLORY, "stolen", "stolen", "evil.example.test", None, None)
IN_ORDER = [THEIRS, MINE]
TARGETS = "select pull_uri, repo_key from pull_requests join repositories using (repository_id) order by pull_uri"
WATCHED = "select repo_key from {} join repositories using (repository_id)"
feeds = pytest.mark.parametrize("name", [URI, f"{SEED}/lantern"])
HELD = {"role": "collaborator", "learned_from": "knot", "held_from": None, "held_until": None}


@pytest.fixture
def stolen(store: Store) -> Store:
    """Mallory claimed the DID before seed's own record arrived, and pull requests name it by every name."""
    frames = Frames()
    frames.repository(MALLORY, "stolen", repoDid=REPO, knot="evil.example.test")
    frames.pull(MARA, "by-did", target=REPO)
    frames.repository(SEED, repoDid=REPO, spindle="ci.example.test")
    frames.pull(MARA, "by-uri", target=URI)
    frames.status(MALLORY, pull_uri(MARA, "by-did"), "merged")
    take(store, frames)
    add_maintainer(store, ANA, [REPO], NOW)
    with store.write() as txn:
        number = txn.value("select repository_id from repositories where repo_key = ?", [REPO])
        person = txn.person_ids([MALLORY])[MALLORY]
        txn.append("push_holders", [HELD | {"repository_id": number, "contributor_id": person}])
        fetched = {"kind": "push_holders", "subject": REPO, "outcome": "found", "reason": None}
        txn.append("fetches", [fetched | {"attempts": 1, "due_clock": None, "fetched_clock": NOW}])
    return store


@feeds
def test_who_the_operator_names_owns_the_did_whoever_claimed_it_first(stolen: Store, name: str) -> None:
    assert rows(stolen, "select state from pull_requests where pull_uri = ?", pull_uri(MARA, "by-did")) == [("merged",)]
    assert add_maintainer(stolen, ANA, [name], NOW) == [REPO]
    settle(stolen)
    assert rows(stolen, OWNERS) == IN_ORDER
    assert rows(stolen, TARGETS) == [(pull_uri(MARA, "by-did"), REPO), (pull_uri(MARA, "by-uri"), REPO)]
    assert rows(stolen, "select distinct state from pull_requests") == [("open",)]
    assert rows(stolen, WATCHED.format("watched_repositories")) == [(REPO,)]
    assert rows(stolen, WATCHED.format("maintainers")) == [(REPO,)]


@feeds
def test_what_the_other_knot_said_is_dropped_and_asked_again(stolen: Store, name: str) -> None:
    add_maintainer(stolen, ANA, [name], NOW)
    assert rows(stolen, "from push_holders") == []
    assert rows(stolen, "from fetches") == []


@feeds
def test_the_other_claimant_takes_nothing_back(stolen: Store, name: str) -> None:
    add_maintainer(stolen, ANA, [name], NOW)
    frames = Frames([b""] * 5)
    frames.repository(MALLORY, "stolen", "update", repoDid=REPO, name="again", knot="evil.example.test")
    frames.repository(MALLORY, "more", repoDid=REPO)
    frames.pull(MARA, "another", target=STOLEN)
    frames.delete(MALLORY, REPOSITORY, "stolen")
    take(stolen, frames[5:])
    own = [row[:4] for row in rows(stolen, OWNERS)]
    more = f"at://{MALLORY}/{REPOSITORY}/more"
    assert own == [(more, MALLORY, "more", "more"), (STOLEN, MALLORY, "stolen", "again"), MINE[:4]]
    assert rows(
        stolen, "select deleted_at is null from repositories where repo_key in (?, ?) order by repo_key", STOLEN, REPO
    ) == [(False,), (True,)]
    assert (pull_uri(MARA, "another"), STOLEN) in rows(stolen, TARGETS)


@feeds
def test_naming_the_owner_twice_changes_nothing(stolen: Store, name: str) -> None:
    add_maintainer(stolen, ANA, [name], NOW)
    before = rows(stolen, "from repositories order by repository_id")
    assert add_maintainer(stolen, ANA, [name, REPO, URI], NOW) == [REPO]
    assert rows(stolen, "from repositories order by repository_id") == before


def test_a_bare_did_leaves_the_claim_as_it_is(stolen: Store) -> None:
    before = rows(stolen, OWNERS)
    add_maintainer(stolen, ANA, [REPO], NOW)
    assert rows(stolen, OWNERS) == before


def test_a_record_that_named_another_did_before_moves_to_the_one_it_names_now(store: Store) -> None:
    frames = Frames()
    frames.repository(MALLORY, "stolen", repoDid=REPO, knot="evil.example.test")
    frames.repository(SEED, repoDid=OTHER)
    frames.repository(SEED, "lantern", "update", repoDid=REPO, spindle="ci.example.test")
    take(store, frames)
    assert add_maintainer(store, ANA, [URI], NOW) == [REPO]
    other = (OTHER, SEED, "lantern", "lantern", "knot.example.test", "ci.example.test", at(2))
    assert rows(store, OWNERS) == [THEIRS, other, MINE]
    assert rows(store, WATCHED.format("watched_repositories")) == [(REPO,)]


def test_every_record_of_the_other_claimant_becomes_its_own_and_a_deleted_one_has_no_owner(store: Store) -> None:
    frames = Frames()
    frames.repository(MALLORY, "stolen", repoDid=REPO, knot="evil.example.test")
    frames.repository(MALLORY, "gone", repoDid=REPO)
    frames.delete(MALLORY, REPOSITORY, "gone")
    frames.repository(SEED, repoDid=REPO, spindle="ci.example.test")
    take(store, frames)
    add_maintainer(store, ANA, [URI], NOW)
    gone = (f"at://{MALLORY}/{REPOSITORY}/gone", None, None, None, None, None, None)
    assert rows(store, OWNERS) == [gone, *IN_ORDER]


def test_a_deleted_record_moves_nothing(store: Store) -> None:
    frames = Frames()
    frames.repository(MALLORY, "stolen", repoDid=REPO)
    frames.repository(SEED, repoDid=REPO)
    frames.delete(SEED, REPOSITORY, "lantern")
    take(store, frames)
    assert add_maintainer(store, ANA, [URI], NOW) == [URI]
    assert rows(
        store, "select did from contributors join repositories on contributor_id = owner_id where repo_key = ?", REPO
    ) == [(MALLORY,)]


def test_a_repository_that_only_a_pull_request_named_is_not_known(store: Store) -> None:
    frames = Frames()
    frames.pull(MARA, "one", target=URI)
    frames.pull(MARA, "two", target=REPO)
    take(store, frames)
    with store.read() as found:
        assert (is_known(found, URI), is_known(found, REPO), is_known(found, f"{SEED}/lantern")) == (False, True, False)
    frames.repository(SEED)
    take(store, frames[2:])
    with store.read() as found:
        assert is_known(found, URI)
