"""The worker owns the store: Huey's consumer runs in the main thread, listener and publisher beside it.

trustsite/hops.py connects the hops: a hop that has written something wakes those that read it, and a sweep every minute
finds work that a kill left behind (Huey takes a task off the queue before it runs). The heartbeat's state is gathered
from the worker's parts, none of which has to wait for the store.

It ends within a bound: all parts are told to stop at once, and share one time limit. A part that exceeds the limit is
cut off with the process. Nothing is lost by that: everything is written whole or not at all, and an interrupted hop
runs again, as after any kill.
"""

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.utils.module_loading import autodiscover_modules
from huey import Huey
from huey.consumer import Consumer

from ingest import tasks as ingest_tasks
from ingest.backfill.runs import begin_first, begin_peers
from ingest.backfill.turn import Backfiller
from ingest.clock import Clock, WallClock, to_microseconds
from ingest.erasure import erase
from ingest.errors import StoreProblem
from ingest.files import RESERVE_BYTES, free_bytes
from ingest.git.history import unread_mirrors
from ingest.git.mirror import due_mirrors
from ingest.http.fetcher import Fetcher
from ingest.records.derive import has_underived
from ingest.records.registry import build_registry
from ingest.store.archive import adopt
from ingest.store.database import Store, StreamClock
from ingest.store.snapshots import Publisher, current_number
from ingest.stream.jetstream import Listener, Subscription
from ingest.stream.knots import EventStream
from ingest.stream.socket_process import leave_pandas_out
from ingest.worker import runtime
from ingest.worker.status import Heartbeat, Status, due_lookups
from scoring import tasks as scoring_tasks
from scoring.pipeline.score import has_work
from scoring.review.costs import parse_prices
from triage import tasks as triage_tasks
from trustsite.hops import Hops
from trustsite.ops.metrics import Measures
from trustsite.worker.handover import FOLLOWED_DAYS, make_runtime, open_store, sources

log = logging.getLogger(__name__)

PARTS_SECONDS = 8.0  # for all parts together
WHOLE_SECONDS = 9.0  # with the last snapshot and the closing of the store


@dataclass(frozen=True, slots=True)
class Part:
    """A running part: `tell` makes it stop and returns at once; `wait` waits this long and returns True if it ended."""

    name: str
    tell: Callable[[], object]
    wait: Callable[[float], bool]


def of_thread(thread: threading.Thread, tell: Callable[[], object]) -> Part:
    """Return the part of a thread, which may not have been started."""

    def wait(seconds: float) -> bool:
        if thread.ident is not None:
            thread.join(seconds)
        return not thread.is_alive()

    return Part(thread.name, tell, wait)


def going_on(parts: Iterable[Part], seconds: float, clock: Callable[[], float] = time.monotonic) -> list[str]:
    """Wait for one part after the other, `seconds` for all of them; return the names of those that have not ended."""
    deadline = clock() + seconds
    return [part.name for part in parts if not part.wait(max(0.0, deadline - clock()))]


def cut_off(has_ended: threading.Event, seconds: float, leave: Callable[[int], object] = os._exit) -> None:
    """End the process with status 1 unless `has_ended` is set within this time."""
    if not has_ended.wait(seconds):
        log.error("the worker did not stop in time and is cut off; nothing is lost: the next one goes on from here")
        leave(1)


class Publishing:
    """The reason why the newest state is not published; it ends when a newer snapshot exists."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._failed: tuple[int, str] | None = None

    def note(self, problem: str) -> None:
        log.error("%s", problem)
        self._failed = current_number(self._folder), problem

    @property
    def problem(self) -> str | None:
        failed = self._failed
        return failed[1] if failed and current_number(self._folder) <= failed[0] else None


BEHIND_US = 60_000_000
QUIET_SECONDS = 60.0  # account events of the whole network come several a second, whatever collections are wanted
WORKERS = 10  # one for each hop, one for jobs of commands, one that reads pages slowly
FINISH_SECONDS = 600.0  # for hops that still run at the end of a recording


@dataclass(frozen=True, slots=True)
class Stream:
    """The stream that this worker follows; `end_us` is a recording's newest frame, None for a live stream."""

    source: str
    urls: tuple[str, ...]
    collections: tuple[str, ...]
    end_us: Callable[[], int] | None = None


def stream_from_settings() -> Stream:
    collections = (
        () if settings.WHOLE_STREAM else tuple(build_registry(settings.LEXICON_AUTHORITY).wanted_collections())
    )
    return Stream(settings.STREAM_SOURCE, tuple(settings.JETSTREAM_URLS), collections)


def _huey_and_tasks() -> tuple[Huey, Mapping[str, Callable[[], object]]]:
    autodiscover_modules("tasks")
    tasks = {
        "derive_events": ingest_tasks.derive_events,
        "ask_network": ingest_tasks.ask_network,
        "follow_mirrors": ingest_tasks.follow_mirrors,
        "score_everyone": scoring_tasks.score_everyone,
        "review_pulls": scoring_tasks.review_pulls,
        "erase_deleted": ingest_tasks.erase_deleted,
        "deliver_outbox": triage_tasks.deliver_outbox,
        "tell_webhook": triage_tasks.tell_webhook,
        "publish_assessments": triage_tasks.publish_assessments,
    }
    return ingest_tasks.huey, tasks


def _open_own_store(source: str) -> Store:
    """Return the store, tied to this stream. Raises StoreProblem if it cannot be opened."""
    store = open_store()
    try:
        store.bind(source)
        adopt(store, settings.STAGING_DIR)
    except StoreProblem:
        store.close()
        raise
    return store


class Worker:
    """Own the store from `start` to `stop`; `run` stays until a signal or `finish`."""

    def __init__(self, stream: Stream) -> None:
        leave_pandas_out()
        self.stream = stream
        self.huey, tasks = _huey_and_tasks()
        self.store = _open_own_store(stream.source)
        self._empty_queue()  # only once the store is ours: the sweep finds every hop again
        self.measures = Measures(parse_prices(settings.CLAUDE_PRICES))
        self.hops = Hops(self.huey, tasks, self.measures.ran)
        self.clock: Clock = StreamClock(self.store) if settings.STREAM_CLOCK else WallClock()
        self.fetcher = Fetcher(settings.STAND_IN_ORIGIN, settings.FETCH_TIMEOUT_SECONDS)
        self.sources = sources(self.fetcher, self.clock)
        self.backfiller = self._make_backfiller()
        self.publishing = Publishing(settings.SNAPSHOT_DIR)
        self.publisher = self._make_publisher()
        self.listener = self._make_listener()
        self.event_streams = self._make_event_streams()
        self.heartbeat = Heartbeat(settings.STATUS_PATH, self._status)
        self.runtime = make_runtime(
            self.store, self.fetcher, self.clock, self.is_behind, self._changed, lambda: self.hops.preparing
        )
        self.consumer = self._make_consumer()
        self._deadline = 0.0  # time by which all parts must have ended, once the worker stops
        self._has_ended = threading.Event()

    def _empty_queue(self) -> None:
        """Drop waiting tasks of earlier runs. Raises StoreProblem, after closing the store, for a damaged file."""
        try:
            self.huey.flush()
        except sqlite3.DatabaseError as problem:
            self.store.close()
            raise StoreProblem(str(problem)) from problem

    def _make_publisher(self) -> Publisher:
        def is_busy() -> bool:
            return self.hops.judging

        problem, published = self.publishing.note, self.measures.published
        return Publisher(self.store, settings.SNAPSHOT_DIR, problem, is_busy, published)

    def _make_backfiller(self) -> Backfiller | None:
        """Return the backfill's thread, or None for a recording, which has no past elsewhere."""
        if settings.STREAM_CLOCK:
            return None
        begin_first(self.store, self.stream.source)
        begin_peers(self.store)
        return Backfiller(self.store, self.sources, self.cursor_us, lambda: self._changed("backfill"))

    def _make_listener(self) -> Listener:
        stream = self.stream
        quiet_seconds = QUIET_SECONDS if stream.end_us is None else None
        subscription = Subscription(stream.source, stream.urls, stream.collections, quiet_seconds)
        return Listener(self.store, subscription, lambda: self._changed("load"), lambda gap: self._changed("gap"))

    def _make_event_streams(self) -> list[EventStream]:
        def changed() -> None:
            self._changed("load")

        return [EventStream(self.store, self.fetcher, url, changed) for url in settings.KNOT_STREAMS]

    def _status(self) -> Status:
        """Return the worker's present state. Raises OSError if the drive is gone."""
        left_alone, free = self.fetcher.left_alone(), free_bytes(self.store.path)
        problem, about_store = self.listener.problem, self.listener.store_failed
        down = [stream.problem for stream in self.event_streams if stream.problem is not None]
        return Status(
            written_at=time.time(),
            cursor_us=self.listener.cursor_us,
            listener_problem=None if about_store else problem,
            store_problem=problem if about_store else None,
            publisher_problem=self.publishing.problem,
            backfill_problem=self.backfiller.problem if self.backfiller else None,
            event_problems=tuple(down[:3]),
            event_streams_down=len(down),
            failing_hops=tuple(sorted(self.hops.failures)),
            hosts_left_alone=len(left_alone),
            hosts_named=tuple(left_alone[:10]),
            clock_behind_minutes=self.listener.clock_behind_minutes,
            letters_dropped=self.runtime.letters.dropped,
            free_bytes=free,
            drive_full=free < RESERVE_BYTES,
        )

    def _make_consumer(self) -> Consumer:
        return self.huey.create_consumer(
            workers=WORKERS,
            worker_type="thread",
            graceful_signal="TERM",
            shutdown_timeout=PARTS_SECONDS,
            max_delay=0.2,  # idle workers look five times a second: an event is scored within a second, not ten
            flush_locks=True,
        )

    def run(self, beside: Future[None] | None = None) -> None:
        """Work until SIGTERM, Ctrl-C or `finish`; then finish running work, publish and close the store.

        A job `beside` it, which reads the store, is waited for before the store is closed. Parts that have not ended
        nine seconds after a signal are cut off with the process; after `finish` they may take as long as they need.
        """
        # The consumer does this once all of its threads run: a SIGTERM before that would kill running parts.
        self.consumer._set_signal_handlers()
        runtime.start(self.runtime)
        self.publisher.start()
        self.heartbeat.start()
        self._changed("sweep")
        self.listener.start()
        for stream in self.event_streams:
            stream.start()
        if self.backfiller:
            self.backfiller.start()
        end = threading.Thread(target=self._watch_for_stop, args=[beside], name="end", daemon=True)
        end.start()
        try:
            self.consumer.run()
        finally:
            self._stop(beside)
            end.join()

    def finish(self) -> None:
        """End `run` from another thread."""
        self.consumer.stop_flag.set()

    def _watch_for_stop(self, beside: Future[None] | None) -> None:
        """Wait for a stop, then close the fetcher, so that nothing waits for a peer, and end the process in time.

        A hop sends requests for up to 30 s, and the consumer waits for running hops before `run` goes on.
        """
        self.consumer.stop_flag.wait()
        is_finished = beside is not None and beside.done()
        self._deadline = time.monotonic() + (FINISH_SECONDS if is_finished else PARTS_SECONDS)
        self.fetcher.close()
        for part in self._list_parts(beside):
            part.tell()
        if not is_finished:
            cut_off(self._has_ended, WHOLE_SECONDS)

    def _list_parts(self, beside: Future[None] | None) -> list[Part]:
        threads = [self.listener, *self.event_streams, *([self.backfiller] if self.backfiller else [])]
        parts = [of_thread(thread, thread.interrupt) for thread in threads]
        parts += [of_thread(thread, self.finish) for _, thread in self.consumer.worker_threads]
        if beside is not None:
            parts.append(Part("beside", self.finish, lambda seconds: not wait([beside], seconds).not_done))
        return parts

    def _stop(self, beside: Future[None] | None) -> None:
        """Wait for the parts, then publish and close; if one does not end, both are left to the next start."""
        self.finish()
        seconds = max(self._deadline - time.monotonic(), 0.0) if self._deadline else PARTS_SECONDS
        running_parts = going_on(self._list_parts(beside), seconds)
        if running_parts:
            log.error("%s did not end in time", ", ".join(running_parts))
            cut_off(self._has_ended, 0.0)
        self.publisher.stop()
        self.heartbeat.stop()
        runtime.stop()
        self.store.close()
        self._has_ended.set()

    def _changed(self, hop: str) -> None:
        if hop == "sweep" and self.listener.ended_because and not self.consumer.stop_flag.is_set():
            log.error("%s; a new one starts", self.listener.ended_because)
            self.listener = self.listener.renewed()
            self.listener.start()
        if hop == "sweep":
            for place, stream in enumerate(self.event_streams):
                if stream.ident is not None and not stream.is_alive() and not self.consumer.stop_flag.is_set():
                    log.error("the events of %s are read by a new thread", stream.host)
                    self.event_streams[place] = stream.renewed()
                    self.event_streams[place].start()
            ended_backfiller = self.backfiller
            if (
                ended_backfiller
                and ended_backfiller.ident is not None
                and not ended_backfiller.is_alive()
                and not self.consumer.stop_flag.is_set()
            ):
                log.error("the backfill ended by an error in the program; it goes on in a new thread")
                self.backfiller = ended_backfiller.renewed()
                self.backfiller.start()
        self.hops.follow(hop)  # first, so that the publisher sees that more work is coming
        self.publisher.mark()

    def cursor_us(self) -> int:
        with self.store.read() as rows:
            return rows.value("select cursor_us from ingest_state where source = ?", [self.stream.source]) or 0

    def is_behind(self) -> bool:
        """Return True if the stream is catching up: before a recording's end, or over a minute behind.

        Frames that are stored but not derived yet count as behind.
        """
        end = self.stream.end_us() if self.stream.end_us else to_microseconds(self.store.wall()) - BEHIND_US
        if self.cursor_us() < end:
            return True
        with self.store.read() as rows:
            return has_underived(rows)

    def is_settled(self, quiet_seconds: float = 0.5) -> bool:
        """Return True if everything that came in was processed: no frames waiting, no hop with work, no look-up due."""
        if not self.hops.idle or self.is_behind() or self.listener.quiet_for() < quiet_seconds:
            return False
        now = self.clock.now()
        with self.store.read() as rows:
            if erase.due(rows):
                return False
            settled_since = now - timedelta(days=FOLLOWED_DAYS)
            all_asked = not due_lookups(rows, self.store.wall, settled_since, settings.ASK_DECLARED)
            all_mirrored = not due_mirrors(rows, self.store.wall) and not unread_mirrors(self.store)
            return all_asked and all_mirrored and not has_work(rows, now) and self.hops.idle
