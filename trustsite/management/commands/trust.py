"""`manage.py trust`: compute structural trust on any graph in files, without a store."""

from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from scoring.config.policy import Parameters
from scoring.trust.files import (
    FileProblem,
    NamedGraph,
    build_graph,
    build_table,
    check_ending,
    compute_trust,
    explain,
    no_edges,
    parse_moment,
    read_edges,
    read_seeds,
    write_table,
)


class Command(BaseCommand):
    """Read files and write a file; no drive and no store are needed."""

    help = (
        "Trust of every node of a graph from its seeds: first passage (F and s), EigenTrust, hops from the nearest "
        "seed, and the one node whose loss would end it. TRUST_TRANSFER, TRUST_BUDGET, TRUST_HOPS, "
        "TRUST_HALF_LIFE_DAYS and TRUST_DENOUNCE_STRENGTH hold here too. Names are written as they are: a spreadsheet "
        "may take one that begins with = for a formula."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        columns = "source,target[,weight][,created_at] as .csv or .parquet; weights from 0 to 1"
        parser.add_argument("--edges", type=Path, required=True, metavar="FILE", help=f"the vouches: {columns}")
        parser.add_argument("--seeds", type=Path, required=True, metavar="FILE", help="text, one node a line")
        parser.add_argument("--denounces", type=Path, metavar="FILE", help="the denounces, with the same columns")
        parser.add_argument("--out", type=Path, metavar="FILE", help="where to write a row a node, .csv or .parquet")
        parser.add_argument("--explain", metavar="NODE", help="print the paths to this node and what depends on it")
        parser.add_argument("--as-of", metavar="TIME", help="measure age then (default: the newest created_at)")

    def handle(
        self,
        *args: object,
        edges: Path,
        seeds: Path,
        denounces: Path | None,
        out: Path | None,
        explain: str | None,
        as_of: str | None,
        **options: object,
    ) -> None:
        """Judge, write, explain. Raises CommandError (2) for an unusable file, with nothing written."""
        if out is None and explain is None:
            raise CommandError(
                "Say where the result goes, --out FILE, or ask about one node, --explain NODE.", returncode=2
            )
        try:
            if out is not None:
                check_ending(out)
                _protect_inputs(out, [edges, seeds, *([denounces] if denounces else [])])
            self._run(_read_graph(edges, seeds, denounces, as_of), out, explain)
        except FileProblem as problem:
            raise CommandError(str(problem), returncode=2) from problem

    def _run(self, graph: NamedGraph, out: Path | None, node: str | None) -> None:
        parameters = Parameters(settings.TRUST_TRANSFER, settings.TRUST_BUDGET, settings.TRUST_HOPS)
        for note in graph.notes:
            self.stderr.write(note)
        result = compute_trust(graph, parameters, settings.TRUST_DENOUNCE_STRENGTH)
        lines = [] if node is None else list(explain(graph, result, parameters, node))
        if out is not None:
            write_table(out, build_table(graph, result))
        for line in lines:
            self.stdout.write(line)


def _protect_inputs(out: Path, inputs: list[Path]) -> None:
    """Raise FileProblem if the result would replace one of its inputs."""
    if out.resolve() in {path.resolve() for path in inputs}:
        raise FileProblem(f"{out} would be replaced by what is made from it: choose another file for --out.")


def _read_graph(edges: Path, seeds: Path, denounces: Path | None, as_of: str | None) -> NamedGraph:
    moment = None if as_of is None else parse_moment(as_of)
    denounce_edges = no_edges() if denounces is None else read_edges(denounces)
    return build_graph(read_edges(edges), denounce_edges, read_seeds(seeds), settings.TRUST_HALF_LIFE_DAYS, moment)
