"""A recording through the real hops in this thread: load, derive, ask the stand-ins, judge. No queue, no listener."""

import shutil
import tempfile
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from ingest.clock import to_microseconds
from ingest.http.fetcher import Fetcher
from ingest.lookups.people import fetch_identities, fetch_push_holders
from ingest.lookups.rounds import fetch_patches, fetch_runs
from ingest.records import watched as watch
from ingest.records.derive import derive
from ingest.store.database import Store, StreamClock
from ingest.store.transaction import Rows
from ingest.stream.load import load
from scoring.config.policy import AuditRules, Policy
from scoring.pipeline.score import score
from scoring.queries import read
from scoring.review.costs import Call
from scoring.review.deterministic import review_without_model
from scoring.review.payload import Case
from scoring.review.pending import Reviewing, review_due
from scoring.review.schema import Review
from scoring.scanners.submission import Knowledge
from scoring.thresholds import Thresholds
from tests.ingest.stream.frames import SOURCE, Frames
from tests.stores import fresh_store
from trustsite.standins import StandIns
from trustsite.standins.recording import Recording

PLC = "https://plc.directory"
PATCH_LIMIT = 1_000_000
BATCH = 5_000
# Nobody is audited, so that a lane is seen as it is.
UNAUDITED = Policy(audit=AuditRules(share=0, per_day=0, first=0), audit_key=b"a key of the tests")
# An operator's own threshold below most of the world's good contributors: what could get in, would.
OPEN_LANE = replace(UNAUDITED, thresholds=Thresholds(t_high=0.6))


def by_scanners(case: Case, call: Call, unfinished: tuple[str, ...], pull_uri: str) -> Review:
    """What the reviewer says where no model is asked."""
    return review_without_model(case.sent.change, case.findings, unfinished)


@dataclass(frozen=True, slots=True)
class At:
    """A clock that stands."""

    moment: datetime

    def now(self) -> datetime:
        """Always the same."""
        return self.moment


@dataclass(slots=True)
class Result:
    """A store in hand, with what pages and JSON would be told of it."""

    store: Store
    folder: Path
    policy: Policy = field(default_factory=Policy)
    peers: StandIns | None = None

    def play(self, frames: Sequence[bytes]) -> None:
        """Frames, then what the network says about them, then a judgement of both and of what scanners read."""
        self.take(frames)
        if self.peers is not None:
            self.ask(self.peers)
        self.judge()
        if self.peers is not None:
            self.review()

    def feed(self, frames: Sequence[bytes]) -> int:
        """Load frames, derive, judge; returns how many people were scored."""
        self.take(frames)
        return self.judge()

    def take(self, frames: Sequence[bytes]) -> None:
        """Load frames and derive."""
        for start in range(0, len(frames), BATCH):
            load(self.store, SOURCE, frames[start : start + BATCH])
        while derive(self.store):
            pass

    def review(self, knowledge: Knowledge | None = None) -> int:
        """Have the scanners read whatever is due and judge anew; returns how many changes were read."""
        known = knowledge or Knowledge()
        reviewing = Reviewing(self.policy.thresholds, self.folder / "diffs", lambda rows, uri: known, by_scanners)
        read_now = 0
        while count := review_due(self.store, reviewing):
            read_now += count
        if read_now:
            self.judge()
        return read_now

    def judge(self, now: datetime | None = None) -> int:
        """One scoring pass, at the newest frame's time or another; returns how many people were scored."""
        return score(self.store, At(now) if now else StreamClock(self.store), self.policy)

    def ask(self, peers: StandIns) -> None:
        """Every look-up that is due."""
        fetcher, wall = Fetcher(peers.origin), self.store.wall
        try:
            fetch_push_holders(self.store, fetcher, wall, StreamClock(self.store).now)
            fetch_identities(self.store, fetcher, PLC, wall)
            fetch_patches(self.store, fetcher, self.folder / "diffs", PATCH_LIMIT, wall)
            fetch_runs(self.store, fetcher, self.folder / "diffs", StreamClock(self.store).now(), wall)
        finally:
            fetcher.close()

    def watch(self, repositories: Iterable[str], maintainers: Iterable[str]) -> None:
        """Make these people maintainers of these repositories, which are watched from now on."""
        for did in maintainers:
            watch.add_maintainer(self.store, did, list(repositories), StreamClock(self.store).now())

    def rows(self, sql: str, params: Sequence[object] = ()) -> list[dict[str, Any]]:
        """Rows of the store."""
        with self.store.read() as rows:
            return rows.rows(sql, params)

    def value(self, sql: str, params: Sequence[object] = ()) -> Any:
        """One value of the store."""
        with self.store.read() as rows:
            return rows.value(sql, params)

    @contextmanager
    def reading(self) -> Generator[Rows]:
        """What `scoring.queries.read` takes."""
        with self.store.read() as rows:
            yield rows

    def score(self, did: str, repository: str | None = None) -> read.ContributorScore:
        """The answer of `/score/{did}`, which must be there."""
        with self.store.read() as rows:
            found = read.score(rows, did, repository, self.policy)
        assert found is not None, f"{did} was not scored"
        return found

    def pull(self, uri: str) -> read.QueueRow | None:
        """The row of one open pull request."""
        with self.store.read() as rows:
            return read.pull(rows, uri)

    def queue(self, query: read.QueueQuery | None = None) -> read.Queue:
        """The queue."""
        with self.store.read() as rows:
            return read.queue(rows, query or read.QueueQuery())


def all_rows(result: Result, query: read.QueueQuery | None = None) -> list[read.QueueRow]:
    """The rows of all groups of the queue, in its order."""
    return [row for group in result.queue(query).groups for row in group.rows]


@contextmanager
def opened(folder: Path, policy: Policy | None = None) -> Generator[Result]:
    """A store in this folder, made where there is none."""
    store = fresh_store(folder / "trust.duckdb")
    try:
        store.bind(SOURCE)
        yield Result(store, folder, policy or Policy())
    finally:
        store.close()


Fill = Callable[[Result], object]


@contextmanager
def prepared(folder: Path, fill: Fill) -> Generator[Result]:
    """A store in this folder that `fill` filled: once a process, by that very function, and copied ever after."""
    shutil.copytree(_filled(fill), folder, dirs_exist_ok=True)
    with opened(folder) as result:
        yield result


@cache
def _filled(fill: Fill) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="filled-"))
    with opened(folder) as result:
        fill(result)
    return folder


@contextmanager
def run(
    recording: Recording,
    folder: Path,
    watched: Iterable[str],
    maintainers: Iterable[str],
    stages: Sequence[int] = (),
    policy: Policy | None = None,
) -> Generator[Result]:
    """The recording stage by stage (`stages`: frames out at the end of each; all at once by default), each judged."""
    with StandIns(recording) as peers, opened(folder, policy) as result:
        result.peers = peers
        before = 0
        for until in stages or [len(recording.frames)]:
            result.take(recording.frames[before:until])
            if not before:
                result.watch(watched, maintainers)
            result.play(())
            before = until
        yield result


class Later(Frames):
    """Frames from a moment on, one every second."""

    def __init__(self, first: datetime) -> None:
        super().__init__()
        self.first_us = to_microseconds(first)

    def add(self, did: str, kind: str, part: object) -> None:
        frame = {"did": did, "time_us": self.first_us + len(self) * 1_000_000, "kind": kind, kind: part}
        self.append(msgspec.json.encode(frame))
