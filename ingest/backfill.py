"""Records that the stream has not brought: read from the person's own data server into the event log.

For now the repositories of one owner, so that a maintainer can watch one whose record is older than the stream keeps
(36 hours). Such rows have source 'backfill', no rev, and are seen when they were fetched.
"""

from collections.abc import Sequence

from ingest import watch
from ingest.clock import Clock
from ingest.derive import derive
from ingest.forge import list_records
from ingest.identity import is_did, resolve, resolve_handle
from ingest.load import load_records
from ingest.net import Fetcher, FetchProblem
from ingest.records import AT_URI, REPOSITORY
from ingest.store import Store

HOW_TO_NAME = "name it as OWNER/NAME or by the at-uri of its record"


def make_known(store: Store, fetcher: Fetcher, plc_url: str, clock: Clock, repositories: Sequence[str]) -> list[str]:
    """Fetch the records of those of these repositories that are not known yet; the names by which they now are.

    Raises watch.UnknownRepository, in one sentence, where the owner or their server cannot be asked.
    """
    names = []
    for name in repositories:
        with store.read() as rows:
            known = watch.is_known(rows, name)
        names.append(name if known else _fetch_owner(store, fetcher, plc_url, clock, name))
    return names


def _fetch_owner(store: Store, fetcher: Fetcher, plc_url: str, clock: Clock, name: str) -> str:
    """Log every repository record of the owner; the name with the owner's DID, as a handle is not proven here yet."""
    try:
        owner = _owner(fetcher, name)
        pds = resolve(fetcher, plc_url, owner).pds
        records = list(list_records(fetcher, pds, owner, REPOSITORY)) if pds else []
    except FetchProblem as problem:
        raise watch.UnknownRepository(
            f"{name[:200]} could not be looked up: {problem}. Check the name, then try again."
        ) from problem
    load_records(store, records, clock.now())
    while derive(store):
        pass
    return name if AT_URI.fullmatch(name) else f"{owner}/{name.partition('/')[2]}"


def _owner(fetcher: Fetcher, name: str) -> str:
    """The DID that owns what is named so."""
    if parts := AT_URI.fullmatch(name):
        return parts[1]
    if is_did(name):
        raise watch.UnknownRepository(f"No record of {name[:200]} has arrived yet: {HOW_TO_NAME}.")
    owner = name.partition("/")[0]
    return owner if is_did(owner) else resolve_handle(fetcher, owner.lower())
