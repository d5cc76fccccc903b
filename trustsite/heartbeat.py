"""What the heartbeat says of a worker: gathered from its parts, none of which has to wait for the store."""

import logging
import time
from collections.abc import Sequence
from pathlib import Path

from ingest.backfill.turn import Backfiller
from ingest.event_streams import EventStream
from ingest.jetstream import Listener
from ingest.net import Fetcher
from ingest.room import RESERVE_BYTES, free_bytes
from ingest.snapshot import current_number
from ingest.status import Status
from trustsite.hops import Hops

log = logging.getLogger(__name__)


class Publishing:
    """Why the newest state is not published; over once a newer snapshot is there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._failed: tuple[int, str] | None = None

    def note(self, problem: str) -> None:
        """Keep a problem of the publisher, and log it."""
        log.error("%s", problem)
        self._failed = current_number(self._folder), problem

    @property
    def problem(self) -> str | None:
        """The problem, until something was published after it."""
        failed = self._failed
        return failed[1] if failed and current_number(self._folder) <= failed[0] else None


def status_of(
    listener: Listener,
    publishing: Publishing,
    hops: Hops,
    fetcher: Fetcher,
    store_path: Path,
    backfiller: Backfiller | None = None,
    event_streams: Sequence[EventStream] = (),
    letters_dropped: int = 0,
) -> Status:
    """How a worker is now. Raises OSError where the drive is gone."""
    left_alone = fetcher.left_alone()
    problem, about_store = listener.problem, listener.store_failed
    free = free_bytes(store_path)
    down = [stream.problem for stream in event_streams if stream.problem is not None]
    return Status(
        written_at=time.time(),
        cursor_us=listener.cursor_us,
        listener_problem=None if about_store else problem,
        store_problem=problem if about_store else None,
        publisher_problem=publishing.problem,
        backfill_problem=backfiller.problem if backfiller else None,
        event_problems=tuple(down[:3]),
        event_streams_down=len(down),
        failing_hops=tuple(sorted(hops.failures)),
        hosts_left_alone=len(left_alone),
        hosts_named=tuple(left_alone[:10]),
        clock_behind_minutes=listener.clock_behind_minutes,
        letters_dropped=letters_dropped,
        free_bytes=free,
        drive_full=free < RESERVE_BYTES,
    )
