"""The hop that asks for patches: which are due, in which order, and what is kept of them."""

import gzip
import hashlib
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from ingest.erasure.erase import drop_old_diffs
from ingest.git.patch import load_patch
from ingest.http.fetcher import Fetcher
from ingest.lookups.rounds import FOR_MODELS, compare_kept, due_patches, fetch_patches
from ingest.records import watched
from ingest.store.database import Store
from tests.ingest.lookups.asked import DIFF, NOW, PACKED, World, cid_of, fetch
from tests.ingest.stream.frames import ANA, MARA, PULL, REPOSITORY, Frames, rows, take

URI = f"at://{ANA}/{REPOSITORY}/lantern"


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
    assert order[0] == "at://a/1"
    assert sorted(order[1:]) == ["at://a/closed", "at://a/elsewhere", "at://a/merged"]
    assert world.patches() == 4


def ranks(world: World, settled_since: datetime = datetime.max) -> dict[tuple[str, str], int]:
    """The rank of each look-up that is due, by pull request and patch."""
    with world.store.read() as rows:
        due = due_patches(settled_since).rows(rows, NOW, 100)
    return {(row["pull_uri"], row["patch_ref"]): row["rank"] for row in due}


def settle_all(world: World, state: str) -> None:
    world.change("update pull_requests set state = ?, state_at = ?", state, NOW)
    world.identities()
    world.change("update contributors set pds = 'https://pds.example.test'")


def test_of_people_without_an_open_pull_request_nothing_is_fetched_elsewhere(world: World) -> None:
    world.offer("at://a/elsewhere", 2, cid_of(PACKED))
    settle_all(world, "merged")
    assert {uri for uri, _ in ranks(world, NOW - timedelta(days=44))} == {"at://a/1"}
    assert world.patches() == 1


def test_young_merges_come_before_older_ones_which_only_models_need(world: World) -> None:
    world.offer("at://a/old", 1, cid_of(PACKED))
    world.change("update pull_requests set merged_at = opened_at")
    world.change("update pull_requests set merged_at = ? where pull_uri = 'at://a/old'", NOW - timedelta(days=60))
    settle_all(world, "merged")
    ref = f"blob:{cid_of(PACKED)}"
    assert ranks(world, NOW - timedelta(days=44)) == {("at://a/1", ref): 1, ("at://a/old", ref): FOR_MODELS}


@pytest.mark.parametrize("state", ["merged", "closed", "abandoned"])
def test_models_get_the_first_round_of_everything_in_a_watched_repository_whatever_became_of_it(
    world: World, state: str
) -> None:
    newer = gzip.compress(DIFF.replace("+b", "+c").encode())
    world.blobs[cid_of(newer)] = newer
    world.offer("at://a/1", 1, cid_of(newer))
    settle_all(world, state)
    assert ranks(world) == {("at://a/1", f"blob:{cid_of(PACKED)}"): FOR_MODELS}
    assert world.patches() == 1
    assert world.rows("select patch_ref, git_reading from patches") == [(f"blob:{cid_of(PACKED)}", None)]
    assert compare_kept(world.store, world.fetcher, world.folder) == 0, "git reads only what somebody decides about"
    world.change("update pull_requests set state = 'open'")
    assert world.patches() == 1
    assert compare_kept(world.store, world.fetcher, world.folder) == 1


def test_a_strangers_patches_share_one_hour_and_those_of_a_push_holder_do_not(world: World) -> None:
    settle_all(world, "closed")

    def payers() -> list[str | None]:
        with world.store.read() as rows:
            return [row["payer"] for row in due_patches(NOW).rows(rows, NOW, 10)]

    (author,) = world.rows(
        "select contributor_id, did from contributors c join pull_requests p on author_id = c.contributor_id"
    )
    assert payers() == [author[1]]
    world.change("insert into push_holders values (1, ?, 'collaborator', 'knot', null, null)", author[0])
    assert payers() == [None]
    world.change("update push_holders set held_until = ?", NOW)
    assert payers() == [author[1]]


def test_an_erased_persons_text_is_not_fetched_again_for_models(world: World) -> None:
    settle_all(world, "closed")
    assert world.patches() == 1
    world.change("update patches set sha256 = null")
    assert ranks(world) == {}


def test_an_old_text_stays_until_its_files_are_listed(world: World) -> None:
    settle_all(world, "closed")
    world.patches()
    later = NOW + timedelta(days=400)
    assert drop_old_diffs(world.store, world.folder, later, 90) == 0
    world.change("insert into touched_files select pull_uri, patch_ref, [], [], true from patches")
    assert drop_old_diffs(world.store, world.folder, later, 90) == 1


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
    world.change("delete from pull_rounds")
    world.offer("at://a/1", 1, cid_of(data))
    assert world.patches() == 1
    assert world.rows("select state, patch_id from patches") == [(state, None)]
    assert world.patches() == 0


def test_nothing_on_disk_is_named_by_a_stranger(world: World) -> None:
    world.identities()
    world.change("delete from pull_rounds")
    world.offer("at://a/1", 1, "../../../etc/passwd")
    assert world.patches() == 1
    assert world.outcome("patch")[0] == "failed"
    world.offer("at://../../x", 1, cid_of(PACKED))
    world.patches()
    files = [path for path in world.folder.rglob("*") if path.is_file()]
    assert [path.name for path in files] == [hashlib.sha256(DIFF.encode()).hexdigest() + ".patch.gz"]


@pytest.mark.parametrize("target", [{"targetRepo": URI, "targetBranch": "main"}, {"target": {"repo": URI}}])
def test_the_patch_inside_an_older_record_is_kept_like_a_fetched_one(
    store: Store, tmp_path: Path, target: dict[str, object]
) -> None:
    frames = Frames()
    frames.repository(ANA)
    frames.commit(MARA, PULL, "3lzg6enurmo33", {"title": "Say b", "patch": DIFF, **target})
    take(store, frames)
    watched.watch_everything(store, NOW)
    fetcher = Fetcher("http://127.0.0.1:9")
    assert [fetch_patches(store, fetcher, tmp_path, 10_000, store.wall) for _ in range(2)] == [1, 0]
    ((sha256, *told),) = rows(store, "select sha256, state, files, added, removed from patches")
    assert (load_patch(tmp_path, sha256), told) == (DIFF, ["read", 1, 1, 1])
