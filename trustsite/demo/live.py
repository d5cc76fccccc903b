"""`manage.py demo --live`: real contributors, read from their own data servers, judged once by the usual hops.

Everything happens in this process and in a store of its own: look the handles up, open the stream, list records, take
the repositories' push-holders for seeds, listen, work the hops off, read the answer.
"""

import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from django.conf import settings

from ingest import tasks as asking
from ingest.atproto.identity import read_service, resolve, resolve_handle, why_offline
from ingest.atproto.syntax import is_did
from ingest.backfill import runs
from ingest.backfill.account import Sources
from ingest.backfill.owners import make_known
from ingest.backfill.turn import BackfillProblem, take_turn
from ingest.clock import WallClock, to_microseconds
from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.lookups.forge import collaborators_added_by
from ingest.lookups.people import fetch_push_holders
from ingest.records import watched
from ingest.records import watched as watch
from ingest.records.derive import derive
from ingest.records.registry import REPOSITORY, VOUCH
from ingest.store.database import Store
from ingest.stream.jetstream import Listener, Subscription
from ingest.stream.load import start_at
from ingest.worker import runtime
from scoring import tasks as judging
from scoring.formatting import things
from scoring.review.costs import Call
from scoring.review.payload import Case
from scoring.review.pending import Reviewing, review_due
from scoring.review.schema import Review
from scoring.review.settings import reviewing_from_settings
from trustsite.demo.live_story import Answer, Failed, read_answer, reviewed_pull
from trustsite.worker.handover import make_runtime, open_store, sources
from trustsite.worker.worker import QUIET_SECONDS, stream_from_settings

FEW = 3  # repositories that are taken where none is named
CIRCLE = 50  # accounts between the seeds and the contributors whose vouches are read too
LOOKUPS = 4  # handles that are looked up at once
GO_ON = "Check this machine's network, then run this again."

# To which repositories of others these people sent pull requests, most sent first.
SENT_TO = """
select coalesce(min(a.alias) filter (a.alias like 'at://%'), r.repo_key) as name, count(distinct p.pull_uri) as sent
from pull_requests p join repositories r using (repository_id) join contributors c on c.contributor_id = p.author_id
left join repository_aliases a using (repository_id)
where list_contains($dids, c.did) and p.deleted_at is null and r.deleted_at is null
  and not coalesce(list_contains($dids, (select did from contributors o where o.contributor_id = r.owner_id)), false)
group by r.repository_id, r.repo_key order by sent desc, max(p.opened_at) desc, name limit $most
"""
OWNER = """
select c.did from repositories r join contributors c on c.contributor_id = r.owner_id where r.repository_id = ?
"""
NAMES = """
select c.did, coalesce(r.name, r.repo_key) as name
from repositories r join contributors c on c.contributor_id = r.owner_id where list_contains(?, r.repository_id)
order by r.repository_id
"""
SEEDS = """
select distinct c.did from push_holders h join watched_repositories using (repository_id)
join contributors c using (contributor_id) where h.held_until is null order by c.did
"""
# Whom these people vouch for now.
VOUCHED = """
select distinct s.did from vouches v join contributors g on g.contributor_id = v.voucher_id
join contributors s on s.contributor_id = v.subject_id
where v.kind = 'vouch' and v.superseded_at is null and list_contains(?, g.did) order by s.did
"""
LISTED = "select did, state, reason from backfill_accounts where list_contains(?, did) order by did"

Tell = Callable[[str], None]


class LiveProblem(Exception):
    """Nobody can be judged; the message says why in a sentence for each who was asked for, and what to do."""


def find_account(fetcher: Fetcher, name: str) -> str:
    """The DID of a handle, which must name each other, or of a DID that exists. Raises FetchProblem."""
    handle = name.removeprefix("@").lower()
    did = name if is_did(name) else resolve_handle(fetcher, handle)
    identity = resolve(fetcher, settings.PLC_URL, did)
    if did != name and identity.handle != handle:
        raise FetchProblem(f"it names {did}, whose own record names {identity.handle or 'no handle'}")
    return did


@dataclass(frozen=True, slots=True)
class Found:
    """The handles that lead to an account, by DID, and the others with the reason."""

    names: dict[str, str]
    failed: tuple[Failed, ...]


def look_up(fetcher: Fetcher, names: Sequence[str]) -> Found:
    """The accounts behind these handles; LiveProblem where there is none."""

    def one(name: str) -> str | FetchProblem:
        try:
            return find_account(fetcher, name)
        except FetchProblem as problem:
            return problem

    asked = list(dict.fromkeys(names))
    with ThreadPoolExecutor(LOOKUPS, thread_name_prefix="look up") as pool:
        answers = list(zip(asked, pool.map(one, asked), strict=True))
    found = {answer: name for name, answer in answers if isinstance(answer, str)}
    failed = tuple(_not_found(name, answer) for name, answer in answers if isinstance(answer, FetchProblem))
    if not found:
        raise LiveProblem(_offline(fetcher) or " ".join(one.why for one in failed))
    return Found(found, failed)


def _offline(fetcher: Fetcher) -> str:
    """Return a sentence where not even the directory of all accounts has an address: this machine reaches nobody."""
    offline = why_offline(fetcher, settings.PLC_URL)
    again = "connect this machine to the network and run this again; without one, `manage.py demo` plays a simulated"
    return f"{offline}: {again} network." if offline else ""


def _not_found(name: str, problem: FetchProblem) -> Failed:
    what = GO_ON if problem.retry else "Check the spelling: a handle is a host name such as ana.tngl.sh."
    return Failed(name, f"{name[:200]} could not be looked up: {problem}. {what}")


@dataclass(slots=True)
class Gathering:
    """Fills the event log of one store; `stopping` ends what is under way, `notes` says what is missing.

    One group of accounts is listed for `listing_seconds`, so that a dead host does not take the time of all others. A
    first failed try of an account waits `first_wait` seconds, each further one four times as long.
    """

    store: Store
    fetcher: Fetcher
    tell: Tell
    listing_seconds: float
    first_wait: float
    notes: list[str] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    _listed: set[tuple[str, tuple[str, ...]]] = field(default_factory=set)  # accounts, each with what was asked of it

    def _list(self, dids: Sequence[str], *collections: str) -> None:
        """Log the records (of these kinds) of those who were not listed yet, as `manage.py backfill` does."""
        fresh = [did for did in dids if not self._is_listed(did, *collections)]
        if not fresh or self.stopping.is_set():
            return
        self._listed.update((did, collections) for did in fresh)
        runs.begin(self.store, "by_hand", fresh, collections)
        over = threading.Event()
        timer = threading.Timer(self.listing_seconds, over.set)
        timer.start()
        try:
            run = take_turn(self.store, self._sources, over, first_wait=self.first_wait)
        finally:
            timer.cancel()
        if run:  # whoever still waits is not asked again
            runs.end(self.store, run)
        while derive(self.store):
            pass

    def _list_others(self, dids: Sequence[str], *collections: str) -> None:
        """As `_list`, of people who are not judged; what is missing of them is noted, since trust may come by them."""
        self._list(dids, *collections)
        with self.store.read() as rows:
            missing = {row["did"]: row["reason"] for row in rows.rows(LISTED, [list(dids)]) if row["state"] != "done"}
        if missing:
            why = next(iter(missing.values())) or "there was no time left"
            people = things(len(missing), "account")
            self.notes.append(f"{people} that may vouch could not be read ({why}): trust may be missing.")

    def _is_listed(self, did: str, *collections: str) -> bool:
        return not self._listed.isdisjoint({(did, ()), (did, collections)})

    def list_contributors(self, names: Mapping[str, str]) -> tuple[Failed, ...]:
        """Those of whom nothing could be read; of whom a part is missing is noted."""
        self.tell(f"Reading the records of {', '.join(names.values())} from their data servers.")
        self._list(list(names))
        with self.store.read() as rows:
            ended = rows.rows(LISTED, [list(names)])
        for row in ended:
            if row["state"] == "done" and row["reason"]:
                self.notes.append(f"Not all of {names[row['did']]} was read: {row['reason']}.")
        return tuple(_not_read(names[row["did"]], row["reason"]) for row in ended if row["state"] != "done")

    def choose_repositories(self, named: Sequence[str], dids: Sequence[str]) -> None:
        """Watch the repositories that are named, else those to which these people sent most; their owners are seeds."""
        asked = list(named)
        if not named:
            with self.store.read() as rows:
                sent = rows.rows(SENT_TO, {"dids": list(dids), "most": FEW})
            asked = [row["name"] for row in sent]
        watched = [name for name in asked if self._watch(name)]
        if named and not watched:
            raise LiveProblem(" ".join(self.notes))
        if watched and not named:
            self.notes.append(f"No repository was named: {self._names(watched)} got most of their pull requests.")
        if not watched:
            self.notes.append("No repository is known that could name seeds: name one with --repo OWNER/NAME.")

    def _watch(self, name: str) -> bool:
        """Watch a repository with its owner as the maintainer; False, with a note, where it cannot be found."""
        try:
            (known,) = make_known(self.store, self._sources, [name], self.tell)
            if self._number(known) is None:
                raise watch.UnknownRepository(f"{name[:200]} is not among its owner's repositories: check its name.")
            owner = self._owner(known) or (self._ask_knot(known) if is_did(known) else None)
            if owner is None:
                raise watch.UnknownRepository(f"Nobody is known to own {name[:200]}: name it with --repo OWNER/NAME.")
            watch.add_maintainer(self.store, owner, [known], self.store.wall())
        except watch.UnknownRepository as problem:
            self.notes.append(str(problem))
            return False
        return True

    def _names(self, repositories: Sequence[str]) -> str:
        with self.store.read() as rows:
            numbers = [watch.find_repository(rows, name) for name in repositories]
            found = rows.rows(NAMES, [numbers])
        return ", ".join(f"{row['did']}/{row['name']}" for row in found)

    def _number(self, name: str) -> int | None:
        with self.store.read() as rows:
            return watch.find_repository(rows, name)

    def _owner(self, name: str) -> str | None:
        with self.store.read() as rows:
            return rows.value(OWNER, [watch.find_repository(rows, name)])

    def _ask_knot(self, repo_did: str) -> str | None:
        """The owner of a repository that is known by its DID alone: whoever added its collaborators, says its knot.

        Only where their own record names that DID too: each alone is a claim.
        """
        try:
            knot = read_service(self.fetcher, settings.PLC_URL, repo_did)
            added = collaborators_added_by(self.fetcher, knot, repo_did)[:FEW]
        except FetchProblem as problem:
            self.notes.append(f"The owner of {repo_did} could not be looked up: {problem}.")
            return None
        self._list_others(added, REPOSITORY)
        owner = self._owner(repo_did)
        return owner if owner in added else None

    def list_seeds(self) -> list[str]:
        """Everybody who may push to a watched repository, with their records."""
        fetch_push_holders(self.store, self.fetcher, self.store.wall, self.store.wall)
        with self.store.read() as rows:
            seeds = [row["did"] for row in rows.rows(SEEDS)]
        if seeds:
            self.tell(f"Reading the records of {len(seeds)} accounts with push access: they are the seeds.")
        self._list_others(seeds)
        return seeds

    def read_circle(self, seeds: list[str]) -> None:
        """Read the vouches of whom the seeds vouch for, and of whom those do, as far as trust goes."""
        frontier, seen, left = seeds, set(seeds), CIRCLE
        for _ in range(settings.TRUST_HOPS - 1):
            with self.store.read() as rows:
                reached = [row["did"] for row in rows.rows(VOUCHED, [frontier]) if row["did"] not in seen]
            if len(reached) > left:
                self.notes.append(f"Of the people between the seeds and the contributors only {CIRCLE} were read.")
            frontier = reached[:left]
            left -= len(frontier)
            seen.update(frontier)
            self._list_others(frontier, VOUCH)

    @property
    def _sources(self) -> Sources:
        """Return whom to ask: nobody who would name the accounts of the whole network."""
        return replace(sources(self.fetcher, WallClock()), hosts=())


def _not_read(name: str, reason: str | None) -> Failed:
    why = (reason or "there was no time left for it").rstrip(".")
    return Failed(
        name, f"The records of {name[:200]} could not be read: {why}. Their data server may be down: try later."
    )


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
