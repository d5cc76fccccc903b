"""The queue and the parts that the worker's tasks use: set once by the worker, read here by every package's tasks.

The Huey queue is a SQLite file of its own, with messages signed and written as JSON (nothing is ever unpickled).
"""

import json
import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any

from django.conf import settings
from huey import Huey
from huey.registry import Message
from huey.serializer import SignedSerializer
from huey.storage import SqliteStorage

from ingest.backfill.account import Sources
from ingest.clock import Clock
from ingest.erasure.erase import Folders
from ingest.files import require_place
from ingest.git.mirror import Limits
from ingest.http.fetcher import Fetcher
from ingest.records.dead_letters import LetterBound
from ingest.store.database import Store


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
    """The queue's file is damaged; the message is one sentence with the remedy."""


class QueueStorage(SqliteStorage):
    """Huey's storage, made at the first use and not at import, so that a damaged file is reported in words."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options | {"create_tables": False})
        self._is_made = False
        self._making = Lock()

    @contextmanager
    def db(self, commit: bool = False, close: bool = False) -> Generator[sqlite3.Cursor]:
        """Yield a cursor in its own transaction. Raises QueueDamaged if the file is not one of SQLite, or broken."""
        try:
            self._make_tables()
            with super().db(commit, close) as cursor:
                yield cursor
        except sqlite3.DatabaseError as problem:
            if type(problem) is not sqlite3.DatabaseError:  # a lock, a full drive, a duplicate key
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


@dataclass(frozen=True, slots=True)
class Runtime:
    """The worker's store, its way to the network and its clock.

    `behind` tells if the stream is still catching up: look-ups for each open pull request wait for it. `changed`
    reports that a hop has written something: the hops that read it are woken, and the publisher too. `preparing` tells
    if a hop is running after which there is more to judge.
    """

    store: Store
    fetcher: Fetcher
    clock: Clock
    plc_url: str
    bluesky_api: str
    appview_url: str | None  # None: pull requests have no number
    ask_advisories: bool  # True if OSV and deps.dev may learn which packages pull requests name
    ask_declared: bool  # True if what people declare of themselves elsewhere may be looked up
    claim_signers: frozenset[str]  # DIDs whose signature on a claim counts
    ask_registries: bool  # True if registries of packages may learn what pull requests add, and whom this site looks at
    check_signatures: bool  # True if the fast lane asks for the signature that an author's commits usually have
    contact: str  # an address of the operator's, which crates.io asks for; "": none, and it is not asked
    diff_folder: Path
    patch_limit: int
    mirror_folder: Path
    mirror_limits: Limits
    window_days: int  # a merge whose lines stay quiet that long was clean
    staging_folder: Path
    event_days: float
    event_rows: int
    followed_days: int  # follow-ups of a merge are watched this long
    diff_days: int
    folders: Folders
    letters: LetterBound
    watch_everything: bool
    backfill: Sources
    behind: Callable[[], bool]
    changed: Callable[[str], None]
    preparing: Callable[[], bool] = lambda: False


_current: list[Runtime] = []


def start(runtime: Runtime) -> None:
    _current[:] = [runtime]


def stop() -> None:
    _current.clear()


def current() -> Runtime:
    """Return the runtime of this process. Raises LookupError outside a worker, StoreProblem while the drive is gone."""
    if not _current:
        raise LookupError("this runs in the worker only")
    require_place(_current[0].store.path)
    return _current[0]
