"""Fetch advisories on packages from osv.dev, and the publication time of a version from deps.dev.

Off unless the operator turns it on: asking tells a third party which packages a pull request names. Answers are stored
like the records of an import and matched here, so one answer serves every version that its record covers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import msgspec

from ingest.clock import DAY, doubled, parse_time, waiting_time
from ingest.errors import FetchProblem
from ingest.http.fetcher import Fetcher
from ingest.lookups.engine import Due, Found, Kind, Note, Row, Wall, fetch
from ingest.lookups.osv import ECOSYSTEMS, ID, RECORD_LIMIT, OsvProblem, Record, package_url, read_record, write_records
from ingest.store.database import Store
from ingest.store.transaction import Transaction
from ingest.worker.runtime import Runtime

OSV, DEPS_DEV = "https://api.osv.dev/v1", "https://api.deps.dev/v3"
BATCH = 500  # packages of one request; OSV takes 1,000
PAGES = 5  # of one request; OSV gives a page of some 1,000 advisories
RECORDS = 300  # fetched at once at most: the rest is due again
ANSWER_LIMIT = 8_000_000  # bytes of an answer that names advisories
FACTS_LIMIT = 500_000
MONTH = timedelta(days=30)
_SYSTEMS = {"PyPI": "pypi", "npm": "npm", "crates.io": "cargo", "Go": "go", "RubyGems": "rubygems", "Maven": "maven"}
DUE_PACKAGES = """
select w.*, null::varchar as payer, 0 as rank, null::timestamp as since, coalesce(f.attempts, 0) as attempts
from (select unnest($subjects) as subject, unnest($ecosystems) as ecosystem, unnest($names) as name,
  unnest($versions) as version) w
left join fetches f on f.kind = 'package' and f.subject = w.subject
where f.subject is null or f.due_clock <= $wall
"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A package in a version to ask about. `ecosystem` is spelled as in OSV, `name` as the registry lists it."""

    ecosystem: str
    name: str
    version: str

    @property
    def subject(self) -> str:
        return package_url(self.ecosystem, self.name, self.version)

    def query(self) -> dict[str, Any]:
        return {"package": {"ecosystem": self.ecosystem, "name": self.name}, "version": self.version}


class _Named(msgspec.Struct):
    id: str
    modified: str = ""


class _Result(msgspec.Struct):
    vulns: list[_Named] | None = None
    next_page_token: str = ""


class _Answer(msgspec.Struct):
    results: list[_Result]


class _Facts(msgspec.Struct):
    publishedAt: str = ""  # noqa: N815 - the wire's spelling
    isDeprecated: bool = False  # noqa: N815
    licenses: list[str] | None = None


def learn_of_packages(runtime: Runtime, packages: Sequence[Wanted]) -> int:
    """Ask about these packages if the operator allows it and no recent answer exists; return how many."""
    if not runtime.ask_advisories:
        return 0
    asked_count = fetch_advisories(runtime.store, runtime.fetcher, packages, runtime.store.wall)
    return asked_count + fetch_package_facts(runtime.store, runtime.fetcher, packages, runtime.store.wall)


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
    by_subject = {
        package.subject: package
        for package in packages
        if package.ecosystem in ECOSYSTEMS and package.name and package.version
    }
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


def fetch_package_facts(store: Store, fetcher: Fetcher, packages: Sequence[Wanted], wall: Wall) -> int:
    """Ask deps.dev for the publication time and licences of these versions, once a month; return how many.

    The answers are rows of `signals` under the package URL; a version that the registry does not have is 'absent' in
    `fetches`.
    """
    by_subject = {
        package.subject: package
        for package in packages
        if package.ecosystem in _SYSTEMS and package.name and package.version
    }
    columns = {"subjects": list(by_subject), "ecosystems": [package.ecosystem for package in by_subject.values()]}
    columns |= {
        "names": [package.name for package in by_subject.values()],
        "versions": [package.version for package in by_subject.values()],
    }

    def write(txn: Transaction, results: Sequence[Found[_Facts]]) -> None:
        now = wall()
        answered = [package for package in results if isinstance(package.answer, _Facts)]
        txn.upsert("signals", [row for package in answered for row in _signal_rows(package.row, package.answer, now)])

    kind = Kind(
        "package",
        Due(DUE_PACKAGES, columns),
        lambda row: fetcher.get_json(_facts_url(row), _Facts, FACTS_LIMIT),
        write,
        lambda _: Note(again=MONTH),
    )
    return fetch(store, fetcher, wall, kind) if by_subject else 0


def _facts_url(row: Row) -> str:
    version = f"v{row['version']}" if row["ecosystem"] == "Go" else row["version"]
    parts = (_SYSTEMS[row["ecosystem"]], quote(row["name"], safe=""), quote(version, safe=""))
    return f"{DEPS_DEV}/systems/{parts[0]}/packages/{parts[1]}/versions/{parts[2]}"


def _signal_rows(row: Row, facts: _Facts | FetchProblem, now: datetime) -> Iterator[dict[str, object]]:
    if isinstance(facts, FetchProblem):
        return
    published = parse_time(facts.publishedAt)
    licences = [licence[:100] for licence in (facts.licenses or ())[:20]]
    values = {
        "published_at": published.isoformat() if published else None,
        "deprecated": "true" if facts.isDeprecated else "false",
        "licences": msgspec.json.encode(licences).decode(),
    }
    for key, value in values.items():
        if value is not None:
            columns = {"subject": row["subject"], "source": "deps.dev", "key": key, "value": value}
            times = {"observed_at": now, "known_from": now, "expires_at": now + MONTH}
            yield {**columns, **times, "evidence_uri": _facts_url(row), "declared_by": None}
