"""Push rights over time follow the owner, the knot and the owner's records, and nobody else."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as draw

from ingest.http.fetcher import Fetcher
from ingest.lookups.forge import push_holders
from ingest.records.pull_state import Holder, follow_claims, settle, write_holders
from ingest.records.watched import add_maintainer
from ingest.store.database import Store
from tests.conftest import count
from tests.ingest.conftest import Start
from tests.ingest.peer import response
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
ONE = pull_uri(MARA, "one")
SPANS = (
    "select did, learned_from, held_from, held_until from push_holders join contributors using (contributor_id) "
    "where role <> 'owner' order by all"
)
AUTHORITIES = "select authority from statuses order by seen_at"
DAY = timedelta(days=1)


@pytest.fixture(name="town")
def town_fixture(store: Store) -> Store:
    """A repository of seed and a pull request of mara; ana says `merged` at 2, 3 and 4."""
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.pull(MARA, "one")
    for _ in range(3):
        frames.status(ANA, ONE, "merged")
    frames.vouch(SEED, MALLORY)
    take(store, frames)
    return store


def number(store: Store, key: str = REPO) -> int:
    return rows(store, "select repository_id from repository_aliases where alias = ?", key)[0][0]


def listed(store: Store, now: datetime, *holders: Holder, owner: str = SEED) -> bool:
    """What the knot answers at `now`."""
    with store.write() as txn:
        changed = write_holders(txn, number(store), txn.person_ids([owner])[owner], holders, now)
    settle(store)
    return changed


def collaborate(store: Store, author: str, **columns: Any) -> None:
    """A collaborator record as the log would lead to it, seen at 3."""
    row = {
        "uri": f"at://{author}/collaborator/{columns.get('subject')}",
        "record_cid": None,
        "form": "collaborator",
        "repository": REPO,
        "subject": ANA,
        "written_at": at(-900),
        "seen_at": at(3),
        "changed_at": at(3),
        "deleted_at": None,
    }
    with store.write() as txn:
        txn.upsert("collaborators", [row | {"author_id": txn.person_ids([author])[author]} | columns])
    settle(store)


def authorities(store: Store) -> list[str]:
    return [authority for (authority,) in rows(store, AUTHORITIES)]


def proof(store: Store) -> tuple[str, str | None]:
    return rows(store, "select state, merge_proof from pull_requests")[0]


def test_a_right_reaches_back_to_the_moment_that_the_knot_gives_and_no_further(town: Store) -> None:
    assert listed(town, at(90), Holder(ANA, at(3)))
    assert authorities(town) == ["stranger", "push_holder", "push_holder"]
    assert rows(town, SPANS) == [(ANA, "knot", at(3), None)]


@pytest.mark.parametrize("since", [None, at(99_999)])
def test_a_right_without_a_past_holds_from_when_it_was_learned(town: Store, since: datetime | None) -> None:
    listed(town, at(4), Holder(ANA, since))
    assert authorities(town) == ["stranger", "stranger", "push_holder"]
    assert rows(town, SPANS) == [(ANA, "knot", at(4), None)]


def test_who_is_listed_no_longer_loses_the_right_and_keeps_the_past(town: Store) -> None:
    listed(town, at(3), Holder(ANA, at(0)))
    assert listed(town, at(4))
    assert rows(town, SPANS) == [(ANA, "knot", at(0), at(4))]
    assert authorities(town) == ["push_holder", "push_holder", "stranger"]
    assert proof(town) == ("merged", "verified")
    assert not listed(town, at(5)), "a second answer that says the same changes nothing"


def test_who_is_listed_again_since_before_had_never_lost_the_right(town: Store) -> None:
    listed(town, at(2), Holder(ANA, at(0)))
    listed(town, at(3))
    listed(town, at(9), Holder(ANA, at(0)))
    assert rows(town, SPANS) == [(ANA, "knot", at(0), None)]


def test_who_is_given_the_right_anew_has_a_gap_between(town: Store) -> None:
    listed(town, at(2), Holder(ANA, at(0)))
    listed(town, at(3))
    listed(town, at(9), Holder(ANA, at(4)))
    assert authorities(town) == ["push_holder", "stranger", "push_holder"]


def test_an_answer_about_another_owners_repository_is_void(town: Store) -> None:
    assert not listed(town, at(9), Holder(MALLORY, at(0)), owner=MALLORY)
    assert rows(town, SPANS) == []


def test_the_owner_on_the_list_is_no_collaborator(town: Store) -> None:
    listed(town, at(9), Holder(SEED, at(0)))
    assert rows(town, SPANS) == []
    owners = "select did, held_from, held_until from push_holders join contributors using (contributor_id)"
    assert rows(town, owners) == [(SEED, None, None)]


def test_the_owners_record_counts_from_when_it_was_seen_until_it_was_deleted(town: Store) -> None:
    collaborate(town, SEED)
    assert rows(town, SPANS) == [(ANA, "record", at(3), None)]
    assert authorities(town) == ["stranger", "push_holder", "push_holder"]
    collaborate(town, SEED, deleted_at=at(4))
    assert rows(town, SPANS) == [(ANA, "record", at(3), at(4))]
    assert authorities(town) == ["stranger", "push_holder", "stranger"]


@pytest.mark.parametrize("name", [URI, REPO])
def test_a_record_may_name_the_repository_by_each_of_its_names(town: Store, name: str) -> None:
    collaborate(town, SEED, repository=name)
    assert [did for did, *_ in rows(town, SPANS)] == [ANA]


@pytest.mark.parametrize("author", [ANA, MARA, MALLORY])
@pytest.mark.parametrize("name", [URI, REPO])
def test_a_record_by_anybody_else_names_nobody(town: Store, author: str, name: str) -> None:
    collaborate(town, author, repository=name)
    assert rows(town, SPANS) == []
    assert set(authorities(town)) == {"stranger"}


@pytest.mark.parametrize(
    "columns",
    [
        {"form": "invite"},
        {"form": "acceptance"},
        {"repository": None},
        {"repository": "did:plc:" + "e" * 24},
        {"subject": None},
        {"subject": SEED},
        {"subject": "did:plc:nobody"},
    ],
)
def test_a_record_that_names_nobody_here_gives_nothing(town: Store, columns: dict[str, Any]) -> None:
    collaborate(town, SEED, **columns)
    assert rows(town, SPANS) == []


def test_a_knot_that_ends_a_right_leaves_the_owners_record_alone_and_the_other_way_round(town: Store) -> None:
    collaborate(town, SEED)
    listed(town, at(3), Holder(ANA, at(0)))
    listed(town, at(4))
    assert rows(town, SPANS) == [(ANA, "knot", at(0), at(4)), (ANA, "record", at(3), None)]
    assert set(authorities(town)) == {"push_holder"}
    before = digest_of(town)
    settle(town)
    assert digest_of(town) == before


def test_an_owner_whom_the_operator_outranks_loses_the_past_too_and_so_do_theirs(store: Store) -> None:
    frames = Frames()
    frames.repository(MALLORY, "stolen", repoDid=REPO)
    frames.pull(MARA, "one")
    frames.repository(SEED, repoDid=REPO)
    for actor in (MALLORY, ANA):
        frames.status(actor, ONE, "merged")
    take(store, frames)
    collaborate(store, MALLORY, seen_at=at(0))
    listed(store, at(9), Holder(ANA, at(0)), owner=MALLORY)
    assert proof(store) == ("merged", "verified")
    add_maintainer(store, SEED, [URI], at(99))
    settle(store)
    assert rows(store, "select distinct authority from statuses") == [("stranger",)]
    assert proof(store) == ("open", "unverified")
    held = "select did from push_holders join contributors using (contributor_id) where repository_id = ?"
    assert rows(store, held, number(store)) == [(SEED,)]


def test_rights_move_with_a_repository_that_turns_out_to_be_another(store: Store) -> None:
    frames = Frames()
    frames.repository(SEED)
    frames.pull(MARA, "one", target=REPO)
    take(store, frames)
    take(store, frames)
    frames.repository(SEED, operation="update", repoDid=REPO)
    take(store, frames)
    assert rows(store, "select repository_id, learned_from from push_holders") == [(number(store), "owner")]


def test_the_real_answer_of_a_knot_dates_the_rights(peer: Start, shared: Path) -> None:
    told = json.loads((shared / "examples" / "knot_listCollaborators.ndjson").read_text().splitlines()[0])["body"]
    server = peer(lambda _: response(json.dumps(told).encode()))
    found = push_holders(Fetcher(server.origin), "knot.example.test", REPO)
    assert [holder.did for holder in found] == [item["subject"] for item in told["items"]]
    assert {holder.since for holder in found} == {datetime(2026, 6, 17, 13, 7, 44)}


@pytest.mark.parametrize("created", [None, 7, "", "yesterday", ["2026"], "9999-99-99T00:00:00Z"])
def test_a_moment_that_cannot_be_read_is_none(peer: Start, created: object) -> None:
    server = peer(lambda _: response(json.dumps({"items": [{"subject": ANA, "createdAt": created}]}).encode()))
    assert push_holders(Fetcher(server.origin), "knot.example.test", REPO) == [Holder(ANA, None)]


LISTS = draw.lists(draw.dictionaries(draw.sampled_from([ANA, MARA, MALLORY]), draw.integers(0, 20)), max_size=8)


@settings(max_examples=count(20, 1000))
@given(lists=LISTS)
def test_whatever_a_knot_says_day_by_day_the_newest_answer_stands_and_no_right_begins_late(
    scratch: Store, lists: Sequence[dict[str, int]]
) -> None:
    with scratch.write() as txn:
        owner = txn.person_ids([SEED])[SEED]
        txn.execute("delete from push_holders")
        txn.execute(
            "insert or replace into repositories (repo_key, repository_id, owner_id) values (?, 1, ?)", [REPO, owner]
        )
        for day, answer in enumerate(lists):
            write_holders(
                txn, 1, owner, [Holder(did, at(0) + since * DAY) for did, since in answer.items()], at(0) + day * DAY
            )
            follow_claims(txn)
            assert not follow_claims(txn)
    current = rows(scratch, SPANS.replace("where", "where held_until is null and"))
    assert {did for did, *_ in current} == set(lists[-1] if lists else ())
    assert len(current) == len({did for did, *_ in current})
    assert all(since <= at(0) + (len(lists) - 1) * DAY for _, _, since, _ in current)
    assert rows(scratch, "select count(*) from push_holders where held_until < held_from") == [(0,)]
