"""`manage.py demo --live`: read real contributors from their own data servers and judge them once by the usual hops.

Everything happens in this process and in a store of its own: look the handles up, open the stream, list records, use
the repositories' push-holders as seeds, listen, run the hops, read the answer.
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

FEW = 3  # repositories to use if none is named
CIRCLE = 50  # accounts between the seeds and the contributors whose vouches are read too
LOOKUPS = 4  # handles looked up at once
GO_ON = "Check this machine's network, then run this again."

# Other people's repositories to which these people sent pull requests, most pull requests first.
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
# The people whom these people vouch for now.
VOUCHED = """
select distinct s.did from vouches v join contributors g on g.contributor_id = v.voucher_id
join contributors s on s.contributor_id = v.subject_id
where v.kind = 'vouch' and v.superseded_at is null and list_contains(?, g.did) order by s.did
"""
LISTED = "select did, state, reason from backfill_accounts where list_contains(?, did) order by did"

Tell = Callable[[str], None]


class LiveProblem(Exception):
    """Nobody can be judged; the message is a sentence for each requested person with the reason and the remedy."""


def find_account(fetcher: Fetcher, name: str) -> str:
    """Return the DID of a handle, which must name each other, or of a DID that exists. Raises FetchProblem."""
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
    """Return the accounts behind these handles. Raises LiveProblem if there is none."""

    def find_one(name: str) -> str | FetchProblem:
        try:
            return find_account(fetcher, name)
        except FetchProblem as problem:
            return problem

    unique_names = list(dict.fromkeys(names))
    with ThreadPoolExecutor(LOOKUPS, thread_name_prefix="look up") as pool:
        answers = list(zip(unique_names, pool.map(find_one, unique_names), strict=True))
    did_names = {answer: name for name, answer in answers if isinstance(answer, str)}
    failed = tuple(_failed_lookup(name, answer) for name, answer in answers if isinstance(answer, FetchProblem))
    if not did_names:
        raise LiveProblem(_offline_sentence(fetcher) or " ".join(find_one.why for find_one in failed))
    return Found(did_names, failed)


def _offline_sentence(fetcher: Fetcher) -> str:
    """Return a sentence if not even the directory of all accounts has an address, so this machine reaches no server."""
    offline = why_offline(fetcher, settings.PLC_URL)
    again = "connect this machine to the network and run this again; without one, `manage.py demo` plays a simulated"
    return f"{offline}: {again} network." if offline else ""


def _failed_lookup(name: str, problem: FetchProblem) -> Failed:
    remedy = GO_ON if problem.retry else "Check the spelling: a handle is a host name such as ana.tngl.sh."
    return Failed(name, f"{name[:200]} could not be looked up: {problem}. {remedy}")


@dataclass(slots=True)
class Gathering:
    """Fill the event log of one store; `stopping` ends running requests, `notes` names what is missing.

    One group of accounts is listed for `listing_seconds`, so that a dead host does not use up the time of all others.
    After a first failed try an account waits `first_wait` seconds, after each further one four times as long.
    """

    store: Store
    fetcher: Fetcher
    tell: Tell
    listing_seconds: float
    first_wait: float
    notes: list[str] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    _listed: set[tuple[str, tuple[str, ...]]] = field(default_factory=set)  # accounts, each with its collections

    def _list(self, dids: Sequence[str], *collections: str) -> None:
        """Log the records (of these kinds) of accounts that were not listed yet, as `manage.py backfill` does."""
        new_dids = [did for did in dids if not self._is_listed(did, *collections)]
        if not new_dids or self.stopping.is_set():
            return
        self._listed.update((did, collections) for did in new_dids)
        runs.begin(self.store, "by_hand", new_dids, collections)
        time_over = threading.Event()
        timer = threading.Timer(self.listing_seconds, time_over.set)
        timer.start()
        try:
            run = take_turn(self.store, self._sources, time_over, first_wait=self.first_wait)
        finally:
            timer.cancel()
        if run:  # accounts that still wait are not asked again
            runs.end(self.store, run)
        while derive(self.store):
            pass

    def _list_others(self, dids: Sequence[str], *collections: str) -> None:
        """List people who are not judged; note missing ones, since trust may come through them."""
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
        """Return the contributors without any readable record; note those with a missing part."""
        self.tell(f"Reading the records of {', '.join(names.values())} from their data servers.")
        self._list(list(names))
        with self.store.read() as rows:
            accounts = rows.rows(LISTED, [list(names)])
        for row in accounts:
            if row["state"] == "done" and row["reason"]:
                self.notes.append(f"Not all of {names[row['did']]} was read: {row['reason']}.")
        return tuple(_failed_reading(names[row["did"]], row["reason"]) for row in accounts if row["state"] != "done")

    def choose_repositories(self, named: Sequence[str], dids: Sequence[str]) -> None:
        """Watch the named repositories, else those to which these people sent most; their owners are seeds."""
        candidates = list(named)
        if not named:
            with self.store.read() as rows:
                repositories = rows.rows(SENT_TO, {"dids": list(dids), "most": FEW})
            candidates = [row["name"] for row in repositories]
        chosen = [name for name in candidates if self._watch(name)]
        if named and not chosen:
            raise LiveProblem(" ".join(self.notes))
        if chosen and not named:
            self.notes.append(f"No repository was named: {self._names(chosen)} got most of their pull requests.")
        if not chosen:
            self.notes.append("No repository is known that could name seeds: name one with --repo OWNER/NAME.")

    def _watch(self, name: str) -> bool:
        """Watch a repository with its owner as the maintainer; return False, with a note, if it cannot be found."""
        try:
            (known_name,) = make_known(self.store, self._sources, [name], self.tell)
            if self._number(known_name) is None:
                raise watch.UnknownRepository(f"{name[:200]} is not among its owner's repositories: check its name.")
            owner = self._owner(known_name) or (self._ask_knot(known_name) if is_did(known_name) else None)
            if owner is None:
                raise watch.UnknownRepository(f"Nobody is known to own {name[:200]}: name it with --repo OWNER/NAME.")
            watch.add_maintainer(self.store, owner, [known_name], self.store.wall())
        except watch.UnknownRepository as problem:
            self.notes.append(str(problem))
            return False
        return True

    def _names(self, repositories: Sequence[str]) -> str:
        with self.store.read() as rows:
            numbers = [watch.find_repository(rows, name) for name in repositories]
            named_rows = rows.rows(NAMES, [numbers])
        return ", ".join(f"{row['did']}/{row['name']}" for row in named_rows)

    def _number(self, name: str) -> int | None:
        with self.store.read() as rows:
            return watch.find_repository(rows, name)

    def _owner(self, name: str) -> str | None:
        with self.store.read() as rows:
            return rows.value(OWNER, [watch.find_repository(rows, name)])

    def _ask_knot(self, repo_did: str) -> str | None:
        """Return the owner of a repository known only by DID: the knot names the person who added its collaborators.

        Their own record must name that DID too: each of the two alone is only a claim.
        """
        try:
            knot = read_service(self.fetcher, settings.PLC_URL, repo_did)
            adders = collaborators_added_by(self.fetcher, knot, repo_did)[:FEW]
        except FetchProblem as problem:
            self.notes.append(f"The owner of {repo_did} could not be looked up: {problem}.")
            return None
        self._list_others(adders, REPOSITORY)
        owner = self._owner(repo_did)
        return owner if owner in adders else None

    def list_seeds(self) -> list[str]:
        """Return everybody who may push to a watched repository, after listing their records."""
        fetch_push_holders(self.store, self.fetcher, self.store.wall, self.store.wall)
        with self.store.read() as rows:
            seeds = [row["did"] for row in rows.rows(SEEDS)]
        if seeds:
            self.tell(f"Reading the records of {len(seeds)} accounts with push access: they are the seeds.")
        self._list_others(seeds)
        return seeds

    def read_circle(self, seeds: list[str]) -> None:
        """Read the vouches of people whom the seeds vouch for, and of those they vouch for, as far as trust goes."""
        frontier, seen_dids, remaining = seeds, set(seeds), CIRCLE
        for _ in range(settings.TRUST_HOPS - 1):
            with self.store.read() as rows:
                reached = [row["did"] for row in rows.rows(VOUCHED, [frontier]) if row["did"] not in seen_dids]
            if len(reached) > remaining:
                self.notes.append(f"Of the people between the seeds and the contributors only {CIRCLE} were read.")
            frontier = reached[:remaining]
            remaining -= len(frontier)
            seen_dids.update(frontier)
            self._list_others(frontier, VOUCH)

    @property
    def _sources(self) -> Sources:
        """Return the sources without hosts, which would list the accounts of the whole network."""
        return replace(sources(self.fetcher, WallClock()), hosts=())


def _failed_reading(name: str, reason: str | None) -> Failed:
    why = (reason or "there was no time left for it").rstrip(".")
    return Failed(
        name, f"The records of {name[:200]} could not be read: {why}. Their data server may be down: try later."
    )


ROUNDS = 50  # of the hops: each continues the work of the one before
LOOK_SECONDS = 0.1
TRIED_AGAIN = "Retrying until the time is over; --seconds 0 uses the records alone."

Show = Callable[[float, int], None]  # seconds listened so far, events that the stream brought


@dataclass(frozen=True, slots=True)
class Plan:
    """The people to judge and the limits in time.

    `repositories` are named as for `add_maintainer`. `seconds` is the time of listening; `network_seconds` after the
    start no further request is sent, and the records that came are judged. `listing_seconds` after a group of accounts
    was begun (contributors, seeds, people they vouch for) no more of that group are begun. `first_wait` is the wait
    after a first failed try of an account; each further one waits four times as long.
    """

    handles: Sequence[str]
    repositories: Sequence[str] = ()
    seconds: float = 60.0
    network_seconds: float = 300.0
    listing_seconds: float = 30.0
    first_wait: float = 0.5


def judge_live(plan: Plan, tell: Tell, show: Show) -> Answer:
    """Judge these contributors by the present network. Raises LiveProblem if nobody can be judged, StoreProblem.

    `tell` gets a sentence at each step, `show` is called about ten times a second while listening. Everything has ended
    when it returns or raises.
    """
    fetcher = Fetcher(settings.STAND_IN_ORIGIN, settings.FETCH_TIMEOUT_SECONDS)
    try:
        lookup = look_up(fetcher, plan.handles)
        store = open_store()
        try:
            return _Live(
                plan, store, Gathering(store, fetcher, tell, plan.listing_seconds, plan.first_wait), show
            ).judge(lookup)
        finally:
            store.close()
    finally:
        fetcher.close()


@dataclass(slots=True)
class _Live:
    """One run; its results lie in the store."""

    plan: Plan
    store: Store
    gathering: Gathering
    show: Show
    changed: threading.Event = field(default_factory=threading.Event)

    def judge(self, lookup: Found) -> Answer:
        fetcher, notes = self.gathering.fetcher, self.gathering.notes
        runtime.start(make_runtime(self.store, fetcher, WallClock(), changed=lambda hop: self.changed.set()))
        try:
            with self._limit_network_time():
                people, failed, events = self._fill_log(lookup)
                self._run_hops()
            pull = self._review(list(people))
            with self.store.read() as rows:
                return read_answer(rows, people, failed, notes, pull, events)
        except BackfillProblem as problem:
            raise LiveProblem(f"The records could not be read: {problem}. {GO_ON}") from problem
        finally:
            runtime.stop()

    @contextmanager
    def _limit_network_time(self) -> Generator[None]:
        """Send no request once the network's time is over: running ones end within five seconds."""
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

    def _fill_log(self, lookup: Found) -> tuple[dict[str, str], tuple[Failed, ...], int]:
        """Fill the event log; return contributors by DID, those who failed, and the number of stream events."""
        with self._listener() as listener:
            failed = lookup.failed + self.gathering.list_contributors(lookup.names)
            failed_names = {failure.name for failure in failed}
            people = {did: name for did, name in lookup.names.items() if name not in failed_names}
            if not people:
                raise LiveProblem(" ".join(failure.why for failure in failed))
            self.gathering.choose_repositories(self.plan.repositories, list(people))
            self.gathering.read_circle(self.gathering.list_seeds())
            return people, failed, self._listen(listener)

    @contextmanager
    def _listener(self) -> Generator[Listener]:
        """Open the stream from now on before anything is listed, so that nothing is lost between the two."""
        stream = stream_from_settings()
        self.store.bind(stream.source)
        # This run never ends: only a whole network could show that nobody offered a patch earlier, so no landing is
        # proven.
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
        """Listen for the planned time; return how many events the stream brought since it was opened."""
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

    def _run_hops(self) -> None:
        """Run the worker's hops in turn until none has work left, or the rounds are used up."""
        self.gathering.tell("Looking up identities and pull requests, then judging.")
        hops = (asking.derive_events, asking.ask_network, asking.follow_mirrors, judging.score_everyone)
        for _ in range(ROUNDS):
            self.changed.clear()
            for hop in hops:
                hop.call_local()
            if not self.changed.is_set():
                return

    def _review(self, dids: Sequence[str]) -> str | None:
        """Have every change read, one of them by Claude if a key is set; return that one, or None if there is none."""
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
    """Return a reviewer like `reviewing` that lets a model read only this pull request; scanners read the others."""

    def review(case: Case, call: Call, unfinished: tuple[str, ...], pull_uri: str) -> Review:
        allowed_call = call if pull_uri == uri or call is Call.NOBODY else Call.DETERMINISTIC
        return reviewing.review(case, allowed_call, unfinished, pull_uri)

    return replace(reviewing, review=review)
