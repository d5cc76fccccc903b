"""Keeps results computed from the newest snapshot while it is the newest: a snapshot never changes."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from ingest.store.snapshots import Snapshot

MOST = 64  # values: a queue of 100 rows takes half a megabyte
Value = TypeVar("Value")


class PerSnapshot(Generic[Value]):
    """Values by key; a newer snapshot, or one key too many, forgets them all.

    Two threads may compute the same value at once, and each answers with its own.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._held: tuple[object, dict[Hashable, Value]] = (None, {})

    def get(self, snapshot: Snapshot, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value under `key`, made where it is not held."""
        held = self._with_room(snapshot, key)
        if key not in held:
            held[key] = make()
        return held[key]

    def keep(self, snapshot: Snapshot, key: Hashable, value: Value) -> None:
        """Hold a value that was made already."""
        self._with_room(snapshot, key)[key] = value

    def _with_room(self, snapshot: Snapshot, key: Hashable) -> dict[Hashable, Value]:
        whose = (snapshot.number, snapshot.published_at)
        held_for, held = self._held
        if held_for != whose or (len(held) >= self._most and key not in held):
            held = {}
            self._held = (whose, held)
        return held

    def peek(self, snapshot: Snapshot, key: Hashable) -> Value | None:
        """The value under `key` where it is held."""
        held_for, held = self._held
        return held.get(key) if held_for == (snapshot.number, snapshot.published_at) else None
