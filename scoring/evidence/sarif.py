"""Findings of other tools (Semgrep, CodeQL, gitleaks, …), read from SARIF logs that the operator's own runs wrote."""

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from scoring.content.change import Change, FileChange, Line
from scoring.content.finding import Finding, Severity
from scoring.content.globs import clean_path
from scoring.content.submission import Submission
from scoring.evidence._sarif import SarifProblem, Told, results_of
from scoring.evidence._weight import quoted, worst_first

SCANNER = "sarif"
SPAN = 200  # lines of one result that are looked at for an added one
SEVERITY: Mapping[str, Severity] = {"error": Severity.HIGH, "warning": Severity.MED, "note": Severity.LOW}
SECRET_TOOLS = ("gitleaks", "trufflehog", "betterleaks", "detect-secrets", "ggshield")


def scan(submission: Submission) -> Iterator[Finding]:
    """Yield a finding for each result on an added line, one that counts the others, one for each unreadable log."""
    if not submission.knowledge.sarif:
        return
    files = _files(submission.change)
    found: dict[tuple[str, str, str, int | None], Finding] = {}
    elsewhere = 0
    for text in submission.knowledge.sarif:
        try:
            for told in results_of(text):
                finding = _located(told, files)
                elsewhere += finding is None and told.level in SEVERITY
                if finding:
                    found[finding.rule, finding.explanation, finding.file or "", finding.line] = finding
        except SarifProblem as problem:
            yield Finding(SCANNER, "unreadable-log", "other", Severity.MED, f"Nothing was read: {problem}.")
    yield from worst_first(found.values())
    if elsewhere:
        message = f"{elsewhere} more results of other tools are on lines that this change does not add."
        yield Finding(SCANNER, "elsewhere", "other", Severity.LOW, message)


def _files(change: Change) -> dict[str, tuple[FileChange, dict[int, Line]]]:
    """Return files with their added lines by number, by cleaned path; a link or a part without lines has none."""
    return {
        clean_path(file.path): (file, {line.new: line for line in file.added() if line.new is not None})
        for file in change.files
    }


def _located(told: Told, files: Mapping[str, tuple[FileChange, dict[int, Line]]]) -> Finding | None:
    """Make a finding of a result on the first added line that it covers; None where it covers none."""
    file, lines = _file_of(told.path, files) or (None, {})
    numbers = range(told.first, min(told.last, told.first + SPAN) + 1)
    line = next((lines[number] for number in numbers if number in lines), None)
    if file is None or line is None or told.level not in SEVERITY:
        return None
    is_secret = any(name in told.tool.lower() for name in SECRET_TOOLS)
    return Finding(
        SCANNER,
        f"{told.tool or 'tool'}:{told.rule or 'rule'}",
        "secret_leak" if is_secret else "security",
        SEVERITY[told.level],
        f"{told.tool or 'Another tool'} reports this line under its rule {told.rule or '(unnamed)'}.",
        file=file.path,
        line=line.new,
        # A secret scanner's line is not quoted: nobody here knows which part of it is the secret.
        quote="" if is_secret else quoted(line.text),
    )


def _file_of(
    uri: str, files: Mapping[str, tuple[FileChange, dict[int, Line]]]
) -> tuple[FileChange, dict[int, Line]] | None:
    """Find the file by its path; for an absolute path by the longest ending that only one file of the change has."""
    named = unquote(uri[:4_096].removeprefix("file://"))
    path = clean_path(named)
    if path in files or not named.startswith("/"):
        return files.get(path)
    parts = path.split("/")
    endings = ("/".join(parts[start:]) for start in range(1, min(len(parts), 40)))
    return next((files[ending] for ending in endings if ending in files), None)
