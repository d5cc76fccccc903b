"""The turn of hosts: each gets its share, one that fails rests longer than one that works, and good times clear bad."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ingest.stream.jetstream import HEALTHY_SECONDS, LONGEST_REST_SECONDS, LONGEST_WAIT_SECONDS, Hosts

A, B, C = "wss://a.test/subscribe", "wss://b.test/subscribe", "wss://c.test/subscribe"


def plain(*urls: str) -> Hosts:
    return Hosts(urls, jitter=lambda: 1.0)


def play(hosts: Hosts, lasts: dict[str, float], turns: int) -> tuple[Counter[str], list[float], float]:
    """How often each host was asked, the waits, and the time it took, when a connection to each lasts so long."""
    asked: Counter[str] = Counter()
    url, now, waits = hosts.first(), 0.0, []
    for _ in range(turns):
        asked[url] += 1
        now += lasts[url]
        url, wait = hosts.after(url, lasts[url], now)
        waits.append(wait)
        now += wait
    return asked, waits, now


def test_hosts_that_work_take_turns() -> None:
    asked, waits, _ = play(plain(A, B, C), dict.fromkeys((A, B, C), 3600.0), 30)
    assert asked == {A: 10, B: 10, C: 10}
    assert set(waits) == {0.25}


def test_hosts_that_all_fail_take_turns_and_one_is_asked_every_30_seconds_at_least() -> None:
    asked, waits, _ = play(plain(A, B, C), dict.fromkeys((A, B, C), 0.0), 300)
    assert asked == {A: 100, B: 100, C: 100}
    assert max(waits) <= LONGEST_WAIT_SECONDS
    assert sum(waits[:9]) < 15


def test_a_lone_host_is_asked_again_after_longer_and_longer_waits() -> None:
    _, waits, _ = play(plain(A), {A: 0.0}, 10)
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30]


def test_a_host_that_fails_rests_longer_than_one_that_works() -> None:
    asked, _, seconds = play(plain(A, B), {A: 0.0, B: 60.0}, 200)
    assert asked[B] > 4 * asked[A]
    assert asked[A] >= seconds / (4 * LONGEST_REST_SECONDS), "it is still asked now and then"


def test_a_connection_that_held_clears_what_its_host_failed_before() -> None:
    hosts = plain(A)
    for _ in range(20):
        hosts.after(A, 0.0, 0.0)
    assert hosts.after(A, HEALTHY_SECONDS, 1000.0) == (A, 0.25)
    assert hosts.after(A, 0.0, 1001.0) == (A, 0.5)


def test_a_host_named_twice_is_asked_like_any_other() -> None:
    asked, _, _ = play(plain(A, A, B), {A: 0.0, B: 0.0}, 40)
    assert min(asked[A], asked[B]) >= 10


@given(
    st.lists(st.tuples(st.floats(0, 1e5), st.floats(0.5, 1.0)), min_size=1, max_size=100),
    st.integers(1, 5),
)
def test_every_wait_is_bounded_and_no_host_is_forgotten(spells: list[tuple[float, float]], count: int) -> None:
    urls = [f"wss://{number}.test" for number in range(count)]
    jitters = iter([jitter for _, jitter in spells for _ in range(2)])
    hosts = Hosts(urls, jitter=lambda: next(jitters))
    url, now = hosts.first(), 0.0
    for lasted, _ in spells:
        now += lasted
        url, wait = hosts.after(url, lasted, now)
        assert url in urls
        assert 0.1249 <= wait <= LONGEST_WAIT_SECONDS
        now += wait
