"""`manage.py redteam`: simulate attacks on the present graph, or on one in files, and print one table."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from tqdm import tqdm

from ingest.clock import wall_now
from ingest.store.snapshots import SnapshotReader
from scoring.config.policy import Policy, policy_from_settings
from scoring.queries import read
from scoring.redteam.attack import Ground
from scoring.redteam.render import ShownReport, report_lines, shown_report, write_report
from scoring.redteam.report import BRIEF, WHOLE, Scale, attack_everything, present_ground
from scoring.trust.files import FileProblem, build_graph, no_edges, read_edges, read_seeds
from trustsite.management.commands.train import present_of

STEPS = 14  # nine shapes and five more
WHERE_SHUT = 0.9  # for a shut lane: it is simulated as open from here on, since rules without a lane have no effect


class Command(BaseCommand):
    """Simulate on a copy in memory: a published snapshot is read, the store is never written."""

    help = (
        "Simulate attacks on the current vouch graph (or one in files) and print one table: what each cost, what it "
        "reached, what stops it. The page /redteam shows the last run on the present graph."
    )

    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--edges", type=Path, metavar="FILE", help="a graph: source,target[,weight], .csv or .parquet"
        )
        parser.add_argument("--seeds", type=Path, metavar="FILE", help="its seeds: text, one node a line")
        group = parser.add_mutually_exclusive_group()
        group.add_argument("--demo", action="store_true", help="the demo's store")
        group.add_argument("--replay", metavar="DIR", help="the store that a replay of DIR keeps")
        parser.add_argument("--full", action="store_true", help="the whole grid, to 10,000 fakes: minutes")
        parser.add_argument("--key", type=int, default=1, metavar="N", help="seed of the draws (default 1)")
        parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")

    def handle(
        self, *args: object, edges: Path | None, seeds: Path | None, full: bool, key: int, **options: Any
    ) -> None:
        """Simulate, print, store. Raises CommandError if there is no graph, or nobody in it who could be attacked."""
        if (edges is None) != (seeds is None):
            raise CommandError("A graph in files needs both, --edges FILE and --seeds FILE.", returncode=2)
        if key < 0:
            raise CommandError("--key must be 0 or more.", returncode=2)
        graph_and_seeds, policy = _read_present() if edges is None or seeds is None else _from_files(edges, seeds)
        lane_open = policy.thresholds.t_high is not None
        if not lane_open:
            opened = max(WHERE_SHUT, policy.thresholds.t_low)
            policy = replace(policy, thresholds=replace(policy.thresholds, t_high=opened))
        try:
            report = _simulate(graph_and_seeds, WHOLE if full else BRIEF, policy, key)
        except ValueError as problem:
            raise CommandError(f"Nothing to simulate: {problem}.", returncode=2) from problem
        shown = shown_report(report, policy, lane_open, wall_now())
        self.stdout.write(json.dumps(report, allow_nan=False) if options["json"] else "\n".join(report_lines(shown)))
        if edges is None:
            _write_shown(shown)


def _simulate(graph_and_seeds: Ground, scale: Scale, policy: Policy, key: int) -> dict[str, Any]:
    with tqdm(total=STEPS, leave=False, disable=None, bar_format="{desc} {percentage:3.0f}%|{bar}|") as bar:

        def tell(words: str) -> None:
            bar.set_description_str(words, refresh=False)
            bar.update()

        return attack_everything(graph_and_seeds, scale, policy, key, tell)


def _read_present() -> tuple[Ground, Policy]:
    """Return the newest snapshot's graph and its thresholds: the lowest of the fast lanes that are open."""
    policy = policy_from_settings()
    with SnapshotReader(settings.SNAPSHOT_DIR).pin() as snapshot:
        if snapshot is None:
            raise CommandError("Nothing was published there yet: run the worker, demo or replay first.", returncode=2)
        dashboard, now = read.dashboard(snapshot), present_of(snapshot)
        t_low = policy.thresholds.t_low if dashboard.t_low is None else dashboard.t_low
        lanes = [lane.t_high for lane in read.lane_states(snapshot) if lane.t_high is not None]
        t_high = min([*lanes, *([] if dashboard.t_high is None else [dashboard.t_high])], default=None)
        serving = replace(policy.thresholds, t_low=t_low, t_high=t_high)
        return present_ground(snapshot, now, policy), replace(policy, thresholds=serving)


def _from_files(edges: Path, seeds: Path) -> tuple[Ground, Policy]:
    """Return the graph of the files. Raises CommandError for unusable files."""
    try:
        graph = build_graph(read_edges(edges), no_edges(), read_seeds(seeds), settings.TRUST_HALF_LIFE_DAYS, None)
    except FileProblem as problem:
        raise CommandError(str(problem), returncode=2) from problem
    return Ground(graph.edges, graph.seeds, len(graph.names)), policy_from_settings()


def _write_shown(shown: ShownReport) -> None:
    """Store the report that the dashboard and the page /redteam show."""
    try:
        write_report(settings.LOG_DIR, shown)
    except OSError as problem:
        raise CommandError(
            f"A file in {settings.LOG_DIR} cannot be written ({problem.strerror}): pages show the run before."
        ) from problem
