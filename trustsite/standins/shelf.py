"""The records of every repository on the stand-in PDS: what the frames released so far add up to."""

import threading
from collections.abc import Callable
from typing import Any

import msgspec

from trustsite.standins.recording import Recording

RecordKey = tuple[str, str]  # DID, collection


class Shelf:
    """Last version of each record, folded from `recording` as far as `released()` says; safe to ask from threads."""

    def __init__(self, recording: Recording, released: Callable[[], int]) -> None:
        self._recording = recording
        self._released = released
        self._folded = 0
        self._records: dict[RecordKey, dict[str, tuple[str, Any]]] = {}
        self._revs: dict[str, str] = {}
        self._lock = threading.Lock()

    def record(self, did: str, collection: str, rkey: str) -> tuple[str, Any] | None:
        """CID and value of a record, None if there is none (any more)."""
        with self._lock:
            self._fold()
            return self._records.get((did, collection), {}).get(rkey)

    def records(self, did: str, collection: str) -> list[tuple[str, str, Any]]:
        """Record key, CID and value of each record in a collection, by key."""
        with self._lock:
            self._fold()
            shelf = self._records.get((did, collection), {})
            return [(rkey, *shelf[rkey]) for rkey in sorted(shelf)]

    def everybodys(self, collection: str) -> list[tuple[str, str, Any]]:
        """DID, record key and value of each record in a collection, of all people."""
        with self._lock:
            self._fold()
            shelves = [(did, shelf) for (did, name), shelf in self._records.items() if name == collection]
            return [(did, rkey, value) for did, shelf in shelves for rkey, (_, value) in shelf.items()]

    def collections(self, did: str) -> list[str]:
        """Names of the collections in which a DID has records."""
        with self._lock:
            self._fold()
            return sorted(name for (owner, name), shelf in self._records.items() if owner == did and shelf)

    def keepers(self, collection: str) -> list[str]:
        """DIDs that have records in a collection, in order."""
        with self._lock:
            self._fold()
            return sorted(owner for (owner, name), shelf in self._records.items() if name == collection and shelf)

    def rev(self, did: str) -> str | None:
        """The newest commit of a repository, None where it has none yet."""
        with self._lock:
            self._fold()
            return self._revs.get(did)

    def _fold(self) -> None:
        until = self._released()
        for index in range(self._folded, until):
            collection, did = self._recording.collections[index], self._recording.dids[index]
            if collection is not None and did is not None:
                self._put(did, collection, msgspec.json.decode(self._recording.frames[index])["commit"])
        self._folded = max(self._folded, until)

    def _put(self, did: str, collection: str, commit: dict[str, Any]) -> None:
        shelf = self._records.setdefault((did, collection), {})
        self._revs[did] = commit["rev"]
        if commit["operation"] == "delete":
            shelf.pop(commit["rkey"], None)
        else:
            shelf[commit["rkey"]] = (commit["cid"], commit["record"])
