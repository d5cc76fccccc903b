"""Read OSV records from a folder or a zip file into the store, each as bounded and checked rows.

A record is JSON or YAML. Reading is pure: reading a record twice gives the same rows.

The base score of a CVSS 3.0 or 3.1 vector is computed as its specification says. Package names are compared as their
registries compare them, and package URLs are built.
"""

import re
import stat
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any

import msgspec

from ingest.clock import parse_time
from ingest.json_decoding import decode_json
from ingest.store.database import Store
from ingest.store.transaction import Transaction

_ATTACK = {
    "AV": {"N": 0.85, "A": 0.62, "L": 0.55, "P": 0.2},
    "AC": {"L": 0.77, "H": 0.44},
    "UI": {"N": 0.85, "R": 0.62},
}
_PRIVILEGES = {"U": {"N": 0.85, "L": 0.62, "H": 0.27}, "C": {"N": 0.85, "L": 0.68, "H": 0.5}}
_IMPACT = {"H": 0.56, "L": 0.22, "N": 0.0}


def base_score(vector: str) -> float | None:
    """Return the base score in [0, 10], or None for a vector of another version or a broken one.

    Specification: https://www.first.org/cvss/v3.1/specification-document §7.1.
    """
    version, *pairs = vector[:200].split("/")
    metrics = dict(pair.split(":", 1) for pair in pairs if ":" in pair)
    if version not in ("CVSS:3.0", "CVSS:3.1"):
        return None
    try:
        scope = metrics["S"]
        exploitability = 8.22 * _PRIVILEGES[scope][metrics["PR"]]
        for name, weights in _ATTACK.items():
            exploitability *= weights[metrics[name]]
        remaining = 1.0
        for name in ("C", "I", "A"):
            remaining *= 1 - _IMPACT[metrics[name]]
    except KeyError:
        return None
    impact_share = 1 - remaining
    impact = 6.42 * impact_share if scope == "U" else 7.52 * (impact_share - 0.029) - 3.25 * (impact_share - 0.02) ** 15
    if impact <= 0:
        return 0.0
    return _round_up(min(impact + exploitability, 10) if scope == "U" else min(1.08 * (impact + exploitability), 10))


def _round_up(score: float) -> float:
    """Round up to one decimal, after rounding to whole numbers: 4.0200000001 for 4.02 must not become 4.1."""
    scaled = round(score * 100_000)
    return scaled / 100_000 if scaled % 10_000 == 0 else (ceil(scaled / 10_000)) / 10


_TYPES = {"PyPI": "pypi", "npm": "npm", "crates.io": "cargo", "Go": "golang", "RubyGems": "gem", "Maven": "maven"}
ECOSYSTEMS = tuple(_TYPES)  # as OSV spells them
_SEPARATORS = re.compile(r"[-_.]+")


@lru_cache(maxsize=4096)
def normalised(ecosystem: str, name: str) -> str:
    """Return the name under which the registry lists a package: two spellings of one package give one name.

    PyPI: PEP 503. crates.io treats - and _ alike. The others keep the spelling: old npm names have capitals.
    """
    name = name.strip()
    if ecosystem == "PyPI":
        return _SEPARATORS.sub("-", name).lower()
    if ecosystem == "crates.io":
        return name.replace("_", "-").lower()
    return name


def package_url(ecosystem: str, name: str, version: str | None = None) -> str:
    """Return pkg:npm/%40scope/name@1.0.0. Raises ValueError for an ecosystem outside ECOSYSTEMS or an invalid name."""
    from packageurl import PackageURL  # 11 ms, and needed by few callers

    if ecosystem not in _TYPES:
        raise ValueError(f"no ecosystem that package URLs are made for here: {ecosystem!r}")
    namespace, _, short_name = name.rpartition(":" if ecosystem == "Maven" else "/")
    return PackageURL(_TYPES[ecosystem], namespace or None, short_name, version).to_string()


RECORD_LIMIT = 4_000_000  # bytes; the largest of 2,661 records of PyPI takes 60 kB
PACKAGES = 2_000  # of one record
EVENTS = 5_000  # of one record
VERSIONS = 20_000  # of one package
TEXT = 300  # characters of a name, a version, a summary
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{1,99}")
_EVENTS = ("introduced", "fixed", "last_affected", "limit")
_WORDS = {"critical": "critical", "high": "high", "moderate": "moderate", "medium": "moderate", "low": "low"}
_GRADES = ((9.0, "critical"), (7.0, "high"), (4.0, "moderate"), (0.1, "low"))
Row = dict[str, Any]


class OsvProblem(Exception):
    """A record that cannot be used; the message says why."""


class _Range(msgspec.Struct):
    type: str = ""
    events: list[dict[str, Any]] | None = None


class _Package(msgspec.Struct):
    ecosystem: str = ""
    name: str = ""


class _Severity(msgspec.Struct):
    type: str = ""
    score: str = ""


class _Affected(msgspec.Struct):
    package: _Package | None = None
    ranges: list[_Range] | None = None
    versions: list[str] | None = None
    severity: list[_Severity] | None = None
    ecosystem_specific: dict[str, Any] | None = None
    database_specific: dict[str, Any] | None = None


class _Record(msgspec.Struct):
    id: str
    modified: str = ""
    withdrawn: str | None = None
    aliases: list[str] | None = None
    summary: str = ""
    details: str = ""
    affected: list[_Affected] | None = None
    severity: list[_Severity] | None = None
    database_specific: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """The rows of one advisory, by table; no rows if it was withdrawn or is about other ecosystems."""

    advisory_id: str
    withdrawn: bool
    advisory: Row | None = None
    aliases: tuple[Row, ...] = ()
    ranges: tuple[Row, ...] = ()
    versions: tuple[Row, ...] = ()


def read_record(data: bytes, is_yaml: bool = False) -> Record:
    """Return a record as rows, without `learned_clock`. Raises OsvProblem."""
    try:
        parsed = msgspec.convert(_plain_yaml(data), _Record) if is_yaml else decode_json(data, _Record)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise OsvProblem(f"it is not an OSV record ({str(error)[:TEXT]})") from error
    if ID.fullmatch(parsed.id) is None:
        raise OsvProblem("its id is none")
    if parsed.withdrawn:
        return Record(parsed.id, withdrawn=True)
    affected = [
        package for package in parsed.affected or () if package.package and package.package.ecosystem in ECOSYSTEMS
    ]
    if len(affected) > PACKAGES:
        raise OsvProblem(f"it names more than {PACKAGES} packages")
    ranges, versions = tuple(_range_rows(parsed.id, affected)), tuple(_version_rows(parsed.id, affected))
    if not ranges and not versions:
        return Record(parsed.id, withdrawn=False)
    aliases = {alias for alias in (parsed.aliases or ())[:100] if ID.fullmatch(alias)}
    return Record(
        advisory_id=parsed.id,
        withdrawn=False,
        advisory={
            "advisory_id": parsed.id,
            "summary": " ".join((parsed.summary or parsed.details).split())[:TEXT],
            "severity": _find_severity(parsed, affected),
            "modified_at": parse_time(parsed.modified),
        },
        aliases=tuple({"advisory_id": parsed.id, "alias": alias} for alias in sorted(aliases)),
        ranges=ranges,
        versions=versions,
    )


def _plain_yaml(data: bytes) -> object:
    """Load a YAML document with texts as its only scalars. Refuse aliases, which could unfold to gigabytes."""
    import yaml  # 20 ms, and only records of one database are written in it

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        if b"*" in data and any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(data, Loader=loader)):
            raise OsvProblem("it holds a YAML alias")
        return yaml.load(data, Loader=loader)  # noqa: S506 - BaseLoader makes nothing but texts, lists and mappings
    except yaml.YAMLError as error:
        raise OsvProblem("it is not YAML") from error


def _range_rows(advisory_id: str, affected: list[_Affected]) -> Iterator[Row]:
    number = events = 0
    for package in affected:
        for bounds in package.ranges or ():
            if bounds.type not in ("SEMVER", "ECOSYSTEM"):
                continue
            number += 1
            for event, version in _range_events(bounds):
                events += 1
                if events > EVENTS:
                    raise OsvProblem(f"its ranges have more than {EVENTS} events")
                range_event = {"range_number": number, "event": event, "version": version}
                yield {"advisory_id": advisory_id, **_package_columns(package), **range_event}


def _range_events(bounds: _Range) -> Iterator[tuple[str, str]]:
    for entry in bounds.events or ():
        for event in _EVENTS:
            version = entry.get(event)
            if isinstance(version, str) and 0 < len(version) <= TEXT:
                yield event, version


def _version_rows(advisory_id: str, affected: list[_Affected]) -> Iterator[Row]:
    for package in affected:
        if len(package.versions or ()) > VERSIONS:
            raise OsvProblem(f"it names more than {VERSIONS} versions of a package")
        versions = [version for version in package.versions or () if 0 < len(version) <= TEXT]
        if versions:
            yield {"advisory_id": advisory_id, **_package_columns(package), "versions": versions}


def _package_columns(affected: _Affected) -> Row:
    package = affected.package or _Package()
    if not 0 < len(package.name) <= TEXT:
        raise OsvProblem("it names a package without a name, or with one too long")
    return {"ecosystem": package.ecosystem, "name": normalised(package.ecosystem, package.name)}


def _find_severity(parsed: _Record, affected: list[_Affected]) -> str | None:
    """Return the severity in a word: from the database, else from the highest CVSS base score."""
    if parsed.id.startswith("MAL-"):
        return "malware"
    notes = [parsed.database_specific]
    vectors = list(parsed.severity or ())
    for package in affected:
        notes += [package.database_specific, package.ecosystem_specific]
        vectors += package.severity or ()
    severities = [str(note.get("severity", "")).lower() for note in notes if note]
    if word := next((_WORDS[word] for word in severities if word in _WORDS), None):
        return word
    highest = max((score for package in vectors if (score := base_score(package.score)) is not None), default=None)
    return None if highest is None else next((word for least, word in _GRADES if highest >= least), None)


BATCH = 500  # records a transaction: the writer's mutex is held for some 100 ms
FILES = 2_000_000  # of a folder or a zip file; all of OSV are some 500,000
TOTAL = 20_000_000_000  # bytes that are unpacked
PROBLEMS = 5  # of these the sentence is kept
CHILDREN = ("advisory_aliases", "advisory_ranges", "advisory_versions")
_RECORD = re.compile(r"\.(?:json|ya?ml)$", re.IGNORECASE)


class ImportProblem(Exception):
    """The source cannot be read as a whole; the message is one sentence that says what to do."""


@dataclass(slots=True)
class Imported:
    kept: int = 0
    withdrawn: int = 0
    others: int = 0  # records of other ecosystems or without versions
    unusable: int = 0
    removed: int = 0  # with `replace`: stored advisories that the source does not name
    problems: list[str] = field(default_factory=list)

    @property
    def read(self) -> int:
        return self.kept + self.withdrawn + self.others + self.unusable

    def note(self, name: str, problem: str) -> None:
        self.unusable += 1
        if len(self.problems) < PROBLEMS:
            self.problems.append(f"{name[-100:]!a}: {problem}")


def import_osv(
    store: Store, source: Path, replace: bool = False, show: Callable[[int], None] = lambda read: None
) -> Imported:
    """Import the OSV records of a folder or zip file. Replace a stored advisory; remove a withdrawn one.

    With `replace`, also remove advisories that the source does not name. `show` gets the number of records read so far.
    Raises ImportProblem; earlier records stay, and a second import continues.
    """
    imported, named_ids = Imported(), set[str]()
    records = _read_records(source, imported)
    while batch := list(islice(records, BATCH)):
        with store.write() as txn:
            write_records(txn, batch)
        named_ids.update(record.advisory_id for record in batch)
        show(imported.read)
    if replace:
        with store.write() as txn:
            stored = {row["advisory_id"] for row in txn.rows("select advisory_id from advisories")}
            removed = sorted(stored - named_ids)
            for table in ("advisories", *CHILDREN):
                txn.execute(f"delete from {table} where advisory_id in (select unnest(?::varchar[]))", [removed])
            imported.removed = len(removed)
    return imported


def write_records(txn: Transaction, records: Iterable[Record]) -> None:
    latest = {record.advisory_id: record for record in records}
    present = [record for record in latest.values() if record.advisory]
    removed = [advisory_id for advisory_id, record in latest.items() if not record.advisory]
    for table in CHILDREN:
        txn.execute(f"delete from {table} where advisory_id in (select unnest(?::varchar[]))", [list(latest)])
    txn.execute("delete from advisories where advisory_id in (select unnest(?::varchar[]))", [removed])
    now = txn.wall()
    txn.upsert("advisories", [{**record.advisory, "learned_clock": now} for record in present if record.advisory])
    txn.append("advisory_aliases", [row for record in present for row in record.aliases])
    txn.append("advisory_ranges", [row for record in present for row in record.ranges])
    txn.append("advisory_versions", [row for record in present for row in record.versions])


def _read_records(source: Path, imported: Imported) -> Iterator[Record]:
    """Yield the usable records of a source, and count them."""
    for name, data in _read_files(source):
        if data is None:
            imported.note(name, f"it is larger than {RECORD_LIMIT} bytes, or broken")
            continue
        try:
            record = read_record(data, is_yaml=not name.lower().endswith(".json"))
        except OsvProblem as problem:
            imported.note(name, str(problem))
            continue
        if record.advisory:
            imported.kept += 1
        elif record.withdrawn:
            imported.withdrawn += 1
        else:
            imported.others += 1
        yield record


def _read_files(source: Path) -> Iterator[tuple[str, bytes | None]]:
    """Yield name and content of each file that may be a record; the content is None if it is too large or broken."""
    try:
        if source.is_dir():
            paths = (path for path in source.rglob("*") if _RECORD.search(path.name))
            yield from _check_totals((path.name, _read_plain_file(path)) for path in paths)
        elif zipfile.is_zipfile(source):
            with zipfile.ZipFile(source) as archive:
                members = (member for member in archive.infolist() if _RECORD.search(member.filename))
                yield from _check_totals((member.filename, _read_member(archive, member)) for member in members)
        else:
            raise ImportProblem(f"{source} is neither a folder nor a zip file: name one with OSV records in it.")
    except (OSError, zipfile.BadZipFile) as error:
        raise ImportProblem(
            f"{source} cannot be read ({error}): name a folder or a zip file of OSV records."
        ) from error


def _check_totals(files: Iterable[tuple[str, bytes | None]]) -> Iterator[tuple[str, bytes | None]]:
    total = 0
    for number, (name, data) in enumerate(files, 1):
        total += len(data or b"")
        if number > FILES or total > TOTAL:
            raise ImportProblem(f"The source holds more than {FILES} files or {TOTAL} bytes: import it in parts.")
        yield name, data


def _read_plain_file(path: Path) -> bytes | None:
    """Return a plain file's content; None for a link, which may lead anywhere, or a pipe, which may never end."""
    if not stat.S_ISREG(path.lstat().st_mode):
        return None
    with path.open("rb") as file:
        data = file.read(RECORD_LIMIT + 1)
    return data if len(data) <= RECORD_LIMIT else None


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes | None:
    """Return a member's content; unpack at most RECORD_LIMIT bytes, whatever its header promises."""
    try:
        with archive.open(member) as file:
            data = file.read(RECORD_LIMIT + 1)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError):
        return None  # broken, encrypted, or packed in an unknown way
    return data if len(data) <= RECORD_LIMIT else None
