"""Repositories that the stream never brought are read from their owner's data server, once, and belong to the owner."""

from collections.abc import Iterator

import pytest

from ingest.backfill.account import Sources
from ingest.backfill.owners import make_known
from ingest.clock import from_microseconds
from ingest.http.fetcher import Fetcher
from ingest.records import watched
from ingest.store.database import Store
from tests.pipeline import At
from trustsite.standins import StandIns
from trustsite.world import build_world

PLC = "https://plc.directory"
WORLD = build_world()
NOW = At(from_microseconds(WORLD.recording.last_time_us))


@pytest.fixture(scope="module")
def peers() -> Iterator[StandIns]:
    with StandIns(WORLD.recording) as network:
        yield network


def add(store: Store, peers: StandIns, *names: str) -> list[str]:
    sources = Sources(Fetcher(peers.origin), PLC, (), (), store.path.parent, NOW)
    known = make_known(store, sources, names)
    return watched.add_maintainer(store, WORLD.cast["ana"], known, NOW.now())


@pytest.mark.parametrize("owner", ["handle", "did"])
def test_a_repository_is_found_by_its_owner_and_name_before_any_frame_of_it_came(
    store: Store, peers: StandIns, owner: str
) -> None:
    named = "ana.example.test" if owner == "handle" else WORLD.cast["ana"]
    assert add(store, peers, f"{named}/lantern") == [WORLD.watched["lantern"]]
    with store.read() as rows:
        row = rows.row(
            "select * from repositories join contributors on contributor_id = owner_id where name = 'lantern'"
        )
        assert row is not None
        assert row["did"] == WORLD.cast["ana"]
        assert rows.value("select cursor_us from ingest_state") == 0


def test_looking_it_up_again_logs_nothing_twice(store: Store, peers: StandIns) -> None:
    add(store, peers, "ana.example.test/lantern")
    with store.read() as rows:
        before = rows.value("select count(*) from events")
    with pytest.raises(watched.UnknownRepository):
        add(store, peers, "ana.example.test/no-such-thing")
    with store.read() as rows:
        assert rows.value("select count(*) from events") == before > 0


@pytest.mark.parametrize(
    "name", ["nobody.example.test/lantern", "did:plc:" + "z" * 24 + "/lantern", "did:plc:" + "z" * 24]
)
def test_an_owner_who_cannot_be_asked_is_named_in_one_sentence(store: Store, peers: StandIns, name: str) -> None:
    with pytest.raises(watched.UnknownRepository, match=name[:20]):
        add(store, peers, name)
    with store.read() as rows:
        assert rows.value("select count(*) from watched_repositories") == 0
