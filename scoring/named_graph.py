"""Trust on a graph of names, from the tables of `scoring.edge_files`: numbers inside, names at the edges. No store."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow
from pyarrow import compute

from scoring.denounces import Denounced, judge_within, transfers_left
from scoring.dominators import NOBODY, immediate_dominators
from scoring.edge_files import EdgeTable, FileProblem, printable, some_of
from scoring.eigentrust import eigentrust
from scoring.graph import Edges, Floats, Integers, cleaned, prepare
from scoring.paths import contributions, disjoint_paths, product_along
from scoring.policy import Parameters
from scoring.transfers import Transfers
from scoring.trust import vouch_weights
from scoring.worth import blast_radius, exposure_of

DAY_US = 86_400_000_000
OPEN = 0.5  # explanations count who stands at this s or above
LISTED = 20  # vouchers in an explanation
TEXT = pyarrow.string()


@dataclass(frozen=True, slots=True, eq=False)
class NamedGraph:
    """A graph whose node i is called names[i], in the order of code points, whatever order the rows came in.

    `edges` and `denounces` hold each pair once. `notes` says, a line each, what of the input counts nothing.
    """

    names: pyarrow.Array
    edges: Edges
    denounces: Edges
    seeds: Integers
    notes: tuple[str, ...]

    def name(self, node: int) -> str:
        """The name of a node, fit for a terminal."""
        return printable(self.names[node].as_py())


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """Trust of every node: with the denounces, EigenTrust (vouches only), dominators, and the transfers that count."""

    denounced: Denounced
    eigentrust: Floats
    dominator: Integers
    flow: Transfers


def build_graph(
    vouches: EdgeTable, denounces: EdgeTable, seeds: list[str], half_life_days: float, as_of_us: int | None
) -> NamedGraph:
    """The graph of the tables; weights fade with their age at `as_of_us`, or at the newest created_at of any row.

    What was created after `as_of_us` is left out, but stays a node. FileProblem where a seed is in no row; without any
    row no seed can be known, and all of them are taken. FileProblem for `as_of_us` without created_at.
    """
    if as_of_us is not None and vouches.created_us is None:
        raise FileProblem("A moment was asked for, but the edges have no column created_at.")
    columns = [vouches.source, vouches.target, denounces.source, denounces.target]
    named = pyarrow.chunked_array([chunk for column in columns for chunk in column.chunks], TEXT).unique()
    start = pyarrow.array(seeds, TEXT)
    unknown = start.filter(_found(start, named).is_null()).to_pylist()
    if unknown and len(named):
        raise FileProblem(f"{len(unknown):,} of {len(seeds):,} seeds appear in no edge: {some_of(unknown)}.")
    names = pyarrow.concat_arrays([named, start]).unique().sort()
    now_us = max(_newest(vouches), _newest(denounces)) if as_of_us is None else as_of_us
    edges, notes = _counted(vouches, names, now_us, half_life_days, "edge")
    against, further = _counted(denounces, names, now_us, half_life_days, "denounce")
    return NamedGraph(names, edges, against, _places(start, names), (*notes, *further))


def no_edges() -> EdgeTable:
    """A table without rows."""
    empty = pyarrow.chunked_array([], TEXT)
    return EdgeTable(empty, empty, np.zeros(0), None)


def judge(graph: NamedGraph, parameters: Parameters, strength: float) -> Judged:
    """Trust of every node of the graph from its seeds; `strength` as in `judge_within`."""
    size = len(graph.names)
    vouches, denounces = prepare(graph.edges, size), prepare(graph.denounces, size)
    denounced = judge_within(vouches, denounces, graph.seeds, parameters, strength)
    flow = transfers_left(vouches, denounced, graph.seeds, parameters)
    share = eigentrust(graph.edges, graph.seeds, size)
    return Judged(denounced, share, immediate_dominators(flow, parameters.hops), flow)


def table_of(graph: NamedGraph, judged: Judged) -> pyarrow.Table:
    """One row for each node: node, s, first_passage, eigentrust, distance (null beyond reach), dominator (or null)."""
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


def explain(graph: NamedGraph, judged: Judged, parameters: Parameters, name: str) -> Iterator[str]:
    """Why a node is trusted as it is, in lines for a person; FileProblem where no file names it."""
    node = _place_of(name, graph.names)
    passage, shown = judged.denounced.passage, graph.name(node)
    distance = int(passage.distance[node])
    figures = f"first passage {passage.mass[node]:.4g}, EigenTrust {judged.eigentrust[node]:.4g}"
    yield f"{shown}: s {passage.trust[node]:.4g} ({figures})"
    yield from _denounces(judged.denounced, node)
    if distance == 0:
        yield "A seed: trust starts here."
    elif distance < 0:
        yield f"No trust comes here within {parameters.hops} hops. That is unknown, not bad."
    else:
        yield _hangs_on(graph, judged, node)
        yield from _ways(graph, judged, parameters, node)
    yield from _brings(graph, judged, parameters, node)


def _denounces(denounced: Denounced, node: int) -> Iterator[str]:
    """What denounces took, if any."""
    if denounced.by_seed[node]:
        yield "A seed warns about it, which is final."
    elif denounced.keep[node] < 1:
        count = int(denounced.trusted_denouncers[node])
        yield f"Warnings ({count:,} by trusted nodes) leave {denounced.keep[node]:.1%} of the trust that arrives."


def _hangs_on(graph: NamedGraph, judged: Judged, node: int) -> str:
    """The distance, and what one loss would do."""
    passage, dominator = judged.denounced.passage, int(judged.dominator[node])
    hops = int(passage.distance[node])
    sentence = f"{hops} {'step' if hops == 1 else 'steps'} from the nearest seed; "
    if dominator == NOBODY:
        return sentence + "no single node carries all of it."
    role = "seed" if passage.distance[dominator] == 0 else "node"
    return (
        sentence + f"all of it runs through the {role} {graph.name(dominator)}: if that one is compromised, it is gone."
    )


def _ways(graph: NamedGraph, judged: Judged, parameters: Parameters, node: int) -> Iterator[str]:
    """Paths and vouchers, each with the trust that it brings."""
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


def _brings(graph: NamedGraph, judged: Judged, parameters: Parameters, node: int) -> Iterator[str]:
    """What hangs on the node's own vouches, and what it could do if compromised."""
    passage = judged.denounced.passage
    if passage.trust[node] == 0:
        return
    fallen = graph.names.take(pyarrow.array(blast_radius(judged.flow, passage, parameters, node, OPEN).person))
    yield f"Below s = {OPEN} without its vouches: {some_of(fallen.to_pylist()) if len(fallen) else 'nobody'}."
    if passage.distance[node] > 0:
        most = exposure_of(passage, node, parameters, OPEN)
        yield f"Compromised, it could lift at most {most.lanes:,} fresh nodes to s = {OPEN} ({most.trust:.4g} in all)."


def _counted(
    table: EdgeTable, names: pyarrow.Array, now_us: int, half_life_days: float, word: str
) -> tuple[Edges, list[str]]:
    """The rows that count, by the places of names, each pair once with its largest weight; and what was left out."""
    source, target, weight = _places(table.source, names), _places(table.target, names), table.weight
    kept, notes = np.ones(len(source), dtype=bool), []
    if table.created_us is not None:
        kept = table.created_us <= now_us
        weight = weight * vouch_weights((now_us - table.created_us) / DAY_US, half_life_days)
        notes += _note(int((~kept).sum()), word, "created after the moment asked for: left out")
    clean = cleaned(Edges(source[kept], target[kept], weight[kept]), len(names))
    notes += _note(clean.selves, word, "from a node to itself: dropped")
    notes += _note(clean.repeats, word, "for a pair that is named before: the largest weight counts")
    return clean.edges, notes


def _newest(table: EdgeTable) -> int:
    """The newest created_at of a table in microseconds, before all times where it has none."""
    earliest = np.iinfo(np.int64).min
    return int(table.created_us.max(initial=earliest)) if table.created_us is not None else int(earliest)


def _note(count: int, word: str, what: str) -> list[str]:
    return [f"{count:,} {word if count == 1 else word + 's'} {what}."] if count else []


def _places(column: pyarrow.Array | pyarrow.ChunkedArray, names: pyarrow.Array) -> Integers:
    """Where each name of a column stands in `names`."""
    return np.asarray(_found(column, names), dtype=np.int64)


def _place_of(name: str, names: pyarrow.Array) -> int:
    """Where one name stands; FileProblem where it does not."""
    try:
        place = int(names.index(name).as_py())
    except UnicodeEncodeError:  # bytes of a command line that are no text
        place = -1
    if place < 0:
        raise FileProblem(f"{printable(name)} is in none of the files.")
    return place


def _found(column: pyarrow.Array | pyarrow.ChunkedArray, names: pyarrow.Array) -> pyarrow.Array | pyarrow.ChunkedArray:
    """The same, null for a name that is not among them."""
    return compute.call_function("index_in", [column], compute.SetLookupOptions(names))
