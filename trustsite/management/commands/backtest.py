"""`manage.py backtest`: judge every model and label quarter by quarter on later outcomes, and write a report of
charts.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from tqdm import tqdm

from ingest.clock import wall_now
from scoring.dataset.cases import LABELS
from scoring.training.backtest import BacktestProblem, Plan, run, steps
from scoring.training.graph_card import card_of_backtest, write_graph_backtest
from scoring.training.graph_trial import HOW, GraphTrial, is_installed
from scoring.training.report import page, table
from scoring.training.summary import shown_backtest, write_backtest
from trustsite.management.commands.train import material_of

if TYPE_CHECKING:
    from scoring.training.summary import ShownBacktest

REPORT = "backtest.html"


class Command(BaseCommand):
    """Read a snapshot or a file and write a report under LOG_DIR; the store is never written."""

    help = (
        "Judge every model on past pull requests as they would have been scored then: those of the newest snapshot, or "
        "of a FILE (docs/history.md lists the columns). Prints a table, and writes to LOG_DIR what the page /backtest "
        "shows, and charts that open without a site."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        group = parser.add_mutually_exclusive_group()
        group.add_argument("--demo", action="store_true", help="the demo's store")
        group.add_argument("--replay", metavar="DIR", help="the store that a replay of DIR keeps")
        parser.add_argument("file", metavar="FILE", type=Path, nargs="?", help="Parquet, or CSV by its ending")
        parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
        parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of models and draws (default 0)")
        parser.add_argument("--quarters", type=int, metavar="N", help="judge the newest N (default: five years)")
        parser.add_argument("--label", choices=LABELS, action="append", help="only this label; may be repeated")
        parser.add_argument("--draws", type=int, default=1000, metavar="N", help="of each bootstrap (default 1000)")

    def handle(
        self,
        *args: object,
        file: Path | None,
        seed: int,
        quarters: int | None,
        label: list[Any] | None,
        draws: int,
        **options: Any,
    ) -> None:
        """Judge, print, draw. Raises CommandError in one sentence if there is nothing to judge."""
        if seed < 0 or draws < 1 or (quarters is not None and quarters < 1):
            raise CommandError("--seed must be 0 or more, --draws and --quarters 1 or more.", returncode=2)
        _, material = material_of(file)
        graph = GraphTrial(settings.PYG_ROOT) if is_installed() else None
        if graph is None:
            self.stderr.write(HOW)
        plan = Plan(tuple(label or LABELS), quarters, draws, seed, graph)
        try:
            with tqdm(total=steps(plan, material), leave=False, disable=None) as bar:

                def tell(words: str) -> None:
                    bar.set_description_str(words, refresh=False)
                    bar.update()

                results, extras = run(material, plan, tell)
        except BacktestProblem as problem:
            raise CommandError(str(problem), returncode=2) from problem
        report = _write_report(page(results, extras), shown_backtest(results, extras, wall_now()))
        if graph is not None and (card := card_of_backtest(results, graph.seeds, wall_now())):
            write_graph_backtest(settings.LOG_DIR, card)
        self.stdout.write(json.dumps(results, allow_nan=False) if options["json"] else "\n".join(table(results)))
        self.stderr.write(f"Charts: {report}")


def _write_report(text: str, shown: "ShownBacktest") -> Path:
    target = settings.LOG_DIR / REPORT
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        write_backtest(settings.LOG_DIR, shown)
    except OSError as problem:
        raise CommandError(f"{settings.LOG_DIR} cannot be written ({problem.strerror}).") from problem
    return target
