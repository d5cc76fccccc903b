"""How one patch differs from another of the same pull request: the lines of both compared, positions left aside."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from ingest.diffs import DiffReader
from ingest.patches import PatchProblem, load_patch

LINES = 1_500  # of one patch: comparing may take time in the square; the slowest pair found took .03 s of CPU
LENGTH = 300  # characters shown of a line
SHOWN = 400  # lines shown

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")


@dataclass(frozen=True, slots=True)
class Difference:
    """Lines of a unified diff of two patches, "+" for what only the newer one has; `note` says what is missing."""

    lines: tuple[str, ...] = ()
    note: str = ""


def difference(folder: Path, before: str | None, after: str | None) -> Difference:
    """Compare two kept patches by the SHA-256 of their texts; a note where one is missing or too long. Never raises."""
    if before is None or after is None:
        return Difference(note="One of the two patches is not kept here, so they cannot be compared.")
    try:
        old, new = (list(change_lines(load_patch(folder, name))) for name in (before, after))
    except PatchProblem:
        return Difference(note="One of the two patches cannot be read back, so they cannot be compared.")
    if max(len(old), len(new)) > LINES:
        return Difference(note=f"The patches have more than {LINES:,} lines: compare the rounds on the forge.")
    lines = list(unified_diff(old, new, "approved", "newest", n=2, lineterm=""))[2:]
    if not lines:
        return Difference(note="Both patches change the same lines in the same way; only words around them differ.")
    note = f"{len(lines) - SHOWN:,} more lines differ." if len(lines) > SHOWN else ""
    return Difference(tuple(line[:LENGTH] for line in lines[:SHOWN]), note)


def change_lines(text: str) -> Iterator[str]:
    """The lines of a patch that change files, without messages, object names and positions."""
    reader = DiffReader()
    for line in text.split("\n"):
        reader.line(line.encode("utf-8", "replace"))
        if reader.section is not None and not line.startswith("index "):
            yield _HUNK.sub("@@", line)
