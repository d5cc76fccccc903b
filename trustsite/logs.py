"""The log of a process as JSON lines below LOG_DIR, beside the sentences on stderr.

A log file is stored, searched and shipped elsewhere, so it holds no personal data except DIDs. A list of allowed
content ensures that, not a list of removed content: the message's text from the source, and as values only numbers,
DIDs, at-uris and names of our own. An error is logged by kind and origin, since its text may quote anything. The whole
sentence is on stderr; `where` leads from a line to it.
"""

import errno
import logging
import os
import re
import sys
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from django.conf import settings
from pythonjsonlogger.json import JsonFormatter

from triage.measured import request_id, route_of
from trustsite.hops import JOB, NEXT_HOPS

HIDDEN = "(hidden)"
OURS = frozenset({"ingest", "scoring", "triage", "trustsite"})
NAMES = frozenset({*NEXT_HOPS, JOB})
DID = re.compile(r"did:(plc:[a-z2-7]{24}|web:[A-Za-z0-9.%-]{1,253})", re.ASCII)
AT_URI = re.compile(rf"at://{DID.pattern}/[A-Za-z0-9.]{{1,317}}/[A-Za-z0-9._:~-]{{1,512}}", re.ASCII)
FRAMES = 30  # of a traceback, the innermost


class LineFormatter(JsonFormatter):
    """Format one log record as one line of JSON: time, level, logger, where, message, and its request."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        """Fill the line with allowed fields; `message_dict`, the whole text, is not used."""
        moment = datetime.fromtimestamp(record.created, UTC)
        log_data["time"] = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        log_data["level"], log_data["process"] = record.levelname, self._process
        log_data["logger"], log_data["where"] = record.name, f"{record.module}:{record.lineno}"
        log_data["message"] = said(record)
        log_data |= _request_fields(record)
        if record.exc_info and record.exc_info[1] is not None:
            log_data["error"] = told_error(record.exc_info[1])


def said(record: logging.LogRecord) -> str:
    """Return the message with allowed values only; hide it entirely if its text may be made of values."""
    is_ours = record.name.partition(".")[0] in OURS
    if not isinstance(record.msg, str) or not (record.args or is_ours):
        return HIDDEN
    values = record.args if isinstance(record.args, tuple) else ()
    try:
        return record.msg % tuple(_allowed_value(value) for value in values)
    except (TypeError, ValueError):  # "%d" of a hidden value, or a message with names for its values
        return record.msg


def told_error(error: BaseException) -> dict[str, Any]:
    """Return the kind of an error, its number if the system gave one, and the lines of code that led to it."""
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES:]
    fields: dict[str, Any] = {
        "type": type(error).__qualname__,
        "frames": [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames],
    }
    if isinstance(error, OSError) and error.errno is not None:
        fields["errno"] = error.errno
    if error.__cause__ is not None:
        fields["cause"] = type(error.__cause__).__qualname__
    return fields


def _allowed_value(value: object) -> object:
    """Return a value that is allowed in a line, else HIDDEN."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, BaseException):
        return type(value).__qualname__
    text = str(value) if isinstance(value, str) else ""
    return text if text in NAMES or DID.fullmatch(text) or AT_URI.fullmatch(text) else HIDDEN


def _request_fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the name of the record's request, and its route and status if Django gives them."""
    fields: dict[str, Any] = {}
    request, status = getattr(record, "request", None), getattr(record, "status_code", None)
    if name := getattr(request, "request_id", request_id.get()):  # Django logs a refusal after the last middleware
        fields["request_id"] = name
    if hasattr(request, "path_info"):
        fields["route"] = route_of(request)
    if isinstance(status, int):
        fields["status"] = status
    return fields


class KeptFile(RotatingFileHandler):
    """A log file of bounded size that never stops its process: lost lines are reported once on stderr.

    An erasure puts another file in its place to remove a person; the next line then goes there.
    """

    def __init__(self, path: Path, size: int, files: int, mark: Path | None = None) -> None:
        """Set up `files` files of at most `size` bytes; none is begun while the drive's `mark` is gone."""
        super().__init__(path, maxBytes=size, backupCount=files - 1, encoding="utf-8", delay=True)
        self._is_failing, self._mark = False, mark
        self._problem: BaseException | None = None  # of the present line

    def _open(self) -> TextIOWrapper:
        path = Path(self.baseFilename)
        if self._mark is not None and not self._mark.exists():  # a file at the bare mount point would be lost
            raise FileNotFoundError(errno.ENOENT, "the drive is gone", str(self._mark))
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.fdopen(os.open(path, flags, 0o600), "a", encoding="utf-8")

    def emit(self, record: logging.LogRecord) -> None:
        if self.stream is not None and not self._is_in_place(self.stream):
            self._let_go()
        self._problem = None
        super().emit(record)  # it calls handleError if it fails
        if (self._problem is not None) is not self._is_failing:
            self._is_failing = self._problem is not None
            state = (
                f"cannot be written ({self._problem}): lines are lost until it can" if self._is_failing else "is back"
            )
            sys.stderr.write(f"{self.baseFilename} {state}.\n")

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name that logging calls
        """Drop the line, and reopen the file for the next one."""
        self._problem = sys.exception()
        self._let_go()

    def _let_go(self) -> None:
        stream, self.stream = self.stream, None
        if stream is not None:
            with suppress(OSError):  # closing may fail to write the rest of a line to a full drive
                stream.close()

    def _is_in_place(self, stream: TextIOWrapper) -> bool:
        try:
            path_status, stream_status = Path(self.baseFilename).stat(), os.fstat(stream.fileno())
        except OSError:
            return False
        return (path_status.st_dev, path_status.st_ino) == (stream_status.st_dev, stream_status.st_ino)


def keep_log(process: str) -> None:
    """Log this process's records, at the level of LOG_LEVEL, as JSON lines in LOG_DIR too; repeating is harmless."""
    root, path = logging.getLogger(), settings.LOG_DIR / f"{process}.jsonl"
    if any(isinstance(existing, KeptFile) and existing.baseFilename == str(path) for existing in root.handlers):
        return
    handler = KeptFile(path, settings.LOG_FILE_BYTES, settings.LOG_FILES, settings.MARK_PATH)
    handler.setFormatter(LineFormatter(process))
    root.addHandler(handler)
