"""Making what was written survive a power cut."""

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Have the drive hold a file's bytes, or a folder's entries after a rename, before this returns."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
