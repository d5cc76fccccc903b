"""Counts of bytes an hour: which are remembered, and what a restart forgets."""

from pathlib import Path

import pytest

from ingest.store import contributors
from ingest.store.contributors import BYTES_AN_HOUR, HOUR_US, Intake, Spent
from ingest.store.database import Store
from ingest.stream.load import load
from tests.ingest.stream.frames import ANA, MARA, SOURCE, Frames
from tests.stores import fresh_store

NOW = 500_000 * HOUR_US
STRING = "sh.tangled.string"


def spend(spent: Spent, did: str, time_us: int, size: int) -> bool:
    """Return whether so many bytes of this account are kept."""
    taken = Intake(spent)
    refused = taken.refused([0], [did], [time_us], [size])
    taken.keep()
    return not refused


def test_an_older_hour_that_comes_late_takes_away_no_count_of_the_present_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contributors, "MOST_KEPT", 10)
    spent = Spent()
    assert spend(spent, MARA, NOW, BYTES_AN_HOUR)
    for number in range(30):
        assert spend(spent, f"did:web:{number}.test", NOW - (number + 1) * HOUR_US, 5)
    assert not spend(spent, MARA, NOW + 5, 1)
    assert len(spent.bytes) <= 10
    assert spend(spent, MARA, NOW + HOUR_US, BYTES_AN_HOUR)


def test_a_replay_of_an_older_hour_admits_no_more_than_the_bound_once_more(tmp_path: Path) -> None:
    frames = Frames()
    for number in range(40):
        frames.commit(MARA, STRING, str(number), {"contents": "x" * 990_000})
    first = frames[:]
    frames.extend([b""] * (4 * 3_600 - len(frames)))
    frames.commit(ANA, STRING, "later", {"contents": "x"})
    store = fresh_store(tmp_path / "trust.duckdb")
    store.bind(SOURCE)
    assert load(store, SOURCE, first).events == 16
    assert load(store, SOURCE, first).events == 0
    assert load(store, SOURCE, frames[-1:]).events == 1
    store.close()
    store = Store.open(tmp_path / "trust.duckdb")
    assert load(store, SOURCE, first).events == 16
    assert load(store, SOURCE, first).events == 0
    store.close()
