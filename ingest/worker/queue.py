"""The Huey queue: a SQLite file of its own, messages signed and written as JSON (nothing is ever unpickled)."""

import json
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from threading import Lock
from typing import Any

from django.conf import settings
from huey import Huey
from huey.registry import Message
from huey.serializer import SignedSerializer
from huey.storage import SqliteStorage


class SignedJsonSerializer(SignedSerializer):
    """Signed JSON: a stranger who can write to the queue's file cannot make the worker run anything.

    Carries messages without callbacks (no `on_complete`, `on_error` or chord) and plain JSON values.
    """

    def _serialize(self, message: object) -> bytes:
        plain: Any = message
        if isinstance(message, Message):
            fields = message._asdict()
            fields["eta"] = message.eta.isoformat() if message.eta else None
            plain = {"huey_message": fields}
        return self._sign(json.dumps(plain).encode())

    def _deserialize(self, data: bytes) -> object:
        plain = json.loads(self._unsign(data))
        if not isinstance(plain, dict) or "huey_message" not in plain:
            return plain
        fields = plain["huey_message"]
        eta = datetime.fromisoformat(fields["eta"]) if fields["eta"] else None
        return Message(**fields | {"eta": eta, "args": tuple(fields["args"])})


class QueueDamaged(sqlite3.DatabaseError):
    """The queue's file is damaged; the message is one sentence that says what to do."""


class QueueStorage(SqliteStorage):
    """Huey's, made at the first use and not when it is imported, so that a damaged file is told of in words."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options | {"create_tables": False})
        self._is_made = False
        self._making = Lock()

    @contextmanager
    def db(self, commit: bool = False, close: bool = False) -> Generator[sqlite3.Cursor]:
        """A cursor in a transaction of its own; QueueDamaged where the file is not one of SQLite, or broken."""
        try:
            self._make_tables()
            with super().db(commit, close) as cursor:
                yield cursor
        except sqlite3.DatabaseError as problem:
            if type(problem) is not sqlite3.DatabaseError:  # a lock, a full drive, a key that is taken
                raise
            raise QueueDamaged(
                f"{self.filename} is damaged ({problem}): stop worker and web and delete it, nothing is lost, what "
                "waited in it is found again."
            ) from problem

    def _make_tables(self) -> None:
        with self._making:
            if not self._is_made:
                with super().db(commit=True, close=True) as cursor:
                    for statement in self.ddl:
                        cursor.execute(statement)
                self._is_made = True


class Queue(Huey):
    """A queue in one SQLite file."""

    storage_class = QueueStorage


# Waiting up to 20 s for the file: web and worker share it, and the default of 5 s was exceeded under load (huey #445).
huey = Queue(
    "sunstead",
    filename=str(settings.QUEUE_PATH),
    serializer=SignedJsonSerializer(secret=str(settings.SECRET_KEY)),
    results=False,
    utc=True,
    immediate=False,
    timeout=20,
)
