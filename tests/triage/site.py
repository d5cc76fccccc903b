"""What the `site` fixture gives: a simulated network that the real worker loaded, and its published snapshot."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from ingest.snapshot import Snapshot


class Site(Protocol):
    """People by the part they play, as DIDs, and the snapshot that pages and JSON read."""

    cast: Mapping[str, str]

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """The newest snapshot, pinned until the block ends."""
        ...
