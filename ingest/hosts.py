"""Which of several hosts to ask next, and how long to wait first: pure, with the clock and the dice passed in.

Backoff from 0.25 s, doubled by each failure of that host (the forge's own client does the same up to 30 s). A host that
fails rests longer than one that works, so that it is not asked first each time the other ends a connection.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import SystemRandom

FIRST_WAIT_SECONDS = 0.25
LONGEST_WAIT_SECONDS = 30.0  # with every host failing one is asked at least this often
LONGEST_REST_SECONDS = 300.0  # of one host, while another serves
HEALTHY_SECONDS = 30.0  # a connection that lasted so long clears what its host failed before
_DICE = SystemRandom()  # the generator of the process is others' to seed


@dataclass(slots=True)
class _Host:
    url: str
    failures: int = 0
    rests_until: float = 0.0
    asked: int = 0  # number of the turn in which it was asked last


class Hosts:
    """The hosts of one stream in turn: of those whose rest is over the one that was not asked for longest.

    `jitter` gives a number in [0.5, 1], so that a server that restarts does not meet all its clients at once.
    """

    def __init__(self, urls: Sequence[str], jitter: Callable[[], float] = lambda: _DICE.uniform(0.5, 1.0)) -> None:
        self._hosts = [_Host(url) for url in dict.fromkeys(urls)]
        self._jitter = jitter
        self._turn = 0

    def first(self) -> str:
        """The host to begin with; without a wait, since nothing has failed yet."""
        return self._ask(self._hosts[0])

    def after(self, url: str, lasted: float, now: float) -> tuple[str, float]:
        """The next host and the seconds to wait, when the connection to `url` ended at `now` and `lasted` seconds."""
        ended = next(host for host in self._hosts if host.url == url)
        ended.failures = 0 if lasted >= HEALTHY_SECONDS else ended.failures + 1
        ended.rests_until = now + self._rest(ended.failures)
        soon = now + FIRST_WAIT_SECONDS * self._jitter()
        chosen = min(self._hosts, key=lambda host: (max(host.rests_until, soon), host.asked))
        return self._ask(chosen), min(max(chosen.rests_until, soon) - now, LONGEST_WAIT_SECONDS)

    def _ask(self, host: _Host) -> str:
        self._turn += 1
        host.asked = self._turn
        return host.url

    def _rest(self, failures: int) -> float:
        # 2 ** 1024 is no float: a host may fail for weeks.
        return min(LONGEST_REST_SECONDS, FIRST_WAIT_SECONDS * 2.0 ** min(failures, 32)) * self._jitter()
