"""Long texts from the network: compressed files beside the store, each named by the hash of its text.

DuckDB pins the texts of 2,048 rows at once when it checkpoints or scans, so a column whose longest text is L bytes
takes 2,048 times L. A table therefore holds a text of at most LIMIT bytes, and a reference in place of a longer one.

A file is on the drive before the transaction that names it commits. A crash in between leaves a file that no row names;
`sweep` removes it, and it removes the files of rows that were erased, replaced or let go. Links are never followed, and
nothing is removed but plain files with the names that are given here.
"""

import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import StoreProblem
from ingest.files import remove_all, sync, write_whole

FOLDER = ".texts"  # behind the name of the store's file
# DuckDB lays longer strings into blocks of their own. 2,048 of 4 kB are 8 MB; of the 9,622 recorded records the longest
# has 643 bytes.
LIMIT = 4096
PREFIX = "text:sha256:"  # no JSON begins so; any other text that does is kept in a file whatever its length
_REFERENCE = re.compile(r"text:sha256:([0-9a-f]{64}):([0-9]{1,10})")
_HASH_FOLDER = re.compile(r"[0-9a-f]{2}")
_FILE = re.compile(r"[0-9a-f]{64}\.zst")
_DRAFT = re.compile(r"\.draft-.+")  # as `write_whole` names them
# For SQL, with the column's name as {column}: whether a value is a reference (min and max of a row group answer most of
# it), and how many bytes its text has.
IS_REFERENCE = f"({{column}} >= '{PREFIX}' and {{column}} < '{PREFIX}g')"
BYTES = f"case when {IS_REFERENCE} then split_part({{column}}, ':', 4)::bigint else strlen({{column}}) end"


class TextLost(Exception):
    """The file of a long text is missing or damaged; the message names it."""


def bytes_of(value: str | None) -> int:
    found = _REFERENCE.fullmatch(value) if value else None
    return int(found[2]) if found else len((value or "").encode())


def shorten(table: pa.Table, among: pa.ChunkedArray | None = None) -> tuple[pa.Table, dict[str, pa.Buffer]]:
    """The table with references in place of the long texts in `body`, and those texts; nothing is written or copied.

    `among` says of each row whether it is looked at; None: all are.
    """
    texts = table["body"]
    is_longer = pc.call_function("greater", [pc.call_function("binary_length", [texts]), pa.scalar(LIMIT)])
    is_like_reference = pc.call_function("starts_with", [texts], pc.MatchSubstringOptions(PREFIX))
    is_long = pc.call_function("or_kleene", [is_longer, is_like_reference])
    if among is not None:
        is_long = pc.call_function("and_kleene", [is_long, among])
    mask = pc.fill_null(is_long, False).to_numpy()
    places = np.flatnonzero(mask).tolist()
    if not places:
        return table, {}
    found = [texts[place].as_buffer() for place in places]
    references = [_reference(text) for text in found]
    column = table.schema.get_field_index("body")
    return table.set_column(column, "body", _replaced(texts, mask, references)), dict(
        zip(references, found, strict=True)
    )


def _replaced(texts: pa.ChunkedArray, mask: np.ndarray, references: Sequence[str]) -> pa.ChunkedArray:
    """The column with the references, in order, where the mask says so; chunk by chunk, as joining copies all texts."""
    chunks, begin, used = [], 0, 0
    for chunk in texts.chunks:
        part = mask[begin : begin + len(chunk)]
        given = references[used : used + int(part.sum())]
        chunks.append(pc.call_function("replace_with_mask", [chunk, pa.array(part), pa.array(given, texts.type)]))
        begin, used = begin + len(chunk), used + len(given)
    return pa.chunked_array(chunks, texts.type)


def _reference(text: bytes | pa.Buffer) -> str:
    return f"{PREFIX}{hashlib.sha256(text).hexdigest()}:{len(text)}"


class LongTexts:
    """The folder beside one store. Files never change; two rows with the same text share one."""

    def __init__(self, store: Path) -> None:
        self.folder = store.with_name(store.name + FOLDER)

    def keep(self, text: str) -> str:
        """The text where it is short, else its reference once its file is on the drive."""
        data = text.encode(errors="replace")
        if len(data) <= LIMIT and not text.startswith(PREFIX):
            return text
        reference = _reference(data)
        self.write({reference: data})
        return reference

    def write(self, texts: Mapping[str, bytes | pa.Buffer]) -> None:
        """Have the drive hold these texts by reference before this returns; a damaged file is written anew.

        Raises StoreProblem where something else stands in the place of a folder or file, and where the drive takes no
        more.
        """
        for reference, text in texts.items():
            path = self._path(reference)
            try:
                self._make_folder(path.parent)
                if not self._holds(path, text):
                    write_whole(path, pa.compress(text, codec="zstd", asbytes=True))
            except OSError as problem:
                raise StoreProblem(
                    f"{path.parent} cannot be written ({problem.strerror}): free space on the drive, or mount it"
                ) from problem

    def _holds(self, path: Path, text: bytes | pa.Buffer) -> bool:
        """Tell whether the file is there and unpacks to the text; both are in memory, so no hash is needed."""
        if path.is_dir() and not path.is_symlink():
            raise StoreProblem(f"{path} is a folder where the file of a long text belongs: move it away.")
        try:
            return pa.py_buffer(self._unpacked(path, len(text))).equals(pa.py_buffer(text))
        except TextLost:
            return False

    def _make_folder(self, folder: Path) -> None:
        for one in (self.folder, folder):
            if one.is_symlink() or (one.exists() and not one.is_dir()):
                raise StoreProblem(f"{one} is not a plain folder, so no long text can be stored in it: move it away.")
            if not one.is_dir():
                one.mkdir(mode=0o700, parents=True, exist_ok=True)
                sync(one.parent)

    def read(self, value: str) -> str:
        """The text that a value is, or stands for. Raises TextLost where its file is missing or damaged."""
        found = _REFERENCE.fullmatch(value)
        if found is None:
            return value
        text = self._unpacked(self._path(value), int(found[2]))
        if hashlib.sha256(text).hexdigest() != found[1]:
            raise TextLost(f"the file of its text is damaged: {self._path(value)}")
        return text.decode(errors="replace")

    def shown(self, value: str | None) -> str | None:
        """As `read`, for showing: a reference whose file is gone stays as it is."""
        try:
            return self.read(value) if value else value
        except TextLost:
            return value

    def _unpacked(self, path: Path, size: int) -> bytes:
        if path.is_symlink() or not path.is_file():  # a pipe would never end
            raise TextLost(f"the file of its text cannot be read: {path}")
        try:
            with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as packed:
                return packed.read(size + 1)  # a file that unpacks to more is not the one that was written
        except OSError as problem:
            raise TextLost(f"the file of its text cannot be read: {path}") from problem

    def _path(self, reference: str) -> Path:
        name = reference.removeprefix(PREFIX)[:64]
        return self.folder / name[:2] / f"{name}.zst"

    def is_empty(self) -> bool:
        return next(_files_below(self.folder), None) is None

    def files(self) -> frozenset[Path]:
        return frozenset(_texts_below(self.folder))

    def matching(self, fits: Callable[[str], bool], without: Collection[Path] = ()) -> Iterator[str]:
        """The references of the texts that fit, of all files but some; one text is in memory at a time."""
        for path in sorted(self.files().difference(without)):
            if reference := _if_fitting(path, fits):
                yield reference

    def sweep(self, references: Iterable[str]) -> int:
        """Remove every file of ours, drafts too, that none of these references names; returns how many."""
        named = {self._path(reference) for reference in references}
        return remove_all([path for path in _files_below(self.folder) if path not in named])


def texts_below(folder: Path) -> Iterator[str]:
    """Every text of a folder that can be read; each is read when it is asked for."""
    for path in sorted(_texts_below(folder)):
        with suppress(OSError):
            yield _unpack(path).decode(errors="replace")


def _if_fitting(path: Path, fits: Callable[[str], bool]) -> str | None:
    """The reference of a file's text where it fits; None also where it cannot be read."""
    try:
        data = _unpack(path)
    except OSError:
        return None
    return _reference(data) if fits(data.decode(errors="replace")) else None


def _unpack(path: Path) -> bytes:
    with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as packed:
        return packed.read()


def _texts_below(folder: Path) -> Iterator[Path]:
    return (path for path in _files_below(folder) if _FILE.fullmatch(path.name))


def _files_below(folder: Path) -> Iterator[Path]:
    """The plain files in a folder of long texts that bear a name given here; links and everything else are left out."""
    for below in _entries(folder):
        if _HASH_FOLDER.fullmatch(below.name) and below.is_dir(follow_symlinks=False):
            for one in _entries(Path(below.path)):
                is_ours = _FILE.fullmatch(one.name) or _DRAFT.fullmatch(one.name)
                if is_ours and one.is_file(follow_symlinks=False):
                    yield Path(one.path)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """List a folder; nothing where there is none, or only a link to one."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        return list(entries)


# Of one text in a row: DuckDB checkpoints and scans 2,048 rows at once, and so many times this is 66 MB.
COLUMN_BYTES = 32_000

Item = TypeVar("Item")


def fitting(values: Iterable[Item], most: int = COLUMN_BYTES * 9 // 10) -> list[Item]:
    """The first of these values, as far as their JSON takes at most so many bytes."""
    found, size = [], 0
    for value in values:
        size += len(msgspec.json.encode(value)) + 1
        if size > most:
            break
        found.append(value)
    return found
