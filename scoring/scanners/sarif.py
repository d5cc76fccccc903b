"""Findings of other tools (Semgrep, CodeQL, gitleaks, …), read from SARIF logs of the operator's own runs.

Only the parts of SARIF 2.1.0 that lead to a line are read, bounded and checked; other fields are skipped. Where a tool
omits `level`, the rule's default counts, and `warning` where it has none (SARIF 3.27.10). Pure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

import msgspec

from ingest.json_decoding import decode_json
from scoring.diff.change import Change, FileChange, Line
from scoring.diff.globs import clean_path
from scoring.scanners._finding_helpers import quoted, worst_first
from scoring.scanners.submission import Submission
from scoring.types import Finding, Severity

TEXT_LENGTH = 20_000_000  # characters of one log: a longer one is not read
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
    """The reason why a log is unusable, in one sentence without any of its text."""


def results_of(text: str) -> Iterator[Told]:
    """Yield every failure that is not suppressed. Raises SarifProblem where the text is not a 2.1.0 log."""
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
    yield from (
        tool_result for run in log.runs for result in run.results or () for tool_result in _tool_results(run, result)
    )


def _tool_results(run: Run, result: Result) -> Iterator[Told]:
    if result.kind != "fail" or result.suppressions:
        return
    rules = run.tool.driver.rules
    info = rules[result.rule_index] if 0 <= result.rule_index < len(rules) else RuleInfo()
    rule = result.rule_id or info.id
    if info.id != rule:
        info = next((candidate for candidate in rules if candidate.id == rule), info)
    level = result.level or info.default_configuration.level or "warning"
    for location in result.locations[:10] or [Location()]:
        physical = location.physical_location
        first = max(physical.region.start_line, 0)
        last = max(physical.region.end_line, first)
        yield Told(plain(run.tool.driver.name), plain(rule), level, physical.artifact_location.uri, first, last)


def plain(name: str) -> str:
    """Return a name for display, cut: anything but letters, digits and a few signs becomes an underscore."""
    return "".join(
        sign if sign.isascii() and (sign.isalnum() or sign in "-_./:") else "_" for sign in name[:NAME_LENGTH]
    )


SCANNER = "sarif"
SPAN = 200  # examined lines of one result
SEVERITY: Mapping[str, Severity] = {"error": Severity.HIGH, "warning": Severity.MED, "note": Severity.LOW}
SECRET_TOOLS = ("gitleaks", "trufflehog", "betterleaks", "detect-secrets", "ggshield")


def scan(submission: Submission) -> Iterator[Finding]:
    """Yield a finding for each result on an added line, one that counts the others, one for each unreadable log."""
    if not submission.knowledge.sarif:
        return
    files = _files(submission.change)
    findings: dict[tuple[str, str, str, int | None], Finding] = {}
    elsewhere = 0
    for text in submission.knowledge.sarif:
        try:
            for tool_result in results_of(text):
                finding = _located(tool_result, files)
                elsewhere += finding is None and tool_result.level in SEVERITY
                if finding:
                    findings[finding.rule, finding.explanation, finding.file or "", finding.line] = finding
        except SarifProblem as problem:
            yield Finding(SCANNER, "unreadable-log", "other", Severity.MED, f"Nothing was read: {problem}.")
    yield from worst_first(findings.values())
    if elsewhere:
        message = f"{elsewhere} more results of other tools are on lines that this change does not add."
        yield Finding(SCANNER, "elsewhere", "other", Severity.LOW, message)


def _files(change: Change) -> dict[str, tuple[FileChange, dict[int, Line]]]:
    """Return files with their added lines by number, by cleaned path; a link or a part without lines has none."""
    return {
        clean_path(file.path): (file, {line.new: line for line in file.added() if line.new is not None})
        for file in change.files
    }


def _located(tool_result: Told, files: Mapping[str, tuple[FileChange, dict[int, Line]]]) -> Finding | None:
    """Return the finding of a result on the first added line that it covers; None where it covers none."""
    file, lines = _file_of(tool_result.path, files) or (None, {})
    numbers = range(tool_result.first, min(tool_result.last, tool_result.first + SPAN) + 1)
    line = next((lines[number] for number in numbers if number in lines), None)
    if file is None or line is None or tool_result.level not in SEVERITY:
        return None
    is_secret = any(name in tool_result.tool.lower() for name in SECRET_TOOLS)
    return Finding(
        SCANNER,
        f"{tool_result.tool or 'tool'}:{tool_result.rule or 'rule'}",
        "secret_leak" if is_secret else "security",
        SEVERITY[tool_result.level],
        f"{tool_result.tool or 'Another tool'} reports this line under its rule {tool_result.rule or '(unnamed)'}.",
        file=file.path,
        line=line.new,
        # A secret scanner's line is not quoted, because it is unknown which part of it is the secret.
        quote="" if is_secret else quoted(line.text),
    )


def _file_of(
    uri: str, files: Mapping[str, tuple[FileChange, dict[int, Line]]]
) -> tuple[FileChange, dict[int, Line]] | None:
    """Find the file by its path; for an absolute path by the longest ending that is a path of the change."""
    decoded = unquote(uri[:4_096].removeprefix("file://"))
    path = clean_path(decoded)
    if path in files or not decoded.startswith("/"):
        return files.get(path)
    parts = path.split("/")
    endings = ("/".join(parts[start:]) for start in range(1, min(len(parts), 40)))
    return next((files[ending] for ending in endings if ending in files), None)
