"""The world of the `site` fixture: a simulated network that the real worker loaded, and its snapshot."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ingest.store.snapshots import Snapshot, SnapshotReader


@dataclass(frozen=True, slots=True)
class Site:
    """People by the part they play, as DIDs, and the snapshot that pages and JSON read."""

    cast: Mapping[str, str]
    folder: Path

    @contextmanager
    def snapshot(self) -> Generator[Snapshot]:
        """The newest snapshot, pinned until the block ends."""
        reader = SnapshotReader(self.folder / "snapshots")
        try:
            with reader.pin() as pinned:
                assert pinned is not None, "the demo published nothing"
                yield pinned
        finally:
            reader.close()
