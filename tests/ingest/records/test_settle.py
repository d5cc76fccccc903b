"""Only some may say that a pull request was merged or closed, and some of that nobody can undo."""

import pytest

import ingest.records.pull_state
from ingest.records.derive import derive
from ingest.records.pull_state import settle, settle_changed
from ingest.store.database import Store
from ingest.stream.load import load
from tests.ingest.stream.frames import (
    ANA,
    CREATED,
    MALLORY,
    MARA,
    PULL,
    REPO,
    SEED,
    SOURCE,
    STATUS,
    STRANGER,
    Frames,
    at,
    pull_uri,
    rows,
    take,
)

ONE = pull_uri(MARA, "one")
OTHER = "did:plc:" + "o" * 24


def world() -> Frames:
    """A repository of seed, where ana may push, and a pull request of mara."""
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.pull(MARA, "one")
    frames.vouch(SEED, ANA)
    return frames


def let_push(store: Store, *dids: str) -> None:
    """Say what the knot says, for the repository of seed."""
    with store.write() as txn:
        number = txn.value("select repository_id from repository_aliases where alias = ?", [REPO])
        txn.execute("delete from push_holders where repository_id = ?", [number])
        people = txn.person_ids(dids)
        row = {
            "repository_id": number,
            "role": "collaborator",
            "learned_from": "knot",
            "held_from": None,
            "held_until": None,
        }
        txn.append("push_holders", [row | {"contributor_id": person} for person in people.values()])
    settle(store)


def state(store: Store) -> tuple[str, bool]:
    ((found, verified),) = rows(
        store, "select state, coalesce(merge_proof = 'verified', false) from pull_requests where pull_uri = ?", ONE
    )
    return found, verified


@pytest.mark.parametrize(
    ("actor", "pushes", "word", "authority", "expected"),
    [
        (SEED, (), "merged", "push_holder", ("merged", True)),
        (SEED, (), "closed", "push_holder", ("closed", False)),
        (ANA, (ANA,), "merged", "push_holder", ("merged", True)),
        (ANA, (ANA,), "closed", "push_holder", ("closed", False)),
        (ANA, (), "merged", "stranger", ("open", False)),
        (ANA, (), "closed", "stranger", ("open", False)),
        (MARA, (), "merged", "author", ("open", False)),
        (MARA, (), "closed", "author", ("closed", False)),
        (MARA, (MARA,), "merged", "author_push_holder", ("merged", False)),
        (MARA, (MARA,), "closed", "author_push_holder", ("closed", False)),
        (STRANGER, (ANA,), "merged", "stranger", ("open", False)),
        (SEED, (), "approved", "push_holder", ("open", False)),
    ],
)
def test_a_status_is_worth_what_its_author_may_do(
    store: Store, actor: str, pushes: tuple[str, ...], word: str, authority: str, expected: tuple[str, bool]
) -> None:
    frames = world()
    frames.status(actor, ONE, word)
    take(store, frames)
    let_push(store, *pushes)
    assert rows(store, "select authority, status from statuses") == [(authority, word)]
    assert state(store) == expected


def test_what_the_knot_tells_later_repairs_what_was_judged_before(store: Store) -> None:
    frames = world()
    frames.status(ANA, ONE, "merged")
    take(store, frames)
    assert state(store) == ("open", False)
    let_push(store, ANA)
    assert state(store) == ("merged", True)
    let_push(store)
    assert state(store) == ("open", False)


def test_a_merge_counts_once_the_repository_is_known(store: Store) -> None:
    frames = Frames()
    frames.pull(MARA, "one")
    frames.status(SEED, ONE, "merged")
    take(store, frames)
    assert state(store) == ("open", False)
    frames.repository(SEED, repoDid=REPO)
    take(store, frames)
    assert state(store) == ("merged", True)


def test_an_author_cannot_reopen_what_was_merged_but_a_push_holder_can(store: Store) -> None:
    frames = world()
    frames.status(SEED, ONE, "merged")
    frames.status(MARA, ONE, "open")
    frames.status(MARA, ONE, "closed")
    take(store, frames)
    assert state(store) == ("merged", True)
    frames.status(SEED, ONE, "open")
    take(store, frames)
    assert state(store) == ("open", False)
    frames.status(MARA, ONE, "closed")
    take(store, frames)
    assert state(store) == ("closed", False)


@pytest.mark.parametrize(("word", "kept"), [("merged", True), ("closed", False)])
def test_an_author_cannot_delete_what_a_push_holder_settled(store: Store, word: str, kept: bool) -> None:
    frames = world()
    frames.status(SEED, ONE, word)
    frames.delete(MARA, PULL, "one")
    take(store, frames)
    assert state(store) == (word, kept)


def test_what_the_author_closed_is_abandoned_when_it_is_deleted(store: Store) -> None:
    frames = world()
    frames.status(MARA, ONE, "closed")
    frames.delete(MARA, PULL, "one")
    take(store, frames)
    assert state(store) == ("abandoned", False)


@pytest.mark.parametrize("word", ["merged", "closed"])
def test_an_author_cannot_carry_an_outcome_to_another_repository(store: Store, word: str) -> None:
    frames = world()
    frames.repository(MALLORY, "junk", repoDid=OTHER)
    frames.status(SEED, ONE, word)
    frames.pull(MARA, "one", "update", target=OTHER)
    take(store, frames)
    where = "select repo_key, state from pull_requests join repositories using (repository_id)"
    assert rows(store, where) == [(REPO, word)]


def test_the_status_that_was_seen_last_stands_and_not_the_one_that_claims_to_be_later(store: Store) -> None:
    frames = world()
    frames.commit(SEED, STATUS, "jzzzzzzzzzzzz", {"pull": ONE, "status": "closed", "createdAt": "2099-01-01T00:00:00Z"})
    frames.commit(SEED, STATUS, "2222222222222", {"pull": ONE, "status": "merged", "createdAt": CREATED})
    take(store, frames)
    assert state(store) == ("merged", True)


def test_a_back_written_merge_happened_at_no_known_moment(store: Store) -> None:
    frames = world()
    frames.status(SEED, ONE, "merged", rkey="one")
    frames.pull(MARA, "two")
    frames.status(SEED, pull_uri(MARA, "two"), "merged", rkey="other")
    take(store, frames)
    assert rows(store, "select state, merged_at is null, state_at from pull_requests order by pull_uri") == [
        ("merged", True, at(3)),
        ("merged", False, at(5)),
    ]


def test_a_merge_stays_verified_when_its_author_repeats_it(store: Store) -> None:
    frames = world()
    frames.status(SEED, ONE, "merged")
    frames.status(MARA, ONE, "merged")
    take(store, frames)
    let_push(store, MARA)
    assert state(store) == ("merged", True)


def test_the_owner_of_another_repository_decides_nothing_here(store: Store) -> None:
    frames = world()
    frames.repository(MALLORY, "mine", repoDid=OTHER)
    frames.status(MALLORY, ONE, "merged")
    frames.status(MALLORY, ONE, "closed")
    take(store, frames)
    assert state(store) == ("open", False)


def test_a_status_that_names_no_pull_request_here_is_kept_and_changes_nothing(store: Store) -> None:
    frames = world()
    frames.status(SEED, pull_uri(MARA, "elsewhere"), "merged")
    take(store, frames)
    assert rows(store, "select authority from statuses") == [("stranger",)]
    assert state(store) == ("open", False)


def test_settling_again_changes_nothing(store: Store) -> None:
    frames = world()
    frames.status(SEED, ONE, "merged")
    take(store, frames)
    before = rows(store, "from pull_requests")
    settle(store)
    assert rows(store, "from pull_requests") == before


def test_what_is_settled_is_not_settled_again_until_an_input_changes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = world()
    take(store, frames)
    runs: list[Store] = []
    monkeypatch.setattr(ingest.records.pull_state, "settle", lambda store: runs.append(store) or settle(store))
    settle_changed(store)
    assert runs == []
    frames.status(SEED, ONE, "merged")
    load(store, SOURCE, frames[3:])
    derive(store)
    settle_changed(store)
    settle_changed(store)
    assert (len(runs), state(store)) == (1, ("merged", True))


def test_a_merge_happened_when_it_was_seen_whatever_its_writer_claims(store: Store) -> None:
    frames = world()
    early = "3k2aaaaaaaa22"
    frames.commit(SEED, STATUS, early, {"pull": ONE, "status": "merged", "createdAt": "2020-01-01T00:00:00Z"})
    take(store, frames)
    assert rows(store, "select written_at < ?, written_at < seen_at from statuses", at(0)) == [(True, True)]
    assert rows(store, "select merged_at from pull_requests") == [(at(3),)]
