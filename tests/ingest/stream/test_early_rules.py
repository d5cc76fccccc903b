"""Early frames as pure rules: which are early, how far a server has come, and when the machine's clock is to blame."""

import json

from hypothesis import given
from hypothesis import strategies as st

from ingest.stream.batch import Batch, read_batch
from ingest.stream.early import AGREEING, AHEAD, IN_A_ROW, REWIND_US, EarlyFrames
from ingest.stream.frames import LATEST_US, Frame, encode, read_frames, time_of
from tests.ingest.stream.frames import ANA, FIRST_US
from tests.ingest.stream.listening import written
from tests.ingest.stream.test_early import FAR_US, MICROSECOND, SECOND, early_vouch


@st.composite
def streams(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Draw a stream: when the server sent each frame, and how it is dated, fewer than AGREEING in a row ahead of it."""
    sent = sorted(draw(st.lists(st.integers(0, 900 * SECOND), min_size=1, max_size=60)))
    frames, in_a_row = [], 0
    for time_us in sent:
        ahead = draw(st.integers(-300 * SECOND, 300 * SECOND)) if in_a_row < AGREEING - 1 else 0
        in_a_row = in_a_row + 1 if ahead > 0 else 0
        frames.append((FIRST_US + time_us, FIRST_US + time_us + ahead))
    return frames


@given(streams(), st.lists(st.integers(1, 12), min_size=60, max_size=60), st.integers(0, 900 * SECOND))
def test_no_server_is_asked_to_go_on_after_what_it_has_sent_nor_after_now(
    frames: list[tuple[int, int]], sizes: list[int], behind_us: int
) -> None:
    finder, now_us, at_frame = EarlyFrames(), FIRST_US + 900 * SECOND - behind_us, 0
    for size in sizes:
        part = frames[at_frame : at_frame + size]
        if not part:
            break
        at_frame += size
        divided = finder.divide(read_batch([early_vouch(time_us) for _, time_us in part]), now_us)
        assert divided.until_us <= min(part[-1][0] + REWIND_US, now_us)


def test_frames_a_second_apart_are_confirmed_at_once() -> None:
    finder, frames = EarlyFrames(), written(100)
    for place in range(AGREEING - 1, 100):
        begins = place if place >= AGREEING else 0
        batch = read_batch(frames[begins : place + 1])
        assert finder.divide(batch, FIRST_US + 900 * SECOND).until_us >= FIRST_US + place * SECOND


TIMES = st.one_of(
    st.integers(FIRST_US - 10 * SECOND, FIRST_US + 600 * SECOND), st.integers(FIRST_US, LATEST_US), st.just(FAR_US)
)


@given(st.lists(st.lists(TIMES, max_size=8), max_size=8), st.booleans())
def test_every_frame_is_on_time_or_early_and_the_order_stays(batches: list[list[int]], has_noise: bool) -> None:
    finder, latest = EarlyFrames(), FIRST_US + AHEAD // MICROSECOND
    for times in batches:
        raws = [early_vouch(time_us, reason=str(place)) for place, time_us in enumerate(times)]
        noise = [b"no frame"] if has_noise else []
        divided = finder.divide(read_batch([*noise, *raws]), FIRST_US)
        rest = divided.batch
        kept = rest.commits.times_us if rest.commits is not None else [t for raw in rest.raws if (t := time_of(raw))]
        assert [*kept] == [time_us for time_us in times if time_us <= latest]
        assert [one.time_us for one in divided.early] == [time_us for time_us in times if time_us > latest]
        assert rest.commits is not None or noise == [raw for raw in rest.raws if raw in noise]


@given(
    st.sampled_from(["create", "update", "delete"]),
    st.text(max_size=30),
    st.none() | st.text("abc234", max_size=20),
    st.none() | st.text("abc", max_size=10),
)
def test_a_commit_that_was_read_by_column_gives_the_same_frame_from_its_text(
    operation: str, reason: str, rev: str | None, cid: str | None
) -> None:
    part = {} if operation == "delete" else {"record": {"reason": reason}}
    commit = part | {"operation": operation, "collection": "app.test", "rkey": "x", "rev": rev, "cid": cid}
    raw = json.dumps({"did": ANA, "time_us": FAR_US, "kind": "commit", "commit": commit}).encode()
    batch = read_batch([raw])
    assert batch.commits is not None
    (once,), (again,) = read_frames([raw]), read_frames([encode(batch.commits.frame(0))])
    assert isinstance(again, Frame)
    assert once == again


def test_few_early_frames_do_not_blame_the_clock() -> None:
    finder = EarlyFrames()
    few = [early_vouch(FIRST_US + 3_600 * SECOND + number) for number in range(IN_A_ROW - 1)]
    assert len(finder.divide(read_batch(few), FIRST_US).early) == len(few)
    assert finder.behind_us == 0
    finder.divide(Batch([b"no frame"]), FIRST_US)
    finder.divide(read_batch(few[:1]), FIRST_US)
    assert finder.behind_us == 3_600 * SECOND
    finder.divide(read_batch([early_vouch(FIRST_US)]), FIRST_US)
    assert finder.behind_us == 0
