"""Batches that become columns part by part: what lies in which part, and beside what, makes no difference."""

import pytest

from ingest.store.database import Store
from ingest.stream import batch
from ingest.stream.batch import events_of, read_batch
from ingest.stream.frames import Frame, read_frames
from ingest.stream.load import Loaded, load
from tests.ingest.conftest import Open
from tests.ingest.stream.frames import MARA, PULL, SOURCE, Frames, rows

EVERYTHING = "select * exclude (loaded_clock) from events order by event_seq"
BODIES = ({}, {"title": "ein Täg, 木, 🏮"}, {"title": "two\nlines", "body": "x" * 5000}, {"title": "\x00 \x1f"})


def commits(number: int) -> Frames:
    frames = Frames()
    for n in range(number):
        frames.commit(MARA, PULL, f"pull{n}", BODIES[n % 4])
        if n % 5 == 4:
            frames.commit(MARA, PULL, f"pull{n}", None, "delete")
    return frames


@pytest.mark.parametrize("part", [1, 7, 512])
def test_the_size_of_a_part_changes_nothing(
    store: Store, open_store: Open, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    frames, other = commits(50), open_store("other")
    load(other, SOURCE, frames)
    monkeypatch.setattr(batch, "PART", part)
    load(store, SOURCE, frames)
    assert rows(store, EVERYTHING) == rows(other, EVERYTHING)


@pytest.mark.parametrize("place", [0, 511, 512, 700, 1199])
def test_a_bad_frame_in_any_part_costs_only_itself(store: Store, open_store: Open, place: int) -> None:
    frames, other = commits(1000), open_store("other")
    assert load(other, SOURCE, frames) == Loaded(1200, 0, 1_790_001_199_000_000, 1_790_001_199_000_000)
    assert load(store, SOURCE, [*frames[:place], b"no frame", *frames[place:]]).letters == 1
    assert rows(store, EVERYTHING) == rows(other, EVERYTHING)


def test_events_taken_out_leave_the_others_whole() -> None:
    frames = commits(20)
    whole = read_batch(frames).commits
    assert whole is not None
    left = whole.without({0, 7, 23})
    kept = [frame for frame in read_frames(frames) if isinstance(frame, Frame)]
    same = events_of([frame for place, frame in enumerate(kept) if place not in {0, 7, 23}])
    assert left.table.to_pylist() == same.table.to_pylist()
    assert (left.dids, left.rkeys, left.times_us) == (same.dids, same.rkeys, same.times_us)
    assert len(events_of([])) == 0
