"""A person who is erased is gone from every table, file, snapshot and queue, and other people's work stays."""

import json
import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from ingest.backfill import runs
from ingest.backfill.account import Staging
from ingest.backup.manifest import backups
from ingest.erasure.erase import drop_old_diffs, drop_stray_diffs, erase, erase_due, finish, finish_due
from ingest.erasure.files import strike_folder
from ingest.errors import StoreProblem
from ingest.git.mirror import mirror_path, mirrors_below
from ingest.git.patch import PatchProblem, load_patch, store_patch
from ingest.http.fetcher import Fetcher
from ingest.records.dead_letters import LetterBound
from ingest.store.archive import archive
from ingest.store.database import Store
from ingest.store.tombstones import Names
from tests.ingest.erasure.erased import LATE, WORDS, everything, story
from tests.ingest.erasure.planted import GONE, KEY, MARK, folders_below, traces
from tests.ingest.git.git_world import OWNER, REPO_DID, TEXT, Knot, Place, Work
from tests.ingest.stream.frames import (
    ANA,
    MARA,
    PULL,
    REPO,
    SEED,
    SOURCE,
    VOUCH,
    Frames,
    at,
    digest_of,
    pull_record,
    pull_uri,
    rows,
    take,
)


def test_other_people_keep_their_work(kept: Store, tmp_path: Path) -> None:
    take(kept, story())
    erase(kept, GONE, "by_request", LATE, folders_below(tmp_path))
    assert rows(kept, "select did from contributors order by did") == sorted([(SEED,), (ANA,), (MARA,)])
    assert rows(kept, "select body from pull_requests where pull_uri = ?", pull_uri(ANA, "two")) == [
        ("as (erased) said",)
    ]
    assert rows(kept, "select pull_uri from pull_requests order by pull_uri") == sorted(
        [(pull_uri(ANA, "two"),), (pull_uri(MARA, "three"),)]
    )
    assert rows(kept, "select count(*) from vouches") == [(0,)]
    owners = rows(kept, "select owner_id, name from repositories join pull_requests using (repository_id) order by all")
    assert owners == [(1, "lantern"), (None, None)]


def test_what_an_erased_push_holder_settled_stands_as_nobodys(kept: Store, tmp_path: Path) -> None:
    frames = Frames()
    frames.repository(GONE, repoDid=REPO)
    frames.pull(ANA, "one")
    frames.status(GONE, pull_uri(ANA, "one"), "merged")
    take(kept, frames)
    settled = "select state, merge_proof, merged_at from pull_requests"
    before = rows(kept, settled)
    assert before[0][:2] == ("merged", "verified")
    erase(kept, GONE, "account_deleted", LATE, folders_below(tmp_path))
    take(kept, [])
    assert rows(kept, settled) == before
    assert rows(kept, "select actor_id, status_uri from statuses") == [(0, "erased:3")]
    assert digest_of(kept)


def test_a_replayed_stream_does_not_bring_them_back_and_what_is_later_is_new(kept: Store, tmp_path: Path) -> None:
    take(kept, story())
    number = rows(kept, "select max(contributor_id) from contributors")[0][0]
    erase(kept, GONE, "by_request", LATE, folders_below(tmp_path))
    before, held = digest_of(kept), everything(kept)
    take(kept, story())
    assert digest_of(kept) == before
    assert GONE not in held
    kept.close()
    again = Store.open(kept.path, key=KEY)
    take(again, story())
    assert digest_of(again) == before
    later = Frames([b"{}"] * 20_000)
    later.vouch(GONE, ANA)
    take(again, later[20_000:])
    assert rows(again, "select contributor_id > ? from contributors where did = ?", number, GONE) == [(True,)]
    again.close()


def test_a_fresh_store_that_knows_the_tombstones_keeps_them_out(kept: Store, tmp_path: Path) -> None:
    take(kept, story())
    erase(kept, GONE, "by_request", LATE, folders_below(tmp_path))
    fresh = Store.open(tmp_path / "fresh.duckdb", key=KEY)
    fresh.bind(SOURCE)
    with fresh.write() as txn:
        txn.append("tombstones", [dict(row) for row in kept_tombstones(kept)])
    fresh.close()
    fresh = Store.open(tmp_path / "fresh.duckdb", key=KEY)
    take(fresh, story())
    held = everything(fresh)
    assert not any(word in held for word in WORDS)
    assert rows(fresh, "select body from pull_requests where pull_uri = ?", pull_uri(ANA, "two")) == [
        ("as (erased) said",)
    ]
    fresh.close()


def test_a_host_that_still_names_them_brings_not_even_their_did_back(kept: Store, tmp_path: Path) -> None:
    take(kept, story())
    erase(kept, GONE, "by_request", LATE, folders_below(tmp_path))
    kept.close()
    again = Store.open(kept.path, key=KEY)
    runs.begin(again, "first_start")
    run = runs.next_run(again)
    assert run is not None
    runs.keep_accounts(again, run, [GONE, MARA], [])
    assert GONE not in everything(again)
    assert (MARA,) in rows(again, "select did from backfill_accounts")
    again.close()


def kept_tombstones(store: Store) -> list[dict[str, object]]:
    with store.read() as found:
        return found.rows("from tombstones")


def test_a_tombstone_tells_nobody_who_lacks_the_key(kept: Store, tmp_path: Path) -> None:
    take(kept, story())
    erase(kept, GONE, "by_request", LATE, folders_below(tmp_path))
    kept.close()
    for key in (b"", b"another"):
        with pytest.raises(StoreProblem, match="keys/tombstones is not the one"):
            Store.open(kept.path, key=key)


def test_without_the_drives_key_nobody_is_erased(store: Store, tmp_path: Path) -> None:
    take(store, story())
    before = digest_of(store)
    with pytest.raises(ValueError, match="without the drive's key"):
        erase(store, GONE, "by_request", LATE, folders_below(tmp_path))
    assert {name for name, value in digest_of(store).items() if value != before[name]} == {"contributors"}
    assert store.people.numbers[GONE]


def test_a_number_of_somebody_erased_is_never_given_again(kept: Store, tmp_path: Path) -> None:
    frames = Frames()
    frames.vouch(SEED, GONE)
    take(kept, frames)
    last = rows(kept, "select contributor_id from contributors where did = ?", GONE)[0][0]
    erase(kept, GONE, "by_request", LATE, folders_below(tmp_path))
    kept.close()
    again = Store.open(kept.path, key=KEY)
    with again.write() as txn:
        assert txn.person_ids(["did:plc:new"]) == {"did:plc:new": last + 1}
    again.close()


def test_a_look_up_that_was_under_way_brings_nothing_back(kept: Store, tmp_path: Path) -> None:
    take(kept, story())
    number = kept.people.numbers[GONE]
    erase(kept, GONE, "by_request", LATE, folders_below(tmp_path))
    holder = {"repository_id": 1, "contributor_id": number, "role": "owner", "learned_from": "knot"}
    fetched = {"kind": "identity", "subject": GONE, "outcome": "found", "reason": None, "attempts": 0}
    with kept.write() as txn:
        txn.append("push_holders", [holder | {"held_from": None, "held_until": None}])
        txn.upsert("fetches", [fetched | {"due_clock": None, "fetched_clock": LATE}])
    assert rows(kept, "select count(*) from fetches") == [(0,)]
    assert rows(kept, "select count(*) from push_holders where contributor_id = ?", number) == [(0,)]


def test_a_deleted_account_is_erased_when_asked_and_its_bytes_go_after_a_day(tmp_path: Path) -> None:
    present = [datetime(2026, 9, 22)]
    store = Store.open(tmp_path / "trust.duckdb", lambda: present[0], key=KEY)
    store.bind(SOURCE)
    frames = story()
    frames.account(GONE, active=False, status="deleted")
    take(store, frames)
    folders = folders_below(tmp_path)
    assert erase_due(store, LATE, folders) == 1
    assert erase_due(store, LATE, folders) == 0
    assert GONE not in everything(store)
    assert rows(store, "select why from tombstones") == [("account_deleted",)]
    assert not finish_due(store, folders)
    present[0] += timedelta(days=1)
    assert finish_due(store, folders)
    assert not finish_due(store, folders)
    store.close()


def test_an_erasure_that_is_cut_short_hides_them_and_the_sweep_goes_on(
    kept: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(kept, story())

    def fail(*_: object) -> int:
        raise OSError("no space left on device")

    folders = folders_below(tmp_path)
    with monkeypatch.context() as broken:
        broken.setattr("ingest.erasure.erase.strike_folder", fail)
        with pytest.raises(StoreProblem, match="no space left"):
            erase(kept, GONE, "by_request", LATE, folders)
    assert rows(kept, "select account_status from hidden_people") == [("erasing",)]
    assert erase_due(kept, LATE, folders) == 1
    assert GONE not in everything(kept)
    assert rows(kept, "select why from tombstones") == [("by_request",)]


def test_names_are_found_and_others_are_not() -> None:
    names = Names("did:web:a.example", "ana.example.com")
    for text in ("did:web:a.example", "see did:web:a.example.", "did%3Aweb%3Aa.example/x", "@Ana.Example.com!"):
        assert names.named_in(text), text
    for text in ("did:web:a.example.org", "did:web:a.example-b", "diana.example.com", "ana.example.community"):
        assert not names.named_in(text), text
    assert names.struck_from("at://did:web:a.example/x/y, and more") == "(erased), and more"


def test_what_a_kill_left_of_a_file_that_was_being_replaced_goes(tmp_path: Path) -> None:
    left = tmp_path / "events" / ".draft-a1b2c3"
    left.mkdir(parents=True)
    (left / "1.parquet").write_bytes(b"PAR1")
    kept = tmp_path / "events" / "page.json"
    kept.write_text("{}")
    assert strike_folder(tmp_path, Names("did:web:a.example", "ana.example.com")) == 0
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "events", kept]


FIX = {"a.txt": TEXT.replace("line 3\n", "three\n")}


@pytest.fixture(name="place")
def place_fixture(kept: Store, work: Work, tmp_path: Path) -> Iterator[Place]:
    """A store with a key that watches a repository of OWNER's."""
    with Knot({REPO_DID: work.folder}) as knot:
        place = Place(kept, Fetcher(knot.origin), tmp_path / "mirrors")
        place.look()
        yield place


@pytest.mark.parametrize("is_archived", [False, True])
@pytest.mark.parametrize("most", [10, 10_000])
def test_a_dead_letter_of_theirs_goes_wherever_its_event_lies(
    kept: Store, tmp_path: Path, is_archived: bool, most: int
) -> None:
    folders, frames = folders_below(tmp_path), Frames()
    for number in range(20):
        frames.commit(GONE, VOUCH, f"did:plc:{number:024}", {"kind": "adore", "reason": MARK})
    frames.commit(ANA, VOUCH, f"did:plc:{'b' * 24}", {"kind": "adore"})
    take(kept, frames)
    LetterBound(kept, most).keep()
    if is_archived:
        assert archive(kept, folders.staging, 30, 0, LATE)
    erase(kept, GONE, "by_request", LATE, folders)
    finish(kept, folders)
    kept.close()
    assert traces(tmp_path, (MARK, GONE)) == []
    again = Store.open(kept.path, key=kept.tombstones.key)
    assert rows(again, "select event_seq from dead_letters") == [(21,)]
    assert rows(again, "select count(*) from unread_events") == [(0,)]
    again.close()


def test_what_a_training_wrote_from_an_older_snapshot_goes_with_the_end_of_an_erasure(
    kept: Store, tmp_path: Path
) -> None:
    folders = folders_below(tmp_path)
    take(kept, story())
    erase(kept, GONE, "by_request", LATE, folders)
    folders.graphs.mkdir(exist_ok=True)
    (folders.graphs / "states.safetensors").write_text("pull requests by hashes")
    finish(kept, folders)
    assert list(folders.graphs.iterdir()) == []


def test_names_that_only_they_used_go_and_those_that_others_use_stay(kept: Store, tmp_path: Path) -> None:
    frames = Frames()
    frames.commit(GONE, PULL, "one", pull_record(shared=1) | {f"x{MARK}": 1})
    frames.commit(GONE, f"sh.tangled.{MARK}", "one", {})
    frames.pull(ANA, "two", shared=2)
    frames.pull(ANA, "three", hers=2)
    take(kept, frames)
    assert MARK in everything(kept)
    erase(kept, GONE, "by_request", LATE, folders_below(tmp_path))
    shapes = "select collection, what, sightings from unknown_shapes order by all"
    left = [("(others)", "(others)", 2), (PULL, "field:hers", 1), (PULL, "field:shared", 2)]
    assert rows(kept, shapes) == left
    assert MARK not in everything(kept)


def test_their_staged_pages_are_emptied_and_those_of_others_lose_the_mention(kept: Store, tmp_path: Path) -> None:
    staging = Staging(tmp_path / "staging" / "backfill" / "run")

    def page(did: str, text: str) -> bytes:
        record = {"uri": f"at://{did}/{PULL}/one", "cid": "bafy", "value": {"title": text}}
        return json.dumps({"records": [record]}).encode()

    own = staging.keep(GONE, PULL, 0, page(GONE, MARK))
    other = staging.keep(ANA, PULL, 0, page(ANA, f"as {GONE} said, else"))
    take(kept, Frames())
    erase(kept, GONE, "by_request", LATE, folders_below(tmp_path))
    assert json.loads(own.path.read_bytes()) == {"records": []}
    assert "as (erased) said, else" in other.path.read_text()
    assert traces(tmp_path / "staging", (GONE, MARK)) == []


def test_the_mirror_of_a_repository_of_theirs_goes_with_what_was_read_from_it(
    place: Place, work: Work, tmp_path: Path
) -> None:
    uri = place.offer(mails := work.offer("HEAD", [(f"Mend it {MARK}", FIX)]))
    place.look()
    work.am(mails)
    landed = place.land()
    assert MARK in everything(place.store)
    done = erase(place.store, OWNER, "by_request", datetime(2027, 1, 1), folders_below(tmp_path))
    assert (done.kept, mirrors_below(place.folder)) == ((), {})
    assert landed == [(uri, "patch_id", True)]
    assert place.rows("select pull_uri, proven from landings") == [{"pull_uri": uri, "proven": True}]
    assert MARK not in everything(place.store)
    assert place.look() == 0
    assert mirrors_below(place.folder) == {}


@pytest.mark.parametrize("text", [f"As {GONE} asked", f"see at://{GONE}/x/y"])
def test_public_history_of_somebody_elses_stays_and_is_told(
    place: Place, work: Work, tmp_path: Path, text: str
) -> None:
    work.commit(f"Two\n\n{text}")
    work.commit("Three", {"thanks.txt": f"{'x' * 999_990}{text}"})
    place.look()
    (told,) = erase(place.store, GONE, "by_request", LATE, folders_below(tmp_path)).kept
    assert told == (
        f"{mirror_path(place.folder, 1)}, the mirror of {REPO_DID}, names them in 2 places: that repository's own "
        "public history, which only its maintainers can change. It goes once nobody here watches the repository."
    )
    assert list(mirrors_below(place.folder)) == [1]
    assert GONE not in everything(place.store)


def test_a_mirror_that_does_not_name_them_is_left_alone_and_not_told(place: Place, work: Work, tmp_path: Path) -> None:
    work.commit(f"Two, by {GONE[:-1]}a", {"thanks.txt": GONE[:-1]})
    place.look()
    assert erase(place.store, GONE, "by_request", LATE, folders_below(tmp_path)).kept == ()
    assert list(mirrors_below(place.folder)) == [1]


def test_what_a_repository_took_back_goes_and_its_mirror_is_fetched_anew(
    place: Place, work: Work, tmp_path: Path
) -> None:
    before = work.head()
    work.commit(f"Told by {GONE}", FIX)
    place.look()
    work.git("reset", "-q", "--hard", before)
    second = work.commit("Another", {"b.txt": "b\n"})
    place.look()
    done = erase(place.store, GONE, "by_request", LATE, folders_below(tmp_path))
    assert (done.kept, mirrors_below(place.folder)) == ((), {})
    third = work.commit("Third", {"b.txt": "c\n"})
    assert place.look() == 1
    held = place.rows("select commit_id from branch_commits order by appeared_at, absent_at")
    assert [row["commit_id"] for row in held[-2:]] == [second, third]
    assert erase(place.store, GONE, "by_request", LATE, folders_below(tmp_path)).kept == ()
    assert list(mirrors_below(place.folder)) == [1]


def test_a_mirror_that_cannot_be_read_is_told(place: Place, work: Work, tmp_path: Path) -> None:
    for pack in mirror_path(place.folder, 1).rglob("*.pack"):
        pack.chmod(0o600)
        pack.write_bytes(b"no pack")
    (told,) = erase(place.store, GONE, "by_request", LATE, folders_below(tmp_path)).kept
    assert "could not be searched (git" in told
    assert told.endswith("whether it names them is not known.")


def offer(store: Store, pull: str, sha256: str) -> None:
    numbers = {"bytes": 1, "files": 1, "added": 1, "removed": 0, "patch_id": "x", "state": "read", "proves": True}
    row = {"pull_uri": pull, "patch_ref": "blob:a", "sha256": sha256, "series": [], "change_ids": []}
    with store.write() as txn:
        txn.append("patches", [numbers | row])


def settled_and_open(store: Store) -> tuple[str, str]:
    """A pull request that is closed and one that is open."""
    frames = Frames()
    frames.repository(SEED, repoDid=REPO)
    frames.pull(ANA, "closed")
    frames.pull(MARA, "open")
    frames.status(SEED, pull_uri(ANA, "closed"), "closed")
    take(store, frames)
    return pull_uri(ANA, "closed"), pull_uri(MARA, "open")


def test_a_settled_pull_request_loses_its_diff_after_so_many_days_and_keeps_its_numbers(
    store: Store, tmp_path: Path
) -> None:
    closed, opened = settled_and_open(store)
    old, held = store_patch(tmp_path, "old"), store_patch(tmp_path, "held")
    offer(store, closed, old)
    offer(store, opened, held)
    assert drop_old_diffs(store, tmp_path, at(3) + timedelta(days=365), 365) == 0
    assert drop_old_diffs(store, tmp_path, at(4) + timedelta(days=365), 365) == 1
    assert rows(store, "select pull_uri, sha256, added from patches order by all") == [
        (closed, None, 1),
        (opened, held, 1),
    ]
    assert load_patch(tmp_path, held) == "held"
    with pytest.raises(PatchProblem):
        load_patch(tmp_path, old)


def test_a_diff_that_an_open_pull_request_offers_too_stays(store: Store, tmp_path: Path) -> None:
    closed, opened = settled_and_open(store)
    shared = store_patch(tmp_path, "shared")
    offer(store, closed, shared)
    offer(store, opened, shared)
    assert drop_old_diffs(store, tmp_path, at(0) + timedelta(days=9_000), 365) == 0
    assert load_patch(tmp_path, shared) == "shared"


def test_a_file_that_no_row_names_goes_once_it_is_a_day_old(store: Store, tmp_path: Path) -> None:
    closed, _ = settled_and_open(store)
    held, stray, young = (store_patch(tmp_path, text) for text in ("held", "stray", "young"))
    offer(store, closed, held)
    for name in (held, stray):
        os.utime(tmp_path / name[:2] / f"{name}.patch.gz", (0, 0))
    young_at = (tmp_path / young[:2] / f"{young}.patch.gz").stat().st_mtime
    assert drop_stray_diffs(store, tmp_path, young_at + 60) == 1
    assert {path.name[:64] for path in tmp_path.rglob("*.gz")} == {held, young}


def test_backups_are_listed_oldest_first_with_the_day_on_which_they_expire(tmp_path: Path) -> None:
    assert backups(tmp_path / "none", 30) == []
    for name, made in (("b", 86_400), ("a", 0)):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (made, made))
    found = backups(tmp_path, 30)
    assert [(backup.path.name, f"{backup.expires_at:%Y-%m-%d}") for backup in found] == [
        ("a", "1970-01-31"),
        ("b", "1970-02-01"),
    ]
