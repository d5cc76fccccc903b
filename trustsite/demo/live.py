"""`manage.py demo --live`: real contributors, read from their own data servers, judged once by the usual hops.

Everything happens in this process and in a store of its own: look the handles up, open the stream, list records, take
the repositories' push-holders for seeds, listen, work the hops off, read the answer.
"""

import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from django.conf import settings

from ingest import tasks as asking
from ingest.backfill import runs
from ingest.backfill.turn import BackfillProblem
from ingest.clock import WallClock, to_microseconds
from ingest.http.fetcher import Fetcher
from ingest.records import watched
from ingest.store.database import Store
from ingest.stream.jetstream import Listener, Subscription
from ingest.stream.load import start_at
from ingest.worker import runtime
from scoring import tasks as judging
from scoring.review.costs import Call
from scoring.review.payload import Case
from scoring.review.pending import Reviewing, review_due
from scoring.review.schema import Review
from scoring.review.settings import reviewing_from_settings
from trustsite.demo.live_gather import GO_ON, Found, Gathering, LiveProblem, Tell, look_up
from trustsite.demo.live_story import Answer, Failed, read_answer, reviewed_pull
from trustsite.worker.handover import make_runtime, open_store
from trustsite.worker.worker import QUIET_SECONDS, stream_from_settings

ROUNDS = 50  # of the hops: each works off what the one before has left
LOOK_SECONDS = 0.1
TRIED_AGAIN = "Retrying until the time is over; --seconds 0 uses the records alone."

Show = Callable[[float, int], None]  # seconds listened so far, events that the stream brought


@dataclass(frozen=True, slots=True)
class Plan:
    """The people to judge and the time that may take.

    `repositories` are named as for `add_maintainer`. `seconds` is how long the stream is listened to;
    `network_seconds` after the start nothing more is asked of anybody, and what came is judged. `listing_seconds` after
    one group of accounts was begun (contributors, seeds, whom they vouch for) no further one of it is. `first_wait` is
    how long a first failed try of an account waits, each further one four times as long.
    """

    handles: Sequence[str]
    repositories: Sequence[str] = ()
    seconds: float = 60.0
    network_seconds: float = 300.0
    listing_seconds: float = 30.0
    first_wait: float = 0.5


def judge_live(plan: Plan, tell: Tell, show: Show) -> Answer:
    """Judge these contributors as the network stands; LiveProblem where nobody can be, StoreProblem without a store.

    `tell` is called with a sentence at each step, `show` some ten times a second while the stream is listened to.
    Nothing goes on after it returns or raises.
    """
    fetcher = Fetcher(settings.STAND_IN_ORIGIN, settings.FETCH_TIMEOUT_SECONDS)
    try:
        found = look_up(fetcher, plan.handles)
        store = open_store()
        try:
            return _Live(
                plan, store, Gathering(store, fetcher, tell, plan.listing_seconds, plan.first_wait), show
            ).judge(found)
        finally:
            store.close()
    finally:
        fetcher.close()


@dataclass(slots=True)
class _Live:
    """One run; what it learns lies in the store."""

    plan: Plan
    store: Store
    gathering: Gathering
    show: Show
    changed: threading.Event = field(default_factory=threading.Event)

    def judge(self, found: Found) -> Answer:
        """From accounts to the answer."""
        fetcher, notes = self.gathering.fetcher, self.gathering.notes
        runtime.start(make_runtime(self.store, fetcher, WallClock(), changed=lambda hop: self.changed.set()))
        try:
            with self._bounded():
                people, failed, events = self._gather(found)
                self._work_off()
            pull = self._review(list(people))
            with self.store.read() as rows:
                return read_answer(rows, people, failed, notes, pull, events)
        except BackfillProblem as problem:
            raise LiveProblem(f"The records could not be read: {problem}. {GO_ON}") from problem
        finally:
            runtime.stop()

    @contextmanager
    def _bounded(self) -> Generator[None]:
        """Ask nothing more of the network once its time is over: what is under way ends within five seconds."""
        timer = threading.Timer(self.plan.network_seconds, self._end_network)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()

    def _end_network(self) -> None:
        self.gathering.notes.append(
            f"After {self.plan.network_seconds:.0f} s nothing more was asked: what had not come is missing."
        )
        self.gathering.stopping.set()
        self.gathering.fetcher.close()

    def _gather(self, found: Found) -> tuple[dict[str, str], tuple[Failed, ...], int]:
        """Fill the event log: the contributors by DID, those who failed, and how many events the stream brought."""
        with self._listener() as listener:
            failed = found.failed + self.gathering.list_contributors(found.names)
            gone = {one.name for one in failed}
            people = {did: name for did, name in found.names.items() if name not in gone}
            if not people:
                raise LiveProblem(" ".join(one.why for one in failed))
            self.gathering.choose_repositories(self.plan.repositories, list(people))
            self.gathering.read_circle(self.gathering.list_seeds())
            return people, failed, self._listen(listener)

    @contextmanager
    def _listener(self) -> Generator[Listener]:
        """The stream from now on, opened before anything is listed, so that nothing falls between the two."""
        stream = stream_from_settings()
        self.store.bind(stream.source)
        # Never worked off: only a whole network could say that nobody offered a patch earlier, so no landing is proven.
        runs.begin_first(self.store, stream.source)
        start_at(self.store, stream.source, to_microseconds(self.store.wall()))
        subscription = Subscription(stream.source, stream.urls, stream.collections, QUIET_SECONDS)
        listener = Listener(self.store, subscription, lambda: None)
        listener.start()
        try:
            yield listener
        finally:
            listener.stop()

    def _listen(self, listener: Listener) -> int:
        """Wait while the stream goes on for so long; how many events it brought since it was opened."""
        self.gathering.tell(f"Listening to the stream for {self.plan.seconds:.0f} s.")
        began, is_told = time.monotonic(), False
        while True:
            passed = min(time.monotonic() - began, self.plan.seconds)
            if listener.problem and not is_told and passed < self.plan.seconds:
                self.gathering.tell(f"Can't reach the event stream: {listener.problem}. {TRIED_AGAIN}")
                is_told = True
            with self.store.read() as rows:
                events = rows.value("select count(*) from events where source <> 'backfill'")
            self.show(passed, events)
            if passed >= self.plan.seconds or self.gathering.stopping.wait(LOOK_SECONDS):
                break
        if listener.problem:
            self.gathering.notes.append(f"The event stream was interrupted: {listener.problem}.")
        return events

    def _work_off(self) -> None:
        """The worker's hops in turn until none has anything left to do, or it was tried often enough."""
        self.gathering.tell("Looking up identities and pull requests, then judging.")
        hops = (asking.derive_events, asking.ask_network, asking.follow_mirrors, judging.score_everyone)
        for _ in range(ROUNDS):
            self.changed.clear()
            for hop in hops:
                hop.call_local()
            if not self.changed.is_set():
                return

    def _review(self, dids: Sequence[str]) -> str | None:
        """Have every change read, one of them by Claude where a key is set; which one, None where there is none."""
        with self.store.read() as rows:
            chosen = reviewed_pull(rows, dids)
        if chosen is not None and settings.ANTHROPIC_API_KEY:
            self.gathering.tell(f"Claude reads one pull request: {chosen.uri}.")
            watched.set_review(self.store, [chosen.repository_key], "claude")
        reviewing = reviewing_from_settings(runtime.current())
        uri = chosen.uri if chosen else None
        while review_due(self.store, only_one(uri, reviewing)):
            pass
        judging.score_everyone.call_local()
        return uri


def only_one(uri: str | None, reviewing: Reviewing) -> Reviewing:
    """As `reviewing`, but a model may read only the pull request of this address, and the scanners all others."""

    def review(case: Case, call: Call, unfinished: tuple[str, ...], pull_uri: str) -> Review:
        asked = call if pull_uri == uri or call is Call.NOBODY else Call.DETERMINISTIC
        return reviewing.review(case, asked, unfinished, pull_uri)

    return replace(reviewing, review=review)
