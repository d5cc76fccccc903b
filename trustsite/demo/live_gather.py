"""Reads what `manage.py demo --live` needs from the network: accounts, records, repositories, seeds."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from django.conf import settings

from ingest.atproto.identity import read_service, resolve, resolve_handle, why_offline
from ingest.atproto.syntax import is_did
from ingest.backfill import make_known, runs
from ingest.backfill.account import Sources
from ingest.backfill.turn import take_turn
from ingest.clock import WallClock
from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.lookups import enrich
from ingest.lookups.forge import collaborators_added_by
from ingest.records import watched as watch
from ingest.records.derive import derive
from ingest.records.registry import REPOSITORY, VOUCH
from ingest.store.database import Store
from scoring.formatting import things
from trustsite.demo.live_story import Failed
from trustsite.worker.build import sources

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
        enrich.fetch_push_holders(self.store, self.fetcher, self.store.wall, self.store.wall)
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
