"""`manage.py demo`: run the real worker on a simulated network, print a story, serve the pages; `--live`: real
people.
"""

import json
from argparse import ArgumentTypeError
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from tqdm import tqdm

from ingest.errors import StoreProblem
from ingest.records import watched as watch
from ingest.records.registry import REGISTRY
from scoring.queries import read
from trustsite import drive
from trustsite.demo.live import LiveProblem, Plan, Show, judge_live
from trustsite.demo.live_story import as_object, lines, plain
from trustsite.demo.recorded import (
    REPORTS,
    Month,
    act,
    name_of,
    open_account,
    open_worker,
    reports_beside,
    run_beside,
    serve_beside,
    wait_until_settled,
)
from trustsite.demo.story import tell
from trustsite.standins import StandIns
from trustsite.worker.worker import Worker
from trustsite.world import World, build_world

DEMO_BUDGET = 0.12  # at 5 % the small past of the network offers no lane
DEMO_DRAWS = "one draw for every demo"  # key of the audit's draws: each demo tells the same story
LONGEST_SECONDS = 3_600.0
BAR = "{desc} {percentage:3.0f}%|{bar}| {n:.0f}/{total:.0f} s{postfix}"


class Command(BaseCommand):
    """Play the simulated network in two stages: judged and approved, then attacked by a swapped patch."""

    help = (
        "Run the real worker on a simulated network, print a summary, then serve the pages "
        "on http://127.0.0.1:8000, or where BIND=host:port says."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="print only the story; fail if a promise is broken")
        parser.add_argument(
            "--live",
            nargs="+",
            default=[],
            metavar="HANDLE",
            help="judge these real contributors once: reads their records and the stream, serves nothing",
        )
        parser.add_argument(
            "--repo",
            nargs="+",
            default=[],
            metavar="REPO",
            help="use the maintainers of OWNER/NAME or an at-uri as seeds; default: the repository they sent most to",
        )
        parser.add_argument(
            "--seconds", type=_parse_seconds, default=60.0, help="how long --live listens (default: 60)"
        )
        parser.add_argument("--json", action="store_true", help="have --live print one object")

    def handle(self, *args: object, check: bool, live: list[str], repo: list[str], **options: Any) -> None:
        """Play, print, serve or judge. Raises CommandError for a broken promise or if nobody can be judged."""
        if not live and (repo or options["json"]):
            raise CommandError("--repo and --json go with --live HANDLE.", returncode=2)
        with drive.alone(settings.PLACE):
            drive.empty(settings.ROOT)  # every demo starts from nothing
            if live:
                self._judge(Plan(live, repo, options["seconds"]), options["json"])
            else:
                self._start(check)

    def _judge(self, plan: Plan, as_json: bool) -> None:
        """Print the result of a live run. Raises CommandError (2) if nobody can be judged, (1) if some cannot."""
        try:
            with _listening_bar(plan.seconds) as show:
                answer = judge_live(plan, self.stderr.write, show)
        except (LiveProblem, StoreProblem) as problem:
            raise CommandError(plain(str(problem)), returncode=2) from problem
        except KeyboardInterrupt:
            raise CommandError("Stopped before anybody was judged.") from None
        for note in answer.notes:
            self.stderr.write(plain(note))
        for line in [json.dumps(as_object(answer))] if as_json else lines(answer):
            self.stdout.write(line)
        if answer.failed:
            raise CommandError(plain(" ".join(failure.why for failure in answer.failed)))

    def _start(self, check: bool) -> None:
        world = build_world()
        settings.DEMO_MAINTAINER, settings.DEMO_CONTRIBUTOR = world.cast["ana"], world.cast["mara"]
        call_command("migrate", verbosity=0, interactive=False)  # people's decisions are delivered from these tables
        settings.T_HIGH = None  # its maintainer opens the lane on an estimate
        settings.FALSE_APPROVAL_BUDGET, settings.AUDIT_KEY = DEMO_BUDGET, DEMO_DRAWS
        settings.ASK_ADVISORIES = settings.ASK_REGISTRIES = True  # the stand-ins answer
        with StandIns(world.recording, hold_after=world.looks[0]) as peers:
            worker = open_worker(peers, world.recording, "demo", tuple(REGISTRY.wanted_collections()))
            run_beside(worker, lambda: self._play(worker, peers, world, check))

    def _play(self, worker: Worker, peers: StandIns, world: World, check: bool) -> None:
        wait_until_settled(worker)
        did, watched = world.cast["ana"], list(world.watched.values())
        keys = watch.add_maintainer(worker.store, did, watched, worker.clock.now())
        person = open_account(did, keys)
        worker.hops.follow("job")
        wait_until_settled(worker)
        Month(worker, peers, world, person).play()
        with worker.store.read() as rows:
            before = read.pull(rows, world.pulls["swapped"][0])
        if before is None:
            raise CommandError("The pull request whose patch will be swapped was not judged.")
        act(worker, person, before.uri, "approve")
        peers.release(None)
        wait_until_settled(worker)
        self._tell(worker, world, before)
        if not check:
            worker.publisher.publish_now()
            with worker.store.read() as rows:
                name = name_of(rows, did)
            self.stderr.write(f"Serving on http://{settings.BIND} until Ctrl-C; sign in there as {name} in one click.")
            training = ("train",) if settings.SHOW_GRAPH_MODEL else ()  # else the story's chances would move
            with reports_beside("--demo", commands=(*training, *REPORTS)):
                serve_beside(worker.consumer.stop_flag)

    def _tell(self, worker: Worker, world: World, before: read.QueueRow) -> None:
        with worker.store.read() as rows:
            lines, promises = tell(rows, world, before)
        for line in lines:
            self.stdout.write(line)
        self.stdout.write("")
        for promise in promises:
            self.stdout.write(f"{'kept  ' if promise.kept else 'BROKEN'}  {promise.words}")
        broken = [promise.words for promise in promises if not promise.kept]
        if broken:
            raise CommandError(f"The demo broke {len(broken)} of its promises: {'; '.join(broken)}.")


def _parse_seconds(text: str) -> float:
    """Parse a number of seconds, up to an hour."""
    with suppress(ValueError):
        if 0 <= float(text) <= LONGEST_SECONDS:
            return float(text)
    raise ArgumentTypeError(f"{text!r} is not a number of seconds from 0 to {LONGEST_SECONDS:.0f}")


@contextmanager
def _listening_bar(seconds: float) -> Generator[Show]:
    """Yield a function that draws a bar of the seconds of listening on stderr; it appears with the first call."""
    bars: list[tqdm] = []

    def show(passed: float, events: int) -> None:
        if not bars:
            bars.append(tqdm(total=seconds, desc="listening", bar_format=BAR, mininterval=0.5))
        bars[0].set_postfix_str(f"{events:,} events", refresh=False)
        bars[0].update(passed - bars[0].n)

    try:
        yield show
    finally:
        for bar in bars:
            bar.close()
