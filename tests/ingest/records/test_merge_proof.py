"""Another push-holder's word or a landing proves a merge; a claim without proof is called one."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as draw

from ingest.records.pull_state import settle
from ingest.store.database import Store
from tests.conftest import count
from tests.ingest.stream.frames import (
    ANA,
    BLOB,
    MALLORY,
    MARA,
    PULL,
    REPO,
    SEED,
    STRANGER,
    Frames,
    at,
    pull_uri,
    rows,
    take,
)

ONE = pull_uri(MARA, "one")
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
    ("words", "expected"),
    [
        ((), ("open", None)),
        (((MARA, "closed"),), ("closed", None)),
        (((SEED, "closed"),), ("closed", None)),
        (((SEED, "merged"),), ("merged", VERIFIED)),
        (((MARA, "merged"),), ("open", UNVERIFIED)),
        (((STRANGER, "merged"),), ("open", UNVERIFIED)),
        (((MARA, "merged"), (MARA, "open")), ("open", None)),
        (((MARA, "merged"), (SEED, "merged")), ("merged", VERIFIED)),
        (((SEED, "merged"), (STRANGER, "merged")), ("merged", VERIFIED)),
        (((SEED, "merged"), (SEED, "open")), ("open", None)),
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
        (((MARA, "merged"),), ("merged", UNVERIFIED)),
        (((SEED, "closed"), (MARA, "merged")), ("merged", UNVERIFIED)),
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


WORDS = draw.lists(
    draw.tuples(
        draw.sampled_from([SEED, ANA, MARA, MALLORY]), draw.sampled_from(["open", "closed", "merged", "approved"])
    ),
    max_size=12,
)


@pytest.fixture(scope="module", name="scratch")
def scratch_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store with the small world, whose words are replaced for each example."""
    store = Store.open(tmp_path_factory.mktemp("words") / "trust.duckdb")
    store.bind("test")
    take(store, world((SEED, "open"), (ANA, "open"), (MALLORY, "open")))
    yield store
    store.close()


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
    scratch: Store, words: list[tuple[str, str]], landed_at: datetime | None, pushes: bool
) -> None:
    say(scratch, [word for word in words if word[0] in (SEED, ANA)], [ANA], landed_at)
    settled, quiet = standing(scratch)
    say(scratch, words, [ANA, MARA] if pushes else [ANA], landed_at)
    state, proof = standing(scratch)
    assert (proof == VERIFIED) == (quiet == VERIFIED)
    if settled == "merged":
        assert state == "merged"
    if state == "merged" and settled != "merged":
        assert pushes
        assert proof == UNVERIFIED
    before = rows(scratch, "from pull_requests")
    settle(scratch)
    assert rows(scratch, "from pull_requests") == before
