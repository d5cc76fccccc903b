"""Raw pages of a running backfill on the drive: bounded in all, named by hash, deleted after their commit.

A page's name begins with a hash of its account, so that an erasure finds the pages of one.
"""

import hashlib
import shutil
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ingest.errors import FetchProblem

STAGING_BYTES = 1_000_000_000  # the accounts in hand share it; one may take a tenth
FULL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Page:
    """One answer of a data server as it came."""

    collection: str
    path: Path
    size: int


class Staging:
    """The folder of one run. Nothing in it outlives the run: a killed one asks again. Safe to share between threads."""

    def __init__(self, folder: Path, limit: int = STAGING_BYTES) -> None:
        self._folder, self._limit = folder, limit
        self._used = 0
        self._lock = threading.Lock()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    def keep(self, did: str, collection: str, number: int, data: bytes) -> Page:
        """Write the numbered page of an account. FetchProblem, to try again, where the folder is full; OSError."""
        with self._lock:
            if self._used + len(data) > self._limit:
                raise FetchProblem("the staging folder is full for now", retry=True, after=FULL_SECONDS)
            self._used += len(data)
        path = self._folder / f"{account_hash(did)}-{_hash(collection)}-{number}"
        path.write_bytes(data)
        return Page(collection, path, len(data))

    def drop(self, pages: Iterable[Page]) -> None:
        """Delete pages that were committed or are not needed any more."""
        for page in pages:
            page.path.unlink(missing_ok=True)
            with self._lock:
                self._used -= page.size

    def close(self) -> None:
        """Delete whatever is left."""
        shutil.rmtree(self._folder, ignore_errors=True)


def account_hash(did: str) -> str:
    """Return what the names of an account's pages begin with."""
    return _hash(did)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
