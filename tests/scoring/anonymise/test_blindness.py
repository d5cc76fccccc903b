"""Blindness, read from the wire: no byte of a request tells who wrote a change, and another author changes none."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from scoring.diff.change import Change
from scoring.diff.parser import read_change
from scoring.review.costs import Call
from scoring.review.payload import Case, render_change
from scoring.scanners import scanners
from scoring.scanners.submission import Submission
from tests.conftest import Count
from tests.scoring.diff.identities import MALLORY, QUENTIN, TRUDY, planted
from tests.scoring.review.reviewing import a_reviewer
from tests.standins.claude import Captured, ClaudeStandIn

TIMES = ("+0930", "+09:30", "2017-11-13", "13 nov 2017", "nov 13")
# Of a connection and of the machine that asks, not of a change.
OWN = {"host", "content-length"}


@pytest.fixture(name="changes", scope="module")
def changes_fixture(shared: Path, count: Count) -> list[Change]:
    table = pq.read_table(shared / "data/pr_diffs.parquet", columns=["diff"])
    number = count(4, 300)
    drawn = table.take([*range(0, len(table), len(table) // number)])
    return [read_change(text) for text in drawn.column("diff").to_pylist()[:number]]


@pytest.fixture(name="claude", scope="module")
def claude_fixture() -> Iterator[ClaudeStandIn]:
    with ClaudeStandIn() as claude:
        yield claude


def sent(claude: ClaudeStandIn, submission: Submission) -> list[Captured]:
    """Every request that the review of a submission makes."""
    found = [finding for scan in scanners().values() for finding in scan(submission)]
    case, before = Case.of(submission, found), len(claude.requests)
    review = a_reviewer(claude, input_tokens=200_000).review(case, Call.CLAUDE)
    whole = render_change(case, 10_000_000).coverage
    assert (review.state, review.coverage) == ("content verdict", submission.change.coverage * whole), "nothing was cut"
    return claude.requests[before:]


def as_read(request: Captured) -> str:
    """Everything of a request as a model or a log would read it: escapes undone, twice where JSON stands in JSON."""
    texts = [block["text"] for turn in request.told["messages"] for block in turn["content"]]
    lines = [_decoded(line) for text in texts for line in text.split("\n")]
    return "\n".join([request.path, str(request.headers), request.body.decode(), *texts, *lines]).casefold()


def _decoded(line: str) -> str:
    try:
        return str(json.loads(line))
    except ValueError:
        return line


def test_nobody_who_is_planted_into_real_diffs_is_told_to_the_model_and_another_author_changes_no_byte(
    claude: ClaudeStandIn, changes: list[Change]
) -> None:
    for number, change in enumerate(changes):
        mallory, quentin = (sent(claude, planted(change, author, Random(number))) for author in (MALLORY, QUENTIN))
        assert len(mallory) in (4, 5), "each pass is counted and asked, the whole change counted by itself"
        told = "\n".join(map(as_read, mallory))
        traces = [text for person in (MALLORY, QUENTIN, TRUDY) for text in person.strings]
        assert [trace for trace in (*traces, *TIMES) if trace.casefold() in told] == []
        assert [request.body for request in mallory] == [request.body for request in quentin]
        assert [headers(request) for request in mallory] == [headers(request) for request in quentin]


def headers(request: Captured) -> dict[str, str]:
    return {name: value for name, value in request.headers.items() if name not in OWN}
