"""Waiting for what another thread or process does: for a condition, never for a time."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

LONG_SECONDS = 90.0  # nobody waits this long but on a machine of two cores that does five other things
PATIENT_MS = 1_000 * LONG_SECONDS  # for Playwright


@contextmanager
def ends_by_itself(seconds: float = LONG_SECONDS) -> Generator[None]:
    """Fail where the block takes longer: for what takes moments, and many times as long where its bound is missing."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


def wait_for(condition: Callable[[], object], seconds: float = LONG_SECONDS, what: str = "it") -> None:
    """Return once the condition holds; AssertionError where it does not in time."""
    deadline = time.monotonic() + seconds
    while True:
        asked = time.monotonic()
        if condition():
            return
        answered = time.monotonic()
        assert answered < deadline, f"{what} did not happen within {seconds:.0f} s"
        # Three parts of four are left to whoever is waited for: to open a snapshot takes 30 ms of CPU, a page 300.
        time.sleep(min(max(0.02, 3 * (answered - asked)), 0.5))
