"""Fetch advisories on packages from osv.dev.

Off unless the operator turns it on: asking tells a third party which packages a pull request names. Answers are stored
like the records of an import and matched here, so one answer serves every version that its record covers.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

import msgspec

from ingest.clock import DAY, doubled, parse_time, waiting_time
from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.lookups.engine import Wall
from ingest.lookups.osv import ECOSYSTEMS, ID, RECORD_LIMIT, OsvProblem, Record, package_url, read_record, write_records
from ingest.store.database import Store

OSV = "https://api.osv.dev/v1"
BATCH = 500  # packages of one request; OSV takes 1,000
PAGES = 5  # of one request; OSV gives a page of some 1,000 advisories
RECORDS = 300  # fetched at once at most: the rest is due again
ANSWER_LIMIT = 8_000_000  # bytes of an answer that names advisories


@dataclass(frozen=True, slots=True)
class Wanted:
    """A package to ask about. `ecosystem` is spelled as in OSV, `name` as the registry lists it.

    `version` is "" where only the package is asked about.
    """

    ecosystem: str
    name: str
    version: str

    @property
    def subject(self) -> str:
        return package_url(self.ecosystem, self.name, self.version or None)

    def query(self) -> dict[str, Any]:
        return {"package": {"ecosystem": self.ecosystem, "name": self.name}, "version": self.version}


def packages_by_url(packages: Iterable[Wanted], ecosystems: Container[str]) -> dict[str, Wanted]:
    """Map package URLs to the packages of these ecosystems; a name that no package can have is left out."""
    by_url = {}
    for package in packages:
        if package.ecosystem in ecosystems:
            with suppress(ValueError):
                by_url[package.subject] = package
    return by_url


class _Named(msgspec.Struct):
    id: str
    modified: str = ""


class _Result(msgspec.Struct):
    vulns: list[_Named] | None = None
    next_page_token: str = ""


class _Answer(msgspec.Struct):
    results: list[_Result]


def fetch_advisories(store: Store, fetcher: Fetcher, packages: Sequence[Wanted], wall: Wall) -> int:
    """Ask osv.dev about packages that were not asked about within a day; return how many were.

    Answers land in the tables of ingest/store/schema/6_advisories.sql. A failure is noted in `fetches` and tried again
    as in other look-ups.
    """
    due = _due_packages(store, packages, wall())
    for begin in range(0, len(due), BATCH):
        batch = due[begin : begin + BATCH]
        try:
            modified_at_by_id = _ask_advisory_ids(fetcher, batch)
            records, is_whole = _fetch_new_records(store, fetcher, modified_at_by_id)
        except FetchProblem as problem:
            if not problem.closed:
                _note_failure(store, batch, problem, wall())
            return begin
        _store_records(store, batch, records, is_whole, wall())
    return len(due)


def _due_packages(store: Store, packages: Sequence[Wanted], now: datetime) -> list[Wanted]:
    by_subject = packages_by_url([package for package in packages if package.version], ECOSYSTEMS)
    sql = "select subject from fetches where kind = 'advisories' and due_clock > ? and subject in (select unnest(?))"
    with store.read() as rows:
        recent = {row["subject"] for row in rows.rows(sql, [now, list(by_subject)])}
    return [package for subject, package in by_subject.items() if subject not in recent]


def _ask_advisory_ids(fetcher: Fetcher, batch: Sequence[Wanted]) -> dict[str, datetime | None]:
    modified_at_by_id: dict[str, datetime | None] = {}
    queries = [named_advisory.query() for named_advisory in batch]
    for _ in range(PAGES):
        sent = msgspec.json.encode({"queries": queries})
        answer = fetcher.get_json(f"{OSV}/querybatch", _Answer, ANSWER_LIMIT, sent=sent)
        if len(answer.results) != len(queries):
            raise FetchProblem(f"osv.dev answered {len(answer.results)} of {len(queries)} questions")
        for result in answer.results:
            modified_at_by_id |= {
                named_advisory.id: parse_time(named_advisory.modified)
                for named_advisory in result.vulns or ()
                if ID.fullmatch(named_advisory.id)
            }
        pairs = zip(queries, answer.results, strict=True)
        queries = [query | {"page_token": result.next_page_token} for query, result in pairs if result.next_page_token]
        if not queries:
            return modified_at_by_id
    raise FetchProblem(f"osv.dev gave more than {PAGES} pages")


def _fetch_new_records(
    store: Store, fetcher: Fetcher, modified_at_by_id: Mapping[str, datetime | None]
) -> tuple[list[Record], bool]:
    """Return the records that are missing here or outdated, and True if all of them were fetched."""
    sql = "select advisory_id, modified_at from advisories where advisory_id in (select unnest(?))"
    with store.read() as rows:
        stored = {row["advisory_id"]: row["modified_at"] for row in rows.rows(sql, [list(modified_at_by_id)])}
    outdated = [
        name for name, moment in modified_at_by_id.items() if name not in stored or (moment and moment != stored[name])
    ]
    records = [record for name in outdated[:RECORDS] if (record := _fetch_record(fetcher, name)) is not None]
    return records, len(outdated) <= RECORDS


def _fetch_record(fetcher: Fetcher, advisory_id: str) -> Record | None:
    """Return one record, or None if it does not exist (any more) or is not a valid record."""
    try:
        data = fetcher.get(f"{OSV}/vulns/{quote(advisory_id, safe='')}", RECORD_LIMIT)
        record = read_record(data)
    except OsvProblem:
        return None
    except FetchProblem as problem:
        if problem.absent or problem.too_large:
            return None
        raise
    return record if record.advisory_id == advisory_id else None


def _store_records(
    store: Store, batch: Sequence[Wanted], records: Sequence[Record], is_whole: bool, now: datetime
) -> None:
    due = now + (DAY if is_whole else doubled(1))
    with store.write() as txn:
        write_records(txn, records)
        txn.upsert("fetches", [_fetch_row(package, now, "found", None, 0, due) for package in batch])


def _note_failure(store: Store, batch: Sequence[Wanted], problem: FetchProblem, now: datetime) -> None:
    with store.write() as txn:
        sql = "select subject, attempts from fetches where kind = 'advisories' and subject in (select unnest(?))"
        attempts_by_subject = {
            row["subject"]: row["attempts"] for row in txn.rows(sql, [[package.subject for package in batch]])
        }
        rows = []
        for package in batch:
            attempts = attempts_by_subject.get(package.subject, 0) + 1
            due = now + waiting_time(attempts, problem)
            rows.append(_fetch_row(package, now, "failed", str(problem), attempts, due))
        txn.upsert("fetches", rows)


def _fetch_row(
    package: Wanted, now: datetime, outcome: str, reason: str | None, attempts: int, due: datetime
) -> dict[str, object]:
    row = {"kind": "advisories", "subject": package.subject, "outcome": outcome, "reason": reason, "attempts": attempts}
    return {**row, "due_clock": due, "fetched_clock": now}
