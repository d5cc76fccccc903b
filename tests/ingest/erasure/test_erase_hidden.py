"""Erasure of what tells of a person without naming them, and of mirrors, which nobody here may change."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from ingest.backfill.account import Staging
from ingest.erasure.erase import erase, finish
from ingest.git.mirror import mirror_path, mirrors_below
from ingest.http.fetcher import Fetcher
from ingest.records.dead_letters import LetterBound
from ingest.store.archive import archive
from ingest.store.database import Store
from tests.ingest.erasure.erased import LATE, everything
from tests.ingest.erasure.planted import GONE, MARK, folders_below, traces
from tests.ingest.git.git_world import OWNER, REPO_DID, TEXT, Knot, Place, Work
from tests.ingest.stream.frames import ANA, PULL, VOUCH, Frames, pull_record, rows, take

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
