"""Graphs in files: vouches as CSV or Parquet, seeds as text, and a table written by its ending. No store, no clock.

Names are data, also those that begin with = + - or @: they are written as they are, so that a result joins with what
it came from. A mark in front of them would name other nodes; whoever opens the CSV in a spreadsheet imports the column
as text.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray
from pyarrow import compute

from scoring.graph import Floats, Integers

ENDINGS = (".csv", ".parquet")
TEXT = pyarrow.string()
READ = ("source", "target", "weight", "created_at")
ZONED = r"(Z|z|[+-]\d\d:?\d\d)$"
SHOWN = 3  # names in a sentence


class FileProblem(Exception):
    """A file that cannot be read, made sense of or written; the text is one sentence for a person."""


@dataclass(frozen=True, slots=True, eq=False)
class EdgeTable:
    """The rows of an edge file: names, float64 weights of 0 or more (1 where the file has none), microseconds of UTC.

    `created_us` is None where the file has no created_at.
    """

    source: pyarrow.ChunkedArray
    target: pyarrow.ChunkedArray
    weight: Floats
    created_us: Integers | None


def read_edges(path: Path, heaviest: float = 1.0) -> EdgeTable:
    """The edges of a CSV or Parquet file with `source,target[,weight][,created_at]`; further columns are ignored.

    Nodes are text (Parquet also whole numbers); a weight lies in [0, heaviest]; a time without a zone is UTC.
    FileProblem names the first row (counted from 1, without the header) that makes no sense.
    """
    columns = _read_columns(path)
    for name in READ[:2]:
        if name not in columns:
            raise FileProblem(f"{path} has no column {name}: an edge file has source,target[,weight][,created_at].")
    source, target = (_names(columns[name], name, path) for name in READ[:2])
    weight = _weights(columns["weight"], path, heaviest) if "weight" in columns else np.ones(len(source))
    created = columns.get("created_at")
    return EdgeTable(source, target, weight, None if created is None else _moments(created, path))


def read_seeds(path: Path) -> list[str]:
    """The nodes of a text file, one a line, each once; blank lines are nothing. FileProblem where none is named."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as problem:
        raise FileProblem(f"{path} is not text in UTF-8.") from problem
    except OSError as problem:
        raise FileProblem(f"{path} cannot be read ({problem.strerror}).") from problem
    seeds = list(dict.fromkeys(line for line in lines if line.strip()))
    if not seeds:
        raise FileProblem(f"{path} names no seed: trust has to begin with somebody, one node a line.")
    return seeds


def parse_moment(text: str) -> int:
    """Microseconds of UTC of an ISO 8601 date or time, without a zone taken as UTC; FileProblem for anything else."""
    try:
        return int(_as_moments(pyarrow.chunked_array([[text]], TEXT))[0])
    except (pyarrow.ArrowException, UnicodeEncodeError) as problem:
        raise FileProblem(
            f"{printable(text)} is not a date or time such as 2026-11-20 or 2026-11-20T12:00Z."
        ) from problem


def check_ending(path: Path) -> None:
    """FileProblem where the name does not say which format the file has."""
    if path.suffix.lower() not in ENDINGS:
        raise FileProblem(f"{path} must end in .csv or .parquet, which says what format it has.")


def write_table(path: Path, table: pyarrow.Table) -> None:
    """Write `table` as the ending of `path` says, whole or not at all; FileProblem where it cannot be written."""
    check_ending(path)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.suffix.lower() == ".csv":
            pyarrow.csv.write_csv(table, aside)
        else:
            pyarrow.parquet.write_table(table, aside)
        aside.replace(path)
    except OSError as problem:
        raise FileProblem(f"{path} cannot be written ({_reason(problem)}).") from problem
    finally:
        aside.unlink(missing_ok=True)


def printable(name: str) -> str:
    """A name from a file without what would move the cursor of a terminal, cut at 200 characters."""
    return "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in name[:200])


def some_of(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    further = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(printable(name) for name in names[:SHOWN]) + further


def _read_columns(path: Path) -> dict[str, pyarrow.ChunkedArray]:
    """The columns that an edge file may have, by name."""
    check_ending(path)
    try:
        table = _read_csv(path) if path.suffix.lower() == ".csv" else _read_parquet(path)
        present = table.column_names
    except UnicodeDecodeError as problem:
        raise FileProblem(f"{path} is not text in UTF-8.") from problem
    except (pyarrow.ArrowException, OSError) as problem:
        raise FileProblem(f"{path} cannot be read ({_reason(problem)}).") from problem
    twice = [name for name in READ if present.count(name) > 1]
    if twice:
        raise FileProblem(f"{path} has two columns {twice[0]}.")
    return {name: table[name] for name in READ if name in present}


def _read_csv(path: Path) -> pyarrow.Table:
    """Every cell as the text that it is: 007 stays 007, NA stays a name."""
    return pyarrow.csv.read_csv(
        path,
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(READ, TEXT), strings_can_be_null=False),
    )


def _read_parquet(path: Path) -> pyarrow.Table:
    # read_table would import pyarrow.dataset first, which costs .7 s.
    with pyarrow.parquet.ParquetFile(path) as file:
        table = file.read([name for name in READ if name in file.schema_arrow.names])
    table.validate(full=True)  # a Parquet file may call any bytes text
    return table


def _names(column: pyarrow.ChunkedArray, name: str, path: Path) -> pyarrow.ChunkedArray:
    kind = column.type
    if pyarrow.types.is_dictionary(kind):
        kind = kind.value_type
    if not (pyarrow.types.is_integer(kind) or pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
        raise FileProblem(f"{path} has the type {kind} in the column {name}, where nodes are text or whole numbers.")
    names = column.cast(kind).cast(TEXT)
    _refuse_first(np.asarray(compute.call_function("equal", [names.fill_null(""), ""])), f"{path} names no {name}")
    return names


def _weights(column: pyarrow.ChunkedArray, path: Path, heaviest: float) -> Floats:
    weight = _converted(column, lambda part: np.asarray(part.cast(pyarrow.float64())), "weight", path)
    _refuse_first(~np.isfinite(weight), f"{path} has no weight that is a number")
    _refuse_first(weight < 0, f"{path} has a weight below 0")
    _refuse_first(weight > heaviest, f"{path} has a weight above {heaviest:g}")
    return weight


def _moments(column: pyarrow.ChunkedArray, path: Path) -> Integers:
    """Microseconds of UTC of everything that may stand for a time."""
    kind, types = column.type, pyarrow.types
    _refuse_first(np.asarray(column.is_null()), f"{path} has no created_at")
    if types.is_timestamp(kind) or types.is_date(kind):
        zone = kind.tz if types.is_timestamp(kind) else None
        return np.asarray(column.cast(pyarrow.timestamp("us", zone), safe=False).cast(pyarrow.int64()))
    if types.is_string(kind) or types.is_large_string(kind):
        return _converted(column.cast(TEXT), _as_moments, "created_at", path)
    raise FileProblem(f"{path} has the type {kind} in the column created_at, which must hold times or text.")


def _as_moments(column: pyarrow.ChunkedArray) -> Integers:
    """Microseconds of UTC of ISO 8601 texts; a date is its midnight, a time without a zone is UTC. ArrowException."""
    call = compute.call_function
    is_date = call("equal", [call("utf8_length", [column]), 10])
    timed = call("if_else", [is_date, call("binary_join_element_wise", [column, "00:00:00", "T"]), column])
    is_zoned = call("match_substring_regex", [timed], compute.MatchSubstringOptions(ZONED))
    zoned = call("if_else", [is_zoned, timed, call("binary_join_element_wise", [timed, "Z", ""])])
    return np.asarray(zoned.cast(pyarrow.timestamp("us", "UTC")).cast(pyarrow.int64()))


def _converted(
    column: pyarrow.ChunkedArray, convert: Callable[[pyarrow.ChunkedArray], NDArray], name: str, path: Path
) -> NDArray:
    """`convert(column)`; FileProblem names the first row that cannot be converted."""
    try:
        return convert(column)
    except pyarrow.ArrowException as problem:
        good, bad = 0, len(column)
        while bad - good > 1:
            middle = (good + bad) // 2
            try:
                convert(column.slice(0, middle))
                good = middle
            except pyarrow.ArrowException:
                bad = middle
        cell = printable(str(column[good].as_py()))
        raise FileProblem(f"{path} has {cell or 'nothing'} for {name} in row {bad}.") from problem


def _refuse_first(wrong: NDArray[np.bool_], sentence: str) -> None:
    """FileProblem with the first row that is wrong, counted from 1."""
    if wrong.any():
        raise FileProblem(f"{sentence} in row {int(np.argmax(wrong)) + 1}.")


def _reason(problem: Exception) -> str:
    """Why a file could not be used, in one line."""
    number = getattr(problem, "errno", None)
    return os.strerror(number) if number else printable(str(problem).split("\n")[0])
