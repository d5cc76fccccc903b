"""SARIF 2.1.0 as other tools write it: only the parts that lead to a line, bounded and checked. Pure.

Fields by the standard of OASIS; what is not named here is skipped. Where a tool leaves `level` out, the rule's default
counts, and `warning` where it has none (SARIF 3.27.10).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from ingest.decoding import decode_json

TEXT_LENGTH = 20_000_000  # characters of one log: more is not read
RUNS = 50
RESULTS = 20_000  # of one log
NAME_LENGTH = 80


class _Lenient(msgspec.Struct, frozen=True, rename="camel"):
    """Unknown fields are skipped."""


class Text(_Lenient, frozen=True):
    text: str = ""


class Configuration(_Lenient, frozen=True):
    level: str = ""


class RuleInfo(_Lenient, frozen=True):
    id: str = ""
    short_description: Text = Text()
    default_configuration: Configuration = Configuration()


class Driver(_Lenient, frozen=True):
    name: str = ""
    rules: list[RuleInfo] = []


class Tool(_Lenient, frozen=True):
    driver: Driver = Driver()


class Artifact(_Lenient, frozen=True):
    uri: str = ""


class Region(_Lenient, frozen=True):
    start_line: int = 0
    end_line: int = 0


class PhysicalLocation(_Lenient, frozen=True):
    artifact_location: Artifact = Artifact()
    region: Region = Region()


class Location(_Lenient, frozen=True):
    physical_location: PhysicalLocation = PhysicalLocation()


class Result(_Lenient, frozen=True):
    rule_id: str = ""
    rule_index: int = -1
    level: str = ""
    kind: str = "fail"
    locations: list[Location] = []
    suppressions: list[msgspec.Raw] = []


class Run(_Lenient, frozen=True):
    tool: Tool = Tool()
    results: list[Result] | None = None


class Log(_Lenient, frozen=True):
    version: str
    runs: list[Run]


@dataclass(frozen=True, slots=True)
class Told:
    """One result of another tool. `level`: error, warning, note or none; lines count from 1, 0 where none is named."""

    tool: str
    rule: str
    level: str
    path: str
    first: int
    last: int


class SarifProblem(ValueError):
    """A log that cannot be used, in one sentence without any of its text."""


def results_of(text: str) -> Iterator[Told]:
    """Yield every result that is a failure and not suppressed. Raises SarifProblem where it is not a 2.1.0 log."""
    if len(text) > TEXT_LENGTH:
        raise SarifProblem(f"a SARIF log is longer than {TEXT_LENGTH:,} characters")
    try:
        log = decode_json(text.encode("utf-8", "replace"), Log)
    except (msgspec.DecodeError, RecursionError) as error:
        raise SarifProblem("a text that was given as SARIF is not a log of that format") from error
    if log.version != "2.1.0":
        raise SarifProblem("a SARIF log is of another version than 2.1.0")
    if len(log.runs) > RUNS or sum(len(run.results or ()) for run in log.runs) > RESULTS:
        raise SarifProblem(f"a SARIF log holds more than {RUNS} runs or {RESULTS:,} results")
    yield from (told for run in log.runs for result in run.results or () for told in _told(run, result))


def _told(run: Run, result: Result) -> Iterator[Told]:
    if result.kind != "fail" or result.suppressions:
        return
    rules = run.tool.driver.rules
    info = rules[result.rule_index] if 0 <= result.rule_index < len(rules) else RuleInfo()
    rule = result.rule_id or info.id
    if info.id != rule:
        info = next((one for one in rules if one.id == rule), info)
    level = result.level or info.default_configuration.level or "warning"
    for location in result.locations[:10] or [Location()]:
        place = location.physical_location
        first = max(place.region.start_line, 0)
        last = max(place.region.end_line, first)
        yield Told(plain(run.tool.driver.name), plain(rule), level, place.artifact_location.uri, first, last)


def plain(name: str) -> str:
    """Return a name fit to be shown, cut: anything but letters, digits and a few signs becomes an underscore."""
    return "".join(
        sign if sign.isascii() and (sign.isalnum() or sign in "-_./:") else "_" for sign in name[:NAME_LENGTH]
    )
