"""The watched repositories and their maintainers."""

from collections.abc import Sequence
from datetime import datetime

from ingest.records.fields import AT_URI, DID
from ingest.records.registry import REPOSITORY
from ingest.records.repositories import Repositories, logged_record, standing_records
from ingest.store.database import Store
from ingest.store.transaction import Rows, Transaction

REVIEWS = ("off", "deterministic", "claude")  # reviewer of changes: nobody, the scanners' verdict, Claude


class UnknownRepository(ValueError):
    """No repository of that name is known; the message gives the remedy."""


def watch_everything(store: Store, now: datetime) -> int:
    """Watch every repository whose record was seen, for recordings; return how many are new."""
    with store.write() as txn:
        added = txn.rows(
            "insert into watched_repositories select repository_id, 'deterministic', coalesce(seen_at, ?) "
            "from repositories anti join watched_repositories using (repository_id) where owner_id is not null "
            "returning repository_id",
            [now],
        )
        if added:
            txn.inputs_changed()
    return len(added)


def find_repository(rows: Rows, name: str) -> int | None:
    """Return the number of the repository with this DID, record's at-uri, or OWNER/NAME (DID or verified handle)."""
    if DID.fullmatch(name) or AT_URI.fullmatch(name):
        return rows.value("select repository_id from repository_aliases where alias = ?", [name])
    owner, _, short = name.partition("/")
    return rows.value(
        "select r.repository_id from repositories r join contributors c on c.contributor_id = r.owner_id "
        "where (c.did = ? or (c.handle = ? and c.handle_verified)) and r.name = ? and r.deleted_at is null",
        [owner, owner, short],
    )


def is_known(rows: Rows, name: str) -> bool:
    """Return True if a repository of this name is known and, unless the name is only a DID, its owner's record too."""
    number = find_repository(rows, name)
    if number is None or DID.fullmatch(name):
        return number is not None
    return rows.value("select owner_id from repositories where repository_id = ?", [number]) is not None


def add_maintainer(store: Store, did: str, repositories: Sequence[str], now: datetime) -> list[str]:
    """Make a person maintainer of these repositories (of the site, if none is named) and watch them.

    An owner named by OWNER/NAME or by the at-uri of a record becomes the owner of the DID in that record, even if
    somebody else claimed it before; if two are named for one DID, the last one counts. Returns the repositories' keys.
    Raises UnknownRepository, with nothing changed, if one is not known.
    """
    with store.write() as txn:
        for name in repositories:
            _accept_owner(txn, name)
        numbers = [_require_number(txn, name) for name in repositories] or [0]
        person = txn.person_ids([did])[did]
        for number in numbers:
            txn.upsert("maintainers", [{"contributor_id": person, "repository_id": number}])
            if number:
                _watch(txn, number, now)
        txn.inputs_changed()
        sql = "select repo_key from repositories where repository_id in (select unnest(?)) order by repo_key"
        return [row["repo_key"] for row in txn.rows(sql, [numbers])]


def watch_repository(store: Store, name: str, now: datetime) -> None:
    """Watch a repository named by the operator; repeating is harmless. Raises UnknownRepository."""
    with store.write() as txn:
        number = _require_number(txn, name)
        _accept_owner(txn, name)
        if _watch(txn, number, now):
            txn.inputs_changed()


def records_of(store: Store, keys: Sequence[str]) -> list[str]:
    """Return the at-uris of the records that describe the repositories with these keys and an owner."""
    with store.read() as rows:
        numbers = [_require_number(rows, key) for key in keys]
        return [uri for number in numbers if (uri := _record_uri(rows, number))]


def set_review(store: Store, repositories: Sequence[str], review: str) -> list[str]:
    """Set who reviews changes of these watched repositories from now on; return the repositories' keys.

    `review` is one of REVIEWS. Raises UnknownRepository, with nothing changed, if one is not known or not watched.
    """
    if review not in REVIEWS:
        raise ValueError(f"review is one of {', '.join(REVIEWS)}, not {review!r}")
    with store.write() as txn:
        numbers = [_require_number(txn, name) for name in repositories]
        changed = txn.rows(
            "update watched_repositories set review = ? where repository_id in (select unnest(?)) "
            "returning repository_id",
            [review, numbers],
        )
        missing = set(numbers) - {row["repository_id"] for row in changed}
        if missing:
            name = next(name for name, number in zip(repositories, numbers, strict=True) if number in missing)
            raise UnknownRepository(f"{name[:200]} is not watched: add_maintainer with --repo has it watched.")
        txn.inputs_changed()
        sql = "select repo_key from repositories where repository_id in (select unnest(?)) order by repo_key"
        return [row["repo_key"] for row in txn.rows(sql, [numbers])]


def set_maintainer(store: Store, did: str, repo_key: str, is_maintainer: bool) -> None:
    """Make a person a maintainer of one repository, or of the site (""), or remove that role; repeating is harmless.

    Raises UnknownRepository, with nothing changed, if the repository is not known.
    """
    with store.write() as txn:
        number = _require_number(txn, repo_key) if repo_key else 0
        if is_maintainer:
            row = {"contributor_id": txn.person_ids([did])[did], "repository_id": number}
            changed = txn.append_new("maintainers", [row])
        else:
            changed = txn.value(
                "delete from maintainers where repository_id = ? and contributor_id in "
                "(select contributor_id from contributors where did = ?)",
                [number, did],
            )
        if changed:
            txn.inputs_changed()


def _watch(txn: Transaction, number: int, now: datetime) -> bool:
    """Watch a repository from now on; return False if it was watched already."""
    if txn.value("select count(*) from watched_repositories where repository_id = ?", [number]):
        return False
    txn.append("watched_repositories", [{"repository_id": number, "review": "deterministic", "watched_at": now}])
    return True


def _accept_owner(txn: Transaction, name: str) -> None:
    """Accept the operator's name for a repository as naming its owner; a bare DID names no owner."""
    number = _require_number(txn, name)
    if DID.fullmatch(name):
        return
    uri = name if AT_URI.fullmatch(name) else _record_uri(txn, number)
    logged = logged_record(txn, standing_records(txn, [uri]).get(uri))
    if logged and logged[1].repo_did:
        event, record = logged
        repositories = Repositories(txn, [uri, record.repo_did or ""])
        repositories.outrank(event, record, txn.person_ids([event.did])[event.did])
        repositories.write()


def _record_uri(rows: Rows, number: int) -> str:
    """Return the at-uri of the record that describes a repository with an owner."""
    sql = (
        "select 'at://' || did || ? || rkey from repositories "
        "join contributors on contributor_id = owner_id where repository_id = ?"
    )
    return rows.value(sql, [f"/{REPOSITORY}/", number])


def _require_number(rows: Rows, name: str) -> int:
    number = find_repository(rows, name)
    if number is None:
        raise UnknownRepository(
            f"{name[:200]} is not known yet: name it as OWNER/NAME or by the at-uri of its record, "
            "and let the worker run until that record has arrived."
        )
    return number
