"""Runs regular training beside the worker in a child process, so that a long or failing training harms nobody.

A child writes its model whole and points to it last, so that a killed child leaves the old model serving.
"""

import fcntl
import logging
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

STARTED = "train.started"  # its mtime is the start of the newest child; a running child holds its lock
ENDED = "train.ended"  # its mtime is the end of the newest child, with or without success
DAY_SECONDS = 86_400
logger = logging.getLogger(__name__)


@dataclass(slots=True)
class TrainingChild:
    """At most one child at a time for all workers of a folder.

    Files in `folder` record the start and the end of the newest child across restarts; `log` gets its output.
    """

    folder: Path
    log: Path
    _child: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def follow(self, command: Sequence[str], days: int, now: float) -> bool:
        """Log how the last child ended and start another if one is due; return whether one began.

        One is due `days` after the start of the last (0: never), or if that has no recorded end, as after a power cut.
        `now` is in the seconds of file times. Returns at once; an OSError is logged.
        """
        if self._runs(now) or not days or not self._is_due(days, now):
            return False
        try:
            for folder in (self.folder, self.log.parent):
                folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / STARTED).open("ab") as mark:
                fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._begin(command, mark.fileno(), now)
        except BlockingIOError:
            return False  # the child of an earlier worker still runs
        except OSError as problem:
            logger.error("Training could not be started: %s", problem)
            note_end(self.folder, now)
            return False
        return True

    def _begin(self, command: Sequence[str], lock: int, now: float) -> None:
        """Start the child; it inherits the lock, which the system releases when it ends."""
        os.utime(self.folder / STARTED, (now, now))
        with self.log.open("wb") as words:
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=words, stderr=words, pass_fds=(lock,)
            )

    def _runs(self, now: float) -> bool:
        if self._child is None:
            return False
        code = self._child.poll()
        if code is None:
            return True
        self._child = None
        note_end(self.folder, now)
        if code:
            logger.error(
                "Training ended with %d; what served goes on serving. Its last words are in %s", code, self.log
            )
        return False

    def _is_due(self, days: int, now: float) -> bool:
        next_time = next_start(self.folder, days)
        return next_time is None or now >= next_time


def next_start(folder: Path, days: int) -> float | None:
    """Return when the next child is due, in seconds of file times.

    None: now, since none began yet or the newest has no recorded end.
    """
    began = _modified_at(folder / STARTED)
    return None if not began or _modified_at(folder / ENDED) < began else began + days * DAY_SECONDS


def note_end(folder: Path, now: float) -> None:
    """Record the end of the newest training. A failed write is logged; the next call tries again."""
    try:
        (folder / ENDED).touch()
        os.utime(folder / ENDED, (now, now))
    except OSError as problem:
        logger.error("The end of a training could not be noted: %s", problem)


def _modified_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
