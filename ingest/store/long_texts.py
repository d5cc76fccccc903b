"""Long texts from the network: compressed files beside the store, each named by the hash of its text.

DuckDB pins the texts of 2,048 rows at once when it checkpoints or scans, so a column whose longest text is L bytes
takes 2,048 times L. A table therefore holds a text of at most LIMIT bytes, and a reference in place of a longer one.

A file is on the drive before the transaction that names it commits. A crash in between leaves a file that no row names;
`sweep` removes it, and also the files of rows that were erased, replaced or dropped. Links are never followed, and only
plain files with names that are given here are ever removed.
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
# DuckDB puts longer strings into blocks of their own. 2,048 of 4 kB are 8 MB; the longest of the 9,622 recorded records
# has 643 bytes.
LIMIT = 4096
PREFIX = "text:sha256:"  # no JSON begins with this; any other text that does is stored in a file, whatever its length
_REFERENCE = re.compile(r"text:sha256:([0-9a-f]{64}):([0-9]{1,10})")
_HASH_FOLDER = re.compile(r"[0-9a-f]{2}")
_FILE = re.compile(r"[0-9a-f]{64}\.zst")
_DRAFT = re.compile(r"\.draft-.+")  # as `write_whole` names them
# For SQL, with the column's name as {column}: true if a value is a reference (min and max of a row group answer most of
# it), and the number of bytes of its text.
IS_REFERENCE = f"({{column}} >= '{PREFIX}' and {{column}} < '{PREFIX}g')"
BYTES = f"case when {IS_REFERENCE} then split_part({{column}}, ':', 4)::bigint else strlen({{column}}) end"


class TextLost(Exception):
    """The file of a long text is missing or damaged; the message names it."""


def bytes_of(value: str | None) -> int:
    match = _REFERENCE.fullmatch(value) if value else None
    return int(match[2]) if match else len((value or "").encode())


def shorten(table: pa.Table, among: pa.ChunkedArray | None = None) -> tuple[pa.Table, dict[str, pa.Buffer]]:
    """Return the table with references for the long texts in `body`, and those texts, without writing or copying.

    `among` marks the rows to look at; None means all.
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
    long_texts = [texts[place].as_buffer() for place in places]
    references = [_make_reference(text) for text in long_texts]
    column = table.schema.get_field_index("body")
    return table.set_column(column, "body", _put_references(texts, mask, references)), dict(
        zip(references, long_texts, strict=True)
    )


def _put_references(texts: pa.ChunkedArray, mask: np.ndarray, references: Sequence[str]) -> pa.ChunkedArray:
    """Return the column with references where the mask is set; chunk by chunk, as joining copies all texts."""
    chunks, begin, used_count = [], 0, 0
    for chunk in texts.chunks:
        chunk_mask = mask[begin : begin + len(chunk)]
        chunk_references = references[used_count : used_count + int(chunk_mask.sum())]
        chunks.append(
            pc.call_function("replace_with_mask", [chunk, pa.array(chunk_mask), pa.array(chunk_references, texts.type)])
        )
        begin, used_count = begin + len(chunk), used_count + len(chunk_references)
    return pa.chunked_array(chunks, texts.type)


def _make_reference(text: bytes | pa.Buffer) -> str:
    return f"{PREFIX}{hashlib.sha256(text).hexdigest()}:{len(text)}"


class LongTexts:
    """The folder beside one store. Files never change; rows with equal texts share one file."""

    def __init__(self, store: Path) -> None:
        self.folder = store.with_name(store.name + FOLDER)

    def keep(self, text: str) -> str:
        """Return a short text unchanged; for a long one return its reference once its file is on the drive."""
        data = text.encode(errors="replace")
        if len(data) <= LIMIT and not text.startswith(PREFIX):
            return text
        reference = _make_reference(data)
        self.write({reference: data})
        return reference

    def write(self, texts: Mapping[str, bytes | pa.Buffer]) -> None:
        """Store these texts by reference durably before this returns; a damaged file is rewritten.

        Raises StoreProblem if something else lies in the place of a folder or file, or the drive is full.
        """
        for reference, text in texts.items():
            path = self._path(reference)
            try:
                self._make_folder(path.parent)
                if not self._is_stored(path, text):
                    write_whole(path, pa.compress(text, codec="zstd", asbytes=True))
            except OSError as problem:
                raise StoreProblem(
                    f"{path.parent} cannot be written ({problem.strerror}): free space on the drive, or mount it"
                ) from problem

    def _is_stored(self, path: Path, text: bytes | pa.Buffer) -> bool:
        """Tell if the file is there and unpacks to the text; both are in memory, so no hash is needed."""
        if path.is_dir() and not path.is_symlink():
            raise StoreProblem(f"{path} is a folder where the file of a long text belongs: move it away.")
        try:
            return pa.py_buffer(self._unpack_file(path, len(text))).equals(pa.py_buffer(text))
        except TextLost:
            return False

    def _make_folder(self, folder: Path) -> None:
        for ancestor in (self.folder, folder):
            if ancestor.is_symlink() or (ancestor.exists() and not ancestor.is_dir()):
                raise StoreProblem(
                    f"{ancestor} is not a plain folder, so no long text can be stored in it: move it away."
                )
            if not ancestor.is_dir():
                ancestor.mkdir(mode=0o700, parents=True, exist_ok=True)
                sync(ancestor.parent)

    def read(self, value: str) -> str:
        """Return the value itself, or the text that it refers to. Raises TextLost if its file is missing or damaged."""
        match = _REFERENCE.fullmatch(value)
        if match is None:
            return value
        text = self._unpack_file(self._path(value), int(match[2]))
        if hashlib.sha256(text).hexdigest() != match[1]:
            raise TextLost(f"the file of its text is damaged: {self._path(value)}")
        return text.decode(errors="replace")

    def shown(self, value: str | None) -> str | None:
        """Return a value's text to show it; a reference without its file stays as it is."""
        try:
            return self.read(value) if value else value
        except TextLost:
            return value

    def _unpack_file(self, path: Path, size: int) -> bytes:
        if path.is_symlink() or not path.is_file():  # a pipe would never end
            raise TextLost(f"the file of its text cannot be read: {path}")
        try:
            with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as packed:
                return packed.read(size + 1)  # a file that unpacks to more is not the original one
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
        """Yield the references of the texts that fit, from all files but `without`; one text is in memory at a time."""
        for path in sorted(self.files().difference(without)):
            if reference := _reference_if_fitting(path, fits):
                yield reference

    def sweep(self, references: Iterable[str]) -> int:
        """Remove every file of ours, drafts too, that none of these references names; return how many."""
        named_paths = {self._path(reference) for reference in references}
        return remove_all([path for path in _files_below(self.folder) if path not in named_paths])


def texts_below(folder: Path) -> Iterator[str]:
    """Yield every readable text of a folder; each is read when it is needed."""
    for path in sorted(_texts_below(folder)):
        with suppress(OSError):
            yield _unpack(path).decode(errors="replace")


def _reference_if_fitting(path: Path, fits: Callable[[str], bool]) -> str | None:
    """Return the reference of a file's text if it fits; None if it does not or cannot be read."""
    try:
        data = _unpack(path)
    except OSError:
        return None
    return _make_reference(data) if fits(data.decode(errors="replace")) else None


def _unpack(path: Path) -> bytes:
    with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as packed:
        return packed.read()


def _texts_below(folder: Path) -> Iterator[Path]:
    return (path for path in _files_below(folder) if _FILE.fullmatch(path.name))


def _files_below(folder: Path) -> Iterator[Path]:
    """Yield the plain files in a folder of long texts that bear a name given here; skip links and other files."""
    for below in _list_folder(folder):
        if _HASH_FOLDER.fullmatch(below.name) and below.is_dir(follow_symlinks=False):
            for entry in _list_folder(Path(below.path)):
                is_ours = _FILE.fullmatch(entry.name) or _DRAFT.fullmatch(entry.name)
                if is_ours and entry.is_file(follow_symlinks=False):
                    yield Path(entry.path)


def _list_folder(folder: Path) -> list[os.DirEntry[str]]:
    """List a folder; return nothing if it does not exist or is a link."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        return list(entries)


# Of one text in a row: DuckDB checkpoints and scans 2,048 rows at once, and 2,048 times this is 66 MB.
COLUMN_BYTES = 32_000

Item = TypeVar("Item")


def fitting(values: Iterable[Item], most: int = COLUMN_BYTES * 9 // 10) -> list[Item]:
    """Return the first of these values, as many as take at most `most` bytes of JSON."""
    fitting_values, size = [], 0
    for value in values:
        size += len(msgspec.json.encode(value)) + 1
        if size > most:
            break
        fitting_values.append(value)
    return fitting_values
