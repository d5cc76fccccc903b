"""Read a Parquet or CSV file of past pull requests as typed columns: hostile input, read within bounds.

The columns of such a file, and those that are never read, are defined here (docs/history.md); that part is pure. The
operator ties authors to DIDs in a file of `author` and `did`, as CSV or JSON.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.atproto.syntax import is_did

Kind = Literal["text", "whole", "time", "flag"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column that is read; `needed`: a file without it is refused, and so is a row without a value."""

    name: str
    kind: Kind
    words: str
    needed: bool = False


COLUMNS = (
    Column("repo", "text", "the project as the file calls it, at most 200 characters", needed=True),
    Column("number", "whole", "of the pull request in that project", needed=True),
    Column("author", "text", "who opened it, as the file calls people, at most 200 characters", needed=True),
    Column("opened_at", "time", "when it was opened", needed=True),
    Column("snapshot_at", "time", "until when what happens to it was watched", needed=True),
    Column("state", "text", "merged, closed, closed_or_stale (180 days quiet), open or open_or_recent", needed=True),
    Column("additions", "whole", "lines added", needed=True),
    Column("deletions", "whole", "lines removed", needed=True),
    Column("files_touched", "whole", "files changed", needed=True),
    Column("did", "text", "the author's DID, where it is known"),
    Column("merged_at", "time", "when it was merged; every merged one has it, and no other"),
    Column("closed_at", "time", "when it was closed without a merge; every closed one has it"),
    Column("last_commit_at", "time", "its newest commit: the 180 quiet days of closed_or_stale begin then"),
    Column("reverted", "flag", "whether it was taken back; known from reverted_at, else from snapshot_at"),
    Column("reverted_at", "time", "when it was taken back"),
    Column("patched14_code", "flag", "whether lines that it added were changed within 14 days"),
    Column("patched14_code_fix", "flag", "the same, and the change says that it is a fix"),
    Column("patched14_first_at", "time", "when they first were; without it the end of the 14 days"),
    Column("checks_known", "flag", "whether the result of its checks is known (no)"),
    Column("checks_failed_at", "time", "when its checks failed for the second time"),
    Column("as_sent", "flag", "whether what was merged is what was first sent, a rebase without change included"),
    Column("push_holder", "flag", "whether the author had push access then; else 30 earlier merges count as that"),
    Column("is_bot", "flag", "whether the author is a program (no)"),
    Column("usable", "flag", "no: left out of every figure, unless it is only still open (yes)"),
    Column("binary_files", "whole", "how many of the files have no lines"),
    Column("touches_tests", "flag", "whether it changes tests"),
    Column("docs_only", "flag", "whether it changes nothing but documentation"),
    Column("touches_sensitive", "flag", "whether it changes what a person should always read"),
    Column(
        "title", "text", "only its length is kept, and whether it speaks of fixes, documentation, what is new, or code"
    ),
)
# They follow from the outcome of a pull request: a model that learns from them would know the answer.
LEAKING = ("n_commits", "n_authors", "fork_owner")

FILE_LIMIT = 2_000_000_000  # bytes
ROWS_LIMIT = 2_000_000
BATCH_ROWS = 65_536
BLOCK = 4_000_000  # bytes of a CSV file read at once; no row may be longer
TEXT = 1_000  # characters of a text that are read; a project or a person may have 200
TYPES = {"text": pa.string(), "whole": pa.int64(), "time": pa.timestamp("us"), "flag": pa.bool_()}
WORDS = {"text": "text", "whole": "a whole number", "time": "a time", "flag": "true or false"}
SCHEMA = pa.schema([(column.name, TYPES[column.kind]) for column in COLUMNS])
_KNOWN = {column.name: column for column in COLUMNS}
_TEXTS = [column.name for column in COLUMNS if column.kind == "text"]


class PastProblem(Exception):
    """The file of past pull requests cannot be imported; the message is one sentence with the remedy."""


class PastFile:
    """One file: `names` of its columns, and its rows in batches of SCHEMA; missing values are null."""

    def __init__(self, path: Path) -> None:
        """Open the file. Raises PastProblem for a wrong kind of file, a too large one, or one that lacks a column."""
        self.path = path
        self._parquet = self._open()
        self.names = self._parquet.schema_arrow.names if self._parquet else _header(path)
        duplicates = sorted({name for name in self.names if self.names.count(name) > 1})
        missing = [column.name for column in COLUMNS if column.needed and column.name not in self.names]
        if duplicates:
            raise PastProblem(f"{path.name} has the column {duplicates[0][:60]!r} twice: give each a name of its own.")
        if missing:
            raise PastProblem(f"{path.name} lacks the columns {', '.join(missing)}: docs/history.md lists them.")

    @property
    def unknown(self) -> list[str]:
        return sorted(name[:60] for name in self.names if name not in _KNOWN)

    def batches(self) -> Iterator[pa.Table]:
        """Yield the rows, at most BATCH_ROWS at a time. Raises PastProblem for a cut file or a wrong type."""
        read = 0
        try:
            for batch in self._read_raw_batches():
                read += len(batch)
                if read > ROWS_LIMIT:
                    raise PastProblem(f"{self.path.name} has more than {ROWS_LIMIT} rows: import it in parts.")
                yield _to_schema(batch, self.path.name)
        except (pa.ArrowException, OSError) as error:
            raise PastProblem(
                f"{self.path.name} breaks off or is damaged after {read} rows ({_shorten(error)}): export it again."
            ) from error

    def _open(self) -> pq.ParquetFile | None:
        """Return the Parquet file, or None for CSV."""
        try:
            size = self.path.stat().st_size
            if not self.path.is_file() or size > FILE_LIMIT:
                raise PastProblem(f"{self.path} is not a plain file of at most {FILE_LIMIT} bytes: name one.")
            if self.path.suffix.lower() == ".csv":
                return None
            # Keep a dictionary as such: otherwise a text of 1 MB that every row repeats would take 64 GB.
            schema = pq.read_schema(self.path)
            texts = [
                schema_field.name
                for schema_field in schema
                if schema_field.name in _TEXTS and pa.types.is_string(schema_field.type)
            ]
            parquet = pq.ParquetFile(self.path, read_dictionary=texts, pre_buffer=False)
        except (pa.ArrowException, OSError) as error:
            raise PastProblem(
                f"{self.path} is not a Parquet file that can be read ({_shorten(error)}), "
                "and its name does not end in .csv."
            ) from error
        if parquet.metadata.num_rows > ROWS_LIMIT:
            raise PastProblem(f"{self.path.name} has more than {ROWS_LIMIT} rows: import it in parts.")
        return parquet

    def _read_raw_batches(self) -> Iterator[pa.RecordBatch]:
        wanted_names = [name for name in self.names if name in _KNOWN]
        if self._parquet is not None:
            yield from self._parquet.iter_batches(batch_size=BATCH_ROWS, columns=wanted_names, use_threads=False)
            return
        from pyarrow import csv as arrow_csv

        with closing(
            arrow_csv.open_csv(
                self.path,
                read_options=arrow_csv.ReadOptions(block_size=BLOCK),
                parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(self.names, pa.string()),
                    include_columns=wanted_names,
                    null_values=["", "NULL", "null", "None", "NaT"],
                    strings_can_be_null=True,
                ),
            )
        ) as reader:
            yield from reader


def _header(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            line = file.readline(BLOCK).decode("utf-8-sig")
        return next(csv.reader([line]), [])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PastProblem(f"{path} has no first line of column names in UTF-8 ({_shorten(error)}).") from error


def _to_schema(batch: pa.RecordBatch, file: str) -> pa.Table:
    present = {name: batch.column(place) for place, name in enumerate(batch.schema.names)}
    columns = [
        _cast(present[column.name], column, file)
        if column.name in present
        else pa.nulls(len(batch), TYPES[column.kind])
        for column in COLUMNS
    ]
    return pa.table(columns, names=[column.name for column in COLUMNS])


def _cast(values: pa.Array, column: Column, file: str) -> pa.Array:
    """Return the values in the type of the column; texts stay dictionaries, times with a zone become UTC."""
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if pa.types.is_null(kind):
        return pa.nulls(len(values), TYPES[column.kind])
    if column.kind == "text" and pa.types.is_string(kind):
        return _cut(values)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    for intermediate in _cast_types(column, kind):
        try:
            return values.cast(intermediate).cast(TYPES[column.kind])
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
    example = next((value for value in values.slice(0, 1_000).to_pylist() if value is not None), None)
    raise PastProblem(
        f"{file}: the column {column.name} must hold {WORDS[column.kind]} in every row, and holds others "
        f"({str(example)[:40]!a} for example is {values.type})."
    )


def _cut(values: pa.Array) -> pa.Array:
    """Cut texts to at most TEXT characters, also inside a dictionary, which is lost once its rows are stored."""
    if pa.types.is_dictionary(values.type):
        return pa.DictionaryArray.from_arrays(values.indices, _cut(values.dictionary))
    return pc.call_function("utf8_slice_codeunits", [values], pc.SliceOptions(0, TEXT))


def _cast_types(column: Column, kind: pa.DataType) -> Sequence[pa.DataType]:
    """Return the types through which values of `kind` become those of the column; none if they mean something else."""
    if column.kind == "time":
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return (pa.timestamp("us"), pa.timestamp("us", "UTC"))
        return (pa.timestamp("us", kind.tz),) if pa.types.is_timestamp(kind) else ()
    if column.kind == "flag":
        return (pa.bool_(),) if pa.types.is_boolean(kind) or pa.types.is_string(kind) else ()
    if column.kind == "whole":
        return () if pa.types.is_temporal(kind) or pa.types.is_boolean(kind) else (pa.int64(),)
    return (pa.string(),) if pa.types.is_large_string(kind) else ()


def _shorten(error: BaseException) -> str:
    return " ".join(str(error).split())[:160]


LIMIT = 50_000_000  # bytes


def read_identities(path: Path) -> dict[str, str]:
    """Return the DID of each author from CSV with author and did, a JSON list of such objects, or one JSON object.

    Raises PastProblem for any other content, for an invalid DID, and for an author with two.
    """
    try:
        with path.open("rb") as file:
            data = file.read(LIMIT + 1)
        if len(data) > LIMIT:
            raise PastProblem(f"{path.name} is larger than {LIMIT} bytes: name a file of author and did.")
        pairs = _pairs_from_json(data) if path.suffix.lower() == ".json" else _pairs_from_csv(data.decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError, csv.Error, RecursionError) as error:
        message = " ".join(str(error).split())[:160]
        raise PastProblem(f"{path} is not a CSV or JSON file of author and did ({message}).") from error
    did_by_author: dict[str, str] = {}
    for author, did in pairs:
        if not (isinstance(author, str) and isinstance(did, str) and author and is_did(did)):
            raise PastProblem(f"{path.name}: {str(author)[:60]!a} is tied to {str(did)[:60]!a}, which is not a DID.")
        if did_by_author.setdefault(author, did) != did:
            raise PastProblem(f"{path.name} ties {author[:60]!a} to two DIDs: name one.")
    return did_by_author


def _pairs_from_json(data: bytes) -> list[tuple[Any, Any]]:
    parsed = msgspec.json.decode(data)
    if isinstance(parsed, dict):
        return list(parsed.items())
    if isinstance(parsed, list) and all(isinstance(entry, dict) for entry in parsed):
        return [(entry.get("author"), entry.get("did")) for entry in parsed]
    raise msgspec.ValidationError("neither a list of objects nor one object")


def _pairs_from_csv(text: str) -> list[tuple[Any, Any]]:
    rows = csv.DictReader(io.StringIO(text))
    if not {"author", "did"} <= set(rows.fieldnames or ()):
        raise csv.Error("its first line does not name author and did")
    return [(row["author"], row["did"]) for row in rows]
