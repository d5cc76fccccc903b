"""A real data server, a real PLC directory and the firehose of the one: accounts live, and the tables follow."""

import gzip
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ingest.clock import wall_now
from ingest.http.fetcher import Fetcher
from ingest.lookups.people import fetch_identities
from ingest.lookups.rounds import fetch_patches
from ingest.records.registry import ACCOUNT_CLAIM, REGISTRY
from ingest.records.watched import add_maintainer
from ingest.store.database import Store
from ingest.stream.jetstream import Listener, Subscription
from tests.ingest.backfill.backfilled import run_backfill, sources, standing
from tests.ingest.conftest import Open
from tests.ingest.lookups.declaring import claim
from tests.ingest.records.test_kinds import SHAPES, STRONG
from tests.ingest.records.test_kinds_own import OWN
from tests.ingest.stream.frames import CREATED, PULL, REPOSITORY, SEED, SOURCE, STATUS, VOUCH, rows, settled
from tests.peers.network import Account, RealNetwork
from tests.waiting import wait_for

STATED = {"subject": SEED, "statement": "Works in CH", "validFrom": CREATED, "validUntil": CREATED}
OWN_RECORDS: dict[str, tuple[str | None, dict[str, Any]]] = {
    "jurisdiction": ("self", {"country": "CH"}),
    "jurisdictionAttestation": ("acme", STATED | {"issuer": SEED}),
    "jurisdictionStatement": (SEED, STATED),
    "objection": (None, {"text": "No"}),
    "leaderboardOptOut": ("self", {}),
    "approval": (None, {"subject": STRONG, "round": 0, "createdAt": CREATED}),
}
PATCH = b"""diff --git a/lamp b/lamp
--- a/lamp
+++ b/lamp
@@ -1 +1 @@
-dark
+light
"""


@pytest.fixture
def people(real_network: RealNetwork, request: pytest.FixtureRequest) -> tuple[Account, Account]:
    """Two new accounts, an owner and a contributor."""
    number = time.time_ns() % 1_000_000_000
    return real_network.join(f"own{number}"), real_network.join(f"con{number}")


def listen(store: Store, network: RealNetwork, until: Callable[[], bool]) -> None:
    """Follow the firehose's shim into the store until something is true."""
    listener = Listener(
        store, Subscription(SOURCE, (network.shim.url,), ("sh.tangled.*", f"{OWN}.*", ACCOUNT_CLAIM)), lambda: None
    )
    listener.start()
    try:
        wait_for(until, what="the arrival of the records")
    finally:
        listener.stop()
    settled(store)


def logged(store: Store, *dids: str) -> int:
    ((count,),) = rows(store, "select count(*) from events where kind = 'commit' and list_contains(?, did)", list(dids))
    return count


def test_what_people_write_change_and_delete_on_a_real_server_is_what_the_tables_hold(
    real_network: RealNetwork, people: tuple[Account, Account], store: Store
) -> None:
    owner, contributor = people
    repository = owner.create(REPOSITORY, {"name": "lantern", "knot": "knot.example.test", "createdAt": CREATED})
    blob = contributor.upload(gzip.compress(PATCH))
    rounds = [{"patchBlob": blob, "createdAt": CREATED}]
    offered = {"title": "Mend the lamp", "createdAt": CREATED, "target": {"repo": repository, "branch": "main"}}
    pull = contributor.create(PULL, offered | {"rounds": rounds})
    contributor.put(pull, offered | {"title": "Mend both lamps", "rounds": rounds * 2})
    status = owner.create(STATUS, {"pull": pull, "status": f"{STATUS}.merged", "createdAt": CREATED})
    owner.create(VOUCH, {"kind": "vouch", "createdAt": CREATED}, contributor.did)
    owner.put(f"at://{owner.did}/{VOUCH}/{contributor.did}", {"kind": "denounce", "createdAt": CREATED})
    owner.delete(f"at://{owner.did}/{VOUCH}/{contributor.did}")
    owner.delete(status)
    listen(store, real_network, lambda: logged(store, owner.did, contributor.did) == 8)
    pulls = rows(store, "select title, round_count, state from pull_requests where pull_uri = ?", pull)
    assert pulls == [("Mend both lamps", 2, "open")]
    # Other accounts of the same network have records too.
    by_owner = "join contributors c on c.contributor_id = {} where c.did = ?"
    said = rows(
        store, f"select kind, superseded_by from vouches {by_owner.format('voucher_id')} order by event_seq", owner.did
    )
    assert said == [("vouch", "put"), ("denounce", "delete")]
    told = rows(store, f"select status, deleted_at is not null from statuses {by_owner.format('actor_id')}", owner.did)
    assert told == [("merged", True)]


def test_identity_and_patch_come_from_the_real_directory_and_server(
    real_network: RealNetwork, people: tuple[Account, Account], store: Store, tmp_path: Path
) -> None:
    owner, contributor = people
    repository = owner.create(REPOSITORY, {"name": "lantern", "knot": "knot.example.test", "createdAt": CREATED})
    blob = contributor.upload(gzip.compress(PATCH))
    target = {"repo": repository, "branch": "main"}
    rounds = [{"patchBlob": blob, "createdAt": CREATED}]
    contributor.create(PULL, {"title": "Mend", "createdAt": CREATED, "target": target, "rounds": rounds})
    listen(store, real_network, lambda: logged(store, owner.did, contributor.did) == 2)
    add_maintainer(store, owner.did, [repository], wall_now())
    fetcher = Fetcher(real_network.origin)
    fetch_identities(store, fetcher, "https://plc.directory", store.wall)
    fetch_patches(store, fetcher, tmp_path, 1_000_000, store.wall)
    fetcher.close()
    sql = "select did, handle, handle_verified, pds from contributors where did in (?, ?) order by contributor_id"
    found = rows(store, sql, owner.did, contributor.did)
    assert found == [
        (account.did, account.handle, True, "https://pds.example.test") for account in (owner, contributor)
    ]
    ((created,),) = rows(store, "select did_created_at from contributors where did = ?", contributor.did)
    assert abs(created - wall_now()) < timedelta(minutes=10)
    assert rows(store, "select state, files, added, removed from patches") == [("read", 1, 1, 1)]


def test_an_account_that_was_deactivated_is_told_so(
    real_network: RealNetwork, people: tuple[Account, Account], open_store: Open
) -> None:
    store = open_store("live")
    _, contributor = people
    contributor.create("sh.tangled.graph.follow", {"subject": contributor.did, "createdAt": CREATED})
    contributor.deactivate()
    sql = "select count(*) from events where kind = 'account' and did = ? and body like '%deactivated%'"
    listen(store, real_network, lambda: rows(store, sql, contributor.did) == [(1,)])
    assert rows(store, "select account_status from contributors where did = ?", contributor.did) == [("deactivated",)]


def live_through_everything(owner: Account, contributor: Account) -> int:
    """Records of every kind, written, changed and deleted through the server; returns how many commits that were."""
    repository = owner.create(REPOSITORY, {"name": "lantern", "knot": "knot.example.test", "createdAt": CREATED})
    blob = contributor.upload(gzip.compress(PATCH))
    rounds = [{"patchBlob": blob, "createdAt": CREATED}]
    target = {"repo": repository, "branch": "main"}
    pull = contributor.create(PULL, {"title": "Mend", "createdAt": CREATED, "target": target, "rounds": rounds})
    gone = contributor.create(PULL, {"title": "Never mind", "createdAt": CREATED, "target": target, "rounds": rounds})
    contributor.put(pull, {"title": "Mend it", "createdAt": CREATED, "target": target, "rounds": rounds * 2})
    contributor.delete(gone)
    status = owner.create(STATUS, {"pull": pull, "status": f"{STATUS}.closed", "createdAt": CREATED})
    owner.put(status, {"pull": pull, "status": f"{STATUS}.merged", "createdAt": CREATED})
    owner.create(VOUCH, {"kind": "vouch", "createdAt": CREATED}, contributor.did)
    owner.put(f"at://{owner.did}/{VOUCH}/{contributor.did}", {"kind": "denounce", "createdAt": CREATED})
    kinds = every_smaller_kind()
    for collection, rkey, record in kinds:
        changed = record | {"createdAt": CREATED, "changed": True}
        uri = contributor.create(collection, record | {"createdAt": CREATED}, rkey)
        contributor.put(uri, changed)
        contributor.delete(uri)
        contributor.create(collection, changed, rkey)
    return 11 - 2 + 4 * len(kinds)


def every_smaller_kind() -> list[tuple[str, str | None, dict[str, Any]]]:
    """Collection, record key where it is no TID, and a record, of every kind without a table of its own."""
    found: dict[str, tuple[str | None, dict[str, Any]]] = {}
    for name, rkey, record, _ in SHAPES:
        found.setdefault(f"sh.tangled.{name}", (rkey if len(rkey) > 2 else None, record))
    found |= {f"{OWN}.{name}": told for name, told in OWN_RECORDS.items()} | {ACCOUNT_CLAIM: (None, claim())}
    assert set(found) == set(REGISTRY.kinds) - {REPOSITORY, PULL, STATUS, VOUCH, REGISTRY.assessments}
    return [(collection, *told) for collection, told in found.items()]


def test_backfill_and_live_ingest_of_the_same_accounts_give_equal_tables(
    real_network: RealNetwork, people: tuple[Account, Account], open_store: Open, tmp_path: Path
) -> None:
    live, listed = open_store("live"), open_store("listed")
    both = [account.did for account in people]
    commits = live_through_everything(*people)
    real_network.shim.wait_for(people[1].did, commits - 6)
    listen(live, real_network, lambda: logged(live, *both) == commits)
    run_backfill(listed, sources(real_network.origin, tmp_path, wall_now()), dids=both)
    assert smaller_tables(listed, both) == smaller_tables(live, both)
    assert of_these(standing(listed), both) == of_these(standing(live), both)


def of_these(tables: dict[str, list[dict[str, Any]]], dids: list[str]) -> dict[str, list[dict[str, Any]]]:
    """The rows that tell of these people: the server has others, of whom the firehose tells too."""
    return {
        name: [row for row in found if any(did in str(value) for value in row.values() for did in dids)]
        for name, found in tables.items()
    }


def smaller_tables(store: Store, dids: list[str]) -> dict[str, list[tuple[Any, ...]]]:
    """What stands in each table of smaller records, without when it was seen."""
    with store.read() as reader:
        named = reader.rows("select distinct table_name from duckdb_columns() where column_name = 'changed_at'")
    tables = sorted(row["table_name"] for row in named if row["table_name"] != "pull_requests")
    # Neither its key nor a field dates a profile: it counts as written when it was seen.
    sql = (
        "select * exclude (author_id, seen_at, changed_at{}) from {} "
        "where deleted_at is null and split_part(uri, '/', 3) in (select unnest(?)) order by uri"
    )
    found = {
        table: rows(store, sql.format(", written_at" if table == "profiles" else "", table), dids) for table in tables
    }
    assert all(found.values()), "a kind was not written, so that its equality means nothing"
    return found
