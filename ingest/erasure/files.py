"""Takes one person out of the files beside the store; what is replaced is written aside and renamed.

Below a folder of caches whatever names the person goes, since it is made again; below one of sources only that part.

The mirror of a repository that they owned goes. What another repository shows of them is its maintainers' own public
history: no commit can be changed without all that follow, and the next fetch would bring it again, so it stays and is
told. What a mirror holds that its repository no longer shows, since a branch was rewritten, has no such reason: that
mirror goes as a whole and is fetched anew.
"""

import gzip
import shutil
import sqlite3
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.backfill.account import name_hash
from ingest.erasure.rows import GONE, Table, struck_value
from ingest.errors import FetchProblem
from ingest.files import remove_all, sync
from ingest.git.mirror import mirrors_below
from ingest.git.process import Git
from ingest.store.database import Store
from ingest.store.tombstones import Names

BUSY_SECONDS = 20.0
DRAFT = ".draft-"  # begins the name of the folder in which a file is written that replaces another
ZSTD = b"\x28\xb5\x2f\xfd"
LARGEST_PACKED = 2_000_000_000  # bytes that one packed file may unpack to; a larger one that may name somebody goes


def strike_folder(folder: Path, names: Names) -> int:
    """Take the person out of every file below a folder of sources; returns how many files went or were changed.

    What a kill left of a file that was being replaced goes first: nobody else replaces files while they are searched.
    """
    for left in [path for path in folder.rglob(f"{DRAFT}*") if path.is_dir()]:
        shutil.rmtree(left, ignore_errors=True)
    return sum(strike_file(path, names) for path in files_below(folder))


def empty_pages(folder: Path, did: str) -> int:
    """Empty the staged pages of this account, at which a backfill under way then finds nothing; how many."""
    pages = [path for path in files_below(folder) if path.name.startswith(f"{name_hash(did)}-")]
    for path in pages:
        _replace(path, lambda draft: draft.write_bytes(b'{"records":[]}'))
    return len(pages)


def drop_naming(folder: Path, names: Names) -> int:
    """Remove every file of a folder of caches that names the person; returns how many."""
    return remove_all([path for path in files_below(folder) if _names_path(path, names) or names_in_file(path, names)])


def drop_all(folder: Path) -> int:
    """Remove every file of a folder of caches that know people by number only; returns how many."""
    return remove_all(list(files_below(folder)))


def files_below(folder: Path) -> Iterator[Path]:
    """Plain files below a folder, in order, without links and bare mirrors."""
    if not folder.is_dir() or folder.is_symlink() or _is_mirror(folder):
        return
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            yield from files_below(path)
        elif path.is_file() and not path.is_symlink():
            yield path


def _is_mirror(folder: Path) -> bool:
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir()


def _names_path(path: Path, names: Names) -> bool:
    return any(needle in str(path).lower() for needle in names.needles[:1])


def names_in_file(path: Path, names: Names) -> bool:
    """Return whether the bytes of a file, unpacked where they are packed, name the person."""
    if file := _parquet(path):
        return any(_mask(batch, names) is not None for batch in file.iter_batches())
    return any(needle.encode() in _unpacked(path).lower() for needle in names.needles)


def strike_file(path: Path, names: Names) -> int:
    """Take the person out of one file: 1 where it went or was changed, else 0."""
    if _names_path(path, names):
        path.unlink(missing_ok=True)
        return 1
    if file := _parquet(path):
        return _strike_parquet(path, file, names)
    try:
        data = _unpacked(path)
    except FileNotFoundError:  # staged pages go when they are committed
        return 0
    if not any(needle.encode() in data.lower() for needle in names.needles):
        return 0
    try:
        struck = names.struck_from(data.decode()).encode()
    except UnicodeDecodeError:
        path.unlink(missing_ok=True)
        return 1
    if struck != data:
        packed = _packed(path, struck)
        _replace(path, lambda draft: draft.write_bytes(packed))
    return int(struck != data)


def _unpacked(path: Path) -> bytes:
    """The bytes, unpacked where they are gzip or zstd; as they are where the packing is broken."""
    data = path.read_bytes()
    try:
        if data.startswith(b"\x1f\x8b"):
            return gzip.decompress(data)
        if data.startswith(ZSTD):
            return pa.CompressedInputStream(pa.BufferReader(data), "zstd").read(LARGEST_PACKED)
    except (OSError, EOFError, zlib.error):
        return data
    return data


def _packed(path: Path, data: bytes) -> bytes:
    with path.open("rb") as file:
        start = file.read(4)
    if start.startswith(b"\x1f\x8b"):
        return gzip.compress(data, mtime=0)
    return pa.compress(data, codec="zstd", asbytes=True) if start == ZSTD else data


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    with tempfile.TemporaryDirectory(prefix=DRAFT, dir=path.parent) as folder:
        draft = Path(folder) / path.name
        write(draft)
        sync(draft)
        draft.replace(path)
    sync(path.parent)


def _parquet(path: Path) -> pq.ParquetFile | None:
    """The Parquet file; None for one of another kind, or one that a kill left half written: that is bytes."""
    try:
        return pq.ParquetFile(path) if path.suffix == ".parquet" else None
    except pa.ArrowInvalid:
        return None


def _strike_parquet(path: Path, file: pq.ParquetFile, names: Names) -> int:
    """Write a Parquet file anew by the rules of the tables; untouched where nothing in it names the person."""
    if not any(_mask(batch, names) is not None for batch in file.iter_batches()):
        return 0

    # DuckDB declares a column without nulls as one that has none, and a body that is about the person becomes null.
    schema = pa.schema([column.with_nullable(True) for column in file.schema_arrow])

    def write(draft: Path) -> None:
        with pq.ParquetWriter(draft, schema, compression="zstd") as writer:
            for batch in file.iter_batches():
                nullable = pa.RecordBatch.from_arrays(batch.columns, schema=schema)
                writer.write_batch(_struck_batch(nullable, names))

    _replace(path, write)
    return 1


def _text_columns(schema: pa.Schema) -> list[str]:
    return [
        column.name for column in schema if pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    ]


def _mask(batch: pa.RecordBatch, names: Names) -> pa.Array | None:
    """Return which rows may name the person; None where none does."""
    found = None
    for name in _text_columns(batch.schema):
        for needle in names.column_needles:
            hits = _matches(batch[name], needle)
            found = hits if found is None else pc.call_function("or", [found, hits])
    return found if found is not None and pc.call_function("any", [found]).as_py() else None


def _matches(column: pa.Array, needle: str) -> pa.Array:
    """Return whether each text holds the needle; false for null."""
    options = pc.MatchSubstringOptions(needle, ignore_case=True)
    return pc.fill_null(pc.call_function("match_substring", [column], options), False)


def _struck_batch(batch: pa.RecordBatch, names: Names) -> pa.RecordBatch:
    mask = _mask(batch, names)
    if mask is None:
        return batch
    clear, texts = batch.filter(pc.call_function("invert", [mask])), tuple(_text_columns(batch.schema))
    # Segments hold events: their `did` and `rkey` say whose row it is, their body is text.
    table = Table("events", (), (), (), texts, (), frozenset({"did", "rkey"}))
    kept = []
    for row in batch.filter(mask).to_pylist():
        struck = row | {name: struck_value(table, name, row[name], names) for name in texts}
        if not any(value is GONE for value in struck.values()):
            kept.append(struck)
    whole = pa.Table.from_batches([clear, pa.RecordBatch.from_pylist(kept, schema=batch.schema)])
    order = [name for name in ("event_seq",) if name in batch.schema.names]
    whole = whole.sort_by([(name, "ascending") for name in order]) if order else whole
    return whole.combine_chunks().to_batches()[0] if whole.num_rows else batch.slice(0, 0)


def strike_sqlite(path: Path, names: Names) -> int:
    """Delete every row of a SQLite file that names the person, then `vacuum` it; returns how many."""
    if not path.exists():
        return 0
    with closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as database:
        tables = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
        gone = sum(_delete_naming(database, table, names) for table in tables if not table.startswith("sqlite_"))
        vacuum(database)
    return gone


def _delete_naming(database: sqlite3.Connection, table: str, names: Names) -> int:
    columns = [row[1] for row in database.execute(f'pragma table_info("{table}")')]
    needles: Sequence[bytes] = [needle.encode() for needle in names.needles]
    clause = 'instr(lower(cast("{}" as blob)), ?)'
    where = " or ".join(clause.format(column) for column in columns for _ in needles)
    texts = [needle.decode() for _ in columns for needle in needles]
    return database.execute(f'delete from "{table}" where {where}', texts).rowcount


def vacuum(database: sqlite3.Connection) -> None:
    """Write the file anew and empty its WAL, so that no byte of a deleted row is left; sqlite3.Error while locked."""
    database.execute("vacuum")
    database.execute("pragma wal_checkpoint(truncate)").fetchall()


PIECE = 1_000_000  # bytes of an object that are searched at once
OBJECTS = 10_000  # that name the person, of one mirror; beyond it is not counted
OWNED = """
select repository_id from repositories
where owner_id is not distinct from $number and owner_id is not null or starts_with(repo_key, 'at://' || $did || '/')
"""


@dataclass(frozen=True, slots=True)
class _Found:
    """The mentions of a person in a mirror: how many its repository shows, and whether there are any beyond that."""

    shown: int
    beyond: bool


def erase_mirrors(store: Store, folder: Path, names: Names, number: int | None) -> tuple[int, tuple[str, ...]]:
    """Remove the mirrors that may not stay; how many, and of those that name the person and stay a sentence each."""
    with store.read() as rows:
        owned = {row["repository_id"] for row in rows.rows(OWNED, {"did": names.did, "number": number})}
    going, told = [], []
    for repository, path in sorted(mirrors_below(folder).items()):
        if repository in owned:
            going.append(repository)
            continue
        try:
            found = _search(Git(path), names)
        except FetchProblem as problem:
            told.append(f"{path} could not be searched ({problem}): whether it names them is not known.")
            continue
        if found.beyond:
            going.append(repository)
        if found.shown:
            told.append(_sentence(store, repository, path, found.shown))
    _remove(store, folder, going)
    return len(going), tuple(told)


def _search(git: Git, names: Names) -> _Found:
    """Look through every object and every branch's name. Raises FetchProblem."""
    named = _named_objects(git, names)
    shown = set()
    if named:
        with git.stream("rev-list", "--objects", "--no-object-names", "--all") as out:
            shown = named.intersection(line.strip() for line in out)
    refs = git.run("for-each-ref", "--format=%(refname)").decode("utf-8", "replace").splitlines()
    return _Found(len(shown) + sum(map(names.named_in, refs)), len(shown) < len(named))


def _named_objects(git: Git, names: Names) -> set[bytes]:
    found: set[bytes] = set()
    with git.stream("cat-file", "--batch-all-objects", "--batch", "--buffer", "--unordered") as out:
        while len(found) < OBJECTS and (head := out.readline(200)):
            name, _, size = head.split()
            if _is_named(out, int(size), names):
                found.add(name)
            out.read(1)  # the line end behind it
    return found


def _is_named(out: IO[bytes], size: int, names: Names) -> bool:
    """Tell if the next `size` bytes, all of which are read, name the person, perhaps across two pieces."""
    needles = [needle.encode() for needle in names.needles]
    overlap, end, found = 2 * max(map(len, needles)), b"", False
    while size > 0 and (piece := out.read(min(size, PIECE))):
        size -= len(piece)
        text = end + piece
        if not found and any(needle in text.lower() for needle in needles):
            found = names.named_in(text.decode("utf-8", "replace"))
        end = text[-overlap:]
    return found


def _sentence(store: Store, repository: int, path: Path, count: int) -> str:
    with store.read() as rows:
        key = rows.value("select repo_key from repositories where repository_id = ?", [repository]) or "a repository"
    places = "1 place" if count == 1 else f"{count} places"
    return (
        f"{path}, the mirror of {key}, names them in {places}: that repository's own public history, which only its "
        "maintainers can change. It goes once nobody here watches the repository."
    )


def _remove(store: Store, folder: Path, repositories: Sequence[int]) -> None:
    """Remove these mirrors, and have those that somebody still serves fetched anew at once."""
    for repository in repositories:
        shutil.rmtree(mirrors_below(folder)[repository])
    with store.write() as txn:
        txn.execute(
            "delete from fetches where kind = 'mirror' and subject in "
            "(select repo_key from repositories where repository_id in (select unnest(?::integer[])))",
            [repositories],
        )
