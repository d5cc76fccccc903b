"""Look up packages that a pull request adds: when they were published, and how often they are downloaded.

deps.dev gives the times (https://docs.deps.dev/api/v3), npm and crates.io the downloads; PyPI publishes no counts. Off
unless the operator turns it on: asking tells these hosts which packages a pull request adds. The answers are rows of
`signals` under the package URL, with the version where they are about one.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated
from urllib.parse import quote

import msgspec

from ingest.clock import SLACK, parse_time
from ingest.errors import FetchProblem
from ingest.http.fetcher import USER_AGENT, Fetcher
from ingest.http.sockets import Order, quoted
from ingest.lookups.advisories import Wanted, packages_by_url
from ingest.lookups.engine import Due, Found, Kind, Note, Row, Wall, fetch
from ingest.lookups.osv import normalised
from ingest.store.database import Store
from ingest.store.transaction import Transaction

DEPS_DEV = "https://api.deps.dev/v3"
NPM = "https://api.npmjs.org/downloads/point/last-week"  # github.com/npm/registry, docs/download-counts.md
CRATES = "https://crates.io/api/v1/crates"
WEEK, MONTH = timedelta(days=7), timedelta(days=30)
FACTS_LIMIT = 500_000  # bytes of an answer about one version
PACKAGE_LIMIT = 900_000  # bytes; a version takes some 150, so this is 6,000 of them
COUNT_LIMIT = 100_000  # bytes
OLDEST = datetime(1995, 1, 1)  # no registry is older
_SYSTEMS = {"PyPI": "pypi", "npm": "npm", "crates.io": "cargo", "Go": "go", "RubyGems": "rubygems", "Maven": "maven"}
DUE_PACKAGES = """
select w.*, null::varchar as payer, 0 as rank, null::timestamp as since, coalesce(f.attempts, 0) as attempts
from (select unnest($subjects) as subject, unnest($ecosystems) as ecosystem, unnest($names) as name,
  unnest($versions) as version) w
left join fetches f on f.kind = $kind and f.subject = w.subject
where f.subject is null or f.due_clock <= $wall
"""
Count = Annotated[int, msgspec.Meta(ge=0, le=10**12)]


@dataclass(frozen=True, slots=True)
class Facts:
    """The part of one answer that is stored: values by key, their source and the address that shows them."""

    source: str
    address: str
    values: Mapping[str, str]


class _Version(msgspec.Struct):
    publishedAt: str = ""  # noqa: N815 - the wire's spelling
    isDeprecated: bool = False  # noqa: N815
    licenses: list[str] | None = None


class _Package(msgspec.Struct):
    versions: list[_Version]


class _NpmPoint(msgspec.Struct):
    downloads: Count
    package: str


class _Crate(msgspec.Struct):
    name: str
    recent_downloads: Count | None = None  # of 90 days


class _CrateAnswer(msgspec.Struct):
    crate: _Crate


def fetch_versions(store: Store, fetcher: Fetcher, packages: Sequence[Wanted], wall: Wall) -> int:
    """Ask deps.dev for the publication time and licences of these versions, once a month; return how many.

    A version that the registry does not have is 'absent' in `fetches`.
    """
    now = wall()

    def ask(row: Row) -> Facts:
        version = f"v{row['version']}" if row["ecosystem"] == "Go" else row["version"]
        address = f"{_package_address(row)}/versions/{quote(version, safe='')}"
        answer = fetcher.get_json(address, _Version, FACTS_LIMIT)
        published_at = _publication_time(answer.publishedAt, now)
        values = {"published_at": published_at.isoformat()} if published_at else {}
        values["deprecated"] = "true" if answer.isDeprecated else "false"
        licences = [licence[:100] for licence in (answer.licenses or ())[:20]]
        return Facts("deps.dev", address, values | {"licences": msgspec.json.encode(licences).decode()})

    by_url = packages_by_url([package for package in packages if package.version], _SYSTEMS)
    return fetch(store, fetcher, wall, _kind("package", by_url, ask, MONTH, wall)) if by_url else 0


def fetch_first_publications(store: Store, fetcher: Fetcher, packages: Sequence[Wanted], wall: Wall) -> int:
    """Ask deps.dev when the first version of each package was published, once a week; return how many."""
    now = wall()

    def ask(row: Row) -> Facts:
        address = _package_address(row)
        answer = fetcher.get_json(address, _Package, PACKAGE_LIMIT)
        times = [time for version in answer.versions if (time := _publication_time(version.publishedAt, now))]
        return Facts("deps.dev", address, {"first_published_at": min(times).isoformat()} if times else {})

    by_url = _without_versions(packages, _SYSTEMS)
    return fetch(store, fetcher, wall, _kind("package_history", by_url, ask, WEEK, wall)) if by_url else 0


def fetch_downloads(store: Store, fetcher: Fetcher, packages: Sequence[Wanted], wall: Wall, contact: str) -> int:
    """Ask npm and crates.io how often these packages are downloaded, once a week; return how many.

    crates.io is asked only with a contact of the operator's, which its policy wants: https://crates.io/data-access.
    """
    order = Order(agent=f"{USER_AGENT} {contact}")

    def ask(row: Row) -> Facts:
        name = quote(row["name"], safe="")
        if row["ecosystem"] == "npm":
            address = f"{NPM}/{name}"
            point = fetcher.get_json(address, _NpmPoint, COUNT_LIMIT)
            answered_name, values = point.package, {"downloads_7_days": str(point.downloads)}
        else:
            address = f"{CRATES}/{name}?include=downloads"
            crate = fetcher.get_json(address, _CrateAnswer, COUNT_LIMIT, sent=order).crate
            answered_name, count = normalised("crates.io", crate.name), crate.recent_downloads
            values = {} if count is None else {"downloads_90_days": str(count)}
        if answered_name != row["name"]:
            raise FetchProblem(f"{row['ecosystem']} answered about another package: {quoted(answered_name)}")
        return Facts(row["ecosystem"], address, values)

    by_url = _without_versions(packages, ("npm", "crates.io") if contact else ("npm",))
    return fetch(store, fetcher, wall, _kind("downloads", by_url, ask, WEEK, wall)) if by_url else 0


def _without_versions(packages: Sequence[Wanted], ecosystems: Container[str]) -> dict[str, Wanted]:
    return packages_by_url([replace(package, version="") for package in packages], ecosystems)


def _package_address(row: Row) -> str:
    return f"{DEPS_DEV}/systems/{_SYSTEMS[row['ecosystem']]}/packages/{quote(row['name'], safe='')}"


def _kind(
    name: str, packages: Mapping[str, Wanted], ask: Callable[[Row], Facts], again: timedelta, wall: Wall
) -> Kind[Facts]:
    """Return the look-up of these packages by their URL, whose answers become rows of `signals`."""
    columns: dict[str, object] = {"kind": name, "subjects": list(packages)}
    for part in ("ecosystem", "name", "version"):
        columns[f"{part}s"] = [getattr(package, part) for package in packages.values()]

    def write(txn: Transaction, results: Sequence[Found[Facts]]) -> None:
        now = wall()
        rows = [row for result in results for row in _signal_rows(result.row["subject"], result.answer)]
        txn.upsert(
            "signals", [row | {"known_from": now, "observed_at": now, "expires_at": now + again} for row in rows]
        )

    return Kind(name, Due(DUE_PACKAGES, columns), ask, write, lambda _: Note(again=again))


def _signal_rows(subject: str, facts: Facts | FetchProblem) -> Iterator[dict[str, object]]:
    if isinstance(facts, FetchProblem):
        return
    for key, value in facts.values.items():
        columns = {"subject": subject, "source": facts.source, "key": key, "value": value}
        yield {**columns, "evidence_uri": facts.address, "declared_by": None}


def _publication_time(text: str, now: datetime) -> datetime | None:
    """Return the time, None if none is given. Raises FetchProblem for a text that cannot be one."""
    moment = parse_time(text) if text else None
    if text and (moment is None or not OLDEST <= moment <= now + SLACK):
        raise FetchProblem(f"api.deps.dev gave a publication time that cannot be: {quoted(text)}")
    return moment
