"""`manage.py backfill`: read records that the stream has not brought from everybody's data server."""

import json
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from tqdm import tqdm

from ingest.atproto.syntax import is_did
from ingest.backfill.runs import Estimate, Progress, begin, progress, summarize
from ingest.backfill.turn import BackfillProblem, take_turn
from ingest.clock import WallClock
from ingest.errors import StoreProblem
from ingest.http.fetcher import Fetcher
from ingest.records.derive import derive
from ingest.records.registry import build_registry
from ingest.store.database import Store
from ingest.store.snapshots import PublishProblem, SnapshotReader, publish
from ingest.worker.status import Status, read_status
from trustsite.worker.handover import ask_worker, open_store, sources

LOOK_SECONDS = 0.5
PATIENCE_SECONDS = 120.0  # a worker that just started waits 60 s for the stream, then asks the hosts
BAR = "{desc} {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} accounts{postfix}"
BY_ITSELF = "It continues automatically; Ctrl-C, or two minutes of this, leave it to the worker."
GOES_ON = "Nothing is lost: the same command, or the worker, goes on from here."


class Command(BaseCommand):
    """Make the running worker do it and show its progress; do it in this process if none runs."""

    help = "Read older records from their authors' data servers; without options, everybody's of every kind."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--did", action="extend", nargs="+", default=[], help="only these accounts")
        parser.add_argument("--collection", action="extend", nargs="+", default=[], help="only these kinds of records")
        parser.add_argument("--json", action="store_true", help="print the summary as JSON")

    def handle(self, *args: object, did: list[str], collection: list[str], **options: Any) -> None:
        _check_arguments(did, collection)
        try:
            store = open_store()
        except StoreProblem as problem:
            if "held by process" not in str(problem):
                raise CommandError(str(problem), returncode=2) from problem
            summary = _watch_worker(did, collection)
        else:
            with closing(store):
                summary = _run_here(store, did, collection)
        self.stdout.write(json.dumps(summary) if options["json"] else told(summary))


def _check_arguments(dids: Sequence[str], collections: Sequence[str]) -> None:
    for did in dids:
        if not is_did(did):
            raise CommandError(f"{did!r} is not a did:plc or did:web: give the account's DID.", returncode=2)
    known_kinds = build_registry(settings.LEXICON_AUTHORITY).kinds
    for collection in collections:
        if collection not in known_kinds:
            raise CommandError(f"{collection!r} is not read here: choose from {', '.join(known_kinds)}.", returncode=2)


def _run_here(store: Store, dids: Sequence[str], collections: Sequence[str]) -> dict[str, Any]:
    """Be the owner for as long as it takes, with what an earlier run left over first."""
    fetcher = Fetcher(settings.STAND_IN_ORIGIN, settings.FETCH_TIMEOUT_SECONDS)
    stopping = threading.Event()
    run_id = begin(store, "by_hand", dids, collections)

    def work() -> None:
        while not stopping.is_set() and take_turn(store, sources(fetcher, WallClock()), stopping):
            while derive(store):
                pass

    with ThreadPoolExecutor(1, thread_name_prefix="backfill") as pool:
        working = pool.submit(work)
        try:
            with store.read() as rows, _progress_bar() as show:
                _follow(lambda: progress(rows, run_id), show, working)
        except KeyboardInterrupt:
            raise CommandError(f"Stopped. {GOES_ON}") from None
        except BackfillProblem as problem:
            raise CommandError(f"{problem}. {GOES_ON}") from problem
        finally:
            stopping.set()
            fetcher.close()
    with store.read() as rows:
        summary = summarize(rows, run_id)
    _publish(store)
    return summary


def _publish(store: Store) -> None:
    try:
        publish(store, settings.SNAPSHOT_DIR)
    except PublishProblem as problem:
        raise CommandError(f"Done, but not published yet: {problem}.") from problem


def _watch_worker(dids: Sequence[str], collections: Sequence[str]) -> dict[str, Any]:
    """Hand it to the worker and read its progress from the snapshots."""
    run_id = ask_worker("begin_backfill", {"dids": list(dids), "collections": list(collections)})["run"]
    with closing(SnapshotReader(settings.SNAPSHOT_DIR)) as reader:

        def look() -> Progress | None:
            with reader.pin() as rows:
                return progress(rows, run_id) if rows else None

        def explain(current: Progress | None) -> str:
            return waits_for(read_status(settings.STATUS_PATH), current, time.time())

        try:
            with _progress_bar() as show:
                _follow(look, show, explain=explain)
        except KeyboardInterrupt:
            raise CommandError("No longer watched. The worker goes on with it.") from None
        except BackfillProblem as problem:
            raise CommandError(f"{problem}. {GOES_ON}") from problem
        with reader.pin() as rows:
            assert rows is not None  # noqa: S101 - a snapshot showed that the run is done
            return summarize(rows, run_id)


def waits_for(worker: Status | None, found: Progress | None, now: float) -> str:
    """Return the reason why a run waits, or "" if it does not. `found` is its known progress, `now` in seconds."""
    if worker is None or not worker.is_alive(now):
        return "the worker does not answer: start it again"
    if problem := worker.store_problem or worker.backfill_problem:
        return problem
    if worker.publisher_problem:
        return f"how far it is cannot be shown ({worker.publisher_problem})"
    if worker.listener_problem and (found is None or found.state == "finding"):
        return f"the event stream comes first, and it is unreachable ({worker.listener_problem})"
    return ""


def _follow(
    look: Callable[[], Progress | None],
    show: Callable[[Progress], None],
    working: Future[None] | None = None,
    explain: Callable[[Progress | None], str] = lambda current: "",
) -> None:
    """Show the progress until the run is done, and report each reason why it waits; raise the error of the work.

    Raises BackfillProblem with the newest reason once it has waited for PATIENCE_SECONDS on end.
    """
    last_reason, waits_since = "", time.monotonic()
    while True:
        ended = working is not None and working.done()
        current = look()
        if current:
            show(current)
        if (reason := explain(current)) != last_reason and not (current and current.state == "done"):
            last_reason = reason
            tqdm.write(f"It waits: {reason}. {BY_ITSELF}" if reason else "It goes on.", file=sys.stderr)
        if current and current.state == "done":
            return
        if not reason:
            waits_since = time.monotonic()
        elif time.monotonic() - waits_since >= PATIENCE_SECONDS:
            raise BackfillProblem(reason)
        if ended and working:
            working.result()
            raise BackfillProblem("it was interrupted")
        time.sleep(LOOK_SECONDS)


@contextmanager
def _progress_bar() -> Generator[Callable[[Progress], None]]:
    """Yield a function that draws a bar on stderr: ended accounts, and the remaining time at this rate."""
    estimate = Estimate()
    with tqdm(desc="finding", bar_format=BAR, mininterval=LOOK_SECONDS) as bar:

        def show(current: Progress) -> None:
            bar.set_description_str(current.state, refresh=False)
            bar.total, bar.n = current.accounts, current.ended
            seconds_left = estimate.left(time.monotonic(), current.ended, current.accounts)
            time_left = (
                f", about {seconds_left / 60:.0f} min left" if seconds_left is not None and seconds_left >= 60 else ""
            )
            time_left = (
                f", about {seconds_left:.0f} s left" if seconds_left is not None and seconds_left < 60 else time_left
            )
            bar.set_postfix_str(f"{current.records:,} records{time_left}", refresh=False)
            bar.refresh()

        yield show


def told(summary: dict[str, Any]) -> str:
    lines = [
        f"{summary['done']:,} of {summary['accounts']:,} accounts read, {summary['absent']:,} absent, "
        f"{summary['failed']:,} failed, in {summary['seconds']:,.0f} s.",
        f"{summary['records']:,} records listed: {summary['logged']:,} new here, "
        f"{summary['deletes']:,} of ours were deleted meanwhile.",
    ]
    if summary["not_had"] or summary["notes"]:
        lines.append("Could not be read:")
    lines += [f"  {note}" for note in summary["notes"]]
    for row in summary["not_had"]:
        examples = f" ({', '.join(row['examples'])})" if row.get("examples") else ""
        lines.append(f"  {row['accounts']:,} x {row['reason']}{examples}")
    return "\n".join(lines)
