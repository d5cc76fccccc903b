"""Changes for tests, as patches that the reader of patches reads: whole files, and files before and after."""

from collections.abc import Mapping
from difflib import unified_diff
from typing import Any

from scoring.diff.change import Change
from scoring.diff.parser import read_change
from scoring.scanners.submission import Knowledge, Submission


def patch(path: str, before: str, after: str, context: int = 3) -> str:
    """A git patch of one file; an empty `before` or `after` adds or deletes it."""
    old, new = (f"a/{path}" if before else "/dev/null"), (f"b/{path}" if after else "/dev/null")
    made = "new file mode 100644\n" if not before else "deleted file mode 100644\n" if not after else ""
    lines = unified_diff(before.splitlines(), after.splitlines(), old, new, n=context, lineterm="")
    return f"diff --git a/{path} b/{path}\n{made}" + "".join(f"{line}\n" for line in lines)


def change(files: Mapping[str, tuple[str, str]], context: int = 3) -> Change:
    """The change of several files from the first text to the second."""
    read = read_change("".join(patch(path, *texts, context) for path, texts in files.items()))
    assert not read.problems, read.problems
    return read


def submission(files: Mapping[str, tuple[str, str]], context: int = 3, **knowledge: Any) -> Submission:
    """The same as a submission, with what is known besides."""
    return Submission(change(files, context), knowledge=Knowledge(**knowledge))
