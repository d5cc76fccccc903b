"""A person who is erased is gone from every table, file, snapshot and queue, and other people's work stays."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from ingest.backfill import runs
from ingest.erasure.erase import erase, erase_due, finish_due
from ingest.erasure.files import strike_folder
from ingest.errors import StoreProblem
from ingest.store.database import Store
from ingest.store.tombstones import Names
from tests.ingest.erasure.erased import LATE, WORDS, everything, story
from tests.ingest.erasure.planted import GONE, KEY, folders_below
from tests.ingest.stream.frames import ANA, MARA, REPO, SEED, SOURCE, Frames, digest_of, pull_uri, rows, take


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
