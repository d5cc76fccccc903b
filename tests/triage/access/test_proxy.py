"""Behind a proxy that is named, each visitor has an address of their own; nobody else may say what theirs is."""

import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

from tests.trustsite import runs
from tests.trustsite.busy import answers_at
from tests.trustsite.ports import free_port
from tests.waiting import LONG_SECONDS, wait_for
from triage.access import throttle
from trustsite import drive

TOLD = {"X-Forwarded-Host": "sunstead.example.test", "X-Forwarded-Proto": "https"}


@dataclass(frozen=True)
class Visit:
    """Asks a web process as its proxy would."""

    port: int

    def __call__(self, address: str, **headers: str) -> int:
        """The status of a made-up link, opened by a visitor at this address."""
        return self._ask("/sign-in/made-up", {"X-Forwarded-For": address, **headers}).status

    def cookies(self) -> list[str]:
        """The cookies of the sign-in page, asked for as if over TLS."""
        return self._ask("/sign-in", TOLD).headers.get_all("Set-Cookie") or []

    def _ask(self, path: str, headers: dict[str, str]) -> HTTPResponse:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=LONG_SECONDS)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        connection.close()
        return answer


def within_one_window(play: Callable[[], None]) -> None:
    """Play it, and once more where the window in which guesses are counted ended meanwhile: it forgives at its end."""
    window = time.time() // throttle.WINDOW_SECONDS
    try:
        play()
    except AssertionError:
        if time.time() // throttle.WINDOW_SECONDS == window:
            raise
        play()


@contextmanager
def site_behind(root: Path, **environment: str) -> Generator[Visit]:
    """A web process on a new drive, and how its proxy asks it."""
    drive.mark(root)
    port = free_port()
    process = runs.start("web", DATA_ROOT=root, BIND=f"127.0.0.1:{port}", **environment)

    try:
        wait_for(lambda: answers_at(port, "/sign-in"))
        yield Visit(port)
    finally:
        process.send_signal(signal.SIGTERM)
        runs.finish(process, timeout=runs.STOP_SECONDS)


def test_behind_the_trusted_proxy_one_who_guesses_locks_out_nobody_else_and_the_public_name_is_checked(
    tmp_path: Path,
) -> None:
    environment = {"TRUSTED_PROXY": "127.0.0.1", "ALLOWED_HOSTS": "sunstead.example.test,127.0.0.1"}
    with site_behind(tmp_path, **environment) as visit:
        assert visit("192.0.2.9", **TOLD) == 403
        assert visit("192.0.2.9", **{"X-Forwarded-Host": "evil.example.test"}) == 400
        cookies = visit.cookies()
        assert cookies
        assert all("Secure" in cookie for cookie in cookies), "by the word of the proxy it came over TLS"

        def play() -> None:
            assert {visit("192.0.2.1") for _ in range(throttle.LIMIT)} == {403}
            assert visit("192.0.2.1") == 429
            assert visit("192.0.2.2") == 403
            assert visit("203.0.113.9, 192.0.2.1") == 429, "only the address that the proxy itself added counts"

        within_one_window(play)


def test_a_visitor_without_a_trusted_proxy_cannot_choose_an_address(tmp_path: Path) -> None:
    for number, environment in enumerate(({}, {"TRUSTED_PROXY": "192.0.2.200"})):
        (tmp_path / str(number)).mkdir()
        with site_behind(tmp_path / str(number), **environment) as visit:

            def play(visit: Visit = visit) -> None:
                assert {visit(f"192.0.2.{last}") for last in range(throttle.LIMIT)} == {403}
                assert visit("192.0.2.99") == 429

            assert not any("Secure" in cookie for cookie in visit.cookies()), "nobody here may say that it was TLS"
            within_one_window(play)
