"""Remove one person from the files beside the store; a replacement is written aside and renamed.

Below a folder of caches any file that names the person goes, since it is made again; below a folder of sources only the
parts that name them.

The mirror of a repository that they owned goes. Mentions that another repository shows are its maintainers' own public
history: no commit can be changed without all later ones, and the next fetch would bring it again, so they stay and are
reported. Mentions that a mirror holds but its repository no longer shows, because a branch was rewritten, have no such
reason: that mirror goes as a whole and is fetched again.
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
DRAFT = ".draft-"  # prefix of the folder in which a replacement file is written
ZSTD = b"\x28\xb5\x2f\xfd"
LARGEST_PACKED = 2_000_000_000  # bytes that one packed file may unpack to; a larger one that may name somebody goes


def strike_folder(folder: Path, names: Names) -> int:
    """Remove the person from every file below a folder of sources; return how many files went or were changed.

    Leftovers of a kill during a replacement go first: nobody else replaces files during this search.
    """
    for draft in [path for path in folder.rglob(f"{DRAFT}*") if path.is_dir()]:
        shutil.rmtree(draft, ignore_errors=True)
    return sum(strike_file(path, names) for path in files_below(folder))


def empty_pages(folder: Path, did: str) -> int:
    """Empty the staged pages of this account, so that a running backfill finds nothing there; return how many."""
    pages = [path for path in files_below(folder) if path.name.startswith(f"{name_hash(did)}-")]
    for path in pages:
        _replace_file(path, lambda draft: draft.write_bytes(b'{"records":[]}'))
    return len(pages)


def drop_naming(folder: Path, names: Names) -> int:
    """Remove every file of a folder of caches that names the person; return how many."""
    return remove_all([path for path in files_below(folder) if _names_path(path, names) or names_in_file(path, names)])


def drop_all(folder: Path) -> int:
    """Remove every file of a folder of caches that know people only by number; return how many."""
    return remove_all(list(files_below(folder)))


def files_below(folder: Path) -> Iterator[Path]:
    """Yield plain files below a folder, in order, without links and bare mirrors."""
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
    """Return True if the bytes of a file, unpacked if they are packed, name the person."""
    if file := _open_parquet(path):
        return any(_naming_mask(batch, names) is not None for batch in file.iter_batches())
    return any(needle.encode() in _unpack(path).lower() for needle in names.needles)


def strike_file(path: Path, names: Names) -> int:
    """Remove the person from one file: return 1 if it went or was changed, else 0."""
    if _names_path(path, names):
        path.unlink(missing_ok=True)
        return 1
    if file := _open_parquet(path):
        return _strike_parquet(path, file, names)
    try:
        data = _unpack(path)
    except FileNotFoundError:  # staged pages are deleted when they are committed
        return 0
    if not any(needle.encode() in data.lower() for needle in names.needles):
        return 0
    try:
        struck = names.struck_from(data.decode()).encode()
    except UnicodeDecodeError:
        path.unlink(missing_ok=True)
        return 1
    if struck != data:
        packed = _pack(path, struck)
        _replace_file(path, lambda draft: draft.write_bytes(packed))
    return int(struck != data)


def _unpack(path: Path) -> bytes:
    """Return the bytes, unpacked if they are gzip or zstd, unchanged if they cannot be unpacked."""
    data = path.read_bytes()
    try:
        if data.startswith(b"\x1f\x8b"):
            return gzip.decompress(data)
        if data.startswith(ZSTD):
            return pa.CompressedInputStream(pa.BufferReader(data), "zstd").read(LARGEST_PACKED)
    except (OSError, EOFError, zlib.error):
        return data
    return data


def _pack(path: Path, data: bytes) -> bytes:
    with path.open("rb") as file:
        start = file.read(4)
    if start.startswith(b"\x1f\x8b"):
        return gzip.compress(data, mtime=0)
    return pa.compress(data, codec="zstd", asbytes=True) if start == ZSTD else data


def _replace_file(path: Path, write: Callable[[Path], object]) -> None:
    with tempfile.TemporaryDirectory(prefix=DRAFT, dir=path.parent) as folder:
        draft = Path(folder) / path.name
        write(draft)
        sync(draft)
        draft.replace(path)
    sync(path.parent)


def _open_parquet(path: Path) -> pq.ParquetFile | None:
    """Return the Parquet file, or None for another kind or a half-written file, which counts as bytes."""
    try:
        return pq.ParquetFile(path) if path.suffix == ".parquet" else None
    except pa.ArrowInvalid:
        return None


def _strike_parquet(path: Path, file: pq.ParquetFile, names: Names) -> int:
    """Rewrite a Parquet file by the rules of the tables; leave it untouched if it does not name the person."""
    if not any(_naming_mask(batch, names) is not None for batch in file.iter_batches()):
        return 0

    # DuckDB declares a column without nulls as not nullable, but a body about the person becomes null.
    schema = pa.schema([column.with_nullable(True) for column in file.schema_arrow])

    def write(draft: Path) -> None:
        with pq.ParquetWriter(draft, schema, compression="zstd") as writer:
            for batch in file.iter_batches():
                nullable = pa.RecordBatch.from_arrays(batch.columns, schema=schema)
                writer.write_batch(_strike_batch(nullable, names))

    _replace_file(path, write)
    return 1


def _text_columns(schema: pa.Schema) -> list[str]:
    return [
        column.name for column in schema if pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    ]


def _naming_mask(batch: pa.RecordBatch, names: Names) -> pa.Array | None:
    """Return the rows that may name the person, as a mask, or None if there are none."""
    mask = None
    for name in _text_columns(batch.schema):
        for needle in names.column_needles:
            matches = _match_needle(batch[name], needle)
            mask = matches if mask is None else pc.call_function("or", [mask, matches])
    return mask if mask is not None and pc.call_function("any", [mask]).as_py() else None


def _match_needle(column: pa.Array, needle: str) -> pa.Array:
    """Return True for each text that contains the needle; False for null."""
    options = pc.MatchSubstringOptions(needle, ignore_case=True)
    return pc.fill_null(pc.call_function("match_substring", [column], options), False)


def _strike_batch(batch: pa.RecordBatch, names: Names) -> pa.RecordBatch:
    mask = _naming_mask(batch, names)
    if mask is None:
        return batch
    unnamed_rows, texts = batch.filter(pc.call_function("invert", [mask])), tuple(_text_columns(batch.schema))
    # Segments hold events: `did` and `rkey` tie a row to a person, the body is text.
    table = Table("events", (), (), (), texts, (), frozenset({"did", "rkey"}))
    remaining = []
    for row in batch.filter(mask).to_pylist():
        changed_row = row | {name: struck_value(table, name, row[name], names) for name in texts}
        if not any(value is GONE for value in changed_row.values()):
            remaining.append(changed_row)
    result = pa.Table.from_batches([unnamed_rows, pa.RecordBatch.from_pylist(remaining, schema=batch.schema)])
    order = [name for name in ("event_seq",) if name in batch.schema.names]
    result = result.sort_by([(name, "ascending") for name in order]) if order else result
    return result.combine_chunks().to_batches()[0] if result.num_rows else batch.slice(0, 0)


def strike_sqlite(path: Path, names: Names) -> int:
    """Delete every row of a SQLite file that names the person, then `vacuum` it; return how many."""
    if not path.exists():
        return 0
    with closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as database:
        tables = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
        deleted = sum(_delete_naming(database, table, names) for table in tables if not table.startswith("sqlite_"))
        vacuum(database)
    return deleted


def _delete_naming(database: sqlite3.Connection, table: str, names: Names) -> int:
    columns = [row[1] for row in database.execute(f'pragma table_info("{table}")')]
    needles: Sequence[bytes] = [needle.encode() for needle in names.needles]
    clause = 'instr(lower(cast("{}" as blob)), ?)'
    where = " or ".join(clause.format(column) for column in columns for _ in needles)
    texts = [needle.decode() for _ in columns for needle in needles]
    return database.execute(f'delete from "{table}" where {where}', texts).rowcount


def vacuum(database: sqlite3.Connection) -> None:
    """Rewrite the file and empty its WAL, so that no deleted byte is left. Raises sqlite3.Error while locked."""
    database.execute("vacuum")
    database.execute("pragma wal_checkpoint(truncate)").fetchall()


PIECE = 1_000_000  # bytes of an object searched at once
OBJECTS = 10_000  # most objects of one mirror that name the person and are counted
OWNED = """
select repository_id from repositories
where owner_id is not distinct from $number and owner_id is not null or starts_with(repo_key, 'at://' || $did || '/')
"""


@dataclass(frozen=True, slots=True)
class _Mentions:
    """The mentions of a person in a mirror: the number that its repository shows, and True if there are others."""

    shown: int
    beyond: bool


def erase_mirrors(store: Store, folder: Path, names: Names, number: int | None) -> tuple[int, tuple[str, ...]]:
    """Remove the mirrors that may not stay; return how many, and a sentence for each remaining mention."""
    with store.read() as rows:
        owned = {row["repository_id"] for row in rows.rows(OWNED, {"did": names.did, "number": number})}
    to_remove, sentences = [], []
    for repository, path in sorted(mirrors_below(folder).items()):
        if repository in owned:
            to_remove.append(repository)
            continue
        try:
            mentions = _search(Git(path), names)
        except FetchProblem as problem:
            sentences.append(f"{path} could not be searched ({problem}): whether it names them is not known.")
            continue
        if mentions.beyond:
            to_remove.append(repository)
        if mentions.shown:
            sentences.append(_mirror_sentence(store, repository, path, mentions.shown))
    _remove_mirrors(store, folder, to_remove)
    return len(to_remove), tuple(sentences)


def _search(git: Git, names: Names) -> _Mentions:
    """Search every object and every branch's name. Raises FetchProblem."""
    naming = _named_objects(git, names)
    shown = set()
    if naming:
        with git.stream("rev-list", "--objects", "--no-object-names", "--all") as output:
            shown = naming.intersection(line.strip() for line in output)
    refs = git.run("for-each-ref", "--format=%(refname)").decode("utf-8", "replace").splitlines()
    return _Mentions(len(shown) + sum(map(names.named_in, refs)), len(shown) < len(naming))


def _named_objects(git: Git, names: Names) -> set[bytes]:
    names_found: set[bytes] = set()
    with git.stream("cat-file", "--batch-all-objects", "--batch", "--buffer", "--unordered") as output:
        while len(names_found) < OBJECTS and (head := output.readline(200)):
            name, _, size = head.split()
            if _read_and_search(output, int(size), names):
                names_found.add(name)
            output.read(1)  # the line end behind it
    return names_found


def _read_and_search(output: IO[bytes], size: int, names: Names) -> bool:
    """Read the next `size` bytes and tell if they name the person, perhaps across two pieces."""
    needles = [needle.encode() for needle in names.needles]
    overlap, end, is_named = 2 * max(map(len, needles)), b"", False
    while size > 0 and (piece := output.read(min(size, PIECE))):
        size -= len(piece)
        text = end + piece
        if not is_named and any(needle in text.lower() for needle in needles):
            is_named = names.named_in(text.decode("utf-8", "replace"))
        end = text[-overlap:]
    return is_named


def _mirror_sentence(store: Store, repository: int, path: Path, count: int) -> str:
    with store.read() as rows:
        key = rows.value("select repo_key from repositories where repository_id = ?", [repository]) or "a repository"
    places = "1 place" if count == 1 else f"{count} places"
    return (
        f"{path}, the mirror of {key}, names them in {places}: that repository's own public history, which only its "
        "maintainers can change. It goes once nobody here watches the repository."
    )


def _remove_mirrors(store: Store, folder: Path, repositories: Sequence[int]) -> None:
    """Remove these mirrors, and make those that are still served due for a fetch."""
    for repository in repositories:
        shutil.rmtree(mirrors_below(folder)[repository])
    with store.write() as txn:
        txn.execute(
            "delete from fetches where kind = 'mirror' and subject in "
            "(select repo_key from repositories where repository_id in (select unnest(?::integer[])))",
            [repositories],
        )
