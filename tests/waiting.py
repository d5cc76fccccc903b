"""Waiting for what another thread or process does: for a condition, never for a time."""

import time
from collections.abc import Callable

LONG_SECONDS = 90.0  # nobody waits this long but on a machine of two cores that does five other things


def loaded(seconds: float) -> float:
    """The time that a loaded machine is given for what takes so long on a free one: three times, and a stall of 2 s."""
    return 3 * seconds + 2


def wait_for(condition: Callable[[], object], seconds: float = LONG_SECONDS, what: str = "it") -> None:
    """Return once the condition holds; AssertionError where it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds:.0f} s"
        time.sleep(0.02)
