"""Look-ups of several threads, put together: each gets its own answer, and nobody waits for company."""

import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.triage.worlds.site import Site
from tests.waiting import LONG_SECONDS, wait_for
from triage.api import scores
from triage.api.scores import MOST, Gathering

WAY = ("a snapshot", None)
THREADS = 8


class Table:
    """Says every key in capitals, notes what was asked at once, and can be held up or made to fail."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.breaks = False

    def look_up(self, keys: Sequence[str]) -> Mapping[str, str]:
        """The capitals of those that are letters."""
        self.asked.append(list(keys))
        self.goes_on.wait(LONG_SECONDS)
        if self.breaks:
            raise OSError("the table is gone")
        return {key: key.upper() for key in keys if key.isalpha()}


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads enough for all who ask."""
    with ThreadPoolExecutor(2 * MOST) as threads:
        yield threads


def joined(gathering: Gathering[str], way: object = WAY) -> int:
    """How many wait for the next look-up."""
    batch = gathering._open.get(way)
    return len(batch.keys) if batch else 0


def ask_together(
    gathering: Gathering[str], table: Table, pool: ThreadPoolExecutor, first: str, others: Sequence[str]
) -> tuple[Future[str | None], list[Future[str | None]]]:
    """The answers to one who is being looked up, and to others who ask meanwhile."""
    table.goes_on.clear()
    began = len(table.asked)
    leading = pool.submit(gathering.ask, WAY, first, table.look_up)
    wait_for(lambda: len(table.asked) > began)
    following = [pool.submit(gathering.ask, WAY, key, table.look_up) for key in others]
    # One more than a batch takes begins another, under the same way: then the newest is not the only one that waits.
    wait_for(lambda: joined(gathering) == ((len(others) - 1) % MOST + 1 if others else 0))
    return leading, following


def test_who_asks_alone_is_looked_up_at_once() -> None:
    table = Table()
    assert Gathering[str]().ask(WAY, "a", table.look_up) == "A"
    assert table.asked == [["a"]]


def test_who_is_not_found_gets_nothing() -> None:
    assert Gathering[str]().ask(WAY, "7", Table().look_up) is None


def test_those_who_ask_during_a_look_up_share_the_next(pool: ThreadPoolExecutor) -> None:
    gathering, table = Gathering[str](), Table()
    first, others = ask_together(gathering, table, pool, "a", "bcdb7")
    table.goes_on.set()
    assert first.result(LONG_SECONDS) == "A"
    assert [other.result(LONG_SECONDS) for other in others] == ["B", "C", "D", "B", None]
    assert [sorted(asked) for asked in table.asked] == [["a"], ["7", "b", "c", "d"]]


def test_no_look_up_is_larger_than_the_largest_one_of_many(pool: ThreadPoolExecutor) -> None:
    gathering, table = Gathering[str](), Table()
    keys = [f"a{'b' * place}" for place in range(MOST + 20)]
    first, others = ask_together(gathering, table, pool, "a", keys)
    table.goes_on.set()
    assert first.result(LONG_SECONDS) == "A"
    assert [other.result(LONG_SECONDS) for other in others] == [key.upper() for key in keys]
    assert max(map(len, table.asked)) <= MOST


def test_who_asks_in_another_way_is_never_answered_with_the_rest(pool: ThreadPoolExecutor) -> None:
    gathering, table, other = Gathering[str](), Table(), Table()
    first, others = ask_together(gathering, table, pool, "a", "bc")
    elsewhere = pool.submit(gathering.ask, "another snapshot", "b", other.look_up)
    wait_for(lambda: joined(gathering, "another snapshot") == 1)
    table.goes_on.set()
    assert [
        first.result(LONG_SECONDS),
        elsewhere.result(LONG_SECONDS),
        *(one.result(LONG_SECONDS) for one in others),
    ] == ["A", "B", "B", "C"]
    assert other.asked == [["b"]]


def test_a_failed_look_up_is_met_by_each_alone(pool: ThreadPoolExecutor) -> None:
    gathering, table = Gathering[str](), Table()
    first, others = ask_together(gathering, table, pool, "a", "bc")
    table.breaks = True
    table.goes_on.set()
    for one in (first, *others):
        with pytest.raises(OSError, match="the table is gone"):
            one.result(LONG_SECONDS)
    table.breaks = False
    assert gathering.ask(WAY, "d", table.look_up) == "D", "a failure kept the next from being looked up"


@pytest.mark.parametrize(("first", "second"), [("!", "b"), ("b", "!")])
def test_a_key_that_breaks_a_look_up_breaks_it_for_nobody_else(
    pool: ThreadPoolExecutor, first: str, second: str
) -> None:
    gathering, table = Gathering[str](), Table()

    def look_up(keys: Sequence[str]) -> Mapping[str, str]:
        if "!" in keys:
            raise ValueError("this one cannot be written")
        return table.look_up(keys)

    leading, _ = ask_together(gathering, table, pool, "a", "")
    asked = []
    for place, key in enumerate((first, second, "c"), 1):
        asked.append((key, pool.submit(gathering.ask, WAY, key, look_up)))
        wait_for(lambda place=place: joined(gathering) == place)
    table.goes_on.set()
    assert leading.result(LONG_SECONDS) == "A"
    for key, answer in asked:
        if key == "!":
            with pytest.raises(ValueError, match="this one cannot be written"):
                answer.result(LONG_SECONDS)
        else:
            assert answer.result(LONG_SECONDS) == key.upper()


class Killed(BaseException):
    """What ends a thread, past all that catch errors."""


def test_who_leads_and_is_killed_leaves_the_others_to_look_up_alone(pool: ThreadPoolExecutor) -> None:
    gathering, table = Gathering[str](), Table()

    def killed(keys: Sequence[str]) -> Mapping[str, str]:
        raise Killed

    leading, _ = ask_together(gathering, table, pool, "a", "")
    asked = [pool.submit(gathering.ask, WAY, "b", killed)]
    wait_for(lambda: joined(gathering) == 1)
    asked += [pool.submit(gathering.ask, WAY, key, table.look_up) for key in "cd"]
    wait_for(lambda: joined(gathering) == 3)
    table.goes_on.set()
    assert leading.result(LONG_SECONDS) == "A"
    with pytest.raises(Killed):
        asked[0].result(LONG_SECONDS)
    assert [other.result(LONG_SECONDS) for other in asked[1:]] == ["C", "D"]
    assert gathering.ask(WAY, "e", table.look_up) == "E"


def test_every_thread_gets_its_own_answers_whoever_asks_beside_it() -> None:
    gathering, table = Gathering[str](), Table()

    def ask_many(seed: int) -> bool:
        drawn = random.Random(seed)
        keys = [drawn.choice("abcdefg1234567") for _ in range(500)]
        return all(gathering.ask(WAY, key, table.look_up) == table.look_up([key]).get(key) for key in keys)

    with ThreadPoolExecutor(THREADS) as pool:
        assert all(pool.map(ask_many, range(THREADS)))


def test_scores_asked_at_one_moment_are_those_that_are_told_one_by_one(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = list(site.cast.values())
    with site.snapshot() as snapshot:
        alone = {did: scores._write(snapshot, [did], None, False)[did] for did in people}

    def ask(place: int) -> dict[str, bytes]:
        barrier.wait(10)
        with site.snapshot() as snapshot:
            return {did: scores._one(snapshot, did, None, False) for did in people[place:] + people[:place]}

    barrier = threading.Barrier(THREADS)
    monkeypatch.setattr(scores._written, "peek", never_held)
    with ThreadPoolExecutor(THREADS) as pool:
        assert all(found == alone for found in pool.map(ask, range(THREADS)))


def never_held(*_: object) -> None:
    """Nothing was told before."""
