"""The commits of rounds: fetched from a real knot, read once, kept apart from the mirror, within bounds."""

import random
from datetime import timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ingest.erasure.erase import erase
from ingest.git.history import read_objects
from ingest.git.mirror import folder_bytes, mirror_path
from ingest.lookups import signatures
from ingest.lookups.signatures import fetch_signatures, zone_band
from ingest.tasks import _check_signatures
from tests.ingest.erasure.planted import folders_below
from tests.ingest.git.git_world import TEXT, Place, Work
from tests.ingest.git.signed import KeyFile, make_key, use_key

ANA, FORKS = "did:plc:ana22222222222222222222a", {"a.txt": TEXT + "one more\n"}
COMMITS = "select commit_id, place, signed_by, declared, zone_band from round_commits order by pull_uri, place"


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> KeyFile:
    return make_key(tmp_path_factory.mktemp("keys"))


def ask(place: Place) -> int:
    return fetch_signatures(place.store, place.fetcher, place.folder, place.now)


def outcome(place: Place) -> tuple[str, str | None]:
    row = place.rows("select outcome, reason from fetches where kind = 'signatures'")[0]
    return row["outcome"], row["reason"]


def test_a_rounds_commits_are_read_from_the_knot_and_the_mirror_stays_as_it_was(
    work: Work, place: Place, key: KeyFile
) -> None:
    place.declare(key.declared)
    place.look()
    before = folder_bytes(mirror_path(place.folder, 1))
    use_key(work, key)
    base, head = work.propose("HEAD", [("One", FORKS), ("Two", {"b.txt": TEXT + "two\n"})])
    use_key(work, None)
    place.compare(base, head)
    assert ask(place) == 1
    rows = place.rows(COMMITS)
    assert [(row["place"], row["signed_by"], row["declared"], row["zone_band"]) for row in rows] == [
        (0, key.fingerprint, True, None),
        (1, key.fingerprint, True, None),
    ]
    assert rows[1]["commit_id"] == head
    assert folder_bytes(mirror_path(place.folder, 1)) == before
    assert place.rows("select count(*) as n from commits where commit_id = ?", head) == [{"n": 0}]
    assert ask(place) == 0


def test_commits_of_the_target_are_left_out_and_a_branch_of_the_repository_needs_no_fetch(
    work: Work, place: Place
) -> None:
    old = work.head()
    new = work.commit("Theirs", {"b.txt": TEXT + "theirs\n"})
    work.git("checkout", "-q", "-b", "topic")
    head = work.commit("Mine", FORKS)
    work.git("checkout", "-q", "main")
    place.look()
    place.compare(old, head)
    work.folder.joinpath(".git/objects").rename(work.folder / "gone")  # the knot could not give it any more
    assert ask(place) == 1
    assert [row["commit_id"] for row in place.rows(COMMITS)] == [head]
    assert new != head


def test_a_key_that_is_declared_later_speaks_for_earlier_commits_and_a_deleted_one_still_does(
    work: Work, place: Place, key: KeyFile
) -> None:
    place.look()
    use_key(work, key)
    place.compare(*work.propose("HEAD", [("One", FORKS)]))
    ask(place)
    assert place.rows(COMMITS)[0]["declared"] is False
    place.declare(key.declared, "did:plc:mallory2222222222222222a")
    ask(place)
    assert place.rows(COMMITS)[0]["declared"] is False
    uri = place.declare(key.declared)
    ask(place)
    assert place.rows(COMMITS)[0]["declared"] is True
    with place.store.write() as txn:
        txn.execute("update public_keys set deleted_at = now() where uri = ?", [uri])
    ask(place)
    assert place.rows(COMMITS)[0]["declared"] is True
    assert place.rows(
        "select count(*) as n from declared_keys k semi join contributors c "
        "on c.contributor_id = k.author_id and c.did = ?",
        ANA,
    ) == [{"n": 0}]


def test_patches_and_repositories_without_a_mirror_are_not_asked_about(work: Work, place: Place) -> None:
    place.offer(work.offer("HEAD", [("Fix", FORKS)]))
    assert ask(place) == 0
    place.compare(*work.propose("HEAD", [("One", FORKS)]))
    with place.store.write() as txn:
        txn.execute("update mirrors set read_at = null")
    assert ask(place) == 0


def test_a_head_that_is_not_there_or_abbreviated_is_a_failure_in_words(work: Work, place: Place) -> None:
    place.compare(work.head(), "0" * 39 + "1")
    assert ask(place) == 1
    assert outcome(place)[0] == "failed"
    with place.store.write() as txn:
        txn.execute("delete from fetches")
        txn.execute("update pull_requests set patch_ref = ?", [f"compare:{work.head()}..{work.head()[:12]}"])
    assert ask(place) == 1
    assert outcome(place) == ("failed", "the round does not name a whole commit")
    assert place.rows(COMMITS) == []


def test_a_round_that_is_too_large_is_given_up_and_leaves_nothing(
    work: Work, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signatures, "ROUND_BYTES", 200_000)
    place.look()
    before = folder_bytes(mirror_path(place.folder, 1))
    place.compare(*work.propose("HEAD", [("Huge", {"huge.bin": random.Random(1).randbytes(1_000_000)})]))
    assert ask(place) == 1
    assert outcome(place)[0] == "failed"
    assert folder_bytes(mirror_path(place.folder, 1)) == before
    monkeypatch.setattr(signatures, "MOST_COMMITS", 2)
    with place.store.write() as txn:
        txn.execute("delete from fetches")
        txn.execute("delete from pull_requests")
    place.compare(*work.propose("HEAD", [(f"Step {number}", {"b.txt": f"{number}\n"}) for number in range(3)]))
    assert ask(place) == 1
    assert outcome(place) == ("failed", "the round has more than 2 commits")


def read_zones(place: Place) -> None:
    """Have the repository's maintainers switch time zones on."""
    with place.store.write() as txn:
        lists = ("never_fast_paths", "sensitive_paths", "accepted_issuers", "organisation_domains")
        row: dict[str, Any] = {"repository_id": 1, "version": 1, "set_at": place.present, "tier": "public"}
        txn.append("repository_settings", [{**row, **{name: [] for name in lists}, **_UNSET, "time_zones": True}])


def test_time_zones_are_read_only_where_the_repository_asked_for_them(work: Work, place: Place) -> None:
    place.look()
    work.zone = timezone(timedelta(hours=9))
    read_zones(place)
    place.compare(*work.propose("HEAD", [("One", FORKS)]))
    ask(place)
    assert [row["zone_band"] for row in place.rows(COMMITS)] == [2]


def test_time_zones_that_are_switched_off_while_a_round_is_read_are_not_kept(
    work: Work, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_and_switch_off(*args: Any) -> list[Any]:
        found = list(read_objects(*args))
        with place.store.write() as txn:
            txn.execute("update repository_settings set time_zones = false")
        return found

    place.look()
    read_zones(place)
    place.compare(*work.propose("HEAD", [("One", FORKS)]))
    monkeypatch.setattr(signatures, "read_objects", read_and_switch_off)
    ask(place)
    assert [row["zone_band"] for row in place.rows(COMMITS)] == [None]


def test_a_person_who_is_erased_while_their_round_is_read_leaves_nothing(
    work: Work, place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def read_and_erase(*args: Any) -> list[Any]:
        found = list(read_objects(*args))
        place.store.tombstones.key = b"a key of the tests"
        erase(place.store, ANA, "by_request", place.present, folders_below(tmp_path))
        return found

    place.look()
    place.compare(*work.propose("HEAD", [("One", FORKS)]))
    monkeypatch.setattr(signatures, "read_objects", read_and_erase)
    ask(place)
    assert place.rows(COMMITS) == []
    assert place.rows("select subject from fetches where kind = 'signatures'") == []


def test_where_no_condition_asks_for_signatures_none_is_read_and_all_are_forgotten(
    work: Work, place: Place, key: KeyFile
) -> None:
    def turn(checks: bool) -> int:
        runtime: Any = SimpleNamespace(store=place.store, fetcher=place.fetcher, mirror_folder=place.folder)
        runtime.check_signatures = checks
        return _check_signatures(runtime)

    place.look()
    use_key(work, key)
    place.compare(*work.propose("HEAD", [("One", FORKS), ("Two", {"b.txt": TEXT + "two\n"})]))
    assert (turn(False), place.rows(COMMITS)) == (0, [])
    assert turn(True) == 1
    assert [row["signed_by"] for row in place.rows(COMMITS)] == [key.fingerprint] * 2
    assert (turn(False), place.rows(COMMITS)) == (2, [])
    assert (turn(False), turn(True)) == (0, 1), "switched on again, open rounds are read again"


_UNSET = {"budget": None, "alarm_budget": None, "window_days": None, "shadow": True, "publish": None}
_UNSET |= {"publish_since": None}


@pytest.mark.parametrize(
    ("offset", "band"),
    [
        *(("-1000", 3), ("-0801", 3), ("-0800", 0), ("-0201", 0), ("-0200", 1), ("+0000", 1), ("+0359", 1)),
        *(("+0400", 2), ("+0959", 2), ("+1000", 3), ("+1400", 3), ("+1401", None), ("+9999", None), ("0100", None)),
    ],
)
def test_an_offset_is_a_quarter_of_the_day_and_an_impossible_one_is_none(offset: str, band: int | None) -> None:
    commit = f"tree 0\nauthor A <a@b> 1 +1100\ncommitter A <a@b> 1790000000 {offset}\n\ncommitter B <b@b> 1 -1100\n"
    assert zone_band(commit.encode()) == band
