"""Run the real worker on a recorded stream in this process: demo, replay and tests share this code.

It can act as a maintainer of a simulated network, as the pages do, and waits until the running worker has applied the
action. Each action is dated 10 s ago by the network's clock, so that it takes effect at once. In the demo's thirty days
of watching the stream continues in steps, and the maintainer acts after each. Where nothing real is at stake one click
signs a visitor in as a maintainer.
"""

import os
import subprocess
import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.utils import timezone
from tqdm import tqdm
from waitress import wasyncore

from ingest.errors import StoreProblem
from ingest.store.transaction import Rows
from scoring.certificates.lane_curve import present_offer
from scoring.config.policy import policy_from_settings
from scoring.queries import read
from triage.models import Maintainer, OutboxEntry, Person
from triage.services import actions, audit
from triage.services.estimated_lanes import open_estimated_lane
from trustsite.demo.story import MAIN
from trustsite.management.commands.web import listen
from trustsite.standins import StandIns
from trustsite.standins.recording import Recording
from trustsite.validation import is_loopback
from trustsite.worker.worker import Stream, Worker
from trustsite.world import World
from trustsite.world.history import APPROVED, LOOKS, MARKED, OPENED

# The owner of watched repositories with the most waiting pull requests; a push-holder where no owner is known. A push
# list names bots too: on the recorded history the busiest push-holder is the one that bumps dependencies everywhere.
BUSIEST = """
with waiting as (
  select repository_id, count(*) as open_pulls from pull_requests where state = 'open' group by repository_id
)
select c.did from own_people o join contributors c using (contributor_id) join repositories r using (repository_id)
left join waiting w using (repository_id)
group by c.did
order by bool_or(r.owner_id = o.contributor_id) desc nulls last, sum(coalesce(w.open_pulls, 0)) desc, c.did limit 1
"""


# Somebody without push access who has something open, with the longest record: their own page has most to show.
CONTRIBUTOR = """
select c.did from pull_requests p join contributors c on c.contributor_id = p.author_id
semi join watched_repositories using (repository_id)
where p.author_id not in (select contributor_id from own_people)
group by c.did having bool_or(p.state = 'open') order by count(*) filter (p.state <> 'open') desc, c.did limit 1
"""


def busiest(rows: Rows) -> str | None:
    """Return the owner of watched repositories with the most waiting pull requests, else a push-holder, or None."""
    return rows.value(BUSIEST)


def open_account(did: str, keys: list[str]) -> Person:
    """Return the maintainer's account on the site, created as in `manage.py add_maintainer`."""
    person, _ = Person.objects.get_or_create(did=did)
    for key in keys:
        Maintainer.objects.get_or_create(person=person, repo_key=key)
    return person


def offer_busiest(rows: Rows) -> str:
    """Let one click sign in as the busiest maintainer of a recording, another as a contributor to it.

    Returns a sentence for the person at the console.

    This is off if BIND is reached from outside this machine. The web's tables must exist.
    """
    if not is_loopback(settings.BIND):
        return f"one-click sign-in is off, because BIND={settings.BIND} is reached from outside this machine"
    maintainer = busiest(rows)
    if maintainer is None:
        return "one-click sign-in is off, because the recording names nobody with push access"
    names = read.repository_names(rows)
    open_account(maintainer, sorted(names))  # every one: whoever looks at a recording wants to act on all rows
    settings.DEMO_MAINTAINER, settings.DEMO_CONTRIBUTOR = maintainer, rows.value(CONTRIBUTOR)
    return (
        f"sign in there as {name_of(rows, maintainer)} in one click, as a maintainer of "
        f"{', '.join(sorted(names.values()))}"
    )


def name_of(rows: Rows, did: str) -> str:
    score = read.score(rows, did)
    return score.person.name if score else "the maintainer"


SETTLE_SECONDS = 600.0
QUIET_SECONDS = 0.5
SWEEP_SECONDS = 5.0  # a repeated look-up comes due without waking a hop, and the worker's own sweep is rare


def point_at(peers: StandIns, source: str) -> None:
    """Send all requests of this process to the stand-ins, and use the stream's time as the present."""
    settings.STREAM_SOURCE = source
    settings.STREAM_CLOCK = True
    settings.STAND_IN_ORIGIN = peers.origin
    settings.JETSTREAM_URLS = [peers.jetstream_url]


def open_worker(peers: StandIns, recording: Recording, source: str, collections: tuple[str, ...]) -> Worker:
    """Return the real worker on the recorded stream. Raises CommandError if the store cannot be opened."""
    point_at(peers, source)

    def end_us() -> int:
        released = peers.jetstream.released
        return recording.times[released - 1] if released else 0

    try:
        return Worker(Stream(source, (peers.jetstream_url,), collections, end_us))
    except StoreProblem as problem:
        raise CommandError(str(problem), returncode=2) from problem


def run_beside(worker: Worker, job: Callable[[], None]) -> None:
    """Run the worker until the job beside it is done or a signal comes; raise the job's error."""
    with ThreadPoolExecutor(1, thread_name_prefix="beside") as pool:
        future = pool.submit(job)
        future.add_done_callback(lambda _: worker.finish())
        worker.run(future)
    future.result()


def wait_until_settled(
    worker: Worker, progress: Callable[[], None] = lambda: None, quiet_seconds: float = QUIET_SECONDS
) -> None:
    """Return when everything released so far was processed. Raises CommandError after ten minutes, naming the obstacle.

    Nothing may have come for `quiet_seconds`: two frames of one moment may come apart.
    """
    deadline, swept = time.monotonic() + SETTLE_SECONDS, time.monotonic()
    while not worker.is_settled(quiet_seconds):
        if worker.consumer.stop_flag.is_set():
            raise CommandError("Stopped before it had caught up. Nothing is lost: the same command goes on from here.")
        if worker.hops.failure:
            raise CommandError(f"{worker.hops.failure}. Nothing is lost: mend it and run the same command again.")
        if time.monotonic() > deadline:
            raise CommandError(f"Not settled after ten minutes ({worker.listener.problem or 'a hop has work left'}).")
        if worker.hops.idle and time.monotonic() > swept + SWEEP_SECONDS:
            worker.hops.follow("sweep")
            swept = time.monotonic()
        progress()
        time.sleep(0.05)
    progress()


@contextmanager
def progress_bar(worker: Worker, recording: Recording) -> Generator[Callable[[], None]]:
    """Yield a function that draws the cursor's progress through the recording on stderr, at most twice a second."""
    times = recording.times
    with tqdm(total=len(times), unit=" frames", desc="replay", mininterval=0.5) as bar:

        def show() -> None:
            bar.update(bisect_right(times, worker.cursor_us()) - bar.n)

        yield show


REPORTS = ("redteam", "backtest")


@contextmanager
def reports_beside(*store_options: str, commands: Sequence[str] = REPORTS) -> Generator[None]:
    """Run these commands, by default those that write the reports for /redteam and /backtest, beside the block.

    Each is a child of low priority that ends with the block. `store_options` name the store, as "--demo" does. The
    output is in LOG_DIR.
    """
    settings.LOG_DIR.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"FALSE_APPROVAL_BUDGET": str(settings.FALSE_APPROVAL_BUDGET)}
    with ExitStack() as stack:
        for command in commands:
            log_file = stack.enter_context((settings.LOG_DIR / f"{command}.log").open("wb"))
            line = ["nice", "-n", "19", sys.executable, str(settings.BASE_DIR / "manage.py"), command, *store_options]
            child = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=log_file, stderr=log_file, env=environment)
            settings.BESIDE[command] = child
            stack.callback(child.wait)
            stack.callback(child.terminate)
        yield


def serve_beside(stopped: threading.Event) -> None:
    """Serve the pages until the worker beside it is stopped; the web's tables must exist.

    No thread stays: at exit it would hold the snapshot that it last read, which DuckDB reports in 40 lines.
    """
    channels: dict[int, Any] = {}
    server = listen(settings.BIND, channels)
    while not stopped.is_set():
        wasyncore.loop(timeout=0.2, use_poll=True, map=channels, count=1)
    server.task_dispatcher.shutdown()
    wasyncore.close_all(channels)


TAKEN_SECONDS = 60.0  # within this the worker's sweep finds messages that its queue lost


def act(worker: Worker, person: Person, uri: str, kind: str, outcome: str = "", note: str = "") -> None:
    """Act on a pull request in its present state, and wait for the worker. Raises CommandError after a minute."""
    with worker.store.read() as rows:
        subjects = read.decided_subjects(rows, [uri])
    action = actions.Wanted(kind, uri, subjects[uri].seen, actions.versions([uri])[uri], outcome, note)
    actions.act(person, subjects, [action], _action_time(worker))
    _wait_for_worker()


def answer_audits(worker: Worker, person: Person, because: str) -> None:
    """Answer for every pull request that the audit drew so far that it would have been merged as sent."""
    with worker.store.read() as rows:
        drawn_rows = [row for subject, _ in read.due_audits(rows) if (row := read.pull(rows, subject.uri))]
    for row in drawn_rows:
        seen_version = read.Seen(row.record_cid, row.round, row.patch_id)
        audit.answer(person, row, seen_version, True, because, _action_time(worker))
    _wait_for_worker()


def open_lane(worker: Worker, person: Person, repository: str) -> None:
    """Open the fast lane of this repository (its key) on the present offer. Raises CommandError if there is none."""
    now, policy = worker.clock.now(), policy_from_settings()
    with worker.store.read() as rows:
        watched = read.watched_repository(rows, repository)
        offer = present_offer(rows, policy, policy.thresholds.budget, now)
    if watched is None or offer is None:
        raise CommandError("The simulated past was too short to offer a fast lane.")
    open_estimated_lane(person, watched, offer, _action_time(worker))
    _wait_for_worker()


def _action_time(worker: Worker) -> datetime:
    # A moment after the time of this machine's own clock would wait in the outbox.
    return min(worker.clock.now().replace(tzinfo=UTC), timezone.now()) - actions.WINDOW


def _wait_for_worker() -> None:
    deadline = time.monotonic() + TAKEN_SECONDS
    while OutboxEntry.objects.filter(delivered_at=None).exists():
        if time.monotonic() > deadline:
            raise CommandError("The worker did not take what the demo's maintainer did within a minute.")
        time.sleep(0.05)


READ = "Read line by line: I would have merged it as it is."
WENT_WRONG = "Older clients could not read what it writes, so it was taken back."
NEEDED_FIX = "It forgot the last key, which was mended two days later."


@dataclass(frozen=True, slots=True)
class Month:
    worker: Worker
    peers: StandIns
    world: World
    person: Person

    def play(self) -> None:
        """Let the thirty days pass; the audits drawn in the last days are left to the visitor of the pages.

        The maintainer's actions are judged before the stream continues: otherwise the machine's speed would decide if
        the next merged change went through the lane that they opened.
        """
        for number in range(1, LOOKS + 1):
            self.peers.release(self.world.looks[number])
            wait_until_settled(self.worker, quiet_seconds=0.0)
            self._act_after_step(number)
            wait_until_settled(self.worker, quiet_seconds=0.0)
        wait_until_settled(self.worker)

    def _act_after_step(self, number: int) -> None:
        if number == OPENED:
            open_lane(self.worker, self.person, self.world.watched[MAIN])
        if number == APPROVED:
            self._act_on("went_wrong", "approve")
        if number == MARKED:
            self._act_on("went_wrong", "outcome", "reverted", WENT_WRONG)
            self._act_on("needed_fix", "outcome", "needed_fix", NEEDED_FIX)
        if OPENED < number < LOOKS:
            answer_audits(self.worker, self.person, READ)

    def _act_on(self, name: str, kind: str, outcome: str = "", note: str = "") -> None:
        (uri,) = self.world.pulls[name]
        act(self.worker, self.person, uri, kind, outcome, note)
