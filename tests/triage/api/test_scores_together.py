"""Scores that several requests ask for at one moment: one statement reads them, and each request gets its own."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from ingest.store.snapshots import PerSnapshot, Snapshot
from scoring.queries import read
from tests.triage.worlds.site import Site
from tests.waiting import LONG_SECONDS, wait_for
from triage.api import scores

THREADS = 8
NOBODY = "did:plc:nobody2222222222222222"
Answer = Future[bytes | None]


class HeldReading:
    """`read.scores`, which notes who is read together, and can be held up or made to fail at one person."""

    def __init__(self) -> None:
        self.read: list[list[str]] = []
        self.goes_on = threading.Event()
        self.fails_at: tuple[str, type[BaseException]] = ("", OSError)
        self._read_scores = read.scores

    def scores(
        self, snapshot: Snapshot, dids: Sequence[str], repository: str | None = None
    ) -> Mapping[str, read.ContributorScore]:
        """Read the scores once `goes_on` is set."""
        self.read.append(sorted(dids))
        assert self.goes_on.wait(LONG_SECONDS)
        did, error = self.fails_at
        if did in dids:
            raise error("this one cannot be read")
        return self._read_scores(snapshot, dids, repository)


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> HeldReading:
    held = HeldReading()
    monkeypatch.setattr(read, "scores", held.scores)
    monkeypatch.setattr(scores, "_written", PerSnapshot[bytes]())
    return held


@pytest.fixture
def ask(site: Site, reading: HeldReading) -> Iterator[Callable[..., Answer]]:
    """Ask in a thread of its own; return once it waits for its turn, or is the one that reads."""

    def answer(did: str, briefing: bool) -> bytes | None:
        with site.snapshot() as snapshot:
            return scores._write_together(snapshot, did, None, briefing)

    def start(did: str, briefing: bool = False) -> Answer:
        before = len(scores._waiting)
        future = threads.submit(answer, did, briefing)
        wait_for(lambda: len(scores._waiting) > before or future.done())
        return future

    with ThreadPoolExecutor(THREADS) as threads:
        yield start
        reading.goes_on.set()
    assert not scores._waiting
    assert not scores._turn.locked()


@pytest.fixture
def alone(site: Site) -> dict[str, bytes]:
    """The answer about each person, read by itself."""
    with site.snapshot() as snapshot:
        return {did: scores._write_scores(snapshot, [did], {}, None, False)[did] for did in sorted(site.cast.values())}


def test_requests_during_a_reading_share_the_next_and_each_gets_its_own(
    alone: dict[str, bytes], reading: HeldReading, ask: Callable[..., Answer]
) -> None:
    first, *others = [*list(alone)[:4], NOBODY]
    asked = {did: ask(did) for did in (first, *others)}
    briefed = ask(first, briefing=True)
    reading.goes_on.set()
    assert {did: answer.result(LONG_SECONDS) for did, answer in asked.items()} == {
        **{did: alone[did] for did in (first, *others[:-1])},
        NOBODY: None,
    }
    assert b'"briefing":"' in (briefed.result(LONG_SECONDS) or b"")
    assert reading.read[0] == [first]
    assert sorted(others) in reading.read
    assert reading.read.count([first]) == 2, "with a briefing it is another answer, read apart"


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_person_who_cannot_be_read_fails_for_nobody_else(
    alone: dict[str, bytes], reading: HeldReading, ask: Callable[..., Answer], place: int, error: type[BaseException]
) -> None:
    people = list(alone)[:3]
    reading.fails_at = (people[place], error)
    asked = [ask(did) for did in people]
    reading.goes_on.set()
    if error is OSError:
        for did, answer in zip(people, asked, strict=True):
            if did == people[place]:
                with pytest.raises(OSError, match="this one cannot be read"):
                    answer.result(LONG_SECONDS)
            else:
                assert answer.result(LONG_SECONDS) == alone[did]
    else:  # a thread that is ended takes along nobody but itself and whoever it reads with, who read again
        assert {type(answer.exception(LONG_SECONDS)) for answer in asked} >= {KeyboardInterrupt}
    reading.fails_at = ("", error)
    assert ask(people[place]).result(LONG_SECONDS) == alone[people[place]], "a failure keeps the next from being read"


def test_every_request_gets_its_own_answers_whoever_asks_beside_it(site: Site, alone: dict[str, bytes]) -> None:
    people = list(alone)
    scores._written = PerSnapshot[bytes](len(people) // 2)
    barrier = threading.Barrier(THREADS)

    def ask_all(place: int) -> dict[str, bytes | None]:
        barrier.wait(LONG_SECONDS)
        with site.snapshot() as snapshot:
            return {did: scores._write_together(snapshot, did, None, False) for did in people[place:] + people[:place]}

    with ThreadPoolExecutor(THREADS) as pool:
        assert all(answers == alone for answers in pool.map(ask_all, range(THREADS)))
