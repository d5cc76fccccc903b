"""A stream whose frames come doubled, in bursts, over a socket that is cut again and again, ends as a calm one does."""

import random
import time
from pathlib import Path

import pytest

from ingest.records.derive import derive
from ingest.records.pull_state import settle
from ingest.store.database import Store
from ingest.store.digest import digest
from ingest.stream import jetstream
from ingest.stream.jetstream import Listener, Subscription
from ingest.stream.load import load
from tests.conftest import Count, simulated_network
from tests.waiting import wait_for
from trustsite.standins.jetstream import Jetstream
from trustsite.standins.recording import Recording, make_recording, open_recording

SOURCE = "bursts"


def worked_off(store: Store) -> dict[str, str]:
    """The hashes of a store whose log is derived and settled."""
    while derive(store):
        pass
    settle(store)
    with store.read() as rows:
        return digest(rows)


@pytest.fixture(name="recording")
def recording_fixture(prove: bool, request: pytest.FixtureRequest) -> Recording:
    """The simulated network; the real history of four projects at full counts."""
    if prove:
        return open_recording(request.getfixturevalue("shared") / "data" / "replay")
    return simulated_network().recording


def test_doubled_frames_in_bursts_over_a_cut_socket_equal_the_plain_stream(
    recording: Recording, tmp_path: Path, count: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jetstream, "FLUSH_SECONDS", 0.02)
    monkeypatch.setattr(jetstream, "LONGEST_WAIT_SECONDS", 0.005)
    plain, cut = Store.open(tmp_path / "plain.duckdb"), Store.open(tmp_path / "cut.duckdb")
    plain.bind(SOURCE)
    load(plain, SOURCE, recording.frames)
    doubled = make_recording([frame for frame in recording.frames for _ in range(2)], {}, [], [])
    draw, cuts = random.Random(4), count(5, 50)
    with Jetstream(doubled, hold_after=0) as server:
        listener = Listener(cut, Subscription(SOURCE, [server.url], []), lambda: None)
        listener.start()
        for number in range(1, cuts + 1):
            wait_for(lambda: server.connections > 0)
            server.release(len(doubled.frames) * number // cuts - draw.randrange(20))
            time.sleep(draw.uniform(0, 0.1))
            server.drop_connections()
        server.release(None)
        wait_for(lambda: _cursor(cut) == recording.times[-1], 60)
        wait_for(lambda: listener.quiet_for() > 0.5)
        listener.stop()
    assert worked_off(cut) == worked_off(plain)
    plain.close()
    cut.close()


def _cursor(store: Store) -> int:
    with store.read() as rows:
        return rows.value("select cursor_us from ingest_state")
