"""Advisories on packages, asked of osv.dev, and when a version was published, asked of deps.dev.

Off unless the operator turns it on: asking tells a third party which packages a pull request names. What comes back is
kept as an import's records are and matched here, so an answer serves every version that its record covers.
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
BATCH = 500  # packages of one question; OSV takes 1,000
PAGES = 5  # of one question; OSV gives a page of some 1,000 advisories
RECORDS = 300  # fetched in one go at most: the rest is due again
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
    """A package in a version to be asked about. `ecosystem` as OSV spells it, `name` as the registry files it."""

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
    """Ask about these packages where the operator allows it and no recent answer is there; how many were asked."""
    if not runtime.ask_advisories:
        return 0
    found = fetch_advisories(runtime.store, runtime.fetcher, packages, runtime.store.wall)
    return found + fetch_package_facts(runtime.store, runtime.fetcher, packages, runtime.store.wall)


def fetch_advisories(store: Store, fetcher: Fetcher, packages: Sequence[Wanted], wall: Wall) -> int:
    """Ask osv.dev about packages that were not asked about within a day; how many were.

    What is learned lands in the tables of ingest/store/schema/6_advisories.sql. A failure is noted in `fetches` and
    asked again as other look-ups are.
    """
    due = _due(store, packages, wall())
    for begin in range(0, len(due), BATCH):
        batch = due[begin : begin + BATCH]
        try:
            named = _named_advisories(fetcher, batch)
            records, is_whole = _new_records(store, fetcher, named)
        except FetchProblem as problem:
            if not problem.closed:
                _note_failure(store, batch, problem, wall())
            return begin
        _keep(store, batch, records, is_whole, wall())
    return len(due)


def _due(store: Store, packages: Sequence[Wanted], now: datetime) -> list[Wanted]:
    wanted = {one.subject: one for one in packages if one.ecosystem in ECOSYSTEMS and one.name and one.version}
    sql = "select subject from fetches where kind = 'advisories' and due_clock > ? and subject in (select unnest(?))"
    with store.read() as rows:
        recent = {row["subject"] for row in rows.rows(sql, [now, list(wanted)])}
    return [one for subject, one in wanted.items() if subject not in recent]


def _named_advisories(fetcher: Fetcher, batch: Sequence[Wanted]) -> dict[str, datetime | None]:
    named: dict[str, datetime | None] = {}
    queries = [one.query() for one in batch]
    for _ in range(PAGES):
        sent = msgspec.json.encode({"queries": queries})
        answer = fetcher.get_json(f"{OSV}/querybatch", _Answer, ANSWER_LIMIT, sent=sent)
        if len(answer.results) != len(queries):
            raise FetchProblem(f"osv.dev answered {len(answer.results)} of {len(queries)} questions")
        for result in answer.results:
            named |= {one.id: parse_time(one.modified) for one in result.vulns or () if ID.fullmatch(one.id)}
        pairs = zip(queries, answer.results, strict=True)
        queries = [query | {"page_token": result.next_page_token} for query, result in pairs if result.next_page_token]
        if not queries:
            return named
    raise FetchProblem(f"osv.dev gave more than {PAGES} pages")


def _new_records(store: Store, fetcher: Fetcher, named: Mapping[str, datetime | None]) -> tuple[list[Record], bool]:
    """The records that are not here yet in their newest form, and whether all of them were fetched."""
    sql = "select advisory_id, modified_at from advisories where advisory_id in (select unnest(?))"
    with store.read() as rows:
        held = {row["advisory_id"]: row["modified_at"] for row in rows.rows(sql, [list(named)])}
    news = [name for name, moment in named.items() if name not in held or (moment and moment != held[name])]
    found = [record for name in news[:RECORDS] if (record := _record(fetcher, name)) is not None]
    return found, len(news) <= RECORDS


def _record(fetcher: Fetcher, advisory_id: str) -> Record | None:
    """One record; None where there is none (any more), or what came is none."""
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


def _keep(store: Store, batch: Sequence[Wanted], records: Sequence[Record], is_whole: bool, now: datetime) -> None:
    due = now + (DAY if is_whole else doubled(1))
    with store.write() as txn:
        write_records(txn, records)
        txn.upsert("fetches", [_noted(one, now, "found", None, 0, due) for one in batch])


def _note_failure(store: Store, batch: Sequence[Wanted], problem: FetchProblem, now: datetime) -> None:
    with store.write() as txn:
        sql = "select subject, attempts from fetches where kind = 'advisories' and subject in (select unnest(?))"
        known = {row["subject"]: row["attempts"] for row in txn.rows(sql, [[one.subject for one in batch]])}
        rows = []
        for one in batch:
            attempts = known.get(one.subject, 0) + 1
            due = now + waiting_time(attempts, problem)
            rows.append(_noted(one, now, "failed", str(problem), attempts, due))
        txn.upsert("fetches", rows)


def _noted(
    one: Wanted, now: datetime, outcome: str, reason: str | None, attempts: int, due: datetime
) -> dict[str, object]:
    row = {"kind": "advisories", "subject": one.subject, "outcome": outcome, "reason": reason, "attempts": attempts}
    return {**row, "due_clock": due, "fetched_clock": now}


def fetch_package_facts(store: Store, fetcher: Fetcher, packages: Sequence[Wanted], wall: Wall) -> int:
    """Ask deps.dev when these versions were published and under which licences, each once a month; how many were.

    The answers are rows of `signals` under the package URL; a version that the registry does not have is 'absent' in
    `fetches`.
    """
    wanted = {one.subject: one for one in packages if one.ecosystem in _SYSTEMS and one.name and one.version}
    columns = {"subjects": list(wanted), "ecosystems": [one.ecosystem for one in wanted.values()]}
    columns |= {"names": [one.name for one in wanted.values()], "versions": [one.version for one in wanted.values()]}

    def write(txn: Transaction, found: Sequence[Found[_Facts]]) -> None:
        now = wall()
        told = [one for one in found if isinstance(one.answer, _Facts)]
        txn.upsert("signals", [row for one in told for row in _signals(one.row, one.answer, now)])

    kind = Kind(
        "package",
        Due(DUE_PACKAGES, columns),
        lambda row: fetcher.get_json(_address(row), _Facts, FACTS_LIMIT),
        write,
        lambda _: Note(again=MONTH),
    )
    return fetch(store, fetcher, wall, kind) if wanted else 0


def _address(row: Row) -> str:
    version = f"v{row['version']}" if row["ecosystem"] == "Go" else row["version"]
    place = (_SYSTEMS[row["ecosystem"]], quote(row["name"], safe=""), quote(version, safe=""))
    return f"{DEPS_DEV}/systems/{place[0]}/packages/{place[1]}/versions/{place[2]}"


def _signals(row: Row, facts: _Facts | FetchProblem, now: datetime) -> Iterator[dict[str, object]]:
    if isinstance(facts, FetchProblem):
        return
    published = parse_time(facts.publishedAt)
    licences = [one[:100] for one in (facts.licenses or ())[:20]]
    values = {
        "published_at": published.isoformat() if published else None,
        "deprecated": "true" if facts.isDeprecated else "false",
        "licences": msgspec.json.encode(licences).decode(),
    }
    for key, value in values.items():
        if value is not None:
            named = {"subject": row["subject"], "source": "deps.dev", "key": key, "value": value}
            moments = {"observed_at": now, "known_from": now, "expires_at": now + MONTH}
            yield {**named, **moments, "evidence_uri": _address(row), "declared_by": None}
