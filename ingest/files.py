"""Keep room on the drive, and make written files survive a power cut.

The work that fills the drive stops while there is still room to write the data in hand. Measured with DuckDB 2.0: a
commit that finds the disk full is undone and the next one works again, but a checkpoint that finds it full invalidates
the database until it is reopened. So the stream stops before either.
"""

import os
import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path

from ingest.errors import StoreProblem, plain

RESERVE_BYTES = 100_000_000
SPARE_BYTES = 200_000_000  # stay free beside a copy of the store
PROBE = ".writable"


def free_bytes(path: Path) -> int:
    return shutil.disk_usage(path.parent).free


def require_place(path: Path) -> None:
    """Raise StoreProblem if the store at `path` is gone or its drive takes no bytes.

    An unmounted drive leaves its mount point, an ordinary folder, and files written there would be lost. On a drive
    that became read-only DuckDB's next checkpoint would fail, after which it refuses everything. So one byte is written
    first, always to the same place, which a full drive accepts too.
    """
    if not path.exists():
        raise StoreProblem(f"{path} is gone: mount the drive again, or move it back; work continues automatically then")
    try:
        handle = os.open(path.with_name(PROBE), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.pwrite(handle, b"\n", 0)
        finally:
            os.close(handle)
    except OSError as problem:
        raise StoreProblem(
            f"{path.parent} cannot be written ({plain(problem)}): make it writable, or free space there; work "
            "continues automatically then, and nothing is lost"
        ) from problem


def require_room(path: Path) -> None:
    """Raise StoreProblem if a checkpoint of the store at `path` might no longer fit after more is added."""
    require_place(path)
    needed = RESERVE_BYTES + _waiting(path)
    free = free_bytes(path)
    if free < needed:
        raise StoreProblem(
            f"{path.parent} has {free // 1_000_000} MB left of the {needed // 1_000_000} MB that must stay free: "
            "free space there, then wait"
        )


def _waiting(path: Path) -> int:
    """Return the bytes of the WAL, which the next checkpoint moves into the main file."""
    try:
        return path.with_name(f"{path.name}.wal").stat().st_size
    except FileNotFoundError:
        return 0


def sync(path: Path) -> None:
    """Make a file's bytes, or a folder's entries after a rename, durable before this returns."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_all(paths: Collection[Path]) -> int:
    for path in paths:
        path.unlink(missing_ok=True)
    return len(paths)


def put_in_place(draft: Path, path: Path) -> None:
    """Give a written file its name, durable before this returns: it is there whole or not at all."""
    sync(draft)
    draft.rename(path)
    sync(path.parent)


def write_whole(path: Path, data: bytes) -> None:
    """Make a file hold these bytes, durable before this returns; readers see the old bytes or all new ones.

    Its folder must exist. Raises OSError, and leaves no draft behind.
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
