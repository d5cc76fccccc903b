"""Nothing that strangers write makes the look-ups of others wait: the order of look-ups, and who pays for them."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.http.rate_limits import (
    ASKED_AN_HOUR,
    HOUR_SECONDS,
    LOOK_UPS_AT_A_TIME,
    SLOW_AN_HOUR,
    SLOW_AT_A_TIME,
    UNKNOWN_AT_A_TIME,
    Manners,
    Shares,
    is_look_up,
    registrable_domain,
)
from ingest.http.sockets import Leash
from ingest.lookups import engine
from ingest.lookups.engine import EACH, Due
from ingest.lookups.people import DUE_IDENTITIES
from ingest.store.database import Store
from tests.conftest import Count
from tests.ingest.lookups.asked import NOW, World, did
from tests.ingest.peer import Answer, Request, response
from tests.waiting import LONG_SECONDS, wait_for

TIMEOUT = 0.5  # a host that stalls costs a thread so long


class Flooded(World):
    """The small world beside domains whose every host takes a request and never answers it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.stalled: Counter[str] = Counter()  # requests by registrable domain
        self.fetcher = Fetcher(self.peer.origin, TIMEOUT)

    def answer(self, request: Request) -> Answer:
        host = urlsplit(f"//{request.headers['host']}").hostname or ""
        if "evil" not in host:
            return super().answer(request)
        self.stalled[registrable_domain(host)] += 1
        self.hold.wait(2 * LONG_SECONDS)
        return response(b"", 500)

    def vouch(self, voucher: str, *subjects: str, minutes: float = 0) -> None:
        """Vouches that were seen so many minutes from now."""
        with self.store.write() as txn:
            people, seen_at = txn.person_ids([voucher, *subjects]), NOW + timedelta(minutes=minutes)
            numbers = [people[subject] for subject in subjects]
            txn.execute(
                "insert into vouches (voucher_id, subject_id, kind, evidences, written_at, seen_at, event_seq)"
                " select ?, unnest(?::integer[]), 'vouch', '[]', ?, ?, 1",
                [people[voucher], numbers, seen_at, seen_at],
            )

    def seed(self, person: str) -> None:
        with self.store.write() as txn:
            number = txn.person_ids([person])[person]
            txn.execute("insert into seeds values (0, ?, 'owner')", [number])

    def known(self) -> set[str]:
        """The people whose look-up has ended."""
        sql = "select subject from fetches where kind = 'identity' and outcome in ('found', 'absent')"
        return {subject for (subject,) in self.rows(sql)}

    def chosen(self, most: int) -> list[str]:
        """The people with whom the next turn begins."""
        with self.store.read() as rows:
            found = Due(DUE_IDENTITIES).rows(rows, self.now, most, self.fetcher.shares.spent("identity"))
        return [row["subject"] for row in found]

    def turn(self) -> set[str]:
        """The people who are known after one more turn."""
        self.now += timedelta(minutes=1)
        self.identities()
        return self.known()


@pytest.fixture(name="flooded")
def flooded_fixture(tmp_path: Path) -> Iterator[Flooded]:
    made = Flooded(tmp_path)
    made.seed(did("seed"))
    yield made
    made.close()


def stalling(number: int, domains: int = 1) -> list[str]:
    """DIDs whose documents lie on hosts that stall, on so many domains."""
    return [f"did:web:n{place}.evil{place % domains}.test" for place in range(number)]


def test_nobody_is_looked_up_for_a_strangers_vouch(flooded: Flooded, count: Count) -> None:
    flooded.vouch(did("stranger"), *stalling(count(300, 3_000)))
    flooded.vouch(did("seed"), did("carol"))
    assert flooded.turn() == {did("seed"), did("mallory"), did("carol")}
    assert flooded.stalled == {}
    assert flooded.identities() == 0


@pytest.mark.parametrize("domains", [1, 40])
def test_a_flood_of_one_whom_a_seed_trusts_delays_no_author_and_no_new_voucher(
    flooded: Flooded, count: Count, domains: int
) -> None:
    """In the control without the flood all three are known after the first turn."""
    flooded.vouch(did("seed"), did("bob"))
    flooded.vouch(did("bob"), *stalling(count(300, 3_000), domains), minutes=1)
    assert {did("seed"), did("mallory"), did("bob")} <= flooded.turn()
    assert sum(flooded.stalled.values()) <= SLOW_AN_HOUR + LOOK_UPS_AT_A_TIME
    flooded.vouch(did("seed"), did("carol"), minutes=2)
    assert did("carol") in flooded.turn()
    for _ in range(5):
        flooded.turn()
    assert sum(flooded.stalled.values()) <= SLOW_AN_HOUR + LOOK_UPS_AT_A_TIME, "the voucher's hour is used up"


def test_a_backlog_of_many_vouchers_starves_no_new_one(flooded: Flooded, count: Count) -> None:
    """Trusted vouchers, each with a domain of stalling hosts: the newest vouch is among the first two of every turn."""
    vouchers = [did(f"voucher{letter}") for letter in "bcdefg"]
    flooded.vouch(did("seed"), *vouchers)
    assert flooded.turn() == {did("seed"), did("mallory"), *vouchers}
    for place, voucher in enumerate(vouchers):
        subjects = [f"did:web:n{number}.evil{place}.test" for number in range(count(20, 300))]
        flooded.vouch(voucher, *subjects, minutes=place)
    for minute, name in enumerate(("carol", "dave", "erin"), start=30):
        flooded.vouch(did("seed"), did(name), minutes=minute)
        assert did(name) in flooded.chosen(2)
        assert did(name) in flooded.turn()
    assert all(requests <= SLOW_AN_HOUR + LOOK_UPS_AT_A_TIME for requests in flooded.stalled.values())


def test_everybody_on_a_path_from_a_seed_is_looked_up_before_trust_is_computed(flooded: Flooded) -> None:
    path = [did("seed"), *(did(name) for name in ("one", "two", "three", "four", "five"))]
    for voucher, subject in pairwise(path):
        flooded.vouch(voucher, subject)
    flooded.vouch(did("two"), did("one"))
    assert flooded.turn() == {*path[:-1], did("mallory")}, "the fifth is beyond the longest path of trust"


def test_a_vouch_that_was_taken_back_and_a_denounce_are_no_reason(flooded: Flooded) -> None:
    flooded.vouch(did("seed"), did("gone"), did("bad"))
    flooded.change(
        "update vouches set superseded_at = ? where subject_id = (from contributors select contributor_id "
        "where did = ?)",
        NOW,
        did("gone"),
    )
    flooded.change(
        "update vouches set kind = 'denounce' where subject_id = (from contributors select contributor_id "
        "where did = ?)",
        did("bad"),
    )
    assert flooded.turn() == {did("seed"), did("mallory")}


def test_answers_are_written_while_others_are_waited_for(flooded: Flooded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "WRITE_SECONDS", 0.02)
    flooded.fetcher = Fetcher(flooded.peer.origin, LONG_SECONDS)
    flooded.vouch(did("seed"), *stalling(2))
    turn = threading.Thread(target=flooded.identities)
    turn.start()
    wait_for(lambda: {did("seed"), did("mallory")} <= flooded.known())
    assert turn.is_alive()
    flooded.hold.set()
    turn.join()


def test_an_error_in_the_program_ends_the_turn_and_is_raised(flooded: Flooded) -> None:
    flooded.vouch(did("seed"), *[did(f"person{one}{other}") for one in "bcdefg" for other in "bcdefg"])
    asked: list[str] = []

    def ask(row: engine.Row) -> None:
        asked.append(row["subject"])
        raise ZeroDivisionError

    kind = engine.Kind("identity", Due(DUE_IDENTITIES), ask, lambda txn, found: None)
    with pytest.raises(ZeroDivisionError):
        engine.fetch(flooded.store, flooded.fetcher, flooded.wall, kind)
    assert len(asked) <= engine.THREADS
    assert flooded.fetcher.shares.begin("identity", did("seed")), "its places were given back"


def test_of_an_unknown_domain_few_hosts_are_asked_at_a_time_and_of_a_slow_one_one() -> None:
    manners, closed = Manners(), threading.Event()
    is_look_up.set(True)
    try:
        with manners.place("a.evil.test", Leash(5, closed)), manners.place("b.evil.test", Leash(5, closed)):
            assert UNKNOWN_AT_A_TIME == 2
            with pytest.raises(FetchProblem) as put_off, manners.place("c.evil.test", Leash(5, closed)):
                pytest.fail("three at a time")
            assert put_off.value.busy
            with manners.place("c.other.test", Leash(5, closed)):
                pass
        with manners.place("a.known.test", Leash(5, closed)):
            pass
        with ExitStack() as places:
            for host in ("a.known.test", "b.known.test", "c.known.test"):
                places.enter_context(manners.place(host, Leash(5, closed)))
        for host in ("a.known.test", "b.known.test"):
            manners.note_stall(host)
        with manners.place("c.known.test", Leash(5, closed)):
            with pytest.raises(FetchProblem) as put_off, manners.place("d.known.test", Leash(5, closed)):
                pytest.fail("two of a slow domain")
            assert put_off.value.busy
    finally:
        is_look_up.set(False)


def test_a_busy_domain_that_once_ran_out_the_clock_is_not_slow() -> None:
    manners, closed = Manners(), threading.Event()
    for _ in range(50):
        with manners.place("plc.directory", Leash(5, closed)):
            pass
    manners.note_stall("x.plc.directory")
    under_way = 0
    is_look_up.set(True)
    try:
        with ExitStack() as places:
            for _ in range(2):
                places.enter_context(manners.place("plc.directory", Leash(5, closed)))
                under_way += 1
    finally:
        is_look_up.set(False)
    assert under_way == 2 > SLOW_AT_A_TIME


def test_what_was_put_off_as_others_are_under_way_is_no_failure_of_its_own(flooded: Flooded) -> None:
    def ask(row: engine.Row) -> None:
        raise FetchProblem("evil.test is slow", retry=True, after=60.0, busy=True)

    kind = engine.Kind("identity", Due(DUE_IDENTITIES), ask, lambda txn, found: None)
    for _ in range(3):
        assert engine.fetch(flooded.store, flooded.fetcher, flooded.wall, kind) == 2
        assert flooded.outcome("identity")[:2] == ("failed", 0)
        flooded.now += timedelta(minutes=2)


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("evil.test", "evil.test"),
        ("n1.a.evil.test", "evil.test"),
        ("ana.bsky.social", "bsky.social"),
        ("ana.example.co.uk", "example.co.uk"),
        ("example.com.au:443", "example.com.au"),
        ("ana.example.de.", "example.de"),
        ("localhost", "localhost"),
    ],
)
def test_hosts_are_told_apart_by_what_somebody_registered(host: str, domain: str) -> None:
    assert registrable_domain(host) == domain


def test_a_payer_has_few_places_and_an_hours_share() -> None:
    now = [0.0]
    shares = Shares(lambda: now[0])
    assert [shares.begin("identity", "p") for _ in range(LOOK_UPS_AT_A_TIME + 1)] == [True] * LOOK_UPS_AT_A_TIME + [
        False
    ]
    assert shares.begin("patch", "p"), "each kind has its own"
    assert shares.begin("identity", None)
    for _ in range(LOOK_UPS_AT_A_TIME):
        shares.end("identity", "p", slow=True)
    for _ in range(SLOW_AN_HOUR - LOOK_UPS_AT_A_TIME):
        assert shares.begin("identity", "p")
        shares.end("identity", "p", slow=True)
    assert not shares.begin("identity", "p")
    assert shares.spent("identity") == ["p"]
    assert shares.spent("patch") == []
    now[0] = HOUR_SECONDS + 1
    assert shares.begin("identity", "p")
    for _ in range(ASKED_AN_HOUR):
        assert shares.begin("identity", "q")
        shares.end("identity", "q", slow=False)
    assert shares.spent("identity") == ["q"]


ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 50), st.integers(0, 3)), max_size=120)


@given(drawn=ROWS, most=st.integers(2, 60))
def test_every_turn_has_the_newest_the_most_important_and_no_more_of_one_payer_than_its_share(
    scratch: Store, drawn: list[tuple[int, int, int, int]], most: int
) -> None:
    lines = [(f"s{place:03d}", f"p{payer}", *rest) for place, (payer, *rest) in enumerate(drawn)]
    sql = """
select unnest($subjects::varchar[]) as subject, unnest($payers::varchar[]) as payer, unnest($ranks::integer[]) as rank,
  make_timestamp(unnest($times::bigint[])) as since, unnest($attempts::integer[]) as attempts, $wall as wall
"""
    names = ("subjects", "payers", "ranks", "times", "attempts")
    params = {name: [line[place] for line in lines] for place, name in enumerate(names)}
    with scratch.read() as rows:
        chosen = Due(sql, params).rows(rows, NOW, most, ["p0"])
    left = [line for line in lines if line[1] != "p0"]
    assert not any(row["payer"] == "p0" for row in chosen)
    assert max(Counter(row["payer"] for row in chosen).values(), default=0) <= EACH
    assert len({row["subject"] for row in chosen}) == len(chosen)
    if left and len(left) <= EACH:
        assert len(chosen) == min(most, len(left))
        by_rank = min(left, key=lambda line: (line[2], line[4], line[3], line[0]))
        by_news = min(left, key=lambda line: (line[4] > 0, -line[3], line[0]))
        assert {by_rank[0], by_news[0]} <= {row["subject"] for row in chosen[:2]}


def test_a_handle_whose_domain_is_busy_is_proven_soon_and_the_rest_is_known_at_once(flooded: Flooded) -> None:
    for _ in range(2):
        flooded.fetcher.manners.note_stall("other.example.test")
    with flooded.fetcher.manners.place("another.example.test", flooded.fetcher.leash(LONG_SECONDS)):
        flooded.identities()
    sql = "select pds, handle_verified from contributors where did = ?"
    assert flooded.rows(sql, did("seed")) == [("https://pds.example.test", False)]
    outcome, attempts, due, reason = flooded.outcome("identity")
    assert (outcome, attempts, due - flooded.now) == ("found", 1, timedelta(minutes=1))
    assert reason == "handle not proven: example.test is slow, and others ask it"
    for _ in range(5):  # on a busy machine an answer may come too late once or twice more, and is asked for again
        flooded.now = flooded.outcome("identity")[2]
        flooded.identities()
        if flooded.rows(sql, did("seed")) == [("https://pds.example.test", True)]:
            return
    pytest.fail(f"the handle was never proven: {flooded.outcome('identity')}")
