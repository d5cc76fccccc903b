"""The browser extension as one file: the same sources give the same bytes on every machine and at any time."""

import json
import zipfile
from functools import cache
from io import BytesIO
from pathlib import Path

from django.conf import settings

ARCHIVE = "sunstead-overlay.zip"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can say
READABLE = 0o100644 << 16
UNIX = 3
ENDINGS = {".css", ".html", ".js", ".json", ".png"}


@cache
def archive() -> bytes:
    """Return the extension of this installation as a zip; its files do not change while a process runs."""
    return pack(settings.STATICFILES_DIRS[0] / "overlay")


@cache
def version() -> str:
    """Return the version in its manifest."""
    return str(json.loads((settings.STATICFILES_DIRS[0] / "overlay" / "manifest.json").read_bytes())["version"])


def pack(folder: Path) -> bytes:
    """Return the sources below a folder as a zip, by name; stored as they are, since compressors differ by machine.

    What an editor or a system leaves there is none: a file of another ending, or one whose path has a hidden name.
    """
    paths = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path.suffix in ENDINGS]
    names = sorted(path.as_posix() for path in paths if not any(part.startswith(".") for part in path.parts))
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as target:
        for name in names:
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr, entry.create_system = READABLE, UNIX
            target.writestr(entry, (folder / name).read_bytes())
    return packed.getvalue()
