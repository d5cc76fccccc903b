"""Regular training beside the worker, in a child process with limits of its own: nobody waits for it or dies of it.

A child writes its model whole and points at it last, so that one that is killed leaves the old model serving.
"""

import fcntl
import logging
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

MARK = "train.started"  # its time of change is when the newest child was started; a child that runs holds its lock
ENDED = "train.ended"  # its time of change is when the newest child was seen to end, well or not
DAY_SECONDS = 86_400
logger = logging.getLogger(__name__)


@dataclass(slots=True)
class TrainingChild:
    """At most one child at a time, of all workers of one folder. `folder` remembers across restarts when the newest
    began and whether it ended; `log` holds its words."""

    folder: Path
    log: Path
    _child: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def follow(self, command: Sequence[str], days: int, now: float) -> bool:
        """Tell how the last child ended, and start another where `days` passed since it began (0: never), or where
        nobody saw it end, as after a power cut; whether one began.

        `now` is the time of day as files know it. Returns at once, and OSError is told and not raised.
        """
        if self._runs(now) or not days or not self._is_due(days, now):
            return False
        try:
            for place in (self.folder, self.log.parent):
                place.mkdir(parents=True, exist_ok=True)
            with (self.folder / MARK).open("ab") as mark:
                fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._begin(command, mark.fileno(), now)
        except BlockingIOError:
            return False  # the child of a worker that is no more goes on
        except OSError as problem:
            logger.error("Training could not be started: %s", problem)
            note_end(self.folder, now)
            return False
        return True

    def _begin(self, command: Sequence[str], lock: int, now: float) -> None:
        """The child inherits the lock, which the system takes back when it ends."""
        os.utime(self.folder / MARK, (now, now))
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
        due = next_start(self.folder, days)
        return due is None or now >= due


def next_start(folder: Path, days: int) -> float | None:
    """Return when the next child is due, as files know the time.

    None: now, since none began yet or the newest has no end.
    """
    began = _changed(folder / MARK)
    return None if not began or _changed(folder / ENDED) < began else began + days * DAY_SECONDS


def note_end(folder: Path, now: float) -> None:
    """Remember that the newest training ended. What cannot be written is told: the next chance then tries again."""
    try:
        (folder / ENDED).touch()
        os.utime(folder / ENDED, (now, now))
    except OSError as problem:
        logger.error("The end of a training could not be noted: %s", problem)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
