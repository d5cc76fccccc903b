"""Lists the repositories of one owner and who may push to each, so that a person can choose which to watch.

A maintainer can thus watch a repository whose record is older than the stream keeps.
"""

import time
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ingest.atproto.identity import resolve_handle, why_unresolved
from ingest.atproto.syntax import is_did
from ingest.backfill.account import Account, Entry, Sources, Staging, read_page, usable
from ingest.backfill.runs import log_accounts
from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.json_decoding import decode_json
from ingest.lookups.forge import push_holders
from ingest.records import watched
from ingest.records.derive import derive
from ingest.records.fields import AT_URI
from ingest.records.registry import REPOSITORY
from ingest.store.database import Store

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
            known = watched.is_known(rows, name)
        names.append(name if known else _fetch_owner(store, sources, name, tell))
    return names


def _fetch_owner(store: Store, sources: Sources, name: str, tell: Callable[[str], None]) -> str:
    """Log every repository record of the owner; the name with the owner's DID, as a handle is not proven here yet."""
    tell(f"{name[:200]} is not known here yet: its owner is asked for.")
    try:
        account = Account(_owner(sources, name))
    except OwnerProblem as problem:
        raise watched.UnknownRepository(f"{name[:200]} was not added. {problem}") from problem
    try:
        with repository_records(store, sources, account, tell):
            pass
    except FetchProblem as problem:
        why = _why_not(account, account.did, problem)
        raise watched.UnknownRepository(f"{name[:200]} was not added. {why}") from problem
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


def _owner(sources: Sources, name: str) -> str:
    """The DID that owns what is named so. Raises OwnerProblem where its handle leads to none."""
    if parts := AT_URI.fullmatch(name):
        return parts[1]
    if is_did(name):
        raise watched.UnknownRepository(f"No record of {name[:200]} has arrived yet: {HOW_TO_NAME}.")
    owner = name.partition("/")[0]
    return _did(sources, owner.lower())


PAGES, SECONDS = 20, 60.0  # of the list: 2,000 repositories are more than anybody ticks
LISTED = 200  # repositories that are offered
KNOTS_ASKED, KNOTS_SECONDS = 50, 20.0
NOT_ASKED = "not asked: there were too many, or others took too long"
# The repositories that these records describe.
KNOWN = """
select a.alias as record, r.repo_key, r.knot,
  coalesce((select min(d.alias) from repository_aliases d
    where d.repository_id = r.repository_id and d.alias like 'did:%'), r.repo_key) as did,
  exists (from watched_repositories w where w.repository_id = r.repository_id) as watched
from repository_aliases a join repositories r using (repository_id)
where a.alias in (select unnest(?)) and r.deleted_at is null
"""
NAMES = "select did, handle from contributors where handle_verified and did in (select unnest(?))"
Tell = Callable[[str], None]


class OwnerProblem(ValueError):
    """An account whose repositories cannot be listed; the message is one or two sentences that say what to do."""


class _Said(msgspec.Struct):
    name: Any = None
    source: Any = None
    repoDid: Any = None  # noqa: N815 - the wire's spelling


@dataclass(frozen=True, slots=True)
class Owned:
    """A repository of the account. `holders` are DIDs, without its owner; `silent` says why they are not known.

    `record` is the at-uri of its record. One `is_disputed` that somebody else's record named first.
    """

    record: str
    repo_key: str
    name: str
    knot: str
    is_fork: bool
    is_watched: bool
    is_disputed: bool
    holders: tuple[str, ...]
    silent: str


@dataclass(frozen=True, slots=True)
class Owner:
    """An account with its repositories by name; `left_out` says what of the list is missing, `handles` names DIDs."""

    did: str
    host: str
    repositories: tuple[Owned, ...]
    left_out: str
    handles: Mapping[str, str]


def find_owned(store: Store, sources: Sources, who: str, tell: Tell) -> Owner:
    """The repositories of a handle or DID, as its data server lists them. Raises OwnerProblem.

    Their records are logged. `tell` is called with a sentence at each step. At most LISTED are told, and the knots of
    KNOTS_ASKED of them are asked who may push.
    """
    account = Account(_did(sources, who), page_limit=PAGES, seconds_limit=SECONDS)
    try:
        with repository_records(store, sources, account, tell) as listed:
            said = _said(account.did, listed)
    except FetchProblem as problem:
        raise OwnerProblem(_why_not(account, who, problem)) from problem
    host = _host(account)
    if account.state == "absent":
        raise OwnerProblem(f"{who} keeps no records: {account.reason}. Give the account that owns the repositories.")
    if not said:
        missing = f" ({account.reason})" if account.reason else ""
        raise OwnerProblem(f"{who} has no repository: its data server {host} lists none{missing}.")
    with store.read() as rows:
        known = rows.rows(KNOWN, [list(said)])
    known.sort(key=lambda row: (_name(row["record"], said).lower(), row["record"]))
    known = known[:LISTED]
    holders = _ask_knots(sources.fetcher, known, tell)
    owned = tuple(_one(row, account.did, said, *holders[row["record"]]) for row in known)
    more = len(said) - len(owned)
    notes = [account.reason or "", f"{more:,} more are not shown" if more > 0 else ""]
    return Owner(account.did, host, owned, "; ".join(filter(None, notes)), _handles(store, owned))


def _did(sources: Sources, who: str) -> str:
    if is_did(who):
        return who
    try:
        return resolve_handle(sources.fetcher, who)
    except FetchProblem as problem:
        raise OwnerProblem(why_unresolved(sources.fetcher, sources.plc_url, who, problem)) from problem


def _why_not(account: Account, who: str, problem: FetchProblem) -> str:
    if account.identity is None:
        if problem.absent:
            return f"{who} is not an account: the directory does not know {account.did}. Check the spelling."
        return f"{who} could not be looked up in the directory: {problem}. Check the network, then try again."
    host = _host(account)
    return f"The data server {host} of {who} did not list its repositories: {problem}. Nothing was changed; try later."


def _host(account: Account) -> str:
    """The data server of an account, "" where none is known."""
    pds = account.identity.pds if account.identity else None
    return urlsplit(pds or "").netloc


def _said(did: str, listed: Sequence[tuple[str, Entry]]) -> dict[str, _Said]:
    return {f"at://{did}/{REPOSITORY}/{rkey}": _read(entry.value) for rkey, entry in listed}


def _read(value: msgspec.Raw) -> _Said:
    try:
        return decode_json(value, _Said)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return _Said()  # the log has it as a dead letter


def _name(record: str, said: Mapping[str, _Said]) -> str:
    name, parts = said[record].name, AT_URI.fullmatch(record)
    return (name if isinstance(name, str) and name else parts[3] if parts else record)[:200]


def _one(row: Mapping[str, Any], did: str, said: Mapping[str, _Said], holders: tuple[str, ...], silent: str) -> Owned:
    record = row["record"]
    return Owned(
        record=record,
        repo_key=row["repo_key"],
        name=_name(record, said),
        knot=row["knot"] or "",
        is_fork=bool(said[record].source),
        is_watched=row["watched"],
        is_disputed=isinstance(named := said[record].repoDid, str) and is_did(named) and named != row["repo_key"],
        holders=tuple(holder for holder in holders if holder != did),
        silent=silent,
    )


def _ask_knots(
    fetcher: Fetcher, known: Sequence[Mapping[str, Any]], tell: Tell
) -> dict[str, tuple[tuple[str, ...], str]]:
    """Return who may push to each, or why that is not known; within the bounds in number and time."""
    ends = time.monotonic() + KNOTS_SECONDS
    found: dict[str, tuple[tuple[str, ...], str]] = {}
    for place, row in enumerate(known):
        if place >= KNOTS_ASKED or time.monotonic() > ends:
            found[row["record"]] = (), NOT_ASKED
            continue
        tell(f"Asking for push access: {place + 1} of {len(known)}.")
        found[row["record"]] = _ask_knot(fetcher, row)
    return found


def _ask_knot(fetcher: Fetcher, row: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
    if not row["knot"]:
        return (), "its record names no knot"
    try:
        return tuple(holder.did for holder in push_holders(fetcher, row["knot"], row["did"])), ""
    except FetchProblem as problem:
        return (), str(problem)


def _handles(store: Store, owned: Sequence[Owned]) -> dict[str, str]:
    """The verified handles of everybody who may push, as far as they are known here."""
    dids = sorted({did for one in owned for did in one.holders})
    with store.read() as rows:
        return {row["did"]: row["handle"] for row in rows.rows(NAMES, [dids])}
