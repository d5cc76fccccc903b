"""One OSV record as rows: read from JSON or YAML, bounded and checked. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from ingest.clock import parse_time
from ingest.cvss import base_score
from ingest.decoding import decode_json
from ingest.package_names import ECOSYSTEMS, normalised

RECORD_LIMIT = 4_000_000  # bytes; of 2,661 records of PyPI the largest takes 60 kB
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
    """The rows of one advisory, by table; none at all where it was withdrawn or is about other ecosystems."""

    advisory_id: str
    withdrawn: bool
    advisory: Row | None = None
    aliases: tuple[Row, ...] = ()
    ranges: tuple[Row, ...] = ()
    versions: tuple[Row, ...] = ()


def read_record(data: bytes, is_yaml: bool = False) -> Record:
    """A record as rows, without `learned_clock`. Raises OsvProblem."""
    try:
        told = msgspec.convert(_plain_yaml(data), _Record) if is_yaml else decode_json(data, _Record)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise OsvProblem(f"it is not an OSV record ({str(error)[:TEXT]})") from error
    if ID.fullmatch(told.id) is None:
        raise OsvProblem("its id is none")
    if told.withdrawn:
        return Record(told.id, withdrawn=True)
    affected = [one for one in told.affected or () if one.package and one.package.ecosystem in ECOSYSTEMS]
    if len(affected) > PACKAGES:
        raise OsvProblem(f"it names more than {PACKAGES} packages")
    ranges, versions = tuple(_ranges(told.id, affected)), tuple(_versions(told.id, affected))
    if not ranges and not versions:
        return Record(told.id, withdrawn=False)
    aliases = {alias for alias in (told.aliases or ())[:100] if ID.fullmatch(alias)}
    return Record(
        advisory_id=told.id,
        withdrawn=False,
        advisory={
            "advisory_id": told.id,
            "summary": " ".join((told.summary or told.details).split())[:TEXT],
            "severity": _severity(told, affected),
            "modified_at": parse_time(told.modified),
        },
        aliases=tuple({"advisory_id": told.id, "alias": alias} for alias in sorted(aliases)),
        ranges=ranges,
        versions=versions,
    )


def _plain_yaml(data: bytes) -> object:
    """A YAML document whose scalars are all texts; an alias, which could unfold to gigabytes, is refused."""
    import yaml  # 20 ms, and only records of one database are written in it

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        if b"*" in data and any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(data, Loader=loader)):
            raise OsvProblem("it holds a YAML alias")
        return yaml.load(data, Loader=loader)  # noqa: S506 - BaseLoader makes nothing but texts, lists and mappings
    except yaml.YAMLError as error:
        raise OsvProblem("it is not YAML") from error


def _ranges(advisory_id: str, affected: list[_Affected]) -> Iterator[Row]:
    number = events = 0
    for one in affected:
        for bounds in one.ranges or ():
            if bounds.type not in ("SEMVER", "ECOSYSTEM"):
                continue
            number += 1
            for event, version in _events(bounds):
                events += 1
                if events > EVENTS:
                    raise OsvProblem(f"its ranges have more than {EVENTS} events")
                named = {"range_number": number, "event": event, "version": version}
                yield {"advisory_id": advisory_id, **_package(one), **named}


def _events(bounds: _Range) -> Iterator[tuple[str, str]]:
    for told in bounds.events or ():
        for event in _EVENTS:
            version = told.get(event)
            if isinstance(version, str) and 0 < len(version) <= TEXT:
                yield event, version


def _versions(advisory_id: str, affected: list[_Affected]) -> Iterator[Row]:
    for one in affected:
        if len(one.versions or ()) > VERSIONS:
            raise OsvProblem(f"it names more than {VERSIONS} versions of a package")
        named = [version for version in one.versions or () if 0 < len(version) <= TEXT]
        if named:
            yield {"advisory_id": advisory_id, **_package(one), "versions": named}


def _package(one: _Affected) -> Row:
    package = one.package or _Package()
    if not 0 < len(package.name) <= TEXT:
        raise OsvProblem("it names a package without a name, or with one too long")
    return {"ecosystem": package.ecosystem, "name": normalised(package.ecosystem, package.name)}


def _severity(told: _Record, affected: list[_Affected]) -> str | None:
    """The severity in a word: as the database says it, else of the highest CVSS base score."""
    if told.id.startswith("MAL-"):
        return "malware"
    notes = [told.database_specific]
    vectors = list(told.severity or ())
    for one in affected:
        notes += [one.database_specific, one.ecosystem_specific]
        vectors += one.severity or ()
    said = [str(note.get("severity", "")).lower() for note in notes if note]
    if word := next((_WORDS[word] for word in said if word in _WORDS), None):
        return word
    highest = max((score for one in vectors if (score := base_score(one.score)) is not None), default=None)
    return None if highest is None else next((word for least, word in _GRADES if highest >= least), None)
