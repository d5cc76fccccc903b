"""Computes trust on a graph in files: vouches as CSV or Parquet, seeds as text, and a table as the result.

There is no store and no clock. Names are data, even if they begin with = + - or @: they are written unchanged, so that
a result joins with its input. A mark in front would name another node; a spreadsheet should import the column as text.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray
from pyarrow import compute

from scoring.config.policy import Parameters
from scoring.trust.denounces import Denounced, judge_within, transfers_left
from scoring.trust.first_passage import Transfers, eigentrust, vouch_weights
from scoring.trust.graph import Edges, Floats, Integers, cleaned, prepare
from scoring.trust.paths import NOBODY, contributions, disjoint_paths, immediate_dominators, product_along
from scoring.trust.what_if import blast_radius, exposure_of

ENDINGS = (".csv", ".parquet")
TEXT = pyarrow.string()
READ = ("source", "target", "weight", "created_at")
ZONED = r"(Z|z|[+-]\d\d:?\d\d)$"
SHOWN = 3  # names in a sentence


class FileProblem(Exception):
    """A file that cannot be read, understood or written; the text is one sentence for a person."""


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
    """Read the edges of a CSV or Parquet file with `source,target[,weight][,created_at]`; other columns are ignored.

    Nodes are text (Parquet also whole numbers); a weight lies in [0, heaviest]; a time without a zone is UTC.
    FileProblem names the first row (counted from 1, without the header) that is wrong.
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
    """Read the nodes of a text file, one a line, each once, without blank lines. FileProblem where there is none."""
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
    """Return microseconds of UTC of an ISO 8601 date or time (UTC without a zone); FileProblem for anything else."""
    try:
        return int(_as_moments(pyarrow.chunked_array([[text]], TEXT))[0])
    except (pyarrow.ArrowException, UnicodeEncodeError) as problem:
        raise FileProblem(
            f"{printable(text)} is not a date or time such as 2026-11-20 or 2026-11-20T12:00Z."
        ) from problem


def check_ending(path: Path) -> None:
    """Raise FileProblem where the name of a file does not end in a known format."""
    if path.suffix.lower() not in ENDINGS:
        raise FileProblem(f"{path} must end in .csv or .parquet, which says what format it has.")


def write_table(path: Path, table: pyarrow.Table) -> None:
    """Write `table` in the format of the ending, whole or not at all; FileProblem where it cannot be written."""
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
    """Return a name with characters that would move a terminal's cursor escaped, cut at 200 characters."""
    return "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in name[:200])


def some_of(names: Sequence[str]) -> str:
    """Return the first few names, and how many more there are."""
    further = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(printable(name) for name in names[:SHOWN]) + further


def _read_columns(path: Path) -> dict[str, pyarrow.ChunkedArray]:
    """Read the columns that an edge file may have, by name."""
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
    """Read every cell as text: 007 stays 007, NA stays a name."""
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
    """Return microseconds of UTC of a column of times, dates or text."""
    kind, types = column.type, pyarrow.types
    _refuse_first(np.asarray(column.is_null()), f"{path} has no created_at")
    if types.is_timestamp(kind) or types.is_date(kind):
        zone = kind.tz if types.is_timestamp(kind) else None
        return np.asarray(column.cast(pyarrow.timestamp("us", zone), safe=False).cast(pyarrow.int64()))
    if types.is_string(kind) or types.is_large_string(kind):
        return _converted(column.cast(TEXT), _as_moments, "created_at", path)
    raise FileProblem(f"{path} has the type {kind} in the column created_at, which must hold times or text.")


def _as_moments(column: pyarrow.ChunkedArray) -> Integers:
    """Return microseconds of UTC of ISO 8601 texts; a date is its midnight. Raises ArrowException for other text."""
    call = compute.call_function
    is_date = call("equal", [call("utf8_length", [column]), 10])
    timed = call("if_else", [is_date, call("binary_join_element_wise", [column, "00:00:00", "T"]), column])
    is_zoned = call("match_substring_regex", [timed], compute.MatchSubstringOptions(ZONED))
    zoned = call("if_else", [is_zoned, timed, call("binary_join_element_wise", [timed, "Z", ""])])
    return np.asarray(zoned.cast(pyarrow.timestamp("us", "UTC")).cast(pyarrow.int64()))


def _converted(
    column: pyarrow.ChunkedArray, convert: Callable[[pyarrow.ChunkedArray], NDArray], name: str, path: Path
) -> NDArray:
    """Return `convert(column)`; FileProblem names the first row that cannot be converted."""
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
    """Raise FileProblem with the first row that is wrong, counted from 1."""
    if wrong.any():
        raise FileProblem(f"{sentence} in row {int(np.argmax(wrong)) + 1}.")


def _reason(problem: Exception) -> str:
    """Return the reason why a file could not be used, in one line."""
    number = getattr(problem, "errno", None)
    return os.strerror(number) if number else printable(str(problem).split("\n")[0])


DAY_US = 86_400_000_000
OPEN = 0.5  # explanations count nodes at this s or above
LISTED = 20  # vouchers in an explanation
NAME_TEXT = pyarrow.string()


@dataclass(frozen=True, slots=True, eq=False)
class NamedGraph:
    """A graph whose node i is called names[i], sorted by code points whatever the order of the rows.

    `edges` and `denounces` hold each pair once. `notes` lists, a line each, the rows that do not count.
    """

    names: pyarrow.Array
    edges: Edges
    denounces: Edges
    seeds: Integers
    notes: tuple[str, ...]

    def name(self, node: int) -> str:
        """Return the name of a node, fit for a terminal."""
        return printable(self.names[node].as_py())


@dataclass(frozen=True, slots=True, eq=False)
class GraphTrust:
    """Trust of every node: with the denounces, EigenTrust (vouches only), dominators, and the transfers that count."""

    denounced: Denounced
    eigentrust: Floats
    dominator: Integers
    flow: Transfers


def build_graph(
    vouches: EdgeTable, denounces: EdgeTable, seeds: list[str], half_life_days: float, as_of_us: int | None
) -> NamedGraph:
    """Build the graph of the tables; weights fade with their age at `as_of_us`, or at the newest created_at.

    Rows created after `as_of_us` are left out, but their nodes stay. FileProblem where a seed is in no row (without any
    rows all seeds are accepted), and for `as_of_us` without created_at.
    """
    if as_of_us is not None and vouches.created_us is None:
        raise FileProblem("A moment was asked for, but the edges have no column created_at.")
    columns = [vouches.source, vouches.target, denounces.source, denounces.target]
    named = pyarrow.chunked_array([chunk for column in columns for chunk in column.chunks], NAME_TEXT).unique()
    start = pyarrow.array(seeds, NAME_TEXT)
    unknown = start.filter(_index_in(start, named).is_null()).to_pylist()
    if unknown and len(named):
        raise FileProblem(f"{len(unknown):,} of {len(seeds):,} seeds appear in no edge: {some_of(unknown)}.")
    names = pyarrow.concat_arrays([named, start]).unique().sort()
    now_us = max(_newest(vouches), _newest(denounces)) if as_of_us is None else as_of_us
    edges, notes = _counting_edges(vouches, names, now_us, half_life_days, "edge")
    against, further = _counting_edges(denounces, names, now_us, half_life_days, "denounce")
    return NamedGraph(names, edges, against, _places(start, names), (*notes, *further))


def no_edges() -> EdgeTable:
    """Return a table without rows."""
    empty = pyarrow.chunked_array([], NAME_TEXT)
    return EdgeTable(empty, empty, np.zeros(0), None)


def compute_trust(graph: NamedGraph, parameters: Parameters, strength: float) -> GraphTrust:
    """Compute the trust of every node of the graph from its seeds; `strength` as in `judge_within`."""
    size = len(graph.names)
    vouches, denounces = prepare(graph.edges, size), prepare(graph.denounces, size)
    denounced = judge_within(vouches, denounces, graph.seeds, parameters, strength)
    flow = transfers_left(vouches, denounced, graph.seeds, parameters)
    share = eigentrust(graph.edges, graph.seeds, size)
    return GraphTrust(denounced, share, immediate_dominators(flow, parameters.hops), flow)


def build_table(graph: NamedGraph, judged: GraphTrust) -> pyarrow.Table:
    """Return node, s, first_passage, eigentrust, distance (null beyond reach) and dominator (or null) of each node."""
    passage, dominator = judged.denounced.passage, judged.dominator
    return pyarrow.table(
        {
            "node": graph.names,
            "s": passage.trust,
            "first_passage": passage.mass,
            "eigentrust": judged.eigentrust,
            "distance": pyarrow.array(passage.distance, mask=passage.distance < 0),
            "dominator": graph.names.take(pyarrow.array(dominator, mask=dominator == NOBODY)),
        }
    )


def explain(graph: NamedGraph, judged: GraphTrust, parameters: Parameters, name: str) -> Iterator[str]:
    """Yield lines that explain the trust in a node to a person; FileProblem where no file names the node."""
    node = _place_of(name, graph.names)
    passage, shown = judged.denounced.passage, graph.name(node)
    distance = int(passage.distance[node])
    figures = f"first passage {passage.mass[node]:.4g}, EigenTrust {judged.eigentrust[node]:.4g}"
    yield f"{shown}: s {passage.trust[node]:.4g} ({figures})"
    yield from _denounce_lines(judged.denounced, node)
    if distance == 0:
        yield "A seed: trust starts here."
    elif distance < 0:
        yield f"No trust comes here within {parameters.hops} hops. That is unknown, not bad."
    else:
        yield _distance_sentence(graph, judged, node)
        yield from _path_lines(graph, judged, parameters, node)
    yield from _influence(graph, judged, parameters, node)


def _denounce_lines(denounced: Denounced, node: int) -> Iterator[str]:
    """Yield a line about the trust that denounces took."""
    if denounced.by_seed[node]:
        yield "A seed warns about it, which is final."
    elif denounced.keep[node] < 1:
        count = int(denounced.trusted_denouncers[node])
        yield f"Warnings ({count:,} by trusted nodes) leave {denounced.keep[node]:.1%} of the trust that arrives."


def _distance_sentence(graph: NamedGraph, judged: GraphTrust, node: int) -> str:
    """Return the distance, and the node or seed that all trust runs through."""
    passage, dominator = judged.denounced.passage, int(judged.dominator[node])
    hops = int(passage.distance[node])
    sentence = f"{hops} {'step' if hops == 1 else 'steps'} from the nearest seed; "
    if dominator == NOBODY:
        return sentence + "no single node carries all of it."
    role = "seed" if passage.distance[dominator] == 0 else "node"
    return (
        sentence + f"all of it runs through the {role} {graph.name(dominator)}: if that one is compromised, it is gone."
    )


def _path_lines(graph: NamedGraph, judged: GraphTrust, parameters: Parameters, node: int) -> Iterator[str]:
    """Yield paths and vouchers, each with the trust that it brings."""
    yield "Independent paths, and what each carries:"
    for path in disjoint_paths(judged.flow, node, parameters.hops):
        chain = " > ".join(graph.name(step) for step in path)
        yield f"  {product_along(judged.flow, path):10.4g}  {chain}"
    yield "Who vouches, and what first arrives over each vouch:"
    mass = judged.denounced.passage.mass[node]
    vouchers, shares = contributions(judged.flow, node, parameters.hops)
    for voucher, brought in zip(vouchers[:LISTED], shares[:LISTED], strict=True):
        yield f"  {brought:10.4g}  {brought / mass:6.1%}  {graph.name(voucher)}"
    if len(vouchers) > LISTED:
        rest = shares[LISTED:].sum()
        yield f"  {rest:10.4g}  {rest / mass:6.1%}  {len(vouchers) - LISTED:,} more"


def _influence(graph: NamedGraph, judged: GraphTrust, parameters: Parameters, node: int) -> Iterator[str]:
    """Yield the nodes that depend on this node's vouches, and what it could do if compromised."""
    passage = judged.denounced.passage
    if passage.trust[node] == 0:
        return
    fallen = graph.names.take(pyarrow.array(blast_radius(judged.flow, passage, parameters, node, OPEN).person))
    yield f"Below s = {OPEN} without its vouches: {some_of(fallen.to_pylist()) if len(fallen) else 'nobody'}."
    if passage.distance[node] > 0:
        most = exposure_of(passage, node, parameters, OPEN)
        yield f"Compromised, it could lift at most {most.lanes:,} fresh nodes to s = {OPEN} ({most.trust:.4g} in all)."


def _counting_edges(
    table: EdgeTable, names: pyarrow.Array, now_us: int, half_life_days: float, word: str
) -> tuple[Edges, list[str]]:
    """Return the edges that count, each pair once with its largest weight, and notes on the other rows."""
    source, target, weight = _places(table.source, names), _places(table.target, names), table.weight
    counts, notes = np.ones(len(source), dtype=bool), []
    if table.created_us is not None:
        counts = table.created_us <= now_us
        weight = weight * vouch_weights((now_us - table.created_us) / DAY_US, half_life_days)
        notes += _note(int((~counts).sum()), word, "created after the moment asked for: left out")
    clean = cleaned(Edges(source[counts], target[counts], weight[counts]), len(names))
    notes += _note(clean.selves, word, "from a node to itself: dropped")
    notes += _note(clean.repeats, word, "for a pair that is named before: the largest weight counts")
    return clean.edges, notes


def _newest(table: EdgeTable) -> int:
    """Return the newest created_at of a table in microseconds; the smallest integer where it has none."""
    earliest = np.iinfo(np.int64).min
    return int(table.created_us.max(initial=earliest)) if table.created_us is not None else int(earliest)


def _note(count: int, word: str, reason: str) -> list[str]:
    return [f"{count:,} {word if count == 1 else word + 's'} {reason}."] if count else []


def _places(column: pyarrow.Array | pyarrow.ChunkedArray, names: pyarrow.Array) -> Integers:
    """Return the place of each name of a column in `names`."""
    return np.asarray(_index_in(column, names), dtype=np.int64)


def _place_of(name: str, names: pyarrow.Array) -> int:
    """Return the place of one name; FileProblem for an unknown name."""
    try:
        place = int(names.index(name).as_py())
    except UnicodeEncodeError:  # bytes of a command line that are not text
        place = -1
    if place < 0:
        raise FileProblem(f"{printable(name)} is in none of the files.")
    return place


def _index_in(
    column: pyarrow.Array | pyarrow.ChunkedArray, names: pyarrow.Array
) -> pyarrow.Array | pyarrow.ChunkedArray:
    """Return the place of each name of a column in `names`, null for an unknown name."""
    return compute.call_function("index_in", [column], compute.SetLookupOptions(names))
