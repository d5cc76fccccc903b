"""Values are filled in where names are used: one step of assignment, import or string building, row by row."""

import pytest
from ast_grep_py import SgRoot
from hypothesis import given, settings
from hypothesis import strategies as st

from scoring.scanners._assignments import GRAMMAR_KINDS, expand
from scoring.scanners._text import fragment_of
from tests.conftest import count
from tests.growth import in_linear_time
from tests.scoring.scanners.written import marked_lines


def expanded(text: str, grammar: str = "tsx") -> str:
    """The text with its values filled in."""
    return expand(text, grammar, SgRoot(text, grammar).root()).text


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ('import { exec as run } from "node:child_process";\nrun(line);', "child_process.exec(line);"),
        ('const { exec: run } = require("child_process");\nrun(line);', "child_process.exec(line);"),
        ('const cp = require("child_process");\nconst run = cp.exec;\nrun(line);', "child_process.exec(line);"),
        ('import * as cp from "child_process";\ncp.exec(line);', "child_process.exec(line);"),
        ('import { exec } from "child_process";\nconst run = promisify(exec);\nrun(x);', "child_process.exec(x);"),
        ('const line = "tar " + name;\nexec(line);', 'exec("tar " + name);'),
        ('let line = "tar ";\nline += name;\nexec(line);', 'exec("tar " + name);'),
        ('const T = "people";\nquery(`select * from ${T}`);', "query(`select * from people`);"),
        ("const body = pack(all);\nsend({ body });", "send({ body: pack(all) });"),
        ('let line = "ls";\nif (wild) { line = given; }\nexec(line);', "exec(given);"),
    ],
)
def test_a_name_reads_as_what_was_imported_or_assigned(text: str, last: str) -> None:
    assert expanded(text).split("\n")[-1] == last


@pytest.mark.parametrize(
    "text",
    [
        'const line = "ls";\nfunction run(line) { exec(line); }',
        'const password = "x" + y;\nmd5(password);',
        "function a() { const line = 1; }\nfunction b(line) { exec(line); }",
        "const run = () => { stop(); };\nrun(line);",
    ],
)
def test_what_another_line_may_set_or_a_rule_knows_by_name_stays(text: str) -> None:
    assert expanded(text) == text


def test_a_row_knows_the_rows_that_its_values_came_from_but_not_those_of_fixed_texts() -> None:
    text = 'const a = "ls";\nconst b = a + c;\nexec(b);'
    found = expand(text, "tsx", SgRoot(text, "tsx").root())
    assert found.sources[2] == {1}


@pytest.mark.parametrize("grammar", sorted(GRAMMAR_KINDS))
@settings(max_examples=count(15, 500), deadline=None)
@given(pieces=st.lists(st.sampled_from([*"ab$@=+.(){}[]\"'`;:,#\n ", "a = ", "b + ", "a(b)", "import ", "from ", "€"])))
def test_rows_stay_whatever_is_written(grammar: str, pieces: list[str]) -> None:
    text = "".join(pieces)
    assert expanded(text, grammar).count("\n") == text.count("\n")


@pytest.mark.parametrize(
    "line", ["a += b; b = a + a;", "import {", "import \n", "a = b;", "run(a, a, a);", "const a = b;"]
)
def test_hostile_source_is_filled_in_in_linear_time(line: str) -> None:
    in_linear_time(expanded, lambda size: f"{line}\n" * size, 1_000)


def test_a_hunk_of_a_language_with_braces_is_closed_and_stands_below_its_function() -> None:
    file = marked_lines(" if (x) {\n+  run(a[\n", "a.js")
    side = fragment_of(file.hunks[0], "javascript")
    assert side.text.split("\n") == ["if (x) {", "  run(a[", "])}", ""]
    assert len(side.lines) == 3
