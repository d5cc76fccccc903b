"""The worker: the one process that owns the store. Huey consumer in the main thread, listener and publisher beside it.

The hops are strung together in trustsite/hops.py: one that has written something wakes those that read it, and a sweep
every minute finds what a kill left behind (Huey takes a task off the queue before it runs).
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass

from django.conf import settings
from django.core.management.base import CommandError
from django.utils.module_loading import autodiscover_modules
from huey.consumer import Consumer

from ingest import backfill, enrich, runtime, watch
from ingest.clock import Clock, WallClock, to_microseconds
from ingest.derive import has_underived
from ingest.jetstream import Listener, Subscription
from ingest.net import Fetcher
from ingest.records import NAMESPACE
from ingest.snapshot import Publisher, PublishProblem, publish
from ingest.store import Store, StoreProblem, StreamClock
from scoring.score import has_work
from trustsite.hops import Hops

log = logging.getLogger(__name__)

BEHIND_US = 60_000_000
WORKERS = 4  # one for each hop, and one for what is handed over
SHUTDOWN_SECONDS = 8
REPLY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Stream:
    """What this worker listens to; `end_us` is the newest frame of a recording, None for a stream that goes on."""

    source: str
    urls: tuple[str, ...]
    collections: tuple[str, ...]
    end_us: Callable[[], int] | None = None


def stream_from_settings() -> Stream:
    """The stream that the operator chose."""
    collections = () if settings.WHOLE_STREAM else (f"{NAMESPACE}*",)
    return Stream(settings.STREAM_SOURCE, tuple(settings.JETSTREAM_URLS), collections)


class Worker:
    """Owns the store from `start` to `stop`; `run` stays until a signal or `finish`."""

    def __init__(self, stream: Stream) -> None:
        autodiscover_modules("tasks")
        from ingest import tasks as ingest_tasks
        from scoring import tasks as scoring_tasks

        self.stream = stream
        self.huey = ingest_tasks.huey
        tasks = {
            "derive_events": ingest_tasks.derive_events,
            "ask_network": ingest_tasks.ask_network,
            "score_everyone": scoring_tasks.score_everyone,
        }
        self.store = Store.open(settings.DUCKDB_PATH)
        try:
            self.store.bind(stream.source)
        except StoreProblem:
            self.store.close()
            raise
        self.huey.flush()  # only now that the store is ours: every hop is found again by the sweep
        self.hops = Hops(self.huey, tasks)
        self.clock: Clock = StreamClock(self.store) if settings.STREAM_CLOCK else WallClock()
        self.fetcher = Fetcher(settings.STAND_IN_ORIGIN, settings.FETCH_TIMEOUT_SECONDS)
        self.publisher = Publisher(self.store, settings.SNAPSHOT_DIR, lambda problem: log.error("%s", problem))
        subscription = Subscription(stream.source, stream.urls, stream.collections)
        self.listener = Listener(self.store, subscription, lambda: self._changed("load"))
        self.consumer: Consumer = self.huey.create_consumer(
            workers=WORKERS,
            worker_type="thread",
            graceful_signal="TERM",
            shutdown_timeout=SHUTDOWN_SECONDS,
            max_delay=0.2,  # idle workers look five times a second: an event is scored within a second, not ten
            flush_locks=True,
        )

    def run(self, beside: Future[None] | None = None) -> None:
        """Work until SIGTERM, Ctrl-C or `finish`; then finish what is in hand, publish and let go of the store.

        A job `beside` it, which reads the store, is waited for before the store is closed.
        """
        runtime.start(self._runtime())
        self.publisher.start()
        self._changed("sweep")
        self.listener.start()
        threading.Thread(target=self._interrupt_look_ups, name="interrupt", daemon=True).start()
        try:
            self.consumer.run()
        finally:
            self._stop(beside)

    def finish(self) -> None:
        """End `run` from another thread."""
        self.consumer.stop_flag.set()

    def _interrupt_look_ups(self) -> None:
        """On stop, end what waits for a peer: a hop asks for up to 30 s, and the consumer waits for running hops."""
        self.consumer.stop_flag.wait()
        self.fetcher.close()

    def _stop(self, beside: Future[None] | None) -> None:
        ends = time.monotonic() + SHUTDOWN_SECONDS
        self.listener.stop()
        if beside is not None:
            wait([beside], SHUTDOWN_SECONDS)
        for _, thread in self.consumer.worker_threads:
            thread.join(max(0.0, ends - time.monotonic()))
        self.publisher.stop()
        runtime.stop()
        self.store.close()

    def _runtime(self) -> runtime.Runtime:
        return runtime.Runtime(
            store=self.store,
            fetcher=self.fetcher,
            clock=self.clock,
            plc_url=settings.PLC_URL,
            diff_folder=settings.DIFF_CORPUS_DIR,
            patch_limit=settings.PATCH_LIMIT_BYTES,
            watch_everything=settings.WATCH_EVERYTHING,
            behind=self.is_behind,
            changed=self._changed,
        )

    def _changed(self, hop: str) -> None:
        if hop == "sweep" and self.listener.ended_because:
            log.error("%s; a new one starts", self.listener.ended_because)
            self.listener = self.listener.renewed()
            self.listener.start()
        self.publisher.mark()
        self.hops.follow(hop)

    def cursor_us(self) -> int:
        """time_us of the newest frame handled."""
        with self.store.read() as rows:
            return rows.value("select cursor_us from ingest_state where source = ?", [self.stream.source]) or 0

    def is_behind(self) -> bool:
        """Whether the stream is still catching up: before a recording's end, or over a minute behind the wall.

        Frames that are stored and not derived yet count as not caught up with.
        """
        end = self.stream.end_us() if self.stream.end_us else to_microseconds(self.store.wall()) - BEHIND_US
        if self.cursor_us() < end:
            return True
        with self.store.read() as rows:
            return has_underived(rows)

    def is_settled(self) -> bool:
        """Whether everything that came in so far was worked off: nothing in hand, no hop with work, no look-up due."""
        if self.is_behind() or self.listener.quiet_for() < 0.5 or not self.hops.idle:
            return False
        with self.store.read() as rows:
            return not has_work(rows, self.clock.now()) and not enrich.due(rows, self.store.wall) and self.hops.idle


def hand_over(did: str, repositories: list[str]) -> list[str]:
    """Have the owner of the store record a maintainer; the keys of the repositories, or CommandError in one sentence.

    Where no worker runs, this process becomes the owner for as long as it takes.
    """
    try:
        store = Store.open(settings.DUCKDB_PATH)
    except StoreProblem as problem:
        if "held by process" not in str(problem):
            raise CommandError(str(problem)) from problem
        return _ask_worker(did, repositories)
    try:
        fetcher, clock = Fetcher(settings.STAND_IN_ORIGIN, settings.FETCH_TIMEOUT_SECONDS), WallClock()
        names = backfill.make_known(store, fetcher, settings.PLC_URL, clock, repositories)
        keys = watch.add_maintainer(store, did, names, clock.now())
        _publish(store)
        return keys
    except watch.UnknownRepository as problem:
        raise CommandError(str(problem)) from problem
    finally:
        store.close()


def _publish(store: Store) -> None:
    """Publish; where that fails, what was recorded stays and the next worker publishes it."""
    try:
        publish(store, settings.SNAPSHOT_DIR)
    except PublishProblem as problem:
        log.warning("Recorded, but not published yet: %s", problem)


def _ask_worker(did: str, repositories: list[str]) -> list[str]:
    from ingest.tasks import add_maintainer, huey

    reply = f"reply:{uuid.uuid4().hex}"
    add_maintainer(did, repositories, reply)
    deadline = time.monotonic() + REPLY_SECONDS
    while time.monotonic() < deadline:
        answer = huey.get(reply)
        if answer is not None and "problem" in answer:
            raise CommandError(answer["problem"])
        if answer is not None:
            return answer["done"]
        time.sleep(0.1)
    raise CommandError("The worker did not answer within a minute: see its log, then run this again.")
