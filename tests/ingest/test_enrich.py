"""The hops that ask the network: what is due, what is written, what comes back after a failure."""

import gzip
import hashlib
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from ingest.ask_identities import DUE_IDENTITIES
from ingest.ask_patches import due_patches
from ingest.lookups import Due, waiting_time
from ingest.net import Fetcher, FetchProblem
from ingest.patches import load_patch
from tests.ingest.asked import DIFF, KNOT, NOW, PACKED, World, cid_of, did, fetch


def test_those_who_matter_get_their_identity_and_nobody_else(world: World) -> None:
    assert world.due() == 3  # seed, mallory, and the repository's push-holders
    assert world.identities() == 2
    seed, stranger = (
        world.rows("select handle, handle_verified, pds, did_created_at from contributors where did = ?", did(name))[0]
        for name in ("seed", "stranger")
    )
    assert seed == ("seed.example.test", True, "https://pds.example.test", datetime(2024, 1, 1))
    assert stranger == (None, False, None, None)
    assert world.identities() == 0
    assert world.inputs() == 1


def test_voucher_and_subject_get_their_identity_after_those_that_judgements_rest_on(world: World) -> None:
    with world.store.write() as txn:
        people = txn.person_ids([did("voucher"), did("subject")])
        txn.execute(
            "insert into vouches (voucher_id, subject_id, kind, evidences, written_at, seen_at, event_seq)"
            " values (?, ?, 'vouch', '[]', ?, ?, 1)",
            [*people.values(), NOW, NOW],
        )
    with world.store.read() as rows:
        order = [row["subject"] for row in Due(DUE_IDENTITIES).rows(rows, NOW, 10)]
    assert order == [did("seed"), did("mallory"), did("voucher"), did("subject")]
    assert world.identities() == 4


def test_what_the_directory_logs_becomes_signals_that_are_read_as_of_a_moment(world: World) -> None:
    world.moved = True
    world.identities()
    sql = "select key, value, known_from from signals where subject = ? and source = 'plc' order by known_from"
    made, moved = datetime(2024, 1, 1), datetime(2025, 1, 1)
    wanted = [("created_at", made.isoformat(), made), ("pds_moves", "1", moved)]
    assert world.rows(sql, did("seed")) == wanted
    assert world.inputs() == 1
    with world.store.write() as txn:
        txn.execute("delete from fetches")
    world.identities()
    assert world.rows(sql, did("seed")) == wanted
    assert world.inputs() == 1  # nothing changed


def test_an_identity_event_opens_the_look_up_again(world: World) -> None:
    world.identities()
    with world.store.write() as txn:
        txn.execute("delete from fetches where subject = ?", [did("seed")])
    assert world.identities() == 1
    assert world.inputs() == 1  # nothing changed


def test_failures_come_back_later_each_time(world: World) -> None:
    world.faults["plc.directory"] = 500
    waits = []
    for attempt in range(1, 12):
        assert world.identities() == 2
        assert world.identities() == 0
        outcome, attempts, due, reason = world.outcome("identity")
        assert (outcome, attempts, reason) == ("failed", attempt, "plc.directory answered 500")
        waits.append((due - world.now).total_seconds() / 60)
        world.now = due
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 360, 360]
    del world.faults["plc.directory"]
    assert world.identities() == 2
    assert world.outcome("identity") == ("found", 0, None, None)


def test_the_absent_are_asked_again_after_a_day(world: World) -> None:
    world.faults["plc.directory"] = 404
    world.identities()
    assert world.outcome("identity")[:3] == ("absent", 1, NOW + timedelta(days=1))
    assert world.inputs() == 0


def test_a_wait_is_at_least_what_the_peer_asked_for_and_long_where_asking_is_vain() -> None:
    assert waiting_time(1, FetchProblem("", retry=True, after=3600)) == timedelta(hours=1)
    assert waiting_time(1, FetchProblem("")) == timedelta(hours=6)
    assert waiting_time(10_000, FetchProblem("", retry=True)) == timedelta(hours=6)


def test_a_handle_whose_host_is_in_trouble_stays_as_it_was_proven(world: World) -> None:
    world.identities()
    with world.store.write() as txn:
        txn.execute("delete from fetches")
    world.faults["seed.example.test"] = 500
    world.faults["mallory.example.test"] = 404
    world.identities()
    proven = dict(world.rows("select did, handle_verified from contributors where handle is not null"))
    assert proven == {did("seed"): True, did("mallory"): False}
    again = dict(world.rows("select subject, due_clock from fetches where kind = 'identity'"))
    assert again == {did("seed"): NOW + timedelta(days=1), did("mallory"): None}


def test_the_knot_names_collaborators_and_the_owner_stays_owner(world: World) -> None:
    world.collaborators = [did("mara"), did("newcomer"), did("seed")]
    assert world.holders() == 1
    assert holders_of(world) == {did("seed"): "owner", did("mara"): "collaborator", did("newcomer"): "collaborator"}
    assert world.inputs() == 1
    world.now += timedelta(days=1)
    world.collaborators = []
    assert world.holders() == 1
    assert holders_of(world) == {did("seed"): "owner"}
    assert world.inputs() == 2


def test_a_silent_knot_changes_nothing_and_with_nothing_known_only_the_owner_counts(world: World) -> None:
    world.faults[KNOT] = 503
    world.holders()
    assert holders_of(world) == {did("seed"): "owner"}
    world.now += timedelta(minutes=1)
    world.faults.clear()
    world.fetcher = Fetcher(world.peer.origin)  # a host that answered 503 is left alone for some seconds
    world.holders()
    world.now += timedelta(days=1)
    world.faults[KNOT] = 500
    world.holders()
    assert holders_of(world) == {did("seed"): "owner", did("mara"): "collaborator"}
    assert world.inputs() == 2


def test_a_knot_cannot_keep_a_former_owner(world: World) -> None:
    with world.store.write() as txn:
        number = world.people[did("mallory")]
        txn.append(
            "push_holders",
            [
                {
                    "repository_id": 1,
                    "contributor_id": number,
                    "role": "owner",
                    "learned_from": "owner",
                    "held_from": None,
                    "held_until": None,
                }
            ],
        )
    world.faults[KNOT] = 500
    world.holders()
    assert holders_of(world) == {did("seed"): "owner"}


def test_a_patch_is_fetched_once_its_author_is_known(world: World) -> None:
    assert world.patches() == 0
    world.identities()
    assert world.patches() == 1
    found = world.rows("select patch_ref, sha256, bytes, files, added, removed, state from patches")
    sha256 = hashlib.sha256(DIFF.encode()).hexdigest()
    assert found == [(f"blob:{cid_of(PACKED)}", sha256, len(DIFF), 1, 1, 1, "read")]
    assert load_patch(world.folder, sha256) == DIFF
    assert world.patches() == 0
    assert world.inputs() == 2


def test_patches_of_watched_repositories_come_first_then_what_their_people_offered_before(world: World) -> None:
    for place, uri in enumerate(["at://a/elsewhere", "at://a/merged", "at://a/closed", "at://a/deleted"]):
        world.offer(uri, 2 if uri == "at://a/elsewhere" else 1, cid_of(PACKED))
        world.change(
            "update pull_requests set opened_at = opened_at - ? * interval 1 day where pull_uri = ?", place, uri
        )
    world.change("update pull_requests set state = 'merged', merged_at = ? where pull_uri = 'at://a/merged'", NOW)
    world.change("update pull_requests set state = 'closed' where pull_uri = 'at://a/closed'")
    world.change("update pull_requests set deleted_at = seen_at where pull_uri = 'at://a/deleted'")
    world.identities()
    with world.store.read() as rows:
        order = [row["pull_uri"] for row in due_patches(NOW).rows(rows, NOW, 10)]
    assert order == ["at://a/1", "at://a/merged", "at://a/elsewhere", "at://a/closed"]
    assert world.patches() == 4


def test_of_people_without_an_open_pull_request_only_young_merges_of_watched_repositories_are_fetched(
    world: World,
) -> None:
    world.offer("at://a/elsewhere", 2, cid_of(PACKED))
    world.offer("at://a/old", 1, cid_of(PACKED))
    world.change("update pull_requests set state = 'merged', merged_at = ?", NOW)
    world.change("update pull_requests set merged_at = ? where pull_uri = 'at://a/old'", NOW - timedelta(days=60))
    world.identities()
    world.change("update contributors set pds = 'https://pds.example.test'")
    assert world.patches() == 0
    assert world.patches(NOW - timedelta(days=44)) == 1
    assert world.rows("select pull_uri from patches") == [("at://a/1",)]


def test_of_one_person_only_the_newest_earlier_patches_are_fetched(world: World) -> None:
    for place in range(30):
        world.offer(f"at://a/earlier{place}", 2, cid_of(PACKED))
    world.identities()
    assert world.patches() == 20


def test_swapped_bytes_are_never_kept(world: World) -> None:
    world.identities()
    world.blobs[cid_of(PACKED)] = gzip.compress(b"evil")
    assert world.patches() == 1
    outcome, attempts, due, reason = world.outcome("patch")
    assert (outcome, attempts, due) == ("failed", 1, NOW + timedelta(hours=6))
    assert "other bytes" in reason
    assert world.rows("select * from patches") == []
    assert not world.folder.exists()


def test_a_new_round_is_fetched_beside_the_old_one(world: World) -> None:
    world.identities()
    world.patches()
    newer = gzip.compress(DIFF.replace("+b", "+c").encode())
    world.blobs[cid_of(newer)] = newer
    world.offer("at://a/1", 1, cid_of(newer))
    assert world.patches() == 1
    assert len(set(world.rows("select patch_id from patches"))) == 2


def test_who_cites_anothers_blob_cannot_spoil_its_look_up(world: World) -> None:
    world.identities()
    with world.store.write() as txn:
        txn.upsert("fetches", [fetch("patch", f"at://mallory/9 blob:{cid_of(PACKED)}")])
    assert world.patches() == 1


@pytest.mark.parametrize(
    ("data", "state"),
    [
        (b"\x1f\x8b rubbish", "malformed"),
        (gzip.compress(b"\0" * 5_000_000), "oversized"),
        (b"+" * 200_000, "oversized"),
        (b"", "malformed"),
    ],
)
def test_a_hostile_patch_is_noted_and_not_asked_for_again(world: World, data: bytes, state: str) -> None:
    world.identities()
    world.blobs[cid_of(data)] = data
    world.offer("at://a/1", 1, cid_of(data))
    assert world.patches() == 1
    assert world.rows("select state, patch_id from patches") == [(state, None)]
    assert world.patches() == 0


def test_nothing_on_disk_is_named_by_a_stranger(world: World) -> None:
    world.identities()
    world.offer("at://a/1", 1, "../../../etc/passwd")
    assert world.patches() == 1
    assert world.outcome("patch")[0] == "failed"
    world.offer("at://../../x", 1, cid_of(PACKED))
    world.patches()
    files = [path for path in world.folder.rglob("*") if path.is_file()]
    assert [path.name for path in files] == [hashlib.sha256(DIFF.encode()).hexdigest() + ".patch.gz"]


def test_a_closed_fetcher_ends_the_hop_and_what_was_asked_stays_due(world: World) -> None:
    with world.store.write() as txn:
        number = txn.person_ids([did("slow")])[did("slow")]
        txn.append("maintainers", [{"contributor_id": number, "repository_id": 0}])
    threading.Timer(0.3, world.fetcher.close).start()
    began = time.monotonic()
    world.identities()
    assert time.monotonic() - began < 3
    world.fetcher = Fetcher(world.peer.origin)
    world.hold.set()
    assert world.due() == 3  # slow, the push-holders, and the patch of mallory, who is known by now
    assert world.identities() == 1
    assert world.rows("select subject from fetches where outcome <> 'found'") == []


def test_the_writer_is_free_while_the_network_is_slow(world: World) -> None:
    with world.store.write() as txn:
        number = txn.person_ids([did("slow")])[did("slow")]
        txn.append("maintainers", [{"contributor_id": number, "repository_id": 0}])
    hop = threading.Thread(target=world.identities)
    hop.start()
    time.sleep(0.2)
    with world.store.write() as txn:
        txn.execute("update contributors set account_status = 'deactivated' where did = ?", [did("slow")])
    assert hop.is_alive()
    world.hold.set()
    hop.join()
    kept = world.rows("select handle, account_status from contributors where did = ?", did("slow"))
    assert kept == [("slow.example.test", "deactivated")]


def test_many_people_are_asked_in_chunks(world: World, count: Callable[[int, int], int]) -> None:
    size = count(1_218, 5_000)
    with world.store.write() as txn:
        digits = str.maketrans("0123456789", "bcdefghijk")
        numbers = txn.person_ids([did(f"p{str(number).translate(digits)}") for number in range(size)])
        txn.append("maintainers", [{"contributor_id": each, "repository_id": 0} for each in numbers.values()])
    began = time.monotonic()
    assert world.identities() == size + 2
    assert world.due() == 2  # the push-holders and the patch
    assert time.monotonic() - began < 5 * size / 1_218


def holders_of(world: World) -> dict[str, str]:
    current = "select did, role from push_holders join contributors using (contributor_id) where held_until is null"
    return dict(world.rows(current))
