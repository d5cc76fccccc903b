"""Backups that lie beside the store. What is in one is not touched by an erasure: it goes when the backup expires."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Backup:
    """A file or folder of the backup folder; times are naive UTC."""

    path: Path
    made_at: datetime
    expires_at: datetime


ASIDE = "replaced-"  # begins the name of what a restore kept of the former state, beside the store


def backups(folder: Path, days: int, root: Path | None = None) -> list[Backup]:
    """What lies in the folder, oldest first, each with the moment from which it may no longer be kept.

    With `root`, DATA_ROOT, also what restores kept aside there.
    """
    found = []
    aside = root.glob(f"{ASIDE}*") if root else ()
    for path in (*(folder.iterdir() if folder.is_dir() else ()), *aside):
        made_at = datetime.fromtimestamp(path.lstat().st_mtime, UTC).replace(tzinfo=None)
        found.append(Backup(path, made_at, made_at + timedelta(days=days)))
    return sorted(found, key=lambda backup: (backup.made_at, backup.path))
