"""How much of a patch is read, and what is said where it is not read whole. Pure data."""

from dataclasses import dataclass

from scoring.content.finding import QUOTE_LENGTH, Finding, FlagType, Severity

SCANNER = "reading"
PROBLEMS = 20  # of one rule: more tell a person nothing more


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one reading; what lies beyond is not read, and a problem says so.

    `size` counts bytes (unpacked), of a text its characters. A line beyond `line_length` characters is cut there.
    """

    size: int = 5_000_000
    files: int = 2_000
    mails: int = 500
    lines: int = 100_000
    line_length: int = 10_000
    seconds: float = 3.0


DEFAULT_LIMITS = Limits()


_RULES: dict[str, tuple[FlagType, Severity, str]] = {
    "too_large": ("oversized", Severity.MED, "The patch is larger than what is read; the rest was left out."),
    "too_many_lines": ("oversized", Severity.MED, "The patch has more lines than are read; the rest was left out."),
    "too_many_files": ("oversized", Severity.MED, "The patch has more files than are read; the rest was left out."),
    "too_many_mails": ("oversized", Severity.MED, "The series has more mails than are read; the rest was left out."),
    "too_slow": ("oversized", Severity.MED, "Reading the patch took too long; the rest was left out."),
    "long_line": ("oversized", Severity.MED, "A line is longer than what is read of one; look at the end of it."),
    "cut_hunk": ("oversized", Severity.MED, "The patch ends inside a hunk, so lines of this file are missing."),
    "cut_file": ("oversized", Severity.MED, "A file's header promises content that does not follow."),
    "cut_text": ("oversized", Severity.MED, "The last line has no line end, so the patch may have been cut there."),
    "corrupt_hunk": ("other", Severity.MED, "A hunk does not hold the lines that its header counts; git refuses it."),
    "joined_lines": (
        "other",
        Severity.MED,
        "A line without an end comes before others of its hunk, so git joins them into a line that exists nowhere.",
    ),
    "stray_hunk": ("other", Severity.MED, "A hunk belongs to no file, so git does not apply it; see what it hides."),
    "text_outside": (
        "other",
        Severity.MED,
        "Lines that look like a change are outside every hunk, so git does not apply them; see what they hide.",
    ),
    "unreadable_file": ("other", Severity.MED, "A file's header is incomplete or contradicts itself; git refuses it."),
    "nul_in_name": (
        "other",
        Severity.MED,
        "A file's header holds a NUL, at which git ends the name; the change goes to a file of the shorter name.",
    ),
    "unsafe_path": ("other", Severity.MED, "A path leaves the repository or enters its .git folder; git refuses it."),
    "text_behind": (
        "other",
        Severity.MED,
        "Text behind a patch of the series is neither a signature nor a known trailer; see what it hides.",
    ),
    "encoded_mail": ("other", Severity.MED, "A mail is encoded or has several parts, so its patch was not read."),
    "other_format": (
        "other",
        Severity.MED,
        "The text begins as a patch of Mercurial or StGit, which git rewrites before it reads it.",
    ),
    "git_differs": (
        "other",
        Severity.MED,
        "git reads another change from this text, so what it would apply was not fully read.",
    ),
    "git_refuses": ("other", Severity.MED, "git cannot take this text apart, so it was not compared with its reading."),
    "git_unasked": (
        "other",
        Severity.MED,
        "git could not be asked how it reads this text, so the patch does not count as fully read.",
    ),
    "broken_gzip": ("other", Severity.MED, "The packed patch is damaged; what could be unpacked was read."),
    "not_utf8": ("other", Severity.LOW, "The patch is not UTF-8; bytes that are not were replaced."),
    "no_file": ("other", Severity.MED, "No changed file was found in the patch, so nothing was reviewed."),
}


class Problems:
    """Findings of the reading itself, at most PROBLEMS of each rule."""

    def __init__(self) -> None:
        self._found: dict[str, list[Finding]] = {}

    def add(
        self,
        rule: str,
        file: str | None = None,
        line: int | None = None,
        quote: str = "",
        removed: bool = False,
        text_line: int | None = None,
    ) -> None:
        """Note one problem; `rule` is one of the rules of this module, `text_line` a line of the patch's own text."""
        kind, severity, explanation = _RULES[rule]
        if text_line is not None:
            explanation = f"{explanation} See line {text_line} of the patch's text."
        found = self._found.setdefault(rule, [])
        if len(found) < PROBLEMS:
            found.append(Finding(SCANNER, rule, kind, severity, explanation, file, line, quote[:QUOTE_LENGTH], removed))

    def all(self) -> tuple[Finding, ...]:
        """Every problem noted, in the order in which its rule was first broken."""
        return tuple(finding for found in self._found.values() for finding in found)
