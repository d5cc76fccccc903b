"""Which repositories are watched and who maintains them."""

from collections.abc import Sequence
from datetime import datetime

from ingest.records import AT_URI, DID
from ingest.store import Rows, Store


class UnknownRepository(Exception):
    """No repository of that name is known; the message says what to do."""


def watch_everything(store: Store, now: datetime) -> int:
    """Watch every repository whose record was seen, as a recording is all ours; returns how many are new."""
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
    """Number of the repository with this DID, at-uri of its record, or OWNER/NAME (OWNER a DID or verified handle)."""
    if DID.fullmatch(name) or AT_URI.fullmatch(name):
        return rows.value("select repository_id from repository_aliases where alias = ?", [name])
    owner, _, short = name.partition("/")
    return rows.value(
        "select r.repository_id from repositories r join contributors c on c.contributor_id = r.owner_id "
        "where (c.did = ? or (c.handle = ? and c.handle_verified)) and r.name = ? and r.deleted_at is null",
        [owner, owner, short],
    )


def add_maintainer(store: Store, did: str, repositories: Sequence[str], now: datetime) -> list[str]:
    """Make a person maintainer of these repositories (of the site where none is named) and watch them.

    Returns the repositories' keys; raises UnknownRepository, with nothing changed, where one is not known.
    """
    with store.write() as txn:
        numbers = [_known(txn, name) for name in repositories] or [0]
        person = txn.person_ids([did])[did]
        for number in numbers:
            txn.upsert("maintainers", [{"contributor_id": person, "repository_id": number}])
            if number and not txn.value("select count(*) from watched_repositories where repository_id = ?", [number]):
                row = {"repository_id": number, "review": "deterministic", "watched_at": now}
                txn.append("watched_repositories", [row])
        txn.inputs_changed()
        sql = "select repo_key from repositories where repository_id in (select unnest(?)) order by repo_key"
        return [row["repo_key"] for row in txn.rows(sql, [numbers])]


def _known(rows: Rows, name: str) -> int:
    number = find_repository(rows, name)
    if number is None:
        raise UnknownRepository(
            f"{name[:200]} is not known yet: name it as OWNER/NAME, by its DID or by the at-uri of its record, "
            "and let the worker run until that record has arrived."
        )
    return number
