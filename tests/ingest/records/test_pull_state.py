"""Only some may say that a pull request was merged or closed; what proves a merge, and what nobody can undo."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as draw

import ingest.records.pull_state
from ingest.records.derive import derive
from ingest.records.pull_state import settle, settle_changed
from ingest.store.database import Store
from ingest.stream.load import load
from tests.conftest import count
from tests.ingest.stream.frames import (
    ANA,
    BLOB,
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
STANDING = "select state, merge_proof, state_at, merged_at from pull_requests"
NUMBER = "select repository_id from repositories"
VERIFIED, UNVERIFIED, CONTRADICTED = "verified", "unverified", "contradicted"


def world(*words: tuple[str, str]) -> Frames:
    """A repository of seed, a pull request of mara, and who says what of it from 2 on."""
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.pull(MARA, "one")
    for actor, word in words:
        frames.status(actor, ONE, word)
    return frames


def hold(store: Store, did: str, held_from: datetime | None = None, held_until: datetime | None = None) -> None:
    """What the knot said of somebody."""
    with store.write() as txn:
        row = {"repository_id": txn.value(NUMBER), "role": "collaborator", "learned_from": "knot"}
        row |= {"held_from": held_from, "held_until": held_until, "contributor_id": txn.person_ids([did])[did]}
        txn.append("push_holders", [row])
    settle(store)


def land(store: Store, landed_at: datetime, proven: bool = True, uri: str = ONE, **columns: Any) -> None:
    """What the search for landed commits found."""
    row = {"pull_uri": uri, "commit_id": "c0ffee", "branch": "main", "round": 0, "landed_at": landed_at}
    with store.write() as txn:
        txn.upsert("landings", [row | {"proof": "patch_id", "proven": proven, "followed": False} | columns])
    settle(store)


def mirror(
    store: Store, state: str, fetched_at: datetime | None, patch_id: str | None = "b" * 40, refs: str = ""
) -> None:
    """The patch was read, and so was (or was not) the mirror."""
    patch: dict[str, object] = {
        "pull_uri": ONE,
        "patch_ref": f"blob:{BLOB}",
        "patch_id": patch_id,
        "sha256": "",
        "bytes": 1,
        "files": 1,
    }
    patch |= {"added": 1, "removed": 0, "state": "read", "proves": True, "series": [], "change_ids": []}
    row = {"state": state, "reason": None, "bytes": 1, "fetched_at": fetched_at}
    with store.write() as txn:
        row |= {"repository_id": txn.value(NUMBER), "refs": refs or '{"main": "c0ffee"}'}
        txn.upsert("patches", [patch])
        txn.upsert("mirrors", [row | {"read_refs": row["refs"]}])
    settle(store)


def standing(store: Store) -> tuple[str, str | None]:
    return rows(store, STANDING)[0][:2]


@pytest.mark.parametrize(
    ("actor", "pushes", "word", "authority", "expected"),
    [
        (SEED, (), "merged", "push_holder", ("merged", VERIFIED)),
        (SEED, (), "closed", "push_holder", ("closed", None)),
        (ANA, (ANA,), "merged", "push_holder", ("merged", VERIFIED)),
        (ANA, (ANA,), "closed", "push_holder", ("closed", None)),
        (ANA, (), "merged", "stranger", ("open", UNVERIFIED)),
        (ANA, (), "closed", "stranger", ("open", None)),
        (MARA, (), "merged", "author", ("open", UNVERIFIED)),
        (MARA, (), "closed", "author", ("closed", None)),
        (MARA, (MARA,), "merged", "author_push_holder", ("merged", UNVERIFIED)),
        (MARA, (MARA,), "closed", "author_push_holder", ("closed", None)),
        (STRANGER, (ANA,), "merged", "stranger", ("open", UNVERIFIED)),
        (SEED, (), "approved", "push_holder", ("open", None)),
    ],
)
def test_a_status_is_worth_what_its_author_may_do(
    store: Store, actor: str, pushes: tuple[str, ...], word: str, authority: str, expected: tuple[str, str | None]
) -> None:
    take(store, world((actor, word)))
    for did in pushes:
        hold(store, did)
    assert rows(store, "select authority, status from statuses") == [(authority, word)]
    assert standing(store) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), ("open", None)),
        (((MARA, "merged"), (MARA, "open")), ("open", None)),
        (((MARA, "merged"), (SEED, "merged")), ("merged", VERIFIED)),
        (((SEED, "merged"), (STRANGER, "merged")), ("merged", VERIFIED)),
        (((SEED, "merged"), (MARA, "open"), (MARA, "closed")), ("merged", VERIFIED)),
        (((SEED, "merged"), (MARA, "open"), (MARA, "closed"), (SEED, "open")), ("open", None)),
        (((SEED, "merged"), (MARA, "open"), (SEED, "open"), (MARA, "closed")), ("closed", None)),
        (((SEED, "merged"), (SEED, "closed")), ("closed", None)),
        (((MARA, "merged"), (SEED, "closed")), ("closed", CONTRADICTED)),
        (((SEED, "closed"), (STRANGER, "merged")), ("closed", CONTRADICTED)),
        (((SEED, "closed"), (STRANGER, "merged"), (SEED, "open")), ("open", UNVERIFIED)),
        (((SEED, "closed"), (MARA, "merged"), (SEED, "merged")), ("merged", VERIFIED)),
    ],
)  # fmt: skip
def test_a_claim_is_worth_what_those_who_may_push_say_of_it(
    store: Store, words: tuple[tuple[str, str], ...], expected: tuple[str, str | None]
) -> None:
    take(store, world(*words))
    assert standing(store) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (((SEED, "closed"), (MARA, "merged")), ("merged", UNVERIFIED)),
        (((SEED, "merged"), (MARA, "merged")), ("merged", VERIFIED)),
        (((MARA, "merged"), (SEED, "merged")), ("merged", VERIFIED)),
        (((SEED, "merged"), (MARA, "closed")), ("merged", VERIFIED)),
    ],
)
def test_an_author_who_may_push_merges_unverified_and_undoes_no_merge_of_others(
    store: Store, words: tuple[tuple[str, str], ...], expected: tuple[str, str | None]
) -> None:
    take(store, world(*words))
    hold(store, MARA)
    assert standing(store) == expected


def test_an_author_who_may_push_only_later_had_no_right_when_it_was_said(store: Store) -> None:
    take(store, world((MARA, "merged")))
    hold(store, MARA, held_from=at(3))
    assert standing(store) == ("open", UNVERIFIED)


@pytest.mark.parametrize("words", [(), ((SEED, "closed"),), ((MARA, "closed"),), ((STRANGER, "merged"),)])
def test_a_landing_alone_makes_a_merge(store: Store, words: tuple[tuple[str, str], ...]) -> None:
    take(store, world(*words))
    land(store, at(50))
    assert rows(store, STANDING) == [("merged", VERIFIED, at(50), at(50))]


@pytest.mark.parametrize("actor", [SEED, MARA])
def test_who_closes_after_a_landing_only_tidies_up(store: Store, actor: str) -> None:
    take(store, world((actor, "closed")))
    land(store, at(1))
    assert rows(store, STANDING) == [("merged", VERIFIED, at(1), at(1))]


def test_only_a_push_holder_who_is_not_the_author_reopens_what_landed(store: Store) -> None:
    frames = world((MARA, "open"))
    take(store, frames)
    land(store, at(1))
    assert standing(store) == ("merged", VERIFIED)
    frames.status(SEED, ONE, "open")
    take(store, frames)
    assert standing(store) == ("open", None)


def test_the_author_cannot_delete_what_landed(store: Store) -> None:
    frames = world()
    take(store, frames)
    land(store, at(1))
    frames.delete(MARA, PULL, "one")
    take(store, frames)
    assert standing(store) == ("merged", VERIFIED)


def test_a_merge_happened_when_the_word_or_the_landing_was_first_seen(store: Store) -> None:
    take(store, world((SEED, "merged")))
    land(store, at(50))
    assert rows(store, "select merged_at from pull_requests") == [(at(2),)]
    land(store, at(1))
    assert rows(store, "select merged_at from pull_requests") == [(at(1),)]


def test_a_landing_dates_a_back_written_merge(store: Store) -> None:
    frames = world()
    frames.status(SEED, ONE, "merged", rkey="one")
    take(store, frames)
    assert rows(store, STANDING) == [("merged", VERIFIED, at(2), None)]
    land(store, at(50))
    assert rows(store, STANDING) == [("merged", VERIFIED, at(2), at(50))]


@pytest.mark.parametrize("proof", ["patch_id", "change_id", "subject"])
def test_a_commit_that_proves_nothing_merges_nothing(store: Store, proof: str) -> None:
    take(store, world((MARA, "merged")))
    land(store, at(50), proven=False, proof=proof)
    assert standing(store) == ("open", UNVERIFIED)


def test_a_mirror_read_after_the_claim_contradicts_it(store: Store) -> None:
    take(store, world((MARA, "merged")))
    mirror(store, "fetched", at(3))
    assert standing(store) == ("open", CONTRADICTED)
    land(store, at(60))
    assert standing(store) == ("merged", VERIFIED)


def decide(store: Store, did: str, kind: str, known_from: datetime) -> None:
    """What a maintainer of this site says of a claimed merge."""
    row: dict[str, object] = {
        "kind": kind,
        "outcome": None,
        "note": "",
        "pull_uri": ONE,
        "record_cid": None,
        "round": 0,
        "patch_id": None,
    }
    row |= {"action_key": f"{did} {kind} {known_from}", "batch": None, "made_at": known_from, "known_from": known_from}
    with store.write() as txn:
        row |= {"repository_id": txn.value(NUMBER), "actor_id": txn.person_ids([did])[did]}
        txn.append("maintainer_actions", [row])
    settle(store)


def test_a_maintainer_here_settles_a_claimed_merge_until_somebody_who_may_push_says_otherwise(store: Store) -> None:
    frames = world((MARA, "merged"))
    take(store, frames)
    for kind in ("confirm_merge", "deny_merge"):
        decide(store, MARA, kind, at(2))
    assert standing(store) == ("open", UNVERIFIED), "nobody's word about their own counts"
    decide(store, ANA, "deny_merge", at(2))
    assert standing(store) == ("open", CONTRADICTED)
    frames.status(MARA, ONE, "merged")
    take(store, frames[-1:])
    assert standing(store) == ("open", UNVERIFIED), "a new claim is not settled by an older word"
    decide(store, ANA, "confirm_merge", at(4))
    assert rows(store, STANDING) == [("merged", VERIFIED, at(4), at(4))]
    for actor, expected in ((MARA, ("merged", VERIFIED)), (SEED, ("open", UNVERIFIED))):
        frames.extend([b""] * 2)
        frames.status(actor, ONE, "open")
        take(store, frames[-1:])
        assert standing(store)[0] == expected[0]


@pytest.mark.parametrize(
    "told",
    [
        {"state": "failed", "fetched_at": at(3)},
        {"state": "absent", "fetched_at": None},
        {"state": "too_large", "fetched_at": at(3)},
        {"state": "fetched", "fetched_at": at(2)},
        {"state": "fetched", "fetched_at": at(3), "patch_id": None},
        {"state": "fetched", "fetched_at": at(3), "refs": '{"other": "c0ffee"}'},
        {"state": "fetched", "fetched_at": at(3), "refs": "{}"},
    ],
)
def test_what_could_not_be_read_contradicts_nothing_and_verifies_nothing(store: Store, told: dict[str, Any]) -> None:
    take(store, world((MARA, "merged")))
    mirror(store, **told)
    assert standing(store) == ("open", UNVERIFIED)


def test_a_mirror_contradicts_no_push_holder(store: Store) -> None:
    take(store, world((SEED, "merged")))
    mirror(store, "fetched", at(3))
    assert standing(store) == ("merged", VERIFIED)


def test_a_patch_that_is_there_unproven_is_not_missing(store: Store) -> None:
    take(store, world((MARA, "merged")))
    mirror(store, "fetched", at(3))
    land(store, at(0), proven=False)
    assert standing(store) == ("open", UNVERIFIED)


def test_with_knot_and_mirror_silent_a_collaborators_merge_stays_unverified(store: Store) -> None:
    take(store, world((ANA, "merged")))
    mirror(store, "failed", None)
    assert standing(store) == ("open", UNVERIFIED)
    hold(store, ANA)
    assert standing(store) == ("merged", VERIFIED)
    with store.write() as txn:
        txn.execute("delete from push_holders")
    settle(store)
    assert standing(store) == ("open", UNVERIFIED)


def test_a_merge_counts_once_the_repository_is_known(store: Store) -> None:
    frames = Frames()
    frames.pull(MARA, "one")
    frames.status(SEED, ONE, "merged")
    take(store, frames)
    assert standing(store) == ("open", UNVERIFIED)
    frames.repository(SEED, repoDid=REPO)
    take(store, frames)
    assert standing(store) == ("merged", VERIFIED)


@pytest.mark.parametrize(
    ("actor", "word", "expected"),
    [
        (SEED, "merged", ("merged", VERIFIED)),
        (SEED, "closed", ("closed", None)),
        (MARA, "closed", ("abandoned", None)),
    ],
)
def test_an_author_who_deletes_it_takes_back_only_their_own_word(
    store: Store, actor: str, word: str, expected: tuple[str, str | None]
) -> None:
    frames = world((actor, word))
    frames.delete(MARA, PULL, "one")
    take(store, frames)
    assert standing(store) == expected


@pytest.mark.parametrize("word", ["merged", "closed"])
def test_an_author_cannot_carry_an_outcome_to_another_repository(store: Store, word: str) -> None:
    frames = world((SEED, word))
    frames.repository(MALLORY, "junk", repoDid=OTHER)
    frames.pull(MARA, "one", "update", target=OTHER)
    take(store, frames)
    where = "select repo_key, state from pull_requests join repositories using (repository_id)"
    assert rows(store, where) == [(REPO, word)]


def test_the_status_that_was_seen_last_stands_and_not_the_one_that_claims_to_be_later(store: Store) -> None:
    frames = world()
    frames.commit(SEED, STATUS, "jzzzzzzzzzzzz", {"pull": ONE, "status": "closed", "createdAt": "2099-01-01T00:00:00Z"})
    frames.commit(SEED, STATUS, "2222222222222", {"pull": ONE, "status": "merged", "createdAt": CREATED})
    take(store, frames)
    assert standing(store) == ("merged", VERIFIED)


def test_the_owner_of_another_repository_decides_nothing_here(store: Store) -> None:
    frames = world()
    frames.repository(MALLORY, "mine", repoDid=OTHER)
    frames.status(MALLORY, ONE, "merged")
    frames.status(MALLORY, ONE, "closed")
    take(store, frames)
    assert standing(store) == ("open", UNVERIFIED)


def test_a_status_that_names_no_pull_request_here_is_kept_and_changes_nothing(store: Store) -> None:
    frames = world()
    frames.status(SEED, pull_uri(MARA, "elsewhere"), "merged")
    take(store, frames)
    assert rows(store, "select authority from statuses") == [("stranger",)]
    assert standing(store) == ("open", None)


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
    load(store, SOURCE, frames[2:])
    derive(store)
    settle_changed(store)
    settle_changed(store)
    assert (len(runs), standing(store)) == (1, ("merged", VERIFIED))


def test_a_merge_happened_when_it_was_seen_whatever_its_writer_claims(store: Store) -> None:
    frames = world()
    early = "3k2aaaaaaaa22"
    frames.commit(SEED, STATUS, early, {"pull": ONE, "status": "merged", "createdAt": "2020-01-01T00:00:00Z"})
    take(store, frames)
    assert rows(store, "select written_at < ?, written_at < seen_at from statuses", at(0)) == [(True, True)]
    assert rows(store, "select merged_at from pull_requests") == [(at(2),)]


WORDS = draw.lists(
    draw.tuples(
        draw.sampled_from([SEED, ANA, MARA, MALLORY]), draw.sampled_from(["open", "closed", "merged", "approved"])
    ),
    max_size=12,
)


@pytest.fixture(scope="module", name="told")
def told_fixture(scratch: Store) -> Store:
    """A store with the small world, whose words are replaced for each example."""
    take(scratch, world((SEED, "open"), (ANA, "open"), (MALLORY, "open")))
    return scratch


def say(store: Store, words: Sequence[tuple[str, str]], pushers: Sequence[str], landed_at: datetime | None) -> None:
    """These words and no others, by people of whom these may push."""
    with store.write() as txn:
        for table in ("statuses", "landings", "push_holders"):
            txn.execute(f"delete from {table}")
        people = txn.person_ids([SEED, ANA, MARA, MALLORY])
        row = {"pull_uri": ONE, "back_written": False, "written_at": at(0), "deleted_at": None, "authority": "stranger"}
        said = [
            row | {"status_uri": f"at://{n}", "actor_id": people[did], "status": word, "seen_at": at(n), "event_seq": n}
            for n, (did, word) in enumerate(words)
        ]
        txn.append("statuses", said)
    for did in pushers:
        hold(store, did)
    if landed_at is not None:
        land(store, landed_at)
    settle(store)


@settings(max_examples=count(12, 1000))
@given(words=WORDS, landed_at=draw.sampled_from([None, at(-1), at(99)]), pushes=draw.booleans())
def test_no_word_of_the_author_or_a_stranger_moves_what_others_settled(
    told: Store, words: list[tuple[str, str]], landed_at: datetime | None, pushes: bool
) -> None:
    say(told, [word for word in words if word[0] in (SEED, ANA)], [ANA], landed_at)
    settled, quiet = standing(told)
    say(told, words, [ANA, MARA] if pushes else [ANA], landed_at)
    state, proof = standing(told)
    assert (proof == VERIFIED) == (quiet == VERIFIED)
    if settled == "merged":
        assert state == "merged"
    if state == "merged" and settled != "merged":
        assert pushes
        assert proof == UNVERIFIED
    before = rows(told, "from pull_requests")
    settle(told)
    assert rows(told, "from pull_requests") == before
