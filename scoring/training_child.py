"""Regular training beside the worker, in a child process with limits of its own: nobody waits for it or dies of it.

A child writes its model whole and points at it last, so that one that is killed leaves the old model serving.
"""

import logging
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

MARK = "train.started"  # its time of change is when the newest child was started
DAY_SECONDS = 86_400
logger = logging.getLogger(__name__)


@dataclass(slots=True)
class TrainingChild:
    """At most one child at a time. `folder` remembers across restarts when the newest began; `log` holds its words."""

    folder: Path
    log: Path
    _child: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def follow(self, command: Sequence[str], days: int, now: float) -> bool:
        """Tell how the last child ended, and start another where `days` passed since (0: never); whether one began.

        `now` is the time of day as files know it. Returns at once, and OSError is told and not raised.
        """
        if self._runs() or not days or now - self._began() < days * DAY_SECONDS:
            return False
        try:
            for place in (self.folder, self.log.parent):
                place.mkdir(parents=True, exist_ok=True)
            (self.folder / MARK).touch()
            os.utime(self.folder / MARK, (now, now))
            with self.log.open("wb") as words:
                self._child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=words, stderr=words)
        except OSError as problem:
            logger.error("Training could not be started: %s", problem)
            return False
        return True

    def _runs(self) -> bool:
        if self._child is None:
            return False
        code = self._child.poll()
        if code is None:
            return True
        self._child = None
        if code:
            logger.error(
                "Training ended with %d; what served goes on serving. Its last words are in %s", code, self.log
            )
        return False

    def _began(self) -> float:
        try:
            return (self.folder / MARK).stat().st_mtime
        except OSError:
            return 0.0
