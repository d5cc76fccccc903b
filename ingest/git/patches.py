"""Patches as strangers send them: unpacked within bounds, read as git reads them, kept under the hash of their text."""

import gzip
import hashlib
import re
import zlib
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from ingest.files import write_whole
from ingest.git.patch import DiffReader

_GZIP = b"\x1f\x8b"
_MEMBERS = 100  # of one gzip file: each costs a copy of what follows, and 50,000 empty ones fit into 1 MB
_SHA256 = re.compile(r"[0-9a-f]{64}")


class PatchProblem(Exception):
    """A kept patch cannot be read back, in one sentence."""


@dataclass(frozen=True)
class Patch:
    """A patch that was read. `text` is cut at the limit where `state` is 'oversized', and then has no `patch_id`.

    `series` holds the patch-id of each mail of a series, in order; a plain diff is a series of one. `change_ids` are
    claims. `proves` is false where nothing but white space changes, so that finding the change again means nothing.
    """

    text: str
    state: str  # 'read', 'malformed', 'oversized'
    patch_id: str | None
    files: int
    added: int
    removed: int
    series: tuple[str, ...] = ()
    change_ids: tuple[str, ...] = ()
    proves: bool = False


def read_patch(data: bytes, limit: int) -> Patch:
    """Unpack and read a format-patch series or a plain diff, gzipped or not. Never raises, whatever the bytes are.

    At most `limit` bytes are unpacked; what goes beyond is 'oversized', what git would not apply is 'malformed'.
    """
    raw, whole, sound = unpack(data, limit)
    if not whole:
        raw = raw[: raw.rfind(b"\n") + 1]
    reader = _read(raw)
    state = "oversized" if not whole else "read" if sound and reader.sound and reader.files else "malformed"
    text = raw.decode("utf-8", "replace")
    counts = (len(reader.files), reader.added, reader.removed)
    if state != "read":
        return Patch(text, state, None, *counts)
    return Patch(text, state, reader.identity(), *counts, reader.series(), tuple(reader.change_ids), reader.proves)


def unpack(data: bytes, limit: int) -> tuple[bytes, bool, bool]:
    """(bytes, whether that is all of them, whether the packing was sound) of plain or gzipped data; at most `limit`."""
    if not data.startswith(_GZIP):
        return data[:limit], len(data) <= limit, True
    pieces, size, rest = [], 0, data
    for _ in range(_MEMBERS):
        if not rest.startswith(_GZIP):
            break
        member = zlib.decompressobj(wbits=31)
        try:
            piece = member.decompress(rest, limit - size + 1)
        except zlib.error:
            return b"".join(pieces)[:limit], True, False
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            return b"".join(pieces)[:limit], False, True
        if not member.eof:
            return b"".join(pieces), True, False
        rest = member.unused_data
    return b"".join(pieces), True, not rest.strip(b"\0")


def patch_id(text: str) -> str | None:
    """A hash of the change alone, in the spirit of `git patch-id --stable`; None for what cannot be read as a patch.

    Positions, white space inside lines, object names, the order of files, and everything outside the diffs (author,
    date, message) do not count; paths, modes, context, added and removed lines do. Binary files count by their object
    names, which git proves when it applies them.
    """
    reader = _read(text.encode("utf-8", "replace"))
    return reader.identity() if reader.sound and reader.files else None


def store_patch(folder: Path, text: str) -> str:
    """Keep a patch below `folder` and return the SHA-256 of its text, which alone names the file. Again: no change."""
    data = text.encode("utf-8", "replace")
    name = hashlib.sha256(data).hexdigest()
    place = _place(folder, name)
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, gzip.compress(data, compresslevel=6, mtime=0))
    return name


def load_patch(folder: Path, sha256: str) -> str:
    """The text of a kept patch, checked against its name. Raises PatchProblem."""
    if not _SHA256.fullmatch(sha256):
        raise PatchProblem("a patch is named by 64 hexadecimal digits")
    try:
        data = gzip.decompress(_place(folder, sha256).read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise PatchProblem(f"patch {sha256} cannot be read: {type(error).__name__}") from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise PatchProblem(f"patch {sha256} holds another text than it was stored with")
    return data.decode("utf-8")


def _place(folder: Path, sha256: str) -> Path:
    return folder / sha256[:2] / f"{sha256}.patch.gz"


def _read(raw: bytes) -> DiffReader:
    reader = DiffReader()
    for line in BytesIO(raw):
        reader.line(line.rstrip(b"\n"))
    reader.finish()
    return reader
