"""Making what was written survive a power cut."""

import os
import tempfile
from pathlib import Path


def sync(path: Path) -> None:
    """Have the drive hold a file's bytes, or a folder's entries after a rename, before this returns."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_whole(path: Path, data: bytes) -> None:
    """Make a file hold these bytes, on the drive before this returns; a reader sees the old ones, or all of the new.

    Its folder must be there. Raises OSError, and leaves no draft behind.
    """
    handle, draft = tempfile.mkstemp(prefix=".draft-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(draft).replace(path)
    finally:
        Path(draft).unlink(missing_ok=True)
    sync(path.parent)
