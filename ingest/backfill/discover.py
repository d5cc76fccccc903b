"""Discovery: asks hosts that index the whole network which accounts keep our records, collection by collection.

A host is a stranger: it may name millions, repeat itself or fail. Each has a budget of its own, so that none can crowd
out what another names. Method: com.atproto.sync.listReposByCollection.

It also finds the accounts that a maintainer's run lists next: people who may push to what is watched, those whom they
vouch for, and those who offer changes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import quote

import msgspec

from ingest.atproto.syntax import is_did
from ingest.backfill import runs
from ingest.backfill.account import Sources
from ingest.backfill.runs import Run
from ingest.errors import FetchProblem
from ingest.records.derive import derive
from ingest.store.database import Store

PAGE = 1_000
HOST_ACCOUNTS = 100_000  # some ten times what all of Tangled has
HOST_PAGES = 2_000
PAGE_BYTES = 1_000_000
TRIES, LONGEST_WAIT = 5, 60.0

Wait = Callable[[float], bool]  # waits so many seconds; whether it is to stop


class _Repo(msgspec.Struct):
    did: str = ""


class _Repos(msgspec.Struct):
    repos: list[_Repo] | None = None
    cursor: str | None = None


@dataclass(slots=True)
class Census:
    """The accounts that were named, in order, and the failures; `answered` says whether any host told anything."""

    dids: dict[str, None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    answered: bool = False


def find_accounts(sources: Sources, wait: Wait) -> Census:
    """Ask every host for every collection, and take together what they name."""
    census = Census()
    for host in sources.hosts:
        named: dict[str, None] = {}
        try:
            _ask_host(sources, host, named, wait)
            census.answered = True
        except FetchProblem as problem:
            if problem.closed:
                raise
            census.notes.append(f"{host} named {len(named)} accounts, then: {problem}")
        census.answered = census.answered or bool(named)
        census.dids |= named
    return census


def _ask_host(sources: Sources, host: str, named: dict[str, None], wait: Wait) -> None:
    """Every account that this host names. Raises FetchProblem where it fails for good or goes beyond its budget."""
    pages = HOST_PAGES
    for collection in sources.collections:
        cursors, cursor = {""}, ""
        while pages:
            pages -= 1
            page = _ask_page(sources, _address(host, collection, cursor), wait)
            named.update(dict.fromkeys(repo.did for repo in page.repos or () if is_did(repo.did)))
            if len(named) > HOST_ACCOUNTS:
                for did in list(named)[HOST_ACCOUNTS:]:
                    del named[did]
                raise FetchProblem(f"it names more than {HOST_ACCOUNTS} accounts, and no more were taken")
            cursor = page.cursor or ""
            if cursor in cursors or len(cursor) > PAGE:
                break
            cursors.add(cursor)
    if not pages:
        raise FetchProblem(f"it sent {HOST_PAGES} pages, and no more were asked for")


def _address(host: str, collection: str, cursor: str) -> str:
    address = f"{host}/xrpc/com.atproto.sync.listReposByCollection?collection={collection}&limit={PAGE}"
    return f"{address}&cursor={quote(cursor, safe='')}" if cursor else address


def _ask_page(sources: Sources, address: str, wait: Wait) -> _Repos:
    """One page; what may pass is asked for again, after as long as the host wants or twice as long each time."""
    for attempt in range(1, TRIES + 1):
        try:
            return sources.fetcher.get_json(address, _Repos, PAGE_BYTES)
        except FetchProblem as problem:
            seconds = max(problem.after or 0.0, 2.0**attempt)
            if problem.closed or not problem.retry or attempt == TRIES or seconds > LONGEST_WAIT or wait(seconds):
                raise
    raise AssertionError("the last try returns or raises")


HOPS = 3  # whom the last of these vouches for is reached too, without being asked themselves
ACCOUNTS = 2_000  # of one run: a crowd of fakes fills no more; the whole run reads everybody else
# People by how far they are from those who judge; who only offers comes after them, the newest offer first.
NEXT = """
with recursive circle as (
  select contributor_id, 0 as hops from (
    select contributor_id from maintainers where repository_id = 0
    union select m.contributor_id from maintainers m semi join watched_repositories using (repository_id)
    union select h.contributor_id from push_holders h semi join watched_repositories using (repository_id)
      where h.held_until is null
    union select r.owner_id from repositories r semi join watched_repositories using (repository_id)
  ) where contributor_id > 0
  union
  select v.subject_id, c.hops + 1 from circle c join vouches v on v.voucher_id = c.contributor_id
  where v.kind = 'vouch' and v.superseded_at is null and c.hops < $hops
), wanted as (
  select contributor_id, hops, null::timestamp as offered_at from circle
  union all
  select p.author_id, $hops + 1, max(p.seen_at) from pull_requests p
  semi join watched_repositories using (repository_id) where p.deleted_at is null group by p.author_id
)
select c.did from wanted join contributors c using (contributor_id)
where c.did not in (select did from backfill_accounts where run_id = $run)
group by c.did order by min(hops), max(offered_at) desc, c.did limit $room
"""


def widen(store: Store, run: Run) -> int:
    """Enter into the run whom its answers lead to, within its bounds; returns how many."""
    while derive(store):
        pass
    with store.read() as rows:
        held = rows.value("select count(*) from backfill_accounts where run_id = ?", [run.run_id])
        room = max(ACCOUNTS - held, 0)
        found = [row["did"] for row in rows.rows(NEXT, {"hops": HOPS, "run": run.run_id, "room": room})]
    wanted = store.tombstones.without(found)
    runs.add_accounts(store, run, wanted)
    return len(wanted)
