"""List the repositories of one owner and the people who may push to each, so that a person can choose which to watch.

So a maintainer can watch a repository whose record is older than the stream's history.
"""

import time
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ingest.atproto.identity import CONNECT, resolve_handle, why_offline, why_unresolved
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
    """Fetch the records of the repositories that are not known yet; return names under which all are now known.

    `tell` gets a sentence at each step: a directory, a page, a batch of listed records. Raises watch.UnknownRepository,
    in one sentence, if the owner or their server cannot be asked.
    """
    names = []
    for name in repositories:
        with store.read() as rows:
            is_known = watched.is_known(rows, name)
        names.append(name if is_known else _fetch_owner(store, sources, name, tell))
    return names


def _fetch_owner(store: Store, sources: Sources, name: str, tell: Callable[[str], None]) -> str:
    """Log every repository record of the owner; return the name with the owner's DID instead of an unproven handle."""
    tell(f"{name[:200]} is not known here yet: its owner is asked for.")
    try:
        account = Account(_find_owner(sources, name))
    except OwnerProblem as problem:
        raise watched.UnknownRepository(f"{name[:200]} was not added. {problem}") from problem
    try:
        with repository_records(store, sources, account, tell):
            pass
    except FetchProblem as problem:
        why = _explain_failure(sources, account, account.did, problem)
        raise watched.UnknownRepository(f"{name[:200]} was not added. {why}") from problem
    return name if AT_URI.fullmatch(name) else f"{account.did}/{name.partition('/')[2]}"


@contextmanager
def repository_records(
    store: Store, sources: Sources, account: Account, tell: Callable[[str], None]
) -> Generator[list[tuple[str, Entry]]]:
    """Log and derive every repository record of an account; yield the records by key. Their pages go with the block.

    Raises FetchProblem; an account without a data server ends as 'absent', without records.
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
        yield [record for page in pages for record in usable(account.did, REPOSITORY, page)]
    finally:
        staging.close()


def _find_owner(sources: Sources, name: str) -> str:
    """Return the DID of the owner of this name. Raises OwnerProblem if its handle leads to no account."""
    if parts := AT_URI.fullmatch(name):
        return parts[1]
    if is_did(name):
        raise watched.UnknownRepository(f"No record of {name[:200]} has arrived yet: {HOW_TO_NAME}.")
    owner = name.partition("/")[0]
    return _resolve_did(sources, owner.lower())


PAGES, SECONDS = 20, 60.0  # of the list: nobody ticks more than 2,000 repositories
LISTED = 200  # repositories offered
KNOTS_ASKED, KNOTS_SECONDS = 50, 20.0
NOT_ASKED = "not asked: there were too many, or others took too long"
# The repositories described by these records.
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
    """The repositories of this account cannot be listed; the message is one or two sentences with the remedy."""


class _RepositoryValue(msgspec.Struct):
    name: Any = None
    source: Any = None
    repoDid: Any = None  # noqa: N815 - the wire's spelling


@dataclass(frozen=True, slots=True)
class Owned:
    """A repository of the account. `holders` are DIDs, without its owner; `silent` is the reason why they are unknown.

    `record` is the at-uri of its record. It `is_disputed` if somebody else's record named it first.
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
    """An account with its repositories by name; `left_out` names the missing part of the list, `handles` names DIDs."""

    did: str
    host: str
    repositories: tuple[Owned, ...]
    left_out: str
    handles: Mapping[str, str]


def find_owned(store: Store, sources: Sources, name: str, tell: Tell) -> Owner:
    """Return the repositories of a handle or DID, as listed by its data server. Raises OwnerProblem.

    Their records are logged. `tell` gets a sentence at each step. At most LISTED are returned, and the knots of
    KNOTS_ASKED of them are asked who may push.
    """
    account = Account(_resolve_did(sources, name), page_limit=PAGES, seconds_limit=SECONDS)
    try:
        with repository_records(store, sources, account, tell) as listed:
            repository_values = _read_values(account.did, listed)
    except FetchProblem as problem:
        raise OwnerProblem(_explain_failure(sources, account, name, problem)) from problem
    host = _server_host(account)
    if account.state == "absent":
        raise OwnerProblem(f"{name} keeps no records: {account.reason}. Give the account that owns the repositories.")
    if not repository_values:
        missing_part = f" ({account.reason})" if account.reason else ""
        raise OwnerProblem(f"{name} has no repository: its data server {host} lists none{missing_part}.")
    with store.read() as rows:
        repositories = rows.rows(KNOWN, [list(repository_values)])
    repositories.sort(key=lambda row: (_repository_name(row["record"], repository_values).lower(), row["record"]))
    repositories = repositories[:LISTED]
    holders = _ask_knots(sources.fetcher, repositories, tell)
    owned = tuple(_build_owned(row, account.did, repository_values, *holders[row["record"]]) for row in repositories)
    hidden_count = len(repository_values) - len(owned)
    notes = [account.reason or "", f"{hidden_count:,} more are not shown" if hidden_count > 0 else ""]
    return Owner(account.did, host, owned, "; ".join(filter(None, notes)), _verified_handles(store, owned))


def _resolve_did(sources: Sources, name: str) -> str:
    if is_did(name):
        return name
    try:
        return resolve_handle(sources.fetcher, name)
    except FetchProblem as problem:
        raise OwnerProblem(why_unresolved(sources.fetcher, sources.plc_url, name, problem)) from problem


def _explain_failure(sources: Sources, account: Account, name: str, problem: FetchProblem) -> str:
    if account.identity is None:
        if problem.absent:
            return f"{name} is not an account: the directory does not know {account.did}. Check the spelling."
        if offline := why_offline(sources.fetcher, sources.plc_url):
            return f"{offline}, so {name} was not looked up. {CONNECT}."
        return f"{name} could not be looked up in the directory: {problem}. Check the network, then try again."
    host = _server_host(account)
    return f"The data server {host} of {name} did not list its repositories: {problem}. Nothing was changed; try later."


def _server_host(account: Account) -> str:
    """Return the data server of an account, or "" if none is known."""
    pds = account.identity.pds if account.identity else None
    return urlsplit(pds or "").netloc


def _read_values(did: str, listed: Sequence[tuple[str, Entry]]) -> dict[str, _RepositoryValue]:
    return {f"at://{did}/{REPOSITORY}/{rkey}": _decode_value(entry.value) for rkey, entry in listed}


def _decode_value(value: msgspec.Raw) -> _RepositoryValue:
    try:
        return decode_json(value, _RepositoryValue)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return _RepositoryValue()  # the log has it as a dead letter


def _repository_name(record: str, repository_values: Mapping[str, _RepositoryValue]) -> str:
    name, parts = repository_values[record].name, AT_URI.fullmatch(record)
    return (name if isinstance(name, str) and name else parts[3] if parts else record)[:200]


def _build_owned(
    row: Mapping[str, Any],
    did: str,
    repository_values: Mapping[str, _RepositoryValue],
    holders: tuple[str, ...],
    silent: str,
) -> Owned:
    record = row["record"]
    return Owned(
        record=record,
        repo_key=row["repo_key"],
        name=_repository_name(record, repository_values),
        knot=row["knot"] or "",
        is_fork=bool(repository_values[record].source),
        is_watched=row["watched"],
        is_disputed=isinstance(repo_did := repository_values[record].repoDid, str)
        and is_did(repo_did)
        and repo_did != row["repo_key"],
        holders=tuple(holder for holder in holders if holder != did),
        silent=silent,
    )


def _ask_knots(
    fetcher: Fetcher, repositories: Sequence[Mapping[str, Any]], tell: Tell
) -> dict[str, tuple[tuple[str, ...], str]]:
    """Return the people who may push to each, or why they are unknown, within the bounds in number and time."""
    deadline = time.monotonic() + KNOTS_SECONDS
    holders_by_record: dict[str, tuple[tuple[str, ...], str]] = {}
    for place, row in enumerate(repositories):
        if place >= KNOTS_ASKED or time.monotonic() > deadline:
            holders_by_record[row["record"]] = (), NOT_ASKED
            continue
        tell(f"Asking for push access: {place + 1} of {len(repositories)}.")
        holders_by_record[row["record"]] = _ask_knot(fetcher, row)
    return holders_by_record


def _ask_knot(fetcher: Fetcher, row: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
    if not row["knot"]:
        return (), "its record names no knot"
    try:
        return tuple(holder.did for holder in push_holders(fetcher, row["knot"], row["did"])), ""
    except FetchProblem as problem:
        return (), str(problem)


def _verified_handles(store: Store, owned: Sequence[Owned]) -> dict[str, str]:
    """Return the verified handles of everybody who may push, as far as they are known here."""
    dids = sorted({did for repository in owned for did in repository.holders})
    with store.read() as rows:
        return {row["did"]: row["handle"] for row in rows.rows(NAMES, [dids])}
