"""The worker's end within a bound, whatever its parts do: all are told at once, and waited for out of one budget.

A part that outlasts the budget is cut off with the process. Nothing is lost by that: whatever is written is written
whole or not at all, and a hop that was cut runs again, as after any kill.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

log = logging.getLogger(__name__)

PARTS_SECONDS = 8.0  # for all parts together
WHOLE_SECONDS = 9.0  # with the last snapshot and the closing of the store


@dataclass(frozen=True, slots=True)
class Part:
    """Something that runs: `tell` has it stop and returns at once; `wait` waits so long, and says whether it ended."""

    name: str
    tell: Callable[[], object]
    wait: Callable[[float], bool]


def of_thread(thread: threading.Thread, tell: Callable[[], object]) -> Part:
    """A thread, which may not have been started."""

    def wait(seconds: float) -> bool:
        if thread.ident is not None:
            thread.join(seconds)
        return not thread.is_alive()

    return Part(thread.name, tell, wait)


def going_on(parts: Iterable[Part], seconds: float, clock: Callable[[], float] = time.monotonic) -> list[str]:
    """Wait for one part after the other, `seconds` for all of them; the names of those that have not ended."""
    ends = clock() + seconds
    return [part.name for part in parts if not part.wait(max(0.0, ends - clock()))]


def cut_off(has_ended: threading.Event, seconds: float, leave: Callable[[int], object] = os._exit) -> None:
    """End the process with status 1 unless `has_ended` is set within so many seconds."""
    if not has_ended.wait(seconds):
        log.error("the worker did not stop in time and is cut off; nothing is lost: the next one goes on from here")
        leave(1)
