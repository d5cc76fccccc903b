"""Opening a row: which rows are sent, and that ten more rows cost no query more."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from ingest.snapshot import Snapshot, publish
from scoring.kept import PerSnapshot
from scoring.read import Queue, QueueGroup
from tests.ingest.stream import MARA, REPO, SEED, Frames
from tests.pipeline import opened
from tests.scoring.small import feed
from tests.stores import statements_noted
from tests.triage.drawn_rows import drawn_rows
from tests.triage.pages_world import DrawnSnapshot, sign_in
from triage.forms import read_queue
from triage.rows import row_anchor
from triage.toggling import toggled

ONE, OTHER = drawn_rows()[1], drawn_rows()[3]
FOUND = Queue({}, 0, (QueueGroup("normal_queue", (ONE, OTHER), 2, None, None),), ())


def sent(target: str, before: dict[str, str], **after: str) -> list[tuple[str, bool]]:
    return [(one.row.uri, one.opens) for one in toggled(target, before, read_queue(after), FOUND)]


def test_a_row_that_opens_is_sent_alone() -> None:
    assert sent(row_anchor(ONE.uri), {}, open=ONE.uri) == [(ONE.uri, True)]


def test_a_row_that_closes_is_sent_alone() -> None:
    assert sent(row_anchor(ONE.uri), {"open": ONE.uri}) == [(ONE.uri, False)]


def test_a_row_that_opens_closes_the_one_that_was_open() -> None:
    told = sent(row_anchor(OTHER.uri), {"open": ONE.uri}, open=OTHER.uri)
    assert told == [(OTHER.uri, True), (ONE.uri, False)], "the one in place of what asked comes first"


@pytest.mark.parametrize(
    ("target", "before", "after"),
    [
        ("results", {}, {"open": ONE.uri}),
        (row_anchor(ONE.uri), {"q": "lamp"}, {"open": ONE.uri}),
        (row_anchor(ONE.uri), {"open": "at://elsewhere"}, {"open": ONE.uri}),
        (row_anchor("at://gone"), {}, {"open": "at://gone"}),
        (row_anchor(OTHER.uri), {}, {"open": ONE.uri}),
    ],
    ids=["the list asks", "other filters", "not in view", "gone", "another row asks"],
)
def test_else_the_list_is_sent(target: str, before: dict[str, str], after: dict[str, str]) -> None:
    assert sent(target, before, **after) == []


def test_what_is_kept_goes_with_its_snapshot_and_is_bounded() -> None:
    kept, made = PerSnapshot[int](most=2), iter(range(9))
    first, second = (cast(Snapshot, replace(DrawnSnapshot(), number=number)) for number in (1, 2))
    asked = [(first, "a"), (first, "a"), (first, "b"), (first, "c"), (first, "a"), (second, "a")]
    assert [kept.get(snapshot, key, lambda: next(made)) for snapshot, key in asked] == [0, 0, 1, 2, 3, 4]


def queries_of_the_queue(client: Client, folder: Path, settings: Settings, pulls: int) -> tuple[int, int, int]:
    """Rows shown, statements of the snapshot and queries of Django's database for the queue of so many."""
    with opened(folder) as result:
        frames = Frames()
        frames.repository(SEED, repoDid=REPO)
        for number in range(pulls):
            frames.pull(MARA, f"pull{number}")
        feed(result, frames)
        result.watch([REPO], [SEED])
        result.judge()
        publish(result.store, folder / "snapshots")
    settings.SNAPSHOT_DIR = folder / "snapshots"
    client.get("/dashboard")  # what every page's frame asks once for a snapshot
    with statements_noted() as statements, CaptureQueriesContext(connection) as queries:
        page = client.get("/").content.decode()
    return page.count('class="row"'), len(statements), len(queries)


@pytest.mark.django_db
def test_ten_more_rows_add_no_query(client: Client, tmp_path: Path, settings: Settings) -> None:
    settings.STREAM_CLOCK = True
    sign_in(client, "maintainer", REPO)
    few, many = (queries_of_the_queue(client, tmp_path / f"{count}", settings, count) for count in (3, 13))
    assert (few[0], many[0]) == (3, 13)
    assert few[1:] == many[1:]
    assert few[1] > 3, "the statements of the snapshot are seen"
