"""Small files that a command writes and a page shows: JSON of a declared type, whole or not there.

A page reads one as something that anybody may have written: bounded, typed, or not at all.
"""

from pathlib import Path
from typing import TypeVar

import msgspec

from ingest.decoding import decode_json
from ingest.durable import write_whole

Shown = TypeVar("Shown", bound=msgspec.Struct)


def keep_shown(path: Path, shown: msgspec.Struct) -> Path:
    """Put it in the place of the one before, whole or not at all. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, msgspec.json.encode(shown, order="sorted"))
    return path


def read_shown(path: Path, kind: type[Shown], largest: int) -> Shown | None:
    """What was kept there; None where there is none, or none of this type within `largest` bytes."""
    try:
        with path.open("rb") as file:
            data = file.read(largest + 1)
        return decode_json(data if len(data) <= largest else b"", kind)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
