"""The repositories of one owner, so that a maintainer can watch one whose record is older than the stream keeps."""

import uuid
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from ingest import watch
from ingest.backfill.account import Account, Entry, read_page, usable
from ingest.backfill.commit import log_accounts
from ingest.backfill.sources import Sources
from ingest.backfill.staging import Staging
from ingest.derive import derive
from ingest.dids import is_did
from ingest.identity import resolve_handle
from ingest.net import Fetcher
from ingest.plain_words import FetchProblem
from ingest.reading import AT_URI
from ingest.records import REPOSITORY
from ingest.store import Store

HOW_TO_NAME = "name it as OWNER/NAME or by the at-uri of its record"


def make_known(
    store: Store, sources: Sources, repositories: Sequence[str], tell: Callable[[str], None] = lambda step: None
) -> list[str]:
    """Fetch the records of those of these repositories that are not known yet; the names by which they now are.

    `tell` is called with a sentence at each step: a directory, a page, a batch of what was listed. Raises
    watch.UnknownRepository, in one sentence, where the owner or their server cannot be asked.
    """
    names = []
    for name in repositories:
        with store.read() as rows:
            known = watch.is_known(rows, name)
        names.append(name if known else _fetch_owner(store, sources, name, tell))
    return names


def _fetch_owner(store: Store, sources: Sources, name: str, tell: Callable[[str], None]) -> str:
    """Log every repository record of the owner; the name with the owner's DID, as a handle is not proven here yet."""
    try:
        tell(f"{name[:200]} is not known here yet: its owner is asked for.")
        account = Account(_owner(sources.fetcher, name))
        with repository_records(store, sources, account, tell):
            pass
    except FetchProblem as problem:
        raise watch.UnknownRepository(
            f"{name[:200]} could not be looked up: {problem}. Check the name, then try again."
        ) from problem
    return name if AT_URI.fullmatch(name) else f"{account.did}/{name.partition('/')[2]}"


@contextmanager
def repository_records(
    store: Store, sources: Sources, account: Account, tell: Callable[[str], None]
) -> Generator[list[tuple[str, Entry]]]:
    """Log and derive every repository record of an account; the records by key, and their pages until the block ends.

    Raises FetchProblem; an account that has no data server ends as 'absent', without records.
    """
    staging = Staging(sources.staging_dir / "backfill" / uuid.uuid4().hex)
    try:
        while account.state == "waiting":
            tell(f"The records of {account.did[:200]} are asked for.")
            account.advance(
                replace(sources, collections=(REPOSITORY,)), staging, lambda: tell(f"{account.records} records read.")
            )
        if account.state == "done":
            log_accounts(store, [account])
        while derive(store):
            tell("What was read is taken in.")
        pages = (read_page(page.path.read_bytes()) for page in account.pages)
        yield [found for page in pages for found in usable(account.did, REPOSITORY, page)]
    finally:
        staging.close()


def _owner(fetcher: Fetcher, name: str) -> str:
    """The DID that owns what is named so."""
    if parts := AT_URI.fullmatch(name):
        return parts[1]
    if is_did(name):
        raise watch.UnknownRepository(f"No record of {name[:200]} has arrived yet: {HOW_TO_NAME}.")
    owner = name.partition("/")[0]
    return owner if is_did(owner) else resolve_handle(fetcher, owner.lower())
