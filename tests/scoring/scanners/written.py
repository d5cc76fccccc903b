"""Changes that tests of scanners write down: lines of one file, or several files."""

from scoring.diff.change import Change, FileChange, Hunk, Line, Mail
from scoring.scanners import Scan
from scoring.scanners.submission import Knowledge, Submission
from scoring.types import Finding

PATH = {
    "python": "src/app.py",
    "javascript": "src/app.tsx",
    "go": "src/app.go",
    "rust": "src/app.rs",
    "php": "src/app.php",
    "ruby": "src/app.rb",
    "java": "src/App.java",
    "c": "src/app.c",
    "csharp": "src/App.cs",
    "kotlin": "src/App.kt",
    "lua": "src/app.lua",
    "shell": "src/app.sh",
    "powershell": "src/app.ps1",
    "perl": "src/app.pl",
    "sql": "src/app.sql",
    "template": "src/app.html",
    "config": "src/app.yml",
    "other": "src/app.css",
}


def added_lines(text: str, path: str = "src/app.py") -> FileChange:
    """A file to which every line of the text is added."""
    return marked_lines("".join(f"+{line}\n" for line in text.splitlines()), path)


def marked_lines(text: str, path: str = "src/app.py") -> FileChange:
    """A file with one hunk, of lines that begin with their mark."""
    lines: list[Line] = []
    old = new = 1
    for row in text.splitlines():
        mark = "+" if row[0] == "+" else "-" if row[0] == "-" else " "
        lines.append(Line(mark, old if mark != "+" else None, new if mark != "-" else None, row[1:]))
        old, new = old + (mark != "+"), new + (mark != "-")
    return FileChange(path, path, "modified", (Hunk(1, 1, "", tuple(lines)),))


def change_of(*files: FileChange, mails: tuple[Mail, ...] = ()) -> Change:
    """A change that was read whole."""
    return Change(files, mails, (), 1.0)


def found(scan: Scan, *files: FileChange, title: str = "", knowledge: Knowledge | None = None) -> list[Finding]:
    """What a scanner finds in a change of these files."""
    return list(scan(Submission(change_of(*files), title=title, knowledge=knowledge or Knowledge())))


def rules_found(scan: Scan, *files: FileChange, title: str = "") -> set[str]:
    """The ids of the rules of what a scanner finds."""
    return {finding.rule for finding in found(scan, *files, title=title)}
