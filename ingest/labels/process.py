"""Run the label server as a child of the worker, and start it again when it ends."""

import logging
import subprocess
import sys
import threading
from pathlib import Path

import msgspec

from ingest.labels.server import Config

PROJECT = Path(__file__).resolve().parents[2]
LONGEST_WAIT = 60.0  # seconds between two starts
END_SECONDS = 2.0
log = logging.getLogger(__name__)


class LabelServer(threading.Thread):
    """Keeps one label server running until `stop`."""

    def __init__(self, config: Config) -> None:
        super().__init__(name="labels", daemon=True)
        self._command = [sys.executable, "-m", "ingest.labels.server", msgspec.json.encode(config).decode()]
        self._is_stopping = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process_id(self) -> int | None:
        with self._lock:
            return self._process.pid if self._process and self._process.poll() is None else None

    def run(self) -> None:
        wait = 1.0
        while process := self._start():
            status = process.wait()
            if self._is_stopping.is_set():
                return
            log.error("the label server ended (exit status %d); it starts again in %.0f s", status, wait)
            self._is_stopping.wait(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    def _start(self) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._is_stopping.is_set():
                return None
            # A session of its own: Ctrl-C is for the process that started it.
            self._process = subprocess.Popen(
                self._command, cwd=PROJECT, stdin=subprocess.PIPE, start_new_session=True, close_fds=True
            )
            return self._process

    def stop(self) -> None:
        """End the server: at once by itself, or killed two seconds later."""
        with self._lock:
            self._is_stopping.set()
            process = self._process
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
