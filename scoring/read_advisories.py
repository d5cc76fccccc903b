"""Which known advisories a package in a version falls under, read from the store's tables or a snapshot's."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ingest.package_names import normalised
from ingest.transaction import Rows
from scoring.content.submission import Advisory
from scoring.packages.entry import Package
from scoring.packages.matching import Event, is_affected

PAGE = "https://osv.dev/vulnerability/"  # an id is checked before it is stored (ingest/osv.py)
ASKED = 5_000  # packages at once; a lock file of more is answered in parts
_WANTED = "(select distinct unnest(?::varchar[]) as ecosystem, unnest(?::varchar[]) as name)"
RANGES = f"""
select ecosystem, name, advisory_id, range_number, event, version
from advisory_ranges join {_WANTED} using (ecosystem, name)
"""
VERSIONS = f"""
select ecosystem, name, advisory_id, versions from advisory_versions join {_WANTED} using (ecosystem, name)
"""
ADVISORIES = """
select a.advisory_id, summary, severity, list(alias order by alias) filter (alias is not null) as aliases
from advisories a left join advisory_aliases using (advisory_id)
where a.advisory_id in (select unnest(?::varchar[])) group by all order by a.advisory_id
"""
_WEIGHTS = {"malware": 5, "critical": 4, "high": 3, "moderate": 2, "low": 1, None: 0}
Key = tuple[str, str]  # ecosystem and name


def advisories_in(rows: Rows) -> Callable[[Sequence[Package]], list[tuple[Advisory, ...]]]:
    """`find_advisories` on these rows, as Knowledge.advisories takes it."""
    return lambda packages: find_advisories(rows, packages)


def find_advisories(rows: Rows, packages: Sequence[Package]) -> list[tuple[Advisory, ...]]:
    """The advisories of each package, in the order of `packages`; of several names of one advisory the gravest."""
    parts = (packages[begin : begin + ASKED] for begin in range(0, len(packages), ASKED))
    return [answer for part in parts for answer in _find(rows, part)]


def _find(rows: Rows, packages: Sequence[Package]) -> list[tuple[Advisory, ...]]:
    keys = [(one.ecosystem, normalised(one.ecosystem, one.name)) for one in packages]
    wanted = [[ecosystem for ecosystem, _ in keys], [name for _, name in keys]]
    ranges, versions = _ranges(rows.rows(RANGES, wanted)), _versions(rows.rows(VERSIONS, wanted))
    found = [
        sorted(
            advisory_id
            for advisory_id in ranges[key].keys() | versions[key].keys()
            if is_affected(key[0], one.version, ranges[key].get(advisory_id, ()), versions[key].get(advisory_id, ()))
        )
        for one, key in zip(packages, keys, strict=True)
    ]
    listed = rows.rows(ADVISORIES, [sorted({advisory_id for ids in found for advisory_id in ids})])
    told = {row["advisory_id"]: row for row in listed}
    return [tuple(_distinct([told[advisory_id] for advisory_id in ids if advisory_id in told])) for ids in found]


def _ranges(rows: Iterable[Mapping[str, Any]]) -> dict[Key, dict[str, list[list[Event]]]]:
    """The ranges of each advisory on each package."""
    events: dict[Key, dict[str, dict[int, list[Event]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for row in rows:
        bounds = events[row["ecosystem"], row["name"]][row["advisory_id"]][row["range_number"]]
        bounds.append(Event(row["event"], row["version"]))
    found: dict[Key, dict[str, list[list[Event]]]] = defaultdict(dict)
    for key, advisories in events.items():
        found[key] = {advisory_id: list(numbered.values()) for advisory_id, numbered in advisories.items()}
    return found


def _versions(rows: Iterable[Mapping[str, Any]]) -> dict[Key, dict[str, list[str]]]:
    """The versions that each advisory on each package names."""
    found: dict[Key, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row["ecosystem"], row["name"]][row["advisory_id"]] += row["versions"]
    return found


def _distinct(rows: Sequence[Mapping[str, Any]]) -> list[Advisory]:
    """One of each set of advisories that call each other by name, the gravest first."""
    found: list[Advisory] = []
    named: set[str] = set()
    for row in sorted(rows, key=lambda row: -_WEIGHTS.get(row["severity"], 0)):
        names = {row["advisory_id"], *(row["aliases"] or ())}
        if not names & named:
            identifier = row["advisory_id"]
            found.append(Advisory(identifier, row["summary"], row["severity"], f"{PAGE}{identifier}"))
        named |= names
    return found
