"""Files made to hold up a parser: no clock interrupts one, so the size of what it is given is bounded."""

import ast
from typing import Any

import ast_grep_py
import pytest

from scoring.diff.parser import read_change
from scoring.scanners import bandit_checks, dangerous
from scoring.scanners.run import examine
from scoring.scanners.submission import Submission
from tests.conftest import count

# Lines that are not cut, 1 MB of them, which take 16 s; a tenth of all bounds and files but under PROVE=1.
WIDTH, ROWS, PART = 900, count(110, 1_100), count(10, 1)
HARM = "import os\nos.system(input())\n"


def over_rows(start: str, part: str, end: str, rows: int = ROWS) -> str:
    """One expression of many parts, over many lines."""
    return "\n".join([start, *[part * (WIDTH // len(part))] * rows, end])


FILES = {
    "a megabyte of one list": over_rows("x = [", "a,", "]"),
    "a megabyte of one sum": over_rows("x = (", "1+", "1)"),
    "a megabyte of calls of calls": over_rows("x = (f", "()", ")"),
    "a huge f-string": over_rows('x = f"""', "{a}", '"""'),
    "two megabytes": over_rows("x = [", "a,", "]", 2 * ROWS),
    "brackets that never close": over_rows("x = (", "(", "1"),
    "brackets that close": over_rows("x = (", "(", "", 200) + over_rows("1", ")", ")", 200),
    "signs": over_rows("x = (", "-", "1)"),
    "blocks in blocks": "".join(f"{' ' * depth}if a:\n" for depth in range(800)) + " " * 800 + "pass",
}


def written(*texts: str) -> Submission:
    """A change that adds these files."""
    files = []
    for number, text in enumerate(texts):
        lines = text.split("\n")
        name = f"part_{number}.py"
        head = f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n"
        files.append(f"{head}@@ -0,0 +1,{len(lines)} @@\n" + "".join(f"+{line}\n" for line in lines))
    return Submission(read_change("".join(files)))


@pytest.fixture(name="given")
def given_fixture(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """The sizes of all that Python's parser and the other one are given."""
    sizes: dict[str, list[int]] = {"python": [], "tree": []}
    parse, root = ast.parse, ast_grep_py.SgRoot

    def parsed(source: Any, *args: Any, **how: Any) -> Any:
        sizes["python"].append(len(source))
        return parse(source, *args, **how)

    def rooted(text: str, grammar: str) -> Any:
        sizes["tree"].append(len(text))
        return root(text, grammar)

    for module, bound in ((bandit_checks, "FILE_CHARACTERS"), (dangerous, "FRAGMENT_CHARACTERS")):
        monkeypatch.setattr(module, bound, getattr(module, bound) // PART)
    monkeypatch.setattr(ast, "parse", parsed)
    monkeypatch.setattr(ast_grep_py, "SgRoot", rooted)
    return sizes


@pytest.mark.parametrize("name", FILES)
def test_no_parser_is_given_more_than_it_reads_in_seconds_and_what_stands_beside_it_is_found(
    name: str, given: dict[str, list[int]]
) -> None:
    told = examine(written(HARM, FILES[name]))
    assert max(given["python"]) <= bandit_checks.FILE_CHARACTERS
    assert max(given["tree"]) <= dangerous.FRAGMENT_CHARACTERS
    assert [one.file for one in told.findings if one.severity == "high"] == ["part_0.py"]
    assert "scan_failed" not in {one.rule for one in told.findings}
